import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.multiclass import OneVsRestClassifier

import fastsvm
from fastsvm import LogisticRegression


def objective(model, X, y, C):
    margin = np.where(y == model.classes_[1], 1, -1) * (X @ model.coef_[0] + model.intercept_[0])
    return (np.sum(model.coef_**2) + model.intercept_[0] ** 2) / 2 + C * np.logaddexp(0, -margin).sum()


@pytest.mark.parametrize(
    ("n_features", "max_iter"),
    [(5, 1000), (5, 99), (150, 99)],
    ids=["few samples", "Hessian", "conjugate gradients"],
)
@pytest.mark.parametrize("C", [0.01, 1.0, 1e3])
def test_the_l2_objective_is_that_of_liblinear(two, C, n_features, max_iter):
    X, y = two
    X = np.c_[X, np.random.default_rng(0).normal(size=(len(X), n_features - 5))]
    model = LogisticRegression(C=C, tol=1e-8, max_iter=max_iter, random_state=0).fit(X, y)
    peer = linear_model.LogisticRegression(C=C, tol=1e-9, solver="liblinear").fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(objective(model, X, y, C), rel=1e-10)
    assert model.objective_ == pytest.approx(objective(peer, X, y, C), rel=2e-8)
    assert model.dual_objective_ <= objective(peer, X, y, C) * (1 + 1e-12)


def test_probabilities_are_those_of_liblinear(three):
    X, y = three
    model = LogisticRegression(tol=1e-10).fit(X, y)
    peer = OneVsRestClassifier(linear_model.LogisticRegression(tol=1e-8, solver="liblinear")).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(model.predict_proba(X)))


def test_models_are_saved_with_their_zeros(two, tmp_path):
    X, y = two
    model = LogisticRegression(penalty="l1", C=0.1).fit(X, y)
    fastsvm.save(model, tmp_path / "model.fsvm")
    loaded = fastsvm.load(tmp_path / "model.fsvm")
    assert 0 < np.count_nonzero(loaded.coef_) < X.shape[1]
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(model.sparsify().predict_proba(X), loaded.predict_proba(X))


def test_parameters_of_scikit_learn_that_have_no_meaning_here_are_refused(two):
    with pytest.raises(ValueError, match="no mixture"):
        LogisticRegression(l1_ratio=0.5).fit(*two)
    with pytest.raises(ValueError, match="intercept is penalised"):
        LogisticRegression(solver="lbfgs").fit(*two)


def test_l1_ratio_1_is_the_l1_penalty(two):
    other = LogisticRegression(l1_ratio=1, C=0.1).fit(*two)
    np.testing.assert_array_equal(other.coef_, LogisticRegression(penalty="l1", C=0.1).fit(*two).coef_)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("n_features", [5, 70], ids=["Hessian", "conjugate gradients"])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_rows_whose_squares_overflow_are_refused(penalty, n_features, layout):
    X = 1e200 * np.random.default_rng(0).normal(size=(60, n_features))
    with pytest.raises(ValueError, match=r"Products of the rows overflow.*StandardScaler"):
        LogisticRegression(penalty=penalty, max_iter=99).fit(layout(X), X[:, 0] > 0)
