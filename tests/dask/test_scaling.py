"""Features standardised over all shards: the model is that of the local estimator that standardises."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import fastsvm
import fastsvm.dask

pytestmark = pytest.mark.dask


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_model_is_that_of_the_local_estimator(client, digits, kind, tmp_path):
    X, y = digits[0] * np.arange(64) ** 2 + 5, digits[1]
    X[:, 7] = 3.0
    X[:150] += 1  # the shards differ
    weight = np.random.default_rng(0).integers(0, 4, 300).astype(float)
    if kind == "csr":
        X = sparse.csr_matrix(np.where(X > 20, X, 0))
    local = fastsvm.LinearSVC(standardize=True, C=1e-3, tol=1e-7, random_state=0, max_iter=10_000).fit(X, y, weight)
    rows = da.from_array(X, chunks=(100, 64), asarray=False)
    model = fastsvm.dask.LinearSVC(standardize=True, tol=1e-2, C=1e-3, random_state=0, n_shards=2, client=client)
    model.fit(rows, da.from_array(y, chunks=100), da.from_array(weight, chunks=100))
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-2)
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.2)
    fastsvm.save(model.to_local(), tmp_path / "a.model")
    np.testing.assert_array_equal(fastsvm.load(tmp_path / "a.model").predict(X), model.predict(X))


def test_a_fitted_scaler_is_applied_by_block(client, digits):
    X = digits[0]
    scaler = StandardScaler().fit(X)
    found = fastsvm.dask.transform(scaler, da.from_array(X, chunks=(100, 64)))
    assert found.shape == X.shape and found.chunks == ((100,) * 3, (64,))
    np.testing.assert_array_equal(found.compute(), scaler.transform(X))
