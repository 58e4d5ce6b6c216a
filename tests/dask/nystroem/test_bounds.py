"""Bounds of the optimum of the kernel problem, from shards on workers."""

import dask.array as da
import numpy as np
import pytest
from sklearn.datasets import load_digits

import fastsvm
import fastsvm.dask

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def rows():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400] % 2


@pytest.fixture(scope="module")
def optimum(rows):
    """Return the optimum of the kernel problem, whose kernel is K + 1 without an intercept."""
    X, y = rows
    K = np.exp(-0.002 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) + 1
    return fastsvm.SVC(C=2.0, kernel="precomputed", solver="coordinate", fit_intercept=False, tol=1e-6).fit(K, y)


def made(client, X, n_shards, **given):
    given = {"C": 2.0, "gamma": 0.002, "landmarks": X[:40], "tol": 1e-4, "bounds": True, "random_state": 0} | given
    return fastsvm.dask.NystroemSVC(n_shards=n_shards, client=client, **given)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_bounds_hold_the_optimum_and_are_those_of_one_machine(client, rows, optimum, n_shards):
    X, y = rows
    blocks = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    model = made(client, X, n_shards).fit(*blocks)
    lower, upper = model.exact_bounds_
    assert model.to_local().exact_bounds_ == model.exact_bounds_
    assert 0 < lower <= optimum.objective_ and upper >= optimum.objective_ * (1 - 1e-6)
    local = fastsvm.NystroemSVC(C=2.0, gamma=0.002, landmarks=X[:40], tol=1e-4, bounds=True, random_state=0).fit(X, y)
    assert model.exact_bounds_ == pytest.approx(local.exact_bounds_, rel=5e-3)


def test_little_memory_is_enough(client, rows, optimum):
    X, y = rows
    blocks = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    model = made(client, X, 3, memory=1 << 16).fit(*blocks)  # for a few rows at a time
    assert 0 < model.exact_bounds_[0] <= optimum.objective_


def test_there_are_no_bounds_unless_they_are_wanted(client, rows):
    X, y = rows
    blocks = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    assert not hasattr(made(client, X, 2, bounds=False).fit(*blocks), "exact_bounds_")
    with pytest.raises(ValueError, match="'bounds' parameter"):
        made(client, X, 2, bounds="tight").fit(*blocks)
