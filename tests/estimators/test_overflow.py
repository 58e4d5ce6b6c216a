"""Values that overflow end a fit with an error that says what is too large, and never a hang or a certificate."""

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import fastsvm
from fastsvm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SVCSearch
from fastsvm.kernels import Polynomial, kernel_value

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
LABELS, TARGETS = (X[:, 0] > 0.2).astype(int), X[:, 0] / np.abs(X[:, 0]).max()
MACHINES = [SVC, NuSVC, SVR, NuSVR, OneClassSVM]


class Power(NamedTuple):
    """A user's kernel that claims to be harmless."""

    exponent: float = 200.0
    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        return eps


@kernel_value.register(Power)
def _power(kernel, dot, sq_x, sq_z):
    return abs(dot) ** kernel.exponent


@np.errstate(over="ignore")
def cube(A, B):
    return (A @ B.T) ** 3.0


def targets_of(machine, labels=LABELS, targets=TARGETS):
    return labels if machine in (SVC, NuSVC) else targets


OVERFLOWING = {"poly": r"kernel Polynomial\(degree=3.*Scale", Power(): r"kernel Power\(exponent=200", cube: "cube"}


@pytest.mark.parametrize(
    ("machine", "n", "kernel"),
    [(machine, (N, 40 * N)[(i + j) % 2], kernel)
     for i, machine in enumerate(MACHINES) for j, kernel in enumerate(OVERFLOWING)],
)  # fmt: skip
def test_kernel_values_that_overflow(machine, n, kernel):
    rows, y = np.resize(X, (n, 3)) * 1e60, np.resize(targets_of(machine), n)
    with pytest.raises(ValueError, match=OVERFLOWING[kernel]):
        machine(kernel=kernel, gamma=1.0).fit(rows, y)


def test_small_fits_of_two_samples():
    with pytest.raises(ValueError, match=r"kernel Polynomial.*overflow"):
        SVC(kernel="poly", gamma=1.0).fit([[-7e80], [-4e80]], [0, 1])


def test_precomputed_values_whose_squares_overflow():
    K = X @ X.T
    with pytest.raises(ValueError, match=r"values of the precomputed kernel are as large as .*e\+160.*multiply C"):
        SVC(kernel="precomputed").fit(K * 1e160, LABELS)
    first, second = (SVC(kernel="precomputed", C=C).fit(K * s, LABELS) for s, C in ((1.0, 1.0), (2.0**40, 2.0**-40)))
    np.testing.assert_allclose(first.decision_function(K), second.decision_function(K * 2.0**40), atol=1e-2)
    K[3, 4] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        SVC(kernel="precomputed").fit(K * 1e160, LABELS)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (SVC(kernel="poly", degree=50, gamma=1.0), load_breast_cancer(return_X_y=True)),
        (SVR(kernel=Polynomial(degree=400)), load_iris(return_X_y=True)),
        (
            SVC(kernel="poly", degree=50, gamma=1.0, solver="primal", loss="squared_hinge"),
            load_breast_cancer(return_X_y=True),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_real_features_that_are_not_scaled(model, data):
    with pytest.raises(ValueError, match=r"kernel Polynomial.*lower degree or gamma"):
        model.fit(*data)


@pytest.mark.parametrize("search", [SVCSearch, GridSearchCV])
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_cells_of_a_search_that_overflow_have_no_score(search):
    found = search(SVC(kernel="poly", gamma=1.0), {"degree": [3, 400, 500]}, cv=2)
    with pytest.warns(match="4 fits failed"):
        found.fit(X * 10, LABELS)
    assert np.isfinite(found.cv_results_["mean_test_score"]).tolist() == [True, False, False]
    assert found.best_params_ == {"degree": 3}


def test_the_next_warm_start_does_not_begin_at_an_overflow():
    model = NuSVC(warm_start=True)
    with pytest.raises(ValueError, match="bounds of the multipliers are as large as 1e"):
        model.fit(X, LABELS, np.full(N, 1e200))
    assert model.fit(X, LABELS).converged_


@pytest.mark.parametrize("machine", [SVR, NuSVR])
def test_targets_whose_objective_overflows(machine):
    with pytest.raises(ValueError, match="targets as large as 1e"):
        machine(C=1e10).fit(X, TARGETS * 1e307)


def test_solvers_with_huge_bounds():
    with pytest.warns(ConvergenceWarning, match="no step improves in floating point"):
        model = SVC(solver="primal", loss="squared_hinge", C=1e300).fit(X, LABELS)
    assert np.isfinite([model.objective_, model.duality_gap_, model.kkt_violation_]).all()


LINEAR = [
    fastsvm.LinearSVC(),
    fastsvm.LinearSVC(loss="hinge"),
    fastsvm.LinearSVC(penalty="l1"),
    fastsvm.LogisticRegression(),
    fastsvm.LinearSVR(),
    fastsvm.LinearOneClassSVM(),
]


@pytest.mark.parametrize("model", [*LINEAR, NuSVC(), OneClassSVM(), SVC(), SVR()], ids=str)
@pytest.mark.parametrize("weight", [1e200, 1e305])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_certificate_is_infinite(model, weight):
    y = TARGETS if isinstance(model, (fastsvm.LinearSVR, SVR)) else LABELS
    if "max_iter" in model.get_params():
        model.set_params(max_iter=100)
    try:
        model.fit(X, y, sample_weight=np.full(N, weight))
    except ValueError as error:
        assert "weights" in str(error)
        return
    assert not model.converged_ or np.isfinite([model.objective_, model.duality_gap_]).all()


@pytest.mark.parametrize(
    "model",
    [SVC(kernel="poly", degree=30, gamma=1.0), NuSVC(kernel="poly", degree=4, gamma="auto", nu=0.1)],
    ids=["degree 30", "nu"],
)
@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_values_that_are_huge_but_finite_end_a_fit_that_gains_nothing(model):
    """LIBSVM would take the ten million steps that are allowed: each follows the rounding of the one before."""
    rows, labels = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="stalled"):
        model.fit(rows[::4], labels[::4])
    assert model.stop_reason_ == "stalled"
    assert model.kkt_violation_ > model.tol and model.duality_gap_ > 0
