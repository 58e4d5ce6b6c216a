"""Decision values, predictions and `coef_` of kernel machines."""

import numpy as np
import pytest
from kernel_machines import KERNELS
from scipy import sparse
from sklearn import svm

from fastsvm import SVC


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_decision_values_at_a_tight_tolerance(kernel, data_sets):
    X, y = data_sets["iris"]
    wanted = svm.SVC(kernel=kernel, tol=1e-10, decision_function_shape="ovo", **KERNELS[kernel]).fit(X, y)
    found = SVC(kernel=kernel, tol=1e-10, decision_function_shape="ovo", **KERNELS[kernel]).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_decision_functions_are_those_of_scikit_learn(shape, both):
    X, _, found, wanted = both
    a, b = (model.set_params(decision_function_shape=shape).decision_function(X) for model in (found, wanted))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("break_ties", [False, True])
def test_predictions_are_those_of_scikit_learn(break_ties, both):
    X, y, found, wanted = both
    a, b = (model.set_params(break_ties=break_ties) for model in (found, wanted))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.score(X, y) == b.score(X, y)


def test_the_intercept_is_a_copy_for_each_model(overlapping):
    X, y = overlapping
    first = SVC().fit(X, y)
    before = first.dual_coef_.copy()
    SVC(C=5.0).fit(X, y)
    np.testing.assert_array_equal(first.dual_coef_, before)


def test_coef_is_of_the_linear_kernel_only(overlapping):
    model = SVC().fit(*overlapping)
    with pytest.raises(AttributeError, match="linear"):
        _ = model.coef_
    assert not hasattr(model, "coef_")


def test_coef_of_sparse_rows(three_classes):
    X, y = three_classes
    wanted = SVC(kernel="linear", tol=1e-9).fit(X, y).coef_
    found = SVC(kernel="linear", tol=1e-9).fit(sparse.csr_array(X), y)
    theirs = svm.SVC(kernel="linear", tol=1e-9).fit(sparse.csr_array(X), y)
    for name in ("coef_", "dual_coef_", "support_vectors_"):
        assert type(getattr(found, name)) is type(getattr(theirs, name)), name
    np.testing.assert_allclose(found.coef_.toarray(), wanted, atol=1e-7)


def test_a_tie_of_two_classes_goes_to_the_second():
    model = SVC(kernel="linear").fit([[-1.0], [1.0]], [0, 1])
    assert model.predict([[0.0]]) == svm.SVC(kernel="linear").fit([[-1.0], [1.0]], [0, 1]).predict([[0.0]]) == 1


def test_damaged_sparse_rows_are_refused_at_prediction():
    X = sparse.random(50, 5, 0.5, format="csr", random_state=0)
    model = SVC(kernel="linear").fit(X, np.arange(50) % 2)
    Z = X[:2].copy()
    Z.indices[0] = 10**8
    with pytest.raises(ValueError, match=r"damaged|index|indices"):
        model.decision_function(Z)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "dual_coef_", model.dual_coef_[:, :3]),
        lambda model: setattr(model, "intercept_", model.intercept_[:1]),
        lambda model: setattr(model, "support_vectors_", model.support_vectors_[:3]),
        lambda model: model.n_support_.fill(0),
    ],
)
def test_altered_models_are_refused(change, data_sets):
    X, y = data_sets["iris"]
    model = SVC().fit(X, y)
    change(model)
    for method in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match="The internal representation of SVC was altered"):
            method(X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_weights_are_read_only(form, data_sets):
    X, y = data_sets["iris"]
    coef = SVC(kernel="linear").fit(form(X), y).coef_
    with pytest.raises(ValueError, match="read-only"):
        (coef.data if sparse.issparse(coef) else coef)[:] = 0
