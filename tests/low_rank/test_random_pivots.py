"""Rows are drawn as by randomly pivoted Cholesky factorisation, one by one."""

import numpy as np
import pytest

from fastsvm._compiled.threads import Pool
from fastsvm.low_rank import RandomPivots


class Matrix:
    """A kernel matrix in memory, as `Gram` presents it."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def among(self, indices, first, out):
        out[first:] = self.values[np.ix_(indices[first:], indices)]

    def rows(self, indices, out, slots):
        out[slots] = self.values[indices]

    def diagonal(self):
        return self.values.diagonal()


@pytest.fixture(scope="module")
def pivots():
    """Return a function that draws rows; its threads are those of all draws."""
    with Pool.open() as pool:

        def drawn(K, weight, seed, n_rows):
            found = RandomPivots(Matrix(K), weight, np.random.RandomState(seed), pool)
            found.grow(n_rows // 2)
            found.grow(n_rows)
            return found

        yield drawn


def test_the_factor_is_that_of_the_rows_drawn(pivots):
    X = np.random.default_rng(0).normal(size=(300, 3))
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    found = pivots(K, np.ones(300), 0, 40)
    M = found.rows
    assert len(M) == len(set(M)) == 40
    nystrom = K[:, M] @ np.linalg.solve(K[np.ix_(M, M)], K[M])
    np.testing.assert_allclose(found._factor.T @ found._factor, nystrom, atol=1e-6)


def test_rows_far_from_the_others_are_drawn(pivots):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * 0.01
    X[-10:] = 5 * rng.normal(size=(10, 3))
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    assert set(range(290, 300)) < set(pivots(K, np.ones(300), 0, 20).rows)


def test_the_distribution_is_that_of_draws_one_by_one(pivots):
    A = np.random.default_rng(1).normal(size=(5, 4)) * [3, 1, 0.5, 0.2]
    K, weight = A @ A.T, np.array([1, 2, 0.5, 0, 1])
    expected = np.zeros((5, 5))
    first = weight * np.diag(K) / (weight @ np.diag(K))
    for i in np.flatnonzero(weight):
        left = weight * (np.diag(K) - K[i] ** 2 / K[i, i])
        left[i] = 0
        expected[i] = first[i] * left / left.sum()
    n, found = 2000, np.zeros((5, 5))
    for seed in range(n):
        found[tuple(pivots(K, weight, seed, 2).rows)] += 1
    used = expected > 0
    assert (found[~used] == 0).all()
    chi2 = ((found - n * expected) ** 2)[used] / (n * expected[used])
    assert chi2.sum() < 32  # of 11 degrees of freedom


def test_no_more_rows_are_drawn_than_the_rank(pivots):
    A = np.random.default_rng(2).normal(size=(50, 3))
    assert len(pivots(A @ A.T, np.ones(50), 0, 20).rows) == 3
