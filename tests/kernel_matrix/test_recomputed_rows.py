"""Kernel rows that are not stored, and sums of them."""

import numpy as np
import pytest
from grams import GAMMA, LAYOUTS, all_rows, byte_gram, float_gram, float_rows, squared_distances

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.rows import RecomputedRows
from fastsvm.tuning import changed, tuned

N, MANY = 341, 1900


@pytest.fixture(params=["whole", "parts"])
def parts(request, monkeypatch):
    """Operands and tasks are smaller than the rows, or not."""
    if request.param == "whole":
        yield
        return
    monkeypatch.setattr(RealPairwise, "row_bytes", lambda self, rows: 1 << 60)  # 16 rows of an operand
    with tuned(changed({"kernel": {"task_ns": 0.0}})):
        yield


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(
    ("layout", "dtype", "count"),
    [(layout, dtype, count)
     for i, layout in enumerate(LAYOUTS)
     for j, dtype in enumerate([np.float32, np.float64])
     for k, count in enumerate([0, 1, 7, 200, 1100]) if (i + j + k) % 2 == 0],
)  # fmt: skip
def test_rows_are_added_to_sums(layout, dtype, count):
    X, rng = float_rows(MANY), np.random.default_rng(count)
    rows, coef, before = rng.permutation(MANY)[:count], rng.normal(size=count), rng.normal(size=MANY)
    sums = before.copy()
    with Pool.open() as pool:
        kernel = RecomputedRows(float_gram(X, pool, layout, dtype))
        kernel.add(sums, rows, coef, pool)
    wanted = before + np.exp(-GAMMA * squared_distances(X, X[rows])) @ coef
    np.testing.assert_allclose(sums, wanted, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-5)
    assert kernel.counts == (0, count)


def test_sums_are_those_of_the_rows_that_a_cache_would_store():
    X, rng = np.random.default_rng(1).integers(0, 256, (N, 70), np.uint8), np.random.default_rng(2)
    rows, coef, sums = rng.permutation(N)[:90], rng.normal(size=90), np.zeros(N)
    with Pool.open() as pool:
        gram = byte_gram(X, pool)
        RecomputedRows(gram).add(sums, rows, coef, pool)
        np.testing.assert_allclose(sums, coef @ all_rows(gram)[rows].astype(float), rtol=0, atol=1e-13)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(
    ("layout", "count"), [(list(LAYOUTS)[i % 2], count) for i, count in enumerate([1, 255, 256, 257, 1100])]
)
def test_sums_at_the_rows_themselves(layout, count):
    """Each value is computed for both its rows."""
    X, rng = float_rows(MANY), np.random.default_rng(count)
    rows, coef = rng.permutation(MANY)[:count], rng.normal(size=count)
    with Pool.open() as pool:
        found = RecomputedRows(float_gram(X, pool, layout, np.float32)).weighted_sum(rows, coef, rows)
    wanted = np.exp(-GAMMA * squared_distances(X[rows], X[rows])) @ coef
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def test_nothing_is_cached():
    with Pool.open() as pool:
        kernel = RecomputedRows(float_gram(float_rows(20), pool))
        rows = np.array([3, 19, 0])
        np.testing.assert_array_equal(kernel.fetch(rows), rows)
        assert (kernel.slots_of(rows) < 0).all() and kernel.store.size == 0
        kernel.add(np.zeros(20), rows, np.ones(3), pool)
        again = RecomputedRows(float_gram(float_rows(20), pool))
        again.refill(kernel.contents())
        assert again.counts == kernel.counts == (0, 3)
