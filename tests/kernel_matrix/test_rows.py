from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise, Rows
from fastsvm.kernel_matrix.rows import RowCache, SharedKernel
from fastsvm.kernels import RBF
from fastsvm.sources import as_source

N = 12


class FakeGram:
    """Row i holds 100 i + column; asked for row `bad`, it fails half way."""

    resident, worth_filling = True, 0.5
    dtype = np.dtype(np.float32)

    def __init__(self, n=N):
        self.n = n
        self.bad = None
        self.computed = []

    def __len__(self):
        return self.n

    def rows_beside(self, indices, out, slot_of):
        assert (slot_of[indices] < 0).all()
        assert out.start == 0
        for row, slot in zip(indices, out.slots, strict=True):
            out.store[slot] = -1
            if row == self.bad:
                raise KeyboardInterrupt
            self.computed.append(int(row))
            out.store[slot] = wanted(row, self.n)


def wanted(row, n=N):
    return 100 * row + np.arange(n)


def make(n_slots, gram=None):
    return RowCache(gram or FakeGram(), np.empty(n_slots * N * 4, np.uint8))


def check(cache, rows):
    rows = np.asarray(rows, dtype=np.int64)
    slots = cache.fetch(rows)
    assert len(set(slots)) == len(rows)
    for row, slot in zip(rows, slots, strict=True):
        np.testing.assert_array_equal(cache.store[slot], wanted(row))


def check_all(cache):
    """Every row that the cache says it holds is right."""
    held = np.flatnonzero(cache.slots_of(np.arange(N)) >= 0)
    assert len(held) <= cache.n_slots
    if len(held):
        check(cache, held)


batches = st.lists(st.lists(st.integers(0, N - 1), unique=True, max_size=N), max_size=20)


@given(n_slots=st.integers(1, N), order=batches)
def test_any_order_gives_the_right_rows(n_slots, order):
    cache = make(n_slots)
    for rows in order:
        check(cache, rows[:n_slots])
    check_all(cache)


@given(n_slots=st.integers(1, N), order=st.lists(st.integers(0, N - 1), max_size=60))
def test_single_rows_go_in_the_order_of_their_last_use(n_slots, order):
    gram = FakeGram()
    cache = make(n_slots, gram)
    model, computed = OrderedDict(), []
    for row in order:
        cache.fetch(np.array([row]))
        if row not in model:
            computed.append(row)
            if len(model) == n_slots:
                model.popitem(last=False)
        model[row] = True
        model.move_to_end(row)
        assert set(np.flatnonzero(cache.slots_of(np.arange(N)) >= 0)) == set(model)
    assert gram.computed == computed


@given(n_slots=st.integers(1, N), order=batches)
def test_no_row_is_dropped_while_an_older_one_stays(n_slots, order):
    cache = make(n_slots)
    last_use = dict.fromkeys(range(N), -1)
    for time, batch in enumerate(order):
        rows = batch[:n_slots]
        before = set(np.flatnonzero(cache.slots_of(np.arange(N)) >= 0))
        cache.fetch(np.array(rows, dtype=np.int64))
        last_use |= dict.fromkeys(rows, time)
        after = set(np.flatnonzero(cache.slots_of(np.arange(N)) >= 0))
        assert set(rows) <= after
        oldest_kept = min((last_use[row] for row in before & after), default=time)
        assert all(last_use[row] <= oldest_kept for row in before - after)
        assert len(after) == min(n_slots, len(before | after))


def test_counts():
    cache = make(3)
    for rows in ([0, 1], [1, 2], [0, 1, 2], [3], [3, 1]):
        cache.fetch(np.array(rows))
    assert cache.counts.rows_computed == 4
    assert cache.counts.hits == 6


def test_nothing_is_dropped_when_every_row_fits():
    gram = FakeGram()
    cache = make(N, gram)
    for row in [*range(N), *range(N)]:
        cache.fetch(np.array([row]))
    assert gram.computed == list(range(N))


def test_there_are_never_more_slots_than_rows():
    assert make(5 * N).n_slots == N


def test_too_many_rows_at_once():
    cache = make(3)
    with pytest.raises(ValueError, match="4 kernel rows are needed at once, 3 fit"):
        cache.fetch(np.arange(4))
    check_all(cache)


def test_fetching_nothing():
    assert len(make(3).fetch(np.empty(0, np.int64))) == 0


def test_one_arena_serves_caches_of_any_type():
    arena = np.empty(3 * N * 8 + 5, np.uint8)
    for dtype, n_slots in ((np.float64, 3), (np.float32, 6)):
        gram = FakeGram()
        gram.dtype = np.dtype(dtype)
        cache = RowCache(gram, arena)
        assert cache.n_slots == n_slots
        check(cache, [2, 1])


@given(n_slots=st.integers(2, N), order=batches, bad=st.integers(0, N - 1), when=st.integers(0, 20))
def test_a_failure_leaves_only_right_rows(n_slots, order, bad, when):
    gram = FakeGram()
    cache = make(n_slots, gram)
    for time, rows in enumerate(order):
        gram.bad = bad if time == when else None
        try:
            check(cache, rows[:n_slots])
        except KeyboardInterrupt:
            assert cache.slots_of(np.array([bad]))[0] < 0
    gram.bad = None
    check_all(cache)
    check(cache, np.arange(n_slots))
    assert (cache.slots_of(np.arange(n_slots)) >= 0).all()


def test_all_rows_at_once():
    cache = make(N)
    cache.fetch(np.array([4, 2]))
    assert cache.worth_filling == 0.5
    cache.fill()
    slots = cache.fetch(np.arange(N))
    np.testing.assert_array_equal(cache.store[slots], [wanted(row) for row in range(N)])
    assert cache.counts == (N, N)
    assert cache.counts.rows_computed == N


def test_all_rows_are_not_worth_it_where_they_do_not_fit_or_are_read_from_a_file():
    assert make(N - 1).worth_filling > 1
    stored = FakeGram()
    stored.resident = False
    assert make(N, stored).worth_filling > 1


@pytest.mark.parametrize("n_slots", [1, 7, 30])
def test_a_part_is_the_kernel_among_its_rows(n_slots):
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(30, 3)), rng.permutation(30)[:12]
    K = np.exp(-0.5 * ((X[rows][:, None] - X[rows]) ** 2).sum(axis=2))
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.5), np.float64, None, False), as_source(X), pool)
        shared = SharedKernel(gram, np.empty(n_slots * 30 * 8, np.uint8), np.arange(30))
        part = shared.part(rows)
        out, some = np.zeros((12, 12)), rng.permutation(12)[:8]
        part.rows_beside(some, Rows(out, some, 0), np.full(12, -1))
        np.testing.assert_allclose(out[some], K[some], rtol=1e-12)
        square = np.zeros((8, 8))
        part.among(some, 3, square)
        np.testing.assert_allclose(square[3:], K[np.ix_(some[3:], some)], rtol=1e-12)
        assert not square[:3].any()
        coef = rng.normal(size=8)
        np.testing.assert_allclose(part.weighted_sum(some, coef), coef @ K[some], atol=1e-12)
        np.testing.assert_allclose(part.weighted_sum(some, coef, some[:2]), coef @ K[some][:, some[:2]], atol=1e-12)
