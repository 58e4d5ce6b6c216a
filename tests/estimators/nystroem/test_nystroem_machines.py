"""Machines with landmarks: the same answers as scikit-learn's features, as the kernel machine, and from any storage."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from fastsvm import SVC, SVR, NystroemFeatures, NystroemSVC, NystroemSVR, load, save, to_sklearn
from fastsvm.kernels import RBF

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
SIGNS = np.where(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + RNG.normal(scale=0.3, size=400) > 0.8, "in", "out")
CLASSES = (np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2, [-0.3, 0.8])).astype(int)
NUMBERS = np.sin(2 * X[:, 0]) + RNG.normal(scale=0.1, size=400)
COMMON = {"gamma": 0.3, "random_state": 0, "tol": 1e-6}


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_decisions_are_those_of_the_same_features_in_scikit_learn(loss):
    model = NystroemSVC(C=0.5, n_components=60, rank_tol=1e-13, loss=loss, **COMMON).fit(X, SIGNS)
    features = Nystroem(gamma=0.3, n_components=60).fit(X)
    features.components_ = model.components_
    values, vectors = np.linalg.eigh(rbf(model.components_, model.components_))
    features.normalization_ = vectors / np.sqrt(values) @ vectors.T
    exact = svm.LinearSVC(C=0.5, loss=loss, dual=True, tol=1e-9, max_iter=10**6, random_state=0)
    wanted = make_pipeline(features, exact)
    wanted.steps[1][1].fit(features.transform(X), SIGNS)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=2e-3)
    np.testing.assert_array_equal(X[model.component_indices_], model.components_)


def rbf(A, B):
    return np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("warm_start", [False, True])
def test_pairs_of_classes_are_told_apart_as_by_the_same_features_in_scikit_learn(loss, warm_start):
    y, factors = np.array(["a", "b", "c", "d"])[np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.8, 2.0])], {"b": 2.0}
    weight = RNG.integers(0, 3, 400)  # fits that can go on take epochs, others Newton steps
    given = {"loss": loss, "multi_class": "ovo", "class_weight": factors, "warm_start": warm_start, **COMMON}
    model = NystroemSVC(C=0.5, n_components=60, rank_tol=1e-13, bounds=True, **given).fit(X, y, weight)
    values, vectors = np.linalg.eigh(rbf(model.components_, model.components_))
    features = rbf(X, model.components_) @ vectors / np.sqrt(values)
    wanted, objective = [], 0.0
    for a, b in ("ab", "ac", "ad", "bc", "bd", "cd"):
        rows = np.flatnonzero(np.isin(y, [a, b]) & (weight > 0))
        exact = svm.LinearSVC(C=0.5, loss=loss, tol=1e-9, max_iter=10**6, random_state=0)
        cost = weight[rows] * np.where(y[rows] == "b", 2.0, 1.0)
        exact.fit(features[rows], np.where(y[rows] == a, 1, -1), cost)
        wanted.append(exact.decision_function(features))
        losses = np.maximum(0, 1 - np.where(y[rows] == a, 1, -1) * wanted[-1][rows]) ** (1 + (loss != "hinge"))
        objective += ((exact.coef_**2).sum() + exact.intercept_[0] ** 2) / 2 + 0.5 * cost @ losses
    assert model.objective_ == pytest.approx(objective, rel=1e-5)
    lower, upper = model.exact_bounds_
    assert 0.5 * upper < lower < upper and upper == pytest.approx(model.objective_, rel=1e-6)
    votes = model.decision_function(X)
    model.decision_function_shape = "ovo"
    np.testing.assert_allclose(model.decision_function(X), np.transpose(wanted), atol=5e-3)
    assert votes.shape == (400, 4) and np.mean(model.classes_[votes.argmax(axis=1)] == model.predict(X)) > 0.99
    model.break_ties = True
    with pytest.raises(ValueError, match="break_ties must be False"):
        model.predict(X)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_votes_of_pairs_are_those_of_the_kernel_machine(layout, tmp_path):
    y = np.digitize(X[:, 0] + X[:, 1] ** 2 + RNG.normal(scale=2, size=400), [-0.3, 0.8, 2.0])
    model = NystroemSVC(multi_class="ovo", n_components=15, standardize=True, break_ties=True, **COMMON).fit(
        layout(X), y
    )
    save(model, tmp_path / "pairs.model")
    again, other = load(tmp_path / "pairs.model"), to_sklearn(model)
    np.testing.assert_array_equal(again.decision_function(layout(X)), model.decision_function(layout(X)))
    np.testing.assert_array_equal(other.predict(layout(X)), model.predict(layout(X)))
    np.testing.assert_allclose(other.decision_function(layout(X)), model.decision_function(layout(X)), atol=1e-2)


@pytest.fixture(scope="module")
def optima():
    """Return lower and upper bounds of the exact optima, which kernel machines without an intercept find on K + 1."""
    K = rbf(X, X) + 1
    exact = {"kernel": "precomputed", "tol": 1e-8, "solver": "coordinate"}
    found = {
        "hinge": SVC(C=2.0, fit_intercept=False, **exact).fit(K, SIGNS),
        "numbers": SVR(C=2.0, epsilon=0.1, **exact).fit(K, NUMBERS),
        "squared_hinge": SVC(
            C=2.0, kernel="precomputed", tol=1e-8, solver="primal", loss="squared_hinge", fit_intercept=False
        ).fit(K, SIGNS),
    }
    return {name: (model.objective_ - model.duality_gap_, model.objective_) for name, model in found.items()}


def machine(name, **parameters):
    if name == "numbers":
        return NystroemSVR(C=2.0, epsilon=0.1, bounds=True, **COMMON, **parameters).fit(X, NUMBERS)
    return NystroemSVC(C=2.0, loss=name, bounds=True, **COMMON, **parameters).fit(X, SIGNS)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "numbers"])
@pytest.mark.parametrize("n_components", [5, 60])
def test_bounds_hold_the_optimum_of_the_kernel_problem(name, n_components, optima):
    model = machine(name, n_components=n_components)
    lower, upper = model.exact_bounds_
    assert 0 < lower <= optima[name][1] * (1 + 1e-9) and upper >= optima[name][0] * (1 - 1e-9)
    assert abs(model.duality_gap_) <= 1e-5 * model.objective_ and model.converged_
    assert upper == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "numbers"])
def test_with_all_samples_as_landmarks_the_problem_is_the_kernel_problem(name, optima):
    model = machine(name, n_components=1000, rank_tol=1e-14)
    lower, upper = model.exact_bounds_
    assert upper - lower <= 1e-5 * upper and upper == pytest.approx(optima[name][1], rel=1e-5)
    assert len(model.components_) == 400 and model.trace_error_ < 1e-9


def test_bounds_of_classes_are_sums_and_fall_with_more_landmarks():
    for coupled in ("ovr", "crammer_singer", "weston_watkins"):
        widths = []
        for m in (10, 200):
            model = NystroemSVC(C=1.0, multi_class=coupled, n_components=m, bounds=True, **COMMON).fit(X, CLASSES)
            lower, upper = model.exact_bounds_
            widths.append(upper - lower)
            assert 0 < lower <= upper and model.coef_.shape == (3, m) and model.intercept_.shape == (3,)
        assert widths[1] < 0.1 * widths[0]


def test_rpcholesky_needs_fewer_landmarks_and_auto_finds_enough():
    uniform, pivots = (
        NystroemSVC(n_components=40, landmarks=landmarks, gamma=0.03, random_state=0).fit(X, SIGNS).trace_error_
        for landmarks in ("uniform", "rpcholesky")
    )
    assert pivots < uniform
    for landmarks in ("uniform", "rpcholesky"):
        model = NystroemSVC(landmarks=landmarks, gamma=0.05, random_state=0).fit(X, SIGNS)
        assert model.trace_error_ <= 0.01 and len(model.components_) in (64, 128, 256)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "numbers"])
def test_support_vectors_are_landmarks_before_other_samples(name):
    exact = SVR(C=2.0, gamma=0.3) if name == "numbers" else SVC(C=2.0, gamma=0.3)
    support = exact.fit(X, NUMBERS if name == "numbers" else SIGNS).support_
    few, many = (machine(name, n_components=m, landmarks="support") for m in (30, 390))
    assert np.isin(few.component_indices_, support).all() and len(few.components_) == 30
    assert np.isin(support, many.component_indices_).all() and len(many.components_) == 390
    np.testing.assert_array_equal(machine(name, n_components=30, landmarks="support").coef_, few.coef_)


def test_support_vectors_are_those_of_weighted_classes_in_any_storage(stored):
    weight = np.ones(400)
    weight[:100] = 0
    given = {"n_components": 60, "gamma": 0.02, "class_weight": "balanced", "landmarks": "support", "random_state": 0}
    for kind in ("bytes", "CSR", "file"):
        model = NystroemSVC(standardize=kind != "CSR", **given).fit(stored[kind], CLASSES, weight)
        assert model.component_indices_.min() >= 100 and model.components_.shape == (60, 40)
    one = NystroemSVC(**given).fit(stored["bytes"], CLASSES, weight * (CLASSES > 0))
    assert one.components_.shape == (60, 40) and (CLASSES[one.component_indices_] > 0).all()
    with pytest.raises(ValueError, match="'landmarks' parameter of NystroemFeatures"):
        NystroemFeatures(landmarks="support").fit(X)


def test_given_landmarks():
    model = NystroemSVC(landmarks=X[:20].tolist(), **COMMON).fit(X, SIGNS)
    np.testing.assert_array_equal(model.components_, X[:20])
    assert not hasattr(model, "component_indices_")
    again = NystroemSVC(landmarks=np.vstack([X[:20], X[:3]]), **COMMON).fit(X, SIGNS)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    with pytest.raises(ValueError, match="landmarks cannot be used: X has 3 features"):
        NystroemSVC(landmarks=X[:20, :3]).fit(X, SIGNS)
    with pytest.raises(ValueError, match="landmarks cannot be used"):
        NystroemSVC(landmarks=np.full((3, 4), np.nan)).fit(X, SIGNS)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("chosen", ["all", "given"])
def test_zeros_of_both_signs_are_the_same_landmark(layout, chosen):
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 1.0], [2.0, 0.0]])
    samples = layout(rows)
    if sparse.issparse(samples):
        samples = sparse.csr_matrix((np.append(-0.0, samples.data), np.append(0, samples.indices), [0, 2, 3, 5, 6]))
    else:
        samples[0, 0] = -0.0
    given = {"landmarks": samples} if chosen == "given" else {"n_components": 4}
    model = NystroemSVR(random_state=0, **given).fit(samples, [1.0, 2.0, 3.0, 4.0])
    assert model.components_.shape == (3, 2)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return the same samples in several kinds, of bytes and of CSR rows, and in files."""
    pixels = np.random.default_rng(1).integers(0, 256, (400, 40)).astype(np.uint8)
    path = tmp_path_factory.mktemp("rows") / "rows.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=pixels, chunks=(32, 40))
    with h5py.File(path) as file:
        yield {
            "floats": pixels.astype(np.float64),
            "bytes": pixels,
            "CSR": sparse.csr_matrix(pixels),
            "file": file["X"],
        }


