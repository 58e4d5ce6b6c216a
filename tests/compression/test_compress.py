"""Compressed models: the differences are those of decision values, and within the tolerance."""

import numpy as np
import pytest
from scipy import sparse

import fastsvm
from fastsvm import SVC, SVR, LinearSVC, OneClassSVM
from fastsvm.persistence.model_checks import check_fitted


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix, "bytes", "standardised"])
def test_differences_are_those_reported_and_within_the_tolerance(n_classes, layout, three_classes, tmp_path):
    X, y = three_classes[0], three_classes[1] % n_classes
    model = SVC(C=5, decision_function_shape="ovo", standardize=layout == "standardised")
    if layout == "bytes":
        X = np.clip(40 * X + 128, 0, 255).astype(np.uint8)
    X = layout(X) if callable(layout) else X
    before = model.fit(X, y).decision_function(X)
    found = fastsvm.compress(model, X, tol=0.02)
    new = found.model
    difference = new.decision_function(X) - before
    np.testing.assert_allclose(found.max_difference, np.abs(difference).max(), rtol=1e-5)
    np.testing.assert_allclose(found.rms_difference, np.sqrt(np.square(difference).mean()), rtol=1e-5)
    assert found.max_difference <= 0.02 and found.n_support == len(new.support_) < 0.8 * len(model.support_)
    tried = found.curve["n_support"] < found.n_support
    assert (found.curve["max_difference"][tried] > 0.02).all()
    assert set(new.support_) < set(model.support_) and type(new.support_vectors_) is type(model.support_vectors_)
    np.testing.assert_array_equal(y[new.support_], np.repeat(new.classes_, new.n_support_))
    assert new.stop_reason_ == "compressed" and not hasattr(new, "kkt_violation_")
    check_fitted(new)
    fastsvm.save(new, tmp_path / "a.model")
    np.testing.assert_array_equal(fastsvm.load(tmp_path / "a.model").decision_function(X), new.decision_function(X))
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_coefficients_are_those_of_least_squares(overlapping):
    X, y = overlapping
    model = SVC(C=10).fit(X, y)
    found = fastsvm.compress(model, X, n_support=25)
    K = np.exp(-model._gamma * ((X[:, None] - found.model.support_vectors_) ** 2).sum(axis=2))
    wanted = model.decision_function(X) - model.intercept_
    rest = wanted - K @ np.linalg.lstsq(K, wanted, rcond=None)[0]
    assert found.n_support == 25
    np.testing.assert_allclose(found.rms_difference, np.sqrt(np.square(rest).mean()), rtol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_move_the_values_that_are_fitted_by_a_margin(n_classes, three_classes):
    X, labels = three_classes[0], three_classes[1] % n_classes
    y = np.array(["a", "b", "c"])[labels]
    model = SVC(C=10, decision_function_shape="ovo").fit(X, y)
    found = fastsvm.compress(model, X, n_support=25, y=y)
    K = np.exp(-model._gamma * ((X[:, None] - found.model.support_vectors_) ** 2).sum(axis=2))
    pairs = [(1, 0)] if n_classes == 2 else [(0, 1), (0, 2), (1, 2)]
    margin = np.stack([(labels == a) * 1.0 - (labels == b) for a, b in pairs], axis=1)
    before = model.decision_function(X).reshape(len(X), -1)
    wanted = before + margin - model.intercept_
    fitted = K @ np.linalg.lstsq(K, wanted, rcond=None)[0] + model.intercept_
    after = found.model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(after, fitted, atol=0.02)
    np.testing.assert_allclose(found.max_difference, np.abs(after - before).max(), rtol=1e-5)


def test_other_kernels(overlapping):
    X, y = overlapping
    linear = SVC(kernel="linear").fit(X, y)
    found = fastsvm.compress(linear, X, tol=1e-6)
    assert found.n_support <= X.shape[1]
    np.testing.assert_allclose(found.model.coef_, linear.coef_, atol=1e-6)
    function = SVC(kernel=lambda a, b: (a @ b.T + 1) ** 2).fit(X, y)
    found = fastsvm.compress(function, X, tol=1e-4)
    assert found.n_support <= 15  # the dimension of its space
    np.testing.assert_allclose(found.model.decision_function(X), function.decision_function(X), atol=1e-4)
    sigmoid = SVC(kernel="sigmoid", gamma=0.5, coef0=-1).fit(X, y)  # which is not positive semi-definite
    found = fastsvm.compress(sigmoid, X, n_support=30)
    difference = np.abs(found.model.decision_function(X) - sigmoid.decision_function(X)).max()
    np.testing.assert_allclose(difference, found.max_difference, rtol=1e-6)
    words = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]
    lengths = SVC(kernel=lambda a, b: np.minimum.outer([len(x) for x in a], [len(x) for x in b]).astype(float), C=0.01)
    lengths.fit(words, [0, 1, 0, 1, 0, 1])
    found = fastsvm.compress(lengths, words, n_support=3)
    difference = found.model.decision_function(words) - lengths.decision_function(words)
    np.testing.assert_allclose(np.abs(difference).max(), found.max_difference, rtol=1e-6)


