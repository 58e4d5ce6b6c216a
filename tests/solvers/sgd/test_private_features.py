"""Features that occur in one row only, merged to one a row."""

import numpy as np
import pytest
from scipy import sparse

from fastsvm import LinearSVC, SGDClassifier, SGDRegressor
from fastsvm.solvers.sgd.private_features import merged_features
from fastsvm.solvers.sgd.problem import LinearFunction
from fastsvm.sources import MemorySource


def rows_with_private_features(n=300, n_shared=30, n_private=5):
    rng = np.random.default_rng(0)
    shared = sparse.random_array((n, n_shared), density=0.1, rng=rng, data_sampler=rng.normal)
    rows, columns = np.repeat(np.arange(n), n_private), rng.permutation(n * n_private)
    private = sparse.csr_array((rng.normal(size=n * n_private), (rows, columns)))
    X = sparse.csr_array(sparse.hstack([private, shared, sparse.csr_array((n, 40))]))
    return X, (X[:, n * n_private :] @ rng.normal(size=n_shared + 40) > 0).astype(int)


def test_merged_rows_have_the_scores_and_norms_of_all_features():
    X, _ = rows_with_private_features()
    source, private = merged_features(MemorySource.of(X), 0.25)
    merged, coef = source.block.user_array(), np.random.default_rng(1).normal(size=(2, source.shape[1]))
    whole = private.whole(LinearFunction(coef, np.zeros(2))).coef
    np.testing.assert_allclose(X @ whole.T, merged @ coef.T, atol=1e-12)
    used = np.bincount(merged.indices, minlength=len(coef.T)) > 0
    np.testing.assert_allclose((whole**2).sum(), (coef[:, used] ** 2).sum())
    assert merged.shape[1] == 30 + 300


def test_rows_without_private_features_stay_as_they_are():
    X, _ = rows_with_private_features()
    assert merged_features(MemorySource.of(sparse.vstack([X, X]).tocsr()), 0.25) is None


def test_a_fit_with_merged_features_has_the_same_minimum_and_goes_on():
    X, y = rows_with_private_features()
    least = LinearSVC(loss="hinge", C=1 / (0.01 * 300), tol=1e-6).fit(X, y).objective_ * 0.01
    model = SGDClassifier("hinge", alpha=0.01, random_state=0, max_iter=300, tol=None).fit(X, y)
    assert least * (1 - 1e-6) <= model.objective_ <= least * 1.01
    margins = (2 * y - 1) * model.decision_function(X)
    mean_loss = np.maximum(0, 1 - margins).mean()
    assert model.objective_ == pytest.approx(mean_loss + 0.005 * (model.coef_**2).sum(), rel=1e-9)
    before = model.decision_function(X)
    model.partial_fit(X, y)
    assert model.coef_.shape == (1, X.shape[1])
    assert np.abs(model.decision_function(X) - before).max() < 0.2
    short = SGDClassifier("hinge", alpha=0.01, random_state=0, max_iter=1, tol=None)
    cold = short.fit(X, y).objective_
    assert short.fit(X, y, coef_init=model.coef_, intercept_init=model.intercept_).objective_ < cold


def test_a_regression_with_merged_features_stops_early():
    X, _ = rows_with_private_features()
    model = SGDRegressor(early_stopping=True, random_state=0).fit(X, X @ np.linspace(-1, 1, X.shape[1]))
    assert model.coef_.shape == (X.shape[1],)
    assert np.isfinite(model.objective_)