@pytest.mark.parametrize("kind", ["bytes", "CSR", "file"])
@pytest.mark.parametrize("standardize", [False, True])
def test_any_storage_gives_the_same_machine(kind, standardize, stored):
    if kind == "CSR" and standardize:
        pytest.skip("sparse samples are scaled only")
    given = {"n_components": 50, "random_state": 0, "standardize": standardize, "C": 2.0, "bounds": True}
    wanted = NystroemSVC(**given).fit(stored["floats"], CLASSES)
    model = NystroemSVC(**given).fit(stored[kind], CLASSES)
    if kind != "file":  # equal rows of an array are merged and sorted, so that other rows are drawn
        np.testing.assert_array_equal(model.component_indices_, wanted.component_indices_)
    model = NystroemSVC(**given | {"landmarks": wanted.components_}).fit(stored[kind], CLASSES)
    np.testing.assert_allclose(
        model.decision_function(stored[kind]), wanted.decision_function(stored["floats"]), atol=3e-3
    )
    assert model.exact_bounds_ == pytest.approx(wanted.exact_bounds_, rel=2e-3)


@pytest.mark.parametrize(
    "kernel", ["linear", "poly", "laplacian", "exponential", RBF(0.3), lambda A, B: (1 + A @ B.T) ** 2]
)
def test_kernels(kernel):
    given = {"kernel": kernel, "coef0": 1.0, "degree": 2, "standardize": True}
    model = NystroemSVC(n_components=100, bounds=True, random_state=0, **given)
    lower, upper = model.fit(X, SIGNS).exact_bounds_
    assert 0 < lower <= upper * (1 + 1e-9) and model.score(X, SIGNS) > 0.6
    if kernel == "linear":
        assert model.rank_ == 4


