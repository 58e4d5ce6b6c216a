import numpy as np
import pytest
from kernel_rows import cache, distinct_kernel

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import SPAN, RealPairwise
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.kernels import RBF
from fastsvm.solvers.kernel_dual import working_sets as module
from fastsvm.solvers.kernel_dual.working_sets import WorkingBlock
from fastsvm.sources import MemorySource


def working_sets(rng, n, count):
    """Yield random working sets, most of which begin with all or some of the newer half of the last."""
    last = np.empty(0, np.int64)
    for _ in range(count):
        retained = last[len(last) // 2 :]
        retained = retained[: rng.choice([0, len(retained) // 2, len(retained)])]
        others = rng.permutation(np.setdiff1d(np.arange(n), retained))
        size = rng.choice([len(last), rng.integers(2, n)]) if len(last) else 20
        last = np.concatenate([retained, others])[: max(2, size)]
        yield last


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_the_block_is_the_kernel_among_the_chosen(seed, dtype, monkeypatch):
    counts, complete = [], module._complete
    monkeypatch.setattr(module, "_complete", lambda *given: (counts.append(given[3]), complete(*given)))
    n, rng = 3 * SPAN, np.random.default_rng(seed)  # several pieces, on threads
    K = distinct_kernel(n, dtype)
    with Pool.open() as pool:
        rows = cache(K, pool, n - 1)
        block = WorkingBlock(rows, pool)
        for chosen in working_sets(rng, n, 30):
            found = block.of(chosen, rows.fetch(chosen))
            np.testing.assert_array_equal(found, K[np.ix_(chosen, chosen)])
    assert len(set(counts)) > 5  # halves were moved, of several lengths


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_that_is_cheap_to_compute_is_not_gathered(dtype, monkeypatch):
    monkeypatch.setattr(module, "_gather", None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.3), dtype, None, False), MemorySource.of(X), pool)
        assert gram.cheap
        rows = RowCache(gram, np.empty(60 * 60 * 8, np.uint8))
        wanted = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
        n = len(wanted)
        block = WorkingBlock(rows, pool)
        for chosen in working_sets(rng, n, 30):
            found = block.of(chosen, rows.fetch(chosen))
            np.testing.assert_allclose(found, wanted[np.ix_(chosen, chosen)], rtol=0, atol=4 * np.finfo(dtype).eps)


def test_the_block_after_one_that_was_interrupted(monkeypatch):
    K, whole = distinct_kernel(30), module._complete

    def interrupted(*given):
        raise KeyboardInterrupt

    with Pool.open() as pool:
        rows = cache(K, pool, 20)
        block = WorkingBlock(rows, pool)
        first, second, third = np.arange(10), np.arange(5, 15), np.arange(10, 20)
        block.of(first, rows.fetch(first))
        monkeypatch.setattr(module, "_complete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            block.of(second, rows.fetch(second))
        monkeypatch.setattr(module, "_complete", whole)
        for chosen in (second, third, np.arange(15, 25)):
            found = block.of(chosen, rows.fetch(chosen))
            np.testing.assert_array_equal(found, K[np.ix_(chosen, chosen)])


@pytest.mark.parametrize("first", [np.arange(15), np.arange(7), np.array([9, 3])])
def test_the_block_of_all_rows_whatever_slots_they_are_in(first):
    K, everything = distinct_kernel(15), np.arange(15)
    with Pool.open() as pool:
        rows = cache(K, pool, 15)
        block = WorkingBlock(rows, pool)
        rows.fetch(first)
        for _ in range(2):
            np.testing.assert_array_equal(block.of(everything, rows.fetch(everything)), K)


def test_the_block_of_all_rows_in_another_order():
    K, chosen = distinct_kernel(15), np.arange(15)[::-1].copy()
    with Pool.open() as pool:
        rows = cache(K, pool, 15)
        block = WorkingBlock(rows, pool)
        rows.fetch(np.arange(15))
        np.testing.assert_array_equal(block.of(chosen, rows.fetch(chosen)), K[::-1, ::-1])
