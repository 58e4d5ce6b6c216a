"""What a fitted SVC says of itself is true of the arrays that it returns."""

import numpy as np
import pytest
from eighty_digits import decisions, worth
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC as Reference

from fastsvm import SVC, SVR, NuSVC, OneClassSVM
from fastsvm.estimators.kernel.one_vs_one import KernelFit
from fastsvm.multiclass import class_pairs, pair_coefficients
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient
from fastsvm.tuning import changed, tuned

EPS = np.finfo(float).eps


def kernel_of(model: SVC, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    X, Z = X.astype(float), Z.astype(float)
    if model.kernel == "linear":
        return X @ Z.T
    given = {"gamma": 1 / X.shape[1] if model.gamma == "auto" else model.gamma}
    if model.kernel == "poly":
        given |= {"degree": model.degree, "coef0": model.coef0}
    return pairwise_kernels(X, Z, metric=model.kernel, **given)


def recomputed(model: SVC, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> dict[str, float]:
    """Return the certificate in NumPy from the arrays of a model, and what rounding may make of it."""
    weight = np.ones(len(X)) if weight is None else weight
    K = kernel_of(model, X, np.asarray(model.support_vectors_))
    if len(model.classes_) == 2:
        pairs, coef, sign = [(1, 0)], model.dual_coef_.T, 1.0
    else:
        coef = csr_matrix(pair_coefficients(model.dual_coef_, model.n_support_)).toarray().T
        pairs, sign = class_pairs(len(model.classes_)), 1.0
    found = {"objective": 0.0, "gap": 0.0, "violation": 0.0, "rounding": 0.0, "imbalance": 0.0}
    for column, (a, b) in enumerate(pairs):
        rows = np.flatnonzero((y == model.classes_[a]) | (y == model.classes_[b]))
        signs = np.where(y[rows] == model.classes_[a], sign, -sign)
        beta = np.zeros(len(X))
        beta[model.support_] = coef[:, column]
        alpha, upper = beta[rows] * signs, model.C * weight[rows]
        assert (alpha >= 0).all() and (alpha <= upper).all()
        scores = K[rows] @ coef[:, column]
        F = scores - signs
        may_rise = np.where(signs > 0, alpha < upper, alpha > 0)
        may_fall = np.where(signs > 0, alpha > 0, alpha < upper)
        low = F[may_rise].min() if may_rise.any() else np.inf
        high = F[may_fall].max() if may_fall.any() else -np.inf
        dual = alpha.sum() - beta[rows] @ scores / 2
        primal = beta[rows] @ scores / 2 + upper @ np.maximum(0, 1 - signs * (scores + model.intercept_[column]))
        size = np.abs(K[rows]) @ np.abs(coef[:, column])
        found["objective"] += dual
        found["gap"] += primal - dual
        found["violation"] = max(found["violation"], high - low)
        found["rounding"] = max(found["rounding"], EPS * size.max())
        found["imbalance"] = max(found["imbalance"], abs(beta.sum()) / max(alpha.sum(), 1e-300))
    return found


def _raw_tables():
    digits, wine, cancer = load_digits(return_X_y=True), load_wine(return_X_y=True), load_breast_cancer(return_X_y=True)
    blobs = make_blobs(200, centers=2, cluster_std=0.5, random_state=0)
    few = digits[0][:600].astype(np.uint8), digits[1][:600]
    return [
        (digits, {"kernel": "poly", "gamma": 10.0}),
        (few, {"kernel": "poly", "gamma": "auto", "C": 100.0}),
        (few, {"kernel": "linear", "C": 1e6}),
        (wine, {"kernel": "poly", "gamma": "auto", "degree": 5}),
        (blobs, {"kernel": "linear", "C": 1e12}),
        (cancer, {"kernel": "rbf", "gamma": 1e-6, "C": 1e4}),
    ]


@pytest.mark.parametrize(("table", "given"), _raw_tables())
@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_multipliers_far_below_their_bounds_are_kept(table, given):
    X, y = table
    model = SVC(**given).fit(X, y)
    found = recomputed(model, X, y)
    assert model.converged_
    assert found["violation"] <= model.tol + 10 * found["rounding"]
    assert found["imbalance"] <= 1e-12
    assert model.objective_ == pytest.approx(found["objective"], rel=1e-9)
    losses = len(X) * model.C * 10 * found["rounding"]  # each row's loss is rounded
    assert model.duality_gap_ == pytest.approx(max(0.0, found["gap"]), rel=1e-6, abs=losses)
    reference = Reference(max_iter=5_000_000, **given).fit(X, y)
    assert model.score(X, y) >= reference.score(X, y) - 0.01


def test_weights_that_differ_by_many_orders():
    X, y = make_blobs(120, centers=2, cluster_std=3.0, random_state=1)
    weight = np.geomspace(1e-14, 1.0, len(X))[np.random.default_rng(0).permutation(len(X))]
    model = SVC(kernel="rbf", gamma=0.1, C=1e3).fit(X, y, sample_weight=weight)
    found = recomputed(model, X, y, weight)
    assert model.converged_ and found["violation"] <= model.tol
    assert model.objective_ == pytest.approx(found["objective"], rel=1e-9)


def test_decision_values_in_float32_that_are_wrong_are_computed_anew_where_it_matters(monkeypatch):
    rows, real = [], DualGradient._set_exactly

    def seen(gradient, state, support, places, done):
        error = real(gradient, state, support, places, done)
        rows.append((int(done.sum()), error))
        return error

    monkeypatch.setattr(DualGradient, "_set_exactly", seen)
    rng = np.random.default_rng(3)
    X = (rng.standard_t(3, size=(3000, 6)) + 6).astype(np.float32)
    y = (X[:, 0] + X[:, 1] - 12 + 0.3 * rng.normal(size=3000) > 0).astype(int)
    model = SVC(C=8, gamma=0.5).fit(X, y)
    assert rows[0][1] > 1e-4  # by which F is wrong
    assert len(model.support_) < max(n_exact for n_exact, _ in rows) < 2000
    found = recomputed(model, X, y)
    assert found["violation"] - 1e-9 <= model.kkt_violation_ <= found["violation"] + 1e-7
    assert model.objective_ == pytest.approx(found["objective"], rel=1e-10)
    assert model.duality_gap_ == pytest.approx(found["gap"], abs=1e-7 * model.objective_)


def _rows_of_lengths(seed, n, d, noise):
    """Return a table whose columns have lengths from 1e-2 to 1e3."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    return Z * 10.0 ** np.linspace(-2, 3, d), (Z @ rng.normal(size=d) + noise * rng.normal(size=n) > 0).astype(int)


def _huge():
    cancer, labels = load_breast_cancer(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(labels))[:120]
    table = _rows_of_lengths(1, 80, 4, 0.3)
    return {
        "linear, C=1e6": (SVC(kernel="linear", C=1e6), cancer[some, :10], labels[some]),
        "linear, C=1e12": (SVC(kernel="linear", C=1e12), cancer[some, :10], labels[some]),
        "poly": (SVC(kernel="poly", gamma="auto", C=100), *table),
        "rbf, C=1e12": (SVC(gamma=1e-6, C=1e12), *table),
        "laplacian": (SVC(kernel="laplacian", gamma=1e-3, C=1e10), *table),
        "exponential": (SVC(kernel="exponential", gamma=1e-3, C=1e3), *table),
        "without intercept": (SVC(kernel="linear", C=1e6, solver="coordinate", fit_intercept=False), *table),
        "regression": (SVR(kernel="linear", C=1e6), table[0], 1e3 * table[1]),
        "one class": (OneClassSVM(kernel="linear", nu=0.3), *table),
        "nu": (NuSVC(kernel="linear", nu=0.2), *table),
    }


@pytest.mark.parametrize("name", _huge())
@pytest.mark.filterwarnings(
    "ignore:The features have very different lengths", "ignore::sklearn.exceptions.ConvergenceWarning"
)
def test_the_certificate_of_huge_values_holds_in_eighty_digits(name):
    model, X, y = _huge()[name]
    model.fit(X, y)
    true = worth(model, X, y)
    last = 1e-13 * max(abs(true.dual), abs(true.primal))
    assert true.violation <= model.kkt_violation_ * (1 + 1e-9)
    assert true.gap <= model.duality_gap_ * (1 + 1e-9) + last
    assert true.primal <= model.objective_ + model.duality_gap_ + last
    assert model.objective_ == pytest.approx(true.dual, rel=1e-8, abs=0.1 * model.duality_gap_)
    assert model.converged_ == (model.kkt_violation_ <= model.tol * (1 + 1e-9))
    if name == "rbf, C=1e12":  # whose sums in float64 err by more
        return
    # Bounds are no wider than they must be.
    assert model.kkt_violation_ <= 1.5 * true.violation + 0.1 * model.tol
    assert model.duality_gap_ <= 1.5 * true.gap + 1e-6 * abs(true.dual)


def _of_margins(seed):
    """Return a small table that is not scaled, and a machine of few errors, which often has no margin there."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 60)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, rng.choice([0, 2, 4]), d) + rng.choice([0, 10, 1e3])
    y = (rng.normal(size=n) + X[:, 0] / X[:, 0].std() * rng.choice([0, 1]) > 0).astype(int)
    y[:2] = 0, 1
    most = 2 * min(np.bincount(y)) / n
    given = {"kernel": str(rng.choice(["poly", "linear", "rbf"])), "degree": int(rng.integers(2, 6)), "gamma": "auto"}
    return NuSVC(nu=min(most, float(rng.choice([0.05, 0.1, 0.5]))), max_iter=5000, **given), X, y


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.filterwarnings(
    "ignore:The features have very different lengths", "ignore::sklearn.exceptions.ConvergenceWarning"
)
def test_the_certificate_of_a_margin_near_zero_is_that_of_the_arrays(seed):
    """Where there is no margin nothing is divided by it, and the primal objective is that of a margin of 0."""
    model, X, y = _of_margins(seed)
    model.fit(X, y)
    true = worth(model, X, y)
    last = 1e-13 * max(abs(true.dual), abs(true.primal))
    assert (model._margin >= 0).all()
    assert true.gap <= model.duality_gap_ * (1 + 1e-9) + last
    assert true.violation <= model.kkt_violation_ * (1 + 1e-9)


def test_parts_of_a_multiplier_of_equal_rows_are_rounded_one_by_one():
    """They are of 1e11 and of 1e5, so that no float added to the latter is the rest of the sum."""
    X = np.array([[1], [1], [1], [0], [0]], dtype=np.uint8)
    y, weight = np.array([1, 1, 0, 0, 1]), np.array([0.0945954380123, 4.12205972e5, 1.34613044e5, 6.5e2, 2.7e3])
    with tuned(changed({"kernel": {"few_rows_of_bytes": 4}})):
        model = SVC(kernel="linear", C=1e6).fit(X, y, sample_weight=weight)
    true = worth(model, X, y, weight)
    assert true.violation <= model.kkt_violation_ * (1 + 1e-9)
    assert true.gap <= model.duality_gap_ * (1 + 1e-9)
    assert len(model.support_) == 5 and true.violation > 1e-9  # two of three equal rows have a part


def test_bounds_do_not_grow_with_the_length_of_samples():
    """Kernel values of samples so far from each other are 0 in all digits."""
    X, y = np.array([[7.6e7], [3.5e4]]), np.array([0, 1])
    model = SVC(gamma="auto", C=1e6).fit(X, y)
    assert model.converged_ and model.duality_gap_ <= 1e-7 * abs(model.objective_)


@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_a_fit_that_float64_gets_wrong_goes_on_from_more_digits():
    X, y = load_breast_cancer(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:120]
    model = SVC(kernel="linear", C=1e6).fit(X[some, :10], y[some])
    assert model.converged_
    assert worth(model, X[some, :10], y[some]).violation <= model.tol


@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_decision_values_of_a_linear_kernel_do_not_have_the_rounding_of_its_multipliers():
    X, y = load_breast_cancer(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:120]
    model = SVC(kernel="linear", C=1e9, tol=10.0).fit(X[some, :10], y[some])
    exact = decisions(model, X[some, :10])
    np.testing.assert_allclose(model.decision_function(X[some, :10]), exact, rtol=0, atol=1e-9 * np.abs(exact).max())


def test_the_objective_of_float32_values_is_that_of_the_multipliers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2049, 10))
    y = (X[:, 0] + rng.normal(size=2049) > 0).astype(int)
    intervals = []
    for tol in (1e-3, 1e-4):
        model = SVC(gamma=0.5, tol=tol).fit(X, y)
        found = recomputed(model, X, y)
        assert model.objective_ == pytest.approx(found["objective"], rel=1e-11)
        assert found["gap"] <= model.duality_gap_ * (1 + 1e-9) and found["violation"] <= model.kkt_violation_ * (
            1 + 1e-9
        )
        intervals.append((model.objective_, model.objective_ + model.duality_gap_))
    assert intervals[0][0] <= intervals[1][1] and intervals[1][0] <= intervals[0][1]


def test_pairs_that_were_not_begun_count_with_multipliers_of_zero(monkeypatch):
    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(KernelFit, "run", lambda self, limits, monitor: None)
    every = 2.0 * len(y)  # each sample is in two of the three pairs
    for given, objective in (({}, 0.0), ({"solver": "primal", "loss": "squared_hinge"}, every)):
        with pytest.warns(ConvergenceWarning):
            model = SVC(**given).fit(X / X.std(axis=0), y)
        assert (model.objective_, model.duality_gap_, model.kkt_violation_) == (objective, every, 2.0)
