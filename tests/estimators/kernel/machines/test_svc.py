"""SVC: the model, its attributes and weights are those of scikit-learn and of general solvers."""

import gc
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import naive
import numpy as np
import pandas as pd
import pytest
import threadpoolctl
from kernel_machines import KERNELS, kernel_matrix, same
from sklearn import svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris

from fastsvm import SVC
from fastsvm.kernel_matrix.rows import RowCache


def numbers(y):
    return np.unique(y, return_inverse=True)[1]


# The sigmoid is indefinite; where it is so strongly, LIBSVM may end in another stationary point.
OTHER_STATIONARY_POINT = {("breast_cancer", "sigmoid", 100), ("digits", "sigmoid", 100)}


@pytest.mark.parametrize(
    ("name", "kernel", "C"),
    [(name, kernel, C)
     for i, name in enumerate(["iris", "breast_cancer", "digits"])
     for j, kernel in enumerate(KERNELS)
     for k, C in enumerate([0.1, 1, 100]) if kernel == "rbf" or (i + j + k) % 3 == 0],
)  # fmt: skip
def test_objective_and_predictions_are_those_of_scikit_learn(name, kernel, C, data_sets):
    X, y = data_sets[name]
    wanted = svm.SVC(kernel=kernel, C=C, tol=1e-6, cache_size=500, **KERNELS[kernel]).fit(X, y)
    found = SVC(kernel=kernel, C=C, tol=1e-6, **KERNELS[kernel]).fit(X, y)
    K, labels, upper = kernel_matrix(kernel, X), numbers(y), np.full(len(y), float(C))
    objective, violation, gap = naive.certificate(found, K, labels, upper)
    reached = naive.certificate(wanted, K, labels, upper)[0]

    assert found.converged_
    assert found.objective_ == pytest.approx(objective, rel=1e-9)
    assert violation <= 1e-6 + 1e-9 * max(1, C)
    assert found.kkt_violation_ == pytest.approx(violation, abs=1e-9 * max(1, C))
    assert found.duality_gap_ == pytest.approx(gap, abs=1e-7 * max(1, objective))
    if (name, kernel, C) in OTHER_STATIONARY_POINT:
        assert np.linalg.eigvalsh(K)[0] < -0.5
        assert (found.predict(X) == wanted.predict(X)).mean() >= 0.95
        return
    assert objective == pytest.approx(reached, rel=1e-5)
    assert (found.predict(X) == wanted.predict(X)).mean() >= 0.999


@pytest.mark.parametrize(("seed", "kernel"), list(enumerate(["linear", "poly", "rbf"])))
def test_the_model_is_that_of_a_general_solver(kernel, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(36, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=36) > 0, "yes", "no")
    signs = np.where(y == "yes", 1.0, -1.0)
    parameters = {"gamma": 1.0, "coef0": 0.0, "degree": 3} | KERNELS[kernel]
    K = naive.kernel_matrix(kernel, X, X, **parameters)
    alpha, offset, objective = naive.solve_dual(K, signs, np.full(36, 2.0))
    found = SVC(kernel=kernel, C=2.0, tol=1e-10, **parameters).fit(X, y)
    assert found.objective_ == pytest.approx(objective, rel=1e-6)
    Z = rng.normal(size=(20, 2))
    wanted = naive.kernel_matrix(kernel, Z, X, **parameters) @ (alpha * signs) + offset
    np.testing.assert_allclose(found.decision_function(Z), wanted, atol=1e-4)
    clear = np.abs(wanted) > 1e-3
    np.testing.assert_array_equal(found.predict(Z)[clear], np.where(wanted > 0, "yes", "no")[clear])


def test_hard_margin():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 9])
    y = np.repeat([0, 1], 60)
    found = SVC(kernel="linear", C=1e8, tol=1e-6).fit(X, y)
    wanted = svm.SVC(kernel="linear", C=1e8, tol=1e-8).fit(X, y)
    assert found.converged_
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-4)
    assert (np.where(y, 1, -1) * found.decision_function(X)).min() == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(found.support_, wanted.support_)


def test_the_intercept_when_no_multiplier_is_free():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    found = SVC(kernel="linear", C=1e-3, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(np.abs(found.dual_coef_), 1e-3)
    assert found.intercept_[0] == pytest.approx(svm.SVC(kernel="linear", C=1e-3).fit(X, y).intercept_[0], abs=1e-9)


@pytest.mark.parametrize(
    "name", ["classes_", "support_", "n_support_", "support_vectors_", "shape_fit_", "fit_status_"]
)
def test_attributes_are_those_of_scikit_learn(name, both):
    _, _, found, wanted = both
    np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("name", ["dual_coef_", "intercept_", "coef_", "class_weight_"])
def test_numbers_are_those_of_scikit_learn(name, both):
    _, _, found, wanted = both
    assert getattr(found, name).shape == getattr(wanted, name).shape
    assert getattr(found, name).dtype == getattr(wanted, name).dtype
    np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-5)


def test_parameters_have_scikit_learns_names_and_defaults():
    ours, theirs = SVC().get_params(), svm.SVC().get_params()
    assert set(theirs) <= set(ours)
    different = {name for name in set(ours) & set(theirs) if ours[name] != theirs[name]}
    assert different <= {"cache_size", "probability"}


def test_probabilities_are_answered_by_what_to_use_instead(overlapping):
    with pytest.raises(ValueError, match=r"fastsvm\.CalibratedClassifier"):
        SVC(probability=True).fit(*overlapping)
    model = SVC(probability=False).fit(*overlapping)
    assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError, match=r"fastsvm\.CalibratedClassifier"):
        model.predict_proba(overlapping[0])
    calibrated = CalibratedClassifierCV(SVC(), ensemble=False).fit(*overlapping)
    assert calibrated.predict_proba(overlapping[0]).shape == (len(overlapping[1]), 2)


