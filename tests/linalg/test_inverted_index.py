"""Products of sparse rows: exact, and the same bits whatever rows are beside them."""

import numpy as np
import pytest
from scipy import sparse

from fastsvm import SVC
from fastsvm.linalg.inverted_index import invert, write_indexed_products
from fastsvm.sources import CSRBlock

rng = np.random.default_rng(5)


def rows(n, n_features, seed, dtype=np.float64, density=0.2):
    """Return rows of a few frequent features and many rare ones, some rows of none."""
    draw = np.random.default_rng(seed)
    there = draw.random((n, 90)) < density * 8 / np.arange(1, 91)
    there[::7] = False
    values = np.where(there, draw.normal(size=there.shape), 0)
    X = sparse.csr_matrix(values)
    columns = np.sort(np.random.default_rng(2).choice(n_features, 90, replace=False))
    kind = np.int32 if n_features < 2**31 else np.int64
    return CSRBlock(
        X.data.astype(dtype), columns[X.indices].astype(kind), X.indptr.astype(np.int64), n_features
    ), values


def products(left, right):
    out = np.full((left.shape[0], right.shape[0]), np.nan, left.data.dtype)
    write_indexed_products(right, invert(left), out)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [90, 1000, 800_000, 2**40])
def test_products(n_features, dtype):
    left, X = rows(53, n_features, 0, dtype)
    right, Z = rows(70, n_features, 1, dtype)
    found = products(left, right)
    np.testing.assert_allclose(found, X @ Z.T, rtol=0, atol=200 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(products(right, left), found.T)
    for a, b in ((0, 1), (5, 21), (6, 53)):
        np.testing.assert_array_equal(products(left.slice(a, b), right), found[a:b])
        np.testing.assert_array_equal(products(left, right.slice(a, b)), found[:, a:b])


def test_features_with_equal_hashes():
    """All of them are found, although each is where another one belongs."""
    kept = 2**20 * np.arange(500, dtype=np.int32)
    X = rng.normal(size=(4, 500))
    block = CSRBlock(X.ravel(), np.tile(kept, 4), np.arange(0, 2001, 500), 2**30)
    np.testing.assert_allclose(products(block, block), X @ X.T, rtol=0, atol=1e-11)


def test_zeros_that_are_stored():
    left, _ = rows(30, 5000, 0)
    right, _ = rows(30, 5000, 3)
    columns = np.unique(np.concatenate([left.indices, right.indices]))
    everywhere = np.zeros((30, len(columns)))
    everywhere[np.repeat(np.arange(30), np.diff(right.indptr)), np.searchsorted(columns, right.indices)] = right.data
    indptr = np.arange(31) * len(columns)
    stored = CSRBlock(everywhere.ravel(), np.tile(columns, 30), indptr, 5000)
    np.testing.assert_array_equal(products(left, stored), products(left, right))


def test_no_values():
    empty = CSRBlock(np.empty(0), np.empty(0, np.int32), np.zeros(4, np.int64), 90)
    some, _ = rows(20, 90, 0)
    assert (products(empty, some) == 0).all() and (products(some, empty) == 0).all()
    assert products(some.slice(0, 0), some).shape == (0, 20) and products(some, some.slice(0, 0)).shape == (20, 0)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_million_features_in_little_memory(kernel):
    """A row with all its zeros has eight megabytes."""
    columns = np.sort(rng.choice(10**6, 2000, replace=False)).astype(np.int32)
    narrow = sparse.random(300, 2000, 0.02, "csr", random_state=0)
    X = sparse.csr_matrix((narrow.data, columns[narrow.indices], narrow.indptr), shape=(300, 10**6))
    y = (narrow @ rng.normal(size=2000) > 0).astype(int)
    model = SVC(kernel=kernel, gamma=0.1, memory="48MB").fit(X, y)
    wanted = SVC(kernel=kernel, gamma=0.1).fit(narrow, y)
    assert model.objective_ == wanted.objective_  # the same products in the same order
    np.testing.assert_array_equal(model.decision_function(X), wanted.decision_function(narrow))