def test_machines_without_classes(overlapping):
    X, y = overlapping
    for model in (SVR().fit(X, X[:, 0] + y), OneClassSVM().fit(X)):
        found, name = fastsvm.compress(model, X, tol=0.05), "predict" if isinstance(model, SVR) else "decision_function"
        difference = getattr(found.model, name)(X) - getattr(model, name)(X)
        np.testing.assert_allclose(np.abs(difference).max(), found.max_difference, rtol=1e-5)
        assert found.max_difference <= 0.05 and found.model.n_support_.tolist() == [found.n_support]
        check_fitted(found.model)


def test_a_model_that_cannot_be_compressed_is_copied(overlapping):
    X, y = overlapping
    model = SVC().fit(X, y)
    for arguments in ({"tol": 1e-15}, {"n_support": len(X)}):
        found = fastsvm.compress(model, X, **arguments)
        assert found.model is not model and found.n_support == len(model.support_) and found.max_difference == 0
        np.testing.assert_array_equal(found.model.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("kernel", [fastsvm.kernels.Sigmoid(gamma=0.01, coef0=-1), fastsvm.kernels.Linear()])
def test_a_model_without_positive_kernel_values_is_copied(kernel):
    X = np.zeros((20, 2))  # no row has a positive kernel value with itself
    model = SVC(kernel=kernel).fit(X, np.arange(20) % 2)
    for arguments in ({}, {"n_support": 3}):
        found = fastsvm.compress(model, X, **arguments)
        assert found.n_support == len(model.support_) > 0 and not len(found.curve["n_support"])
        np.testing.assert_array_equal(found.model.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_compressed_models_go_to_other_programs(kernel, overlapping, three_classes, tmp_path):
    for X, y in (overlapping, three_classes):
        model = SVC(kernel=kernel, standardize=kernel == "linear", decision_function_shape="ovo").fit(X, y)
        small = fastsvm.compress(model, X, n_support=len(X[0]) if kernel == "linear" else 20).model
        wanted = small.decision_function(X)
        np.testing.assert_allclose(fastsvm.to_sklearn(small).decision_function(X), wanted, atol=1e-5)
        fastsvm.save_libsvm(small, tmp_path / "a")
        text = fastsvm.load_libsvm(tmp_path / "a").set_params(decision_function_shape="ovo")
        np.testing.assert_allclose(text.decision_function(X), wanted, atol=1e-5)
        np.testing.assert_array_equal(text.predict(X), small.predict(X))


def test_what_cannot_be_compressed_is_refused(overlapping):
    X, y = overlapping
    with pytest.raises(ValueError, match="precomputed kernel does not have its support vectors"):
        fastsvm.compress(SVC(kernel="precomputed").fit(X @ X.T, y), X @ X.T)
    with pytest.raises(TypeError, match="found LinearSVC"):
        fastsvm.compress(LinearSVC().fit(X, y), X)
    model = SVC().fit(X, y)
    for arguments, words in (
        ({"tol": 0}, "tol must be"),
        ({"tol": "a"}, "tol must be"),
        ({"n_support": 2.5}, "n_support must be a whole number"),
        ({"n_support": 0}, "at least 1"),
        ({"tol": None}, "tol must"),
    ):
        with pytest.raises(ValueError, match=words):
            fastsvm.compress(model, X, **arguments)
    for labels, size, words in (
        (y, None, "Pass n_support= too"),
        (y[1:], 9, "labels, X has"),
        (np.where(y == y[0], y, 7), 9, "the label 7"),
    ):
        with pytest.raises(ValueError, match=words):
            fastsvm.compress(model, X, n_support=size, y=labels)
    with pytest.raises(ValueError, match="y is for classifiers"):
        fastsvm.compress(SVR().fit(X, y), X, n_support=9, y=y)
    with pytest.raises(ValueError, match="not fitted"):
        fastsvm.compress(SVC(), X)
    with pytest.raises(ValueError, match="expecting 4 features"):
        fastsvm.compress(model, X[:, :2])