def test_kernels_that_are_refused():
    with pytest.raises(ValueError, match="positive semi-definite"):
        NystroemSVC(kernel=lambda A, B: -(A @ B.T)).fit(X, SIGNS)
    with pytest.raises(ValueError, match="precomputed"):
        NystroemSVC(kernel="precomputed").fit(X @ X.T, SIGNS)
    with pytest.raises(ValueError, match="lower n_components to"):
        NystroemSVC(n_components=300, memory=96 * 200**2).fit(X, SIGNS)
    with pytest.raises(ValueError, match="'landmarks' parameter"):
        NystroemSVC(landmarks="kmeans").fit(X, SIGNS)


def test_weights_equal_repetitions_and_classes_have_factors():
    weight = RNG.integers(0, 3, 400)
    model = NystroemSVC(class_weight="balanced", n_components=30, bounds=True, **COMMON)
    weighted = clone(model).fit(X, SIGNS, weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(SIGNS, weight))
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    assert weighted.exact_bounds_ == repeated.exact_bounds_


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_models_are_the_same_from_a_file(layout, tmp_path):
    for model, y in (
        (NystroemSVC(landmarks=layout(X[:30]), standardize=True, bounds=True, random_state=0), CLASSES),
        (NystroemSVR(n_components=30, bounds=True, random_state=0, kernel=RBF(0.2)), NUMBERS),
    ):
        save(model.fit(layout(X), y), tmp_path / "a.model")
        again = load(tmp_path / "a.model")
        np.testing.assert_array_equal(again.predict(layout(X)), model.predict(layout(X)))
        assert vars(again).keys() >= {key for key in vars(model) if key.endswith("_")}
        assert again.exact_bounds_ == model.exact_bounds_
        np.testing.assert_array_equal(again.fit(layout(X), y).coef_, model.coef_)


@pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_samples_without_kernel_values_are_refused(kernel, landmarks):
    with pytest.raises(ValueError, match="kernel values of all landmarks are 0: scale the features, or raise coef0"):
        NystroemSVC(kernel=kernel, landmarks=landmarks).fit(np.zeros((10, 2)), np.arange(10) % 2)


def test_dual_variables_of_many_pairs_are_within_the_memory():
    X, y = np.random.default_rng(0).normal(size=(600, 3)), np.arange(600) % 200
    with pytest.raises(ValueError, match=r"19,900 pairs of 200 classes.* 600 samples .* 0.09584 GB, and memory allows"):
        NystroemSVC(multi_class="ovo", n_components=5, memory="64MB").fit(X, y)