def test_attributes_that_a_user_changes_act_in_predictions(three_classes):
    X, y = three_classes
    model = SVC().fit(X, y)
    before = model.decision_function(X)
    model.intercept_ = model.intercept_ + 100
    assert len(np.unique(model.predict(X))) == 1
    model.intercept_ = model.intercept_ - 100
    model.dual_coef_ = 2 * model.dual_coef_
    found = SVC(decision_function_shape="ovo").set_params(**model.get_params())
    vars(found).update(vars(model), decision_function_shape="ovo")
    base = SVC(decision_function_shape="ovo").fit(X, y)
    wanted = 2 * (base.decision_function(X) - base.intercept_) + base.intercept_
    np.testing.assert_allclose(found.decision_function(X), wanted, atol=1e-9)
    assert before.shape == wanted.shape


def test_frames_give_the_names_of_features(overlapping):
    X, y = overlapping
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = SVC().fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(model.predict(frame), SVC().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)


def test_a_second_fit_forgets_the_first(overlapping, three_classes):
    model = SVC().fit(pd.DataFrame(three_classes[0], columns=list("abc")), three_classes[1])
    model.fit(*overlapping)
    again = SVC().fit(*overlapping)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.decision_function(overlapping[0]), again.decision_function(overlapping[0]))


@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}, {"class_weight": {1: 3.0}}], ids=str)
@pytest.mark.parametrize("data", ["overlapping", "three_classes"])
def test_weights_are_repeated_rows(data, parameters, request):
    X, y = request.getfixturevalue(data)
    weight = np.random.default_rng(5).integers(0, 4, len(y))
    model = SVC(tol=1e-9, **parameters)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    same(weighted, repeated, X)


def test_rows_of_weight_zero_are_left_out(three_classes):
    X, y = three_classes
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    same(SVC(tol=1e-9).fit(X, y, weight), SVC(tol=1e-9).fit(X[weight > 0], y[weight > 0]), X)


@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}], ids=str)
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_class_of_weight_zero_is_left_out(lost, parameters, three_classes):
    X, y = three_classes
    kept = y != lost
    model = SVC(tol=1e-9, **parameters)
    same(clone(model).fit(X, y, kept.astype(float)), clone(model).fit(X[kept], y[kept]), X)


def test_support_counts_all_rows_when_some_have_no_weight(overlapping):
    X, y = overlapping
    weight = np.ones(len(y))
    weight[:40] = 0
    model = SVC().fit(X, y, weight)
    assert model.support_.min() >= 40
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


@pytest.mark.parametrize("class_weight", [{0: 2.0, 1: 0.5, 2: 3.0}, {2: 10.0}, "balanced"], ids=str)
def test_class_weights_are_those_of_scikit_learn(class_weight, three_classes):
    X, y = three_classes
    X, y = X[20:], y[20:]
    wanted = svm.SVC(class_weight=class_weight, tol=1e-8).fit(X, y)
    found = SVC(class_weight=class_weight, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(found.class_weight_, wanted.class_weight_)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-5)


def test_class_weights_of_words(three_classes):
    X, y = three_classes
    words = np.array(["ant", "bee", "cow"])[y]
    found = SVC(class_weight={"cow": 4.0}, tol=1e-9).fit(X, words)
    same_numbers = SVC(class_weight={2: 4.0}, tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(found.decision_function(X), same_numbers.decision_function(X))


def test_sample_weights_are_those_of_scikit_learn(three_classes):
    X, y = three_classes
    weight = np.random.default_rng(6).uniform(0.1, 3, len(y))
    wanted = svm.SVC(gamma=0.3, tol=1e-8).fit(X, y, weight)
    found = SVC(gamma=0.3, tol=1e-8).fit(X, y, weight)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-5)
    assert found.score(X, y, weight) == wanted.score(X, y, weight)


def test_swapped_labels_flip_the_signs(overlapping):
    X, y = overlapping
    a, b = SVC(tol=1e-9).fit(X, y), SVC(tol=1e-9).fit(X, 1 - y)
    np.testing.assert_allclose(a.decision_function(X), -b.decision_function(X), atol=1e-7)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-10)


def test_the_order_of_rows_does_not_matter(three_classes):
    X, y = three_classes
    order = np.random.default_rng(1).permutation(len(y))
    same(SVC(tol=1e-9).fit(X[order], y[order]), SVC(tol=1e-9).fit(X, y), X)


def test_a_fit_leaves_no_warnings_and_no_numpy_state(overlapping):
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="raise"):
        warnings.simplefilter("always")
        SVC().fit(*overlapping).predict(overlapping[0])
    assert not caught


def test_overlapping_fits_give_blas_its_threads_back(overlapping):
    before = [library["num_threads"] for library in threadpoolctl.threadpool_info()]
    X, y = overlapping
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda C: SVC(C=C).fit(X, y), np.linspace(0.1, 10, 24)))
    assert [library["num_threads"] for library in threadpoolctl.threadpool_info()] == before


def test_the_cache_is_freed_when_the_fit_ends(monkeypatch):
    """Not when the garbage is collected: until then the next fit would touch new memory."""
    X, y = load_iris(return_X_y=True)
    SVC(solver="coordinate").fit(X, y)  # compiles; a compiler's own circles may refer to the frames below it
    caches, init = [], RowCache.__init__

    def watched(self, *given, **named):
        init(self, *given, **named)
        caches.append(weakref.ref(self))

    monkeypatch.setattr(RowCache, "__init__", watched)
    gc.disable()
    try:
        SVC(solver="coordinate").fit(X, y)
        assert len(caches) == 3 and not any(cache() for cache in caches)
    finally:
        gc.enable()
