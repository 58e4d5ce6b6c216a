import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier

import numpy as np
import pytest
import threadpoolctl
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm._compiled import threads
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.kernel import one_vs_one, prepare
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise, Rows, Uint8Pairwise, multiplies_bytes
from fastsvm.kernel_matrix.shared import ClassTile, PairGram, SharedKernel
from fastsvm.kernels import KERNELS, RBF
from fastsvm.multiclass import class_pairs, disjoint_order
from fastsvm.sources import as_source
from fastsvm.tuning import changed, tuned

SIZES = 19, 30, 1
GAMMA = 1e-6

needs_bytes = pytest.mark.skipif(not multiplies_bytes(70), reason="the processor does not multiply bytes")


@pytest.fixture(autouse=True)
def by_decomposition():
    with tuned(changed({"kernel": {"small": False}})):
        yield


def rows_of(k):
    return np.random.default_rng(k).integers(0, 256, (SIZES[k], 70), np.uint8)


def kernel(*parts):
    X = np.concatenate(parts).astype(np.float64)
    return np.exp(-GAMMA * ((X[:, None] - X[None]) ** 2).sum(axis=2))


class CountedTile(ClassTile):
    """Notes the rows that it computes."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.computed = []
        for name in ("rows", "rows_beside"):
            self._spy(name, getattr(self.gram, name))

    def _spy(self, name, compute):
        def spy(indices, *rest):
            self.computed += indices.tolist()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(self, "computed", [])  # one of them may call the other
                compute(indices, *rest)

        setattr(self.gram, name, spy)


def make_tile(k, pool, keep=True):
    kernel = KERNELS["rbf"](gamma=GAMMA)
    exact = multiplies_bytes(70)
    pairwise = Uint8Pairwise(kernel, np.float64) if exact else RealPairwise(kernel, np.float64, None, False)
    return CountedTile(pairwise, as_source(rows_of(k)), pool, keep)


@pytest.fixture
def pool():
    with Pool.open() as found:
        yield found


def ask(gram, wanted, seed, size=7):
    """Ask for all rows in random order, a few at a time, in random slots."""
    rng, n = np.random.default_rng(seed), len(gram)
    order, slots = rng.permutation(n), rng.permutation(n + 3)[:n]
    out, slot_of = np.full((n + 3, n), np.nan), np.full(n, -1)
    for a in range(0, n, size):
        gram.rows_beside(order[a : a + size], Rows(out, slots[a : a + size], 0), slot_of)
        slot_of[order[a : a + size]] = slots[a : a + size]
    np.testing.assert_allclose(out[slots], wanted[order], rtol=1e-12)
    assert np.isnan(np.delete(out, slots, axis=0)).all()


def check_fill(gram, wanted):
    n = len(gram)
    out = np.full((n, n), np.nan)
    gram.rows_beside(np.arange(n), Rows(out, np.arange(n), 0), np.full(n, -1))
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (0, 2), (2, 1)])
def test_rows_of_a_pair_are_those_of_the_stacked_classes(pair, keep, pool):
    wanted = kernel(*map(rows_of, pair))
    for seed in range(3):
        gram = PairGram(*(make_tile(k, pool, keep) for k in pair), pool)
        ask(gram, wanted, seed)
        ask(gram, wanted, seed + 9, size=1)
        check_fill(gram, wanted)
        ask(gram, wanted, seed)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (0, 2), (2, 1)])
def test_a_pair_filled_at_once_is_the_kernel_of_the_stacked_classes(pair, keep, pool):
    check_fill(PairGram(*(make_tile(k, pool, keep) for k in pair), pool), kernel(*map(rows_of, pair)))


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (2, 1)])
def test_weighted_sums_of_a_pair(pair, pool):
    K, rng = kernel(*map(rows_of, pair)), np.random.default_rng(0)
    gram = PairGram(*(make_tile(k, pool) for k in pair), pool)
    indices = rng.permutation(len(K))[: len(K) // 2]
    coef = rng.normal(size=len(indices))
    np.testing.assert_allclose(gram.weighted_sum(indices, coef), coef @ K[indices], rtol=0, atol=1e-12)
    assert np.array_equal(gram.weighted_sum(indices[:0], coef[:0]), np.zeros(len(K)))


def test_the_kernel_among_some_rows_of_a_pair(pool):
    K = kernel(rows_of(0), rows_of(1))
    gram, some = PairGram(make_tile(0, pool), make_tile(1, pool), pool), np.random.default_rng(0).permutation(len(K))
    out = np.zeros((9, 9))
    gram.among(some[:9], 4, out)
    np.testing.assert_allclose(out[4:], K[np.ix_(some[4:9], some[:9])], rtol=1e-12)
    assert not out[:4].any()


def test_a_shared_tile_computes_each_row_once(pool):
    tiles = [make_tile(k, pool) for k in range(3)]
    for seed, pair in enumerate([(0, 1), (0, 2), (1, 2)]):
        gram = PairGram(*(tiles[k] for k in pair), pool)
        ask(gram, kernel(*map(rows_of, pair)), seed)
        check_fill(gram, kernel(*map(rows_of, pair)))
    for tile in tiles:
        assert sorted(tile.computed) == list(range(len(tile)))


def test_a_tile_that_is_not_kept_computes_rows_again(pool):
    tiles = [make_tile(k, pool, keep=False) for k in (0, 1)]
    for seed in (0, 1):
        ask(PairGram(*tiles, pool), kernel(rows_of(0), rows_of(1)), seed)
    assert sorted(tiles[0].computed) == sorted(2 * list(range(SIZES[0])))


def test_a_tile_whose_computation_fails_gives_right_rows_later(pool):
    tiles = [make_tile(k, pool) for k in (0, 1)]
    gram, rows = PairGram(*tiles, pool), tiles[0].gram.rows_beside

    def fail(indices, out, slot_of):
        out.store[out.slots] = -1
        raise KeyboardInterrupt

    tiles[0].gram.rows_beside = fail
    with pytest.raises(KeyboardInterrupt):
        ask(gram, kernel(rows_of(0), rows_of(1)), 0)
    tiles[0].gram.rows_beside = rows
    ask(gram, kernel(rows_of(0), rows_of(1)), 0)


@pytest.mark.parametrize("keep", [True, False])
def test_threads_that_ask_at_once_get_the_right_rows(keep):
    alone, wanted = Pool(1), {pair: kernel(*map(rows_of, pair)) for pair in [(0, 1), (0, 2)]}
    for seed in range(10):
        tiles, together = [make_tile(k, alone, keep) for k in range(3)], Barrier(2)

        def work(pair, seed=seed, tiles=tiles, together=together):
            gram = PairGram(*(tiles[k] for k in pair), alone)
            together.wait()
            if seed % 3 == pair[1]:
                check_fill(gram, wanted[pair])
            ask(gram, wanted[pair], seed, size=1)

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(work, wanted))
        assert not keep or len(set(tiles[0].computed)) == SIZES[0]


def four_classes(n=240):
    rng = np.random.default_rng(4)
    y = rng.integers(0, 4, n)
    centres = rng.integers(90, 160, (4, 70))
    return np.clip(rng.normal(centres[y], 60), 0, 255).astype(np.uint8), y


def fit(**parameters):
    return SVC(**({"C": 2.0, "tol": 1e-5} | parameters)).fit(*four_classes())


@pytest.fixture
def spent(monkeypatch):
    """Share always; return the plans of all fits and let `change` alter them."""
    plans, change, whole = [], {}, prepare.plan

    def spy(*given):
        plans.append(whole(*given)._replace(**change))
        return plans[-1]

    monkeypatch.setattr(prepare, "plan", spy)
    spy.plans, spy.change = plans, change
    with tuned(changed({"kernel": {"shared_rows": 0}})):
        yield spy


@needs_bytes
def test_the_number_of_workers_does_not_change_a_bit(spent, monkeypatch):
    found = []
    for k in (1, 2):
        monkeypatch.setattr(threads, "thread_count", lambda k=k: k)
        found.append(fit())
    one, two = spent.plans
    assert (one.workers, two.workers) == (1, 2) and one.shared and two.shared
    for name in ("support_", "dual_coef_", "intercept_"):
        np.testing.assert_array_equal(*(getattr(model, name) for model in found))


@needs_bytes
@pytest.mark.parametrize("change", [{}, {"tile_bytes": 0}, {"tile_bytes": 40_000}, {"workers": 1}, {"workers": 3}])
@pytest.mark.parametrize("working_set", [None, 32])
def test_sharing_finds_the_same_optimum(working_set, change, spent, monkeypatch):
    made, whole = [], PairGram.__init__

    def spy(*given):
        made.append(given)
        whole(*given)

    monkeypatch.setattr(PairGram, "__init__", spy)
    spent.change.update(change, **({"working_set": working_set} if working_set else {}))
    shared = fit()
    assert spent.plans[0].shared
    assert len(made) == 6
    spent.change.clear()
    with tuned(changed({"kernel": {"shared_rows": 10**9}})):
        alone = fit()
    assert not spent.plans[1].shared
    assert len(made) == 6
    assert shared.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    np.testing.assert_allclose(shared.intercept_, alone.intercept_, rtol=0, atol=1e-4)


@needs_bytes
def test_any_memory_that_is_enough_finds_the_same_optimum(spent):
    wanted, kinds = fit().objective_, set()
    for memory in range(50_000, 3_000_000, 150_000):
        try:
            found = fit(memory=memory)
        except ValueError as error:
            assert "too little" in str(error)
            continue
        plan = spent.plans[-1]
        kinds.add((plan.shared, plan.workers > 1, plan.tile_bytes > 0))
        assert found.objective_ == pytest.approx(wanted, rel=1e-6)
    assert len(kinds) > 1


@needs_bytes
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("at", [1, 4])
def test_an_interrupt_in_a_worker_ends_the_fit(at, workers, spent, monkeypatch):
    calls, whole = [], one_vs_one.drive

    def interrupt(*given):
        calls.append(given)
        if len(calls) == at:
            raise KeyboardInterrupt
        return whole(*given)

    spent.change["workers"] = workers
    model = SVC().fit(*four_classes())
    monkeypatch.setattr(one_vs_one, "drive", interrupt)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = [library["num_threads"] for library in threadpoolctl.threadpool_info()]
        with pytest.raises(KeyboardInterrupt):
            model.fit(*four_classes())
        assert [library["num_threads"] for library in threadpoolctl.threadpool_info()] == before
    assert at <= len(calls) < 6
    assert len(model.predict(four_classes()[0])) > 0  # by the model of the fit before


@needs_bytes
@pytest.mark.parametrize("workers", [1, 2])
def test_time_that_is_up_is_told(workers, spent):
    spent.change["workers"] = workers
    with pytest.warns(ConvergenceWarning):
        model = fit(max_time=1e-9)
    assert model.stop_reason_ == "max_time"
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(max_time=1e3).stop_reason_ == "converged"


@pytest.mark.parametrize("n_classes", range(2, 13))
def test_the_order_of_pairs_has_all_of_them(n_classes):
    order = disjoint_order(class_pairs(n_classes))
    assert sorted(order) == list(range(n_classes * (n_classes - 1) // 2))


def test_neighbours_share_no_class_within_a_round():
    pairs = class_pairs(10)
    order = [pairs[k] for k in disjoint_order(pairs)]
    shared = [bool(set(a) & set(b)) for a, b in pairwise(order)]
    assert sum(shared) <= 10  # only where one of eleven rounds ends
    for (a, b), met in zip(pairwise(order), shared, strict=True):
        assert not (met and sum(a) % 11 == sum(b) % 11)


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
