"""Predictions and scores of fitted models for collections of Dask."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import fastsvm
from fastsvm.dask import decision_function, predict, score, transform

pytestmark = pytest.mark.dask


def test_a_kernel_machine_by_blocks(client, digits):
    X, y = digits
    model = fastsvm.SVC().fit(X, y)
    rows = da.from_array(X, chunks=(90, 30))
    np.testing.assert_array_equal(predict(model, rows).compute(), model.predict(X))
    np.testing.assert_array_equal(decision_function(model, rows).compute(), model.decision_function(X))
    weight = np.arange(300.0)
    assert score(model, rows, y, da.from_array(weight, 200)) == pytest.approx(model.score(X, y, weight), rel=1e-12)
    assert score(model, X, y) == model.score(X, y)


def test_a_regression_of_sparse_blocks_of_unknown_lengths(client, line):
    X, y = line
    model = fastsvm.LinearSVR(C=10, random_state=0).fit(X, y)
    blocks = da.from_array(X, chunks=(100, 5)).map_blocks(sparse.csr_matrix)
    few = da.from_array(X, chunks=(100, 5))[da.from_array(y > 0, chunks=100)]
    assert score(model, blocks, y) == pytest.approx(model.score(X, y), rel=1e-9)
    np.testing.assert_allclose(predict(model, few).compute(), model.predict(X[y > 0]))
    with pytest.raises(ValueError, match="expecting 5 features"):
        predict(model, blocks[:, :4])
    with pytest.raises(ValueError, match="score needs y"):
        score(model, blocks)


def test_a_dataframe(client, digits):
    frame = pytest.importorskip("dask.dataframe")
    X = pd.DataFrame(digits[0], columns=[f"p{k}" for k in range(64)])
    model = fastsvm.LinearSVC(random_state=0).fit(X, digits[1])
    rows = frame.from_pandas(X, npartitions=3)
    np.testing.assert_array_equal(predict(model, rows).compute(), model.predict(X))


def test_a_fitted_scaler_is_applied_by_block(client, digits):
    X = digits[0]
    scaler = StandardScaler().fit(X)
    found = transform(scaler, da.from_array(X, chunks=(100, 64)))
    assert found.shape == X.shape and found.chunks == ((100,) * 3, (64,))
    np.testing.assert_array_equal(found.compute(), scaler.transform(X))
