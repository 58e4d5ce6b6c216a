import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import problem

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PrecomputedPairwise, RealPairwise
from fastsvm.kernel_matrix.row_cache import RowCache
from fastsvm.kernels import RBF
from fastsvm.solvers.kernel_dual import active_set, decomposition, gram_block
from fastsvm.solvers.kernel_dual.active_set import ActiveSet
from fastsvm.solvers.kernel_dual.decomposition import KernelProblem
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.kernel_dual.working_set import bounds, select, settled
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource

NO_LIMITS = Limits(10**6, np.inf)


def cache(K, n_slots, pool):
    """Return a cache of `n_slots` rows of a kernel matrix, in its type."""
    pairwise = PrecomputedPairwise(np.arange(len(K)))
    pairwise.dtype = K.dtype
    return RowCache(Gram(pairwise, MemorySource.of(K), pool), np.empty(n_slots * len(K) * K.itemsize, np.uint8))


def solve(K, y, upper, capacity, tol=1e-8, size=16, n_slots=None, alpha=None, limits=NO_LIMITS, seen=None):
    """Return the solution, why it ended, and the number of pair steps; all of them on the whole if capacity is 0."""
    with Pool.open() as pool:
        rows = cache(K, n_slots or len(y), pool)
        active = ActiveSet(capacity, rows, pool) if capacity else None
        solver = SMO(KernelProblem(y, upper), rows, tol, size, pool, active)

        def watch(state, report):
            if seen is not None:
                seen.append(report)
            return False

        state, reason, n_steps = drive(solver, solver.init(alpha), limits, watch)
    assert active is None or len(active.rows)  # it was made use of
    return solver.finish(state), reason, n_steps


def check(solution, reason, K, y, upper, tol=1e-8, wanted=None):
    """The solution is feasible, and a computation from scratch finds it as good as its certificate says."""
    assert reason is StopReason.CONVERGED
    K, alpha = K.astype(float), solution.alpha
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    assert abs(alpha @ y) <= 1e-11 * upper.max() * len(y)
    violation, objective = naive.kkt_violation(K, y, upper, alpha), naive.dual_objective(K, y, alpha)
    scale = max(1.0, abs(objective))
    assert violation <= tol + 1e-10
    assert solution.kkt_violation == pytest.approx(violation, abs=1e-10 * scale)
    assert solution.objective == pytest.approx(objective, abs=1e-10 * scale)
    if wanted is not None:
        assert objective == pytest.approx(wanted, rel=1e-6)


@pytest.fixture
def at_once(monkeypatch):
    """Pair steps are taken in the active set from the first."""
    monkeypatch.setattr(decomposition, "_SETS_BEFORE_ACTIVE", 0)


# --- the set ---------------------------------------------------------------------------------------------


def kernel(n, dtype=np.float64, seed=0):
    """Return a symmetric matrix of values that all differ."""
    K = np.random.default_rng(seed).permutation(n * n).reshape(n, n).astype(dtype)
    return np.maximum(K, K.T)


def admissions(K, capacity, seed, count=15):
    """Admit random rows `count` times, and yield each time what there was, what was passed, and what there is."""
    rng = np.random.default_rng(seed)
    with Pool.open() as pool:
        active = ActiveSet(capacity, cache(K, 1, pool), pool)
        for _ in range(count):
            before = active.rows.copy()
            outside = np.setdiff1d(np.arange(len(K)), before)
            most = min(capacity, len(outside))
            entering = rng.permutation(outside)[: rng.integers(1, most + 1)]
            slots = rng.permutation(len(entering) + 3)[: len(entering)]
            store = np.full((len(entering) + 3, len(K)), np.nan, K.dtype)
            store[slots] = K[entering]
            slack = rng.choice([-np.inf, 0.5, 1.0, 2.0], len(before))
            places = active.admit(entering, slots, store, slack)
            yield before, entering, slack, places, active


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("capacity", [1, 2, 7, 23, 40])
def test_the_square_is_the_kernel_among_the_rows(capacity, dtype, monkeypatch):
    monkeypatch.setattr(active_set, "_GATHERED_ROWS", 5)  # several pieces, on threads
    K, n_replaced = kernel(60, dtype), 0
    for before, entering, _, places, active in admissions(K, capacity, seed=capacity):
        rows, n = active.rows, active.n_slots
        assert n == len(rows) == len(set(rows)) == min(capacity, len(before) + len(entering))
        np.testing.assert_array_equal(rows[places], entering)
        np.testing.assert_array_equal(active.store[:n, :n], K[np.ix_(rows, rows)])
        kept = np.setdiff1d(np.arange(len(before)), places)
        np.testing.assert_array_equal(rows[kept], before[kept])
        n_replaced += len(before) - len(kept)
    assert n_replaced > capacity


@pytest.mark.parametrize("seed", range(5))
def test_the_rows_of_largest_slack_leave_first_then_the_oldest(seed):
    entered = {}
    for time, (before, entering, slack, _, active) in enumerate(admissions(kernel(40), 9, seed, count=40)):
        order = {row: (-distance, entered[row]) for row, distance in zip(before, slack, strict=True)}
        left = set(before) - set(active.rows)
        assert len(left) == max(0, len(before) + len(entering) - 9)
        assert sorted(order[row] for row in left) == sorted(order.values())[: len(left)]
        entered |= dict.fromkeys(entering, time)


def test_of_rows_that_can_move_the_oldest_leaves():
    K = kernel(8)
    with Pool.open() as pool:
        active = ActiveSet(3, cache(K, 1, pool), pool)
        for row, slack, wanted in [
            (5, [], [5]),
            (2, [-np.inf], [5, 2]),
            (7, [-np.inf] * 2, [5, 2, 7]),
            (0, [-np.inf, -np.inf, 0.1], [5, 2, 0]),  # 7 could not move
            (1, [-np.inf] * 3, [1, 2, 0]),
            (6, [-np.inf] * 3, [1, 6, 0]),
            (3, [0.2, 0.1, 0.3], [1, 6, 3]),
        ]:
            active.admit(np.array([row]), np.array([row]), K, np.array(slack))
            assert list(active.rows) == wanted


def test_places_are_slots_and_all_are_at_hand():
    with Pool.open() as pool:
        active = ActiveSet(4, cache(kernel(4), 1, pool), pool)
    places = np.array([3, 0, 2])
    np.testing.assert_array_equal(active.fetch(places), places)
    assert active.cached(places).all()


# --- the solution ----------------------------------------------------------------------------------------

CAPACITIES = [(4, 2), (4, 4), (5, 2), (8, 4), (20, 8), (59, 16), (60, 16), (90, 16)]  # with working sets


@pytest.mark.parametrize("inner_size", [8, 1024])
@pytest.mark.parametrize(("capacity", "size"), CAPACITIES)
def test_the_solution_is_that_of_a_general_solver(capacity, size, inner_size, at_once, monkeypatch, quadratic):
    monkeypatch.setattr(decomposition, "INNER_SIZE", inner_size)
    for K, y, upper, objective in quadratic:
        solution, reason, _ = solve(K, y, upper, capacity, size=size)
        check(solution, reason, K, y, upper, wanted=objective)


@pytest.fixture(scope="module")
def quadratic():
    """Return problems, some with a bound for each row, and the objectives that a general solver reaches."""
    found = []
    for seed, C in enumerate([0.1, 1.0, 10.0]):
        K, y, upper = problem(seed, 60, C=C)
        upper = upper * np.random.default_rng(seed).choice([0.5, 1.0, 2.0], 60)
        found.append((K, y, upper, naive.solve_dual(K, y, upper)[2]))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize(("n", "capacity", "size"), [(33, 10, 4), (250, 60, 16), (250, 249, 64), (250, 400, 64)])
def test_the_solution_is_that_without_an_active_set(n, capacity, size, C, dtype, at_once, monkeypatch):
    monkeypatch.setattr(decomposition, "INNER_SIZE", 24)
    K, y, upper = problem(n, n, C=C)
    K, upper = K.astype(dtype), upper * np.random.default_rng(n).choice([0.1, 1.0, 3.0], n)
    tol = 1e-8 if dtype == np.float64 else 1e-4
    wanted = solve(K, y, upper, 0, tol)[0].objective
    solution, reason, _ = solve(K, y, upper, capacity, tol, size)
    check(solution, reason, K, y, upper, tol, wanted)


@pytest.mark.parametrize("n_slots", [2, 7, 30])
def test_a_cache_of_fewer_rows_than_the_active_set(n_slots, at_once):
    K, y, upper = problem(5, 150)
    solution, reason, _ = solve(K, y, upper, 40, n_slots=n_slots)
    check(solution, reason, K, y, upper, wanted=solve(K, y, upper, 0)[0].objective)


@pytest.mark.parametrize("n_sets", [1, 3, 6])
def test_an_active_set_that_begins_later(n_sets, monkeypatch):
    monkeypatch.setattr(decomposition, "_SETS_BEFORE_ACTIVE", n_sets)
    K, y, upper = problem(6, 150)
    solution, reason, _ = solve(K, y, upper, 40)
    check(solution, reason, K, y, upper, wanted=solve(K, y, upper, 0)[0].objective)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    size=st.integers(2, 20),
    more=st.integers(0, 50),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
    gamma=st.sampled_from([1e-3, 0.5, 50.0]),
    by_label=st.booleans(),
)
def test_any_problem(seed, n, size, more, C, gamma, by_label):
    K, y, upper = problem(seed, n, gamma, C)
    upper = upper * np.random.default_rng(seed).choice([0.5, 1.0, 2.0], n)
    if by_label:
        order = np.argsort(y)
        K, y, upper = np.ascontiguousarray(K[np.ix_(order, order)]), y[order], upper[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decomposition, "_SETS_BEFORE_ACTIVE", 0)
        patch.setattr(decomposition, "INNER_SIZE", 8)
        solution, reason, _ = solve(K, y, upper, size + more, 1e-6, size)
    check(solution, reason, K, y, upper, 1e-6)


@pytest.mark.parametrize("capacity", [4, 30])
def test_repeated_rows(capacity, at_once):
    K, y, upper = problem(7, 30)
    many = np.repeat(np.arange(30), 5)
    wanted = solve(K, y, 5 * upper, 0)[0].objective
    K, y, upper = np.ascontiguousarray(K[np.ix_(many, many)]), y[many], upper[many]
    solution, reason, _ = solve(K, y, upper, capacity, size=4)
    check(solution, reason, K, y, upper, wanted=wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize(("slope", "offset"), [(0.3, 0.0), (1.0, -1.0), (1.0, -2.0)])
def test_indefinite_kernels_end_where_nothing_violates(slope, offset, C, dtype, at_once, monkeypatch):
    monkeypatch.setattr(decomposition, "INNER_SIZE", 16)
    rng = np.random.default_rng(8)
    X = rng.normal(size=(120, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0, 1.0, -1.0)
    K = np.tanh(slope * X @ X.T + offset)
    K = ((K + K.T) / 2).astype(dtype)
    assert np.linalg.eigvalsh(K)[0] < -0.1
    for capacity, size in [(4, 4), (16, 8), (60, 16), (200, 16)]:
        solution, reason, _ = solve(K, y, np.full(120, C), capacity, 1e-3, size)
        check(solution, reason, K, y, np.full(120, C), 1e-3)


def test_any_beginning_leads_to_the_same_end(at_once):
    K, y, upper = problem(9, 100)
    wanted = solve(K, y, upper, 0)[0].objective
    for seed in range(5):
        begin = np.random.default_rng(seed).uniform(-1, 2, 100)
        solution, reason, _ = solve(K, y, upper, 30, alpha=begin)
        check(solution, reason, K, y, upper, wanted=wanted)


@pytest.mark.parametrize("most", [1, 7, 50, 333])
def test_the_number_of_steps_is_limited(most, at_once, monkeypatch):
    monkeypatch.setattr(decomposition, "INNER_SIZE", 8)
    K, y, upper = problem(10, 150, C=100.0)
    solution, reason, n_steps = solve(K, y, upper, 40, limits=Limits(most, np.inf))
    assert (reason, n_steps) == (StopReason.MAX_ITER, most)
    violation = naive.kkt_violation(K, y, upper, solution.alpha)
    assert solution.kkt_violation == pytest.approx(violation, abs=1e-10)
    assert violation > 1e-3


def test_the_objective_never_falls_and_each_gap_is_true(at_once, monkeypatch):
    monkeypatch.setattr(decomposition, "INNER_SIZE", 8)
    K, y, upper = problem(11, 150, C=100.0)
    seen = []
    solve(K, y, upper, 20, size=8, seen=seen)
    values = [report.objective for report in seen]
    assert len(values) > 10
    assert np.diff(values).min() >= -1e-9 * max(values)
    for most in np.cumsum([report.n_steps for report in seen])[:10]:
        solution = solve(K, y, upper, 20, size=8, limits=Limits(int(most), np.inf))[0]
        assert solution.objective == pytest.approx(naive.dual_objective(K, y, solution.alpha), rel=1e-10)


# --- the block of a working set --------------------------------------------------------------------------


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
    monkeypatch.setattr(gram_block, "_GATHERED_ROWS", 7)  # several pieces, on threads
    counts, complete = [], gram_block._complete
    monkeypatch.setattr(gram_block, "_complete", lambda *given: (counts.append(given[3]), complete(*given)))
    K, rng = kernel(60, dtype), np.random.default_rng(seed)
    with Pool.open() as pool:
        solver = SMO(KernelProblem(np.ones(60), np.ones(60)), cache(K, 59, pool), 1e-3, 20, pool)
        for chosen in working_sets(rng, 60, 60):
            block = solver._block.of(chosen, solver.rows.fetch(chosen))
            np.testing.assert_array_equal(block, K[np.ix_(chosen, chosen)])
    assert len(set(counts)) > 5  # halves were moved, of several lengths


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("within", [False, True])
def test_a_block_that_is_cheap_to_compute_is_not_gathered(dtype, within, monkeypatch):
    monkeypatch.setattr(gram_block, "_gather", None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.3), dtype, None, False), MemorySource.of(X), pool)
        assert gram.cheap_among
        rows = RowCache(gram, np.empty(60 * 60 * 8, np.uint8))
        wanted = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
        if within:
            active = ActiveSet(41, rows, pool)
            entering = rng.permutation(60)[:41]
            active.admit(entering, rows.fetch(entering), rows.store, np.empty(0))
            rows, wanted = active, wanted[np.ix_(entering, entering)]
        n = len(wanted)
        solver = SMO(KernelProblem(np.ones(n), np.ones(n)), rows, 1e-3, 20, pool)
        for chosen in working_sets(rng, n, 30):
            block = solver._block.of(chosen, rows.fetch(chosen))
            np.testing.assert_allclose(block, wanted[np.ix_(chosen, chosen)], rtol=0, atol=4 * np.finfo(dtype).eps)


def test_the_block_among_all_rows_of_an_active_set():
    K = kernel(40)
    with Pool.open() as pool:
        active = ActiveSet(12, cache(K, 1, pool), pool)
        active.admit(np.arange(5, 17), np.arange(5, 17), K, np.empty(0))
        solver = SMO(KernelProblem(np.ones(12), np.ones(12)), active, 1e-3, 12, pool)
        for places in (np.arange(12), np.arange(1, 12), np.arange(12)):
            wanted = K[np.ix_(places + 5, places + 5)]
            np.testing.assert_array_equal(solver._block.of(places, active.fetch(places)), wanted)


def test_the_block_after_one_that_was_interrupted(monkeypatch):
    K, whole = kernel(30), gram_block._complete

    def interrupted(*given):
        raise KeyboardInterrupt

    with Pool.open() as pool:
        solver = SMO(KernelProblem(np.ones(30), np.ones(30)), cache(K, 20, pool), 1e-3, 10, pool)
        first, second, third = np.arange(10), np.arange(5, 15), np.arange(10, 20)
        solver._block.of(first, solver.rows.fetch(first))
        monkeypatch.setattr(gram_block, "_complete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            solver._block.of(second, solver.rows.fetch(second))
        monkeypatch.setattr(gram_block, "_complete", whole)
        for chosen in (second, third, np.arange(15, 25)):
            block = solver._block.of(chosen, solver.rows.fetch(chosen))
            np.testing.assert_array_equal(block, K[np.ix_(chosen, chosen)])


@pytest.mark.parametrize("first", [np.arange(15), np.arange(7), np.array([9, 3])])
def test_the_block_of_all_rows_whatever_slots_they_are_in(first):
    K, everything = kernel(15), np.arange(15)
    with Pool.open() as pool:
        solver = SMO(KernelProblem(np.ones(15), np.ones(15)), cache(K, 15, pool), 1e-3, 15, pool)
        solver.rows.fetch(first)
        for _ in range(2):
            np.testing.assert_array_equal(solver._block.of(everything, solver.rows.fetch(everything)), K)


def test_the_block_of_all_rows_in_another_order():
    K, chosen = kernel(15), np.arange(15)[::-1].copy()
    with Pool.open() as pool:
        solver = SMO(KernelProblem(np.ones(15), np.ones(15)), cache(K, 15, pool), 1e-3, 15, pool)
        solver.rows.fetch(np.arange(15))
        np.testing.assert_array_equal(solver._block.of(chosen, solver.rows.fetch(chosen)), K[::-1, ::-1])


# --- choosing rows ---------------------------------------------------------------------------------------


def state(seed, n, levels=None):
    """Return y, upper, alpha, F, who may rise and who may fall; F has few levels if asked to."""
    rng = np.random.default_rng(seed)
    y, upper = rng.choice([-1.0, 1.0], n), rng.uniform(0.5, 2, n)
    alpha = upper * rng.choice([0.0, 0.5, 1.0], n)
    gradient = rng.normal(size=n) if levels is None else rng.integers(0, levels, n) / 4
    y[:2], alpha[:2], gradient[:2] = 1, upper[:2] / 2, (-0.5, 5.0)  # two free rows, so that some may move
    rise = np.array([a < u if s > 0 else a > 0 for s, a, u in zip(y, alpha, upper, strict=True)])
    fall = np.array([a > 0 if s > 0 else a < u for s, a, u in zip(y, alpha, upper, strict=True)])
    return y, upper, alpha, gradient, rise, fall


@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), levels=st.sampled_from([None, 3, 25]))
def test_settled_is_the_distance_to_the_nearest_partner(seed, n, levels):
    y, upper, alpha, gradient, rise, fall = state(seed, n, levels)
    low, high = gradient[rise].min(), gradient[fall].max()
    assert (low, high) == bounds(y, upper, alpha, gradient)
    for i, slack in enumerate(settled(y, upper, alpha, gradient, low, high)):
        # How far F of row i is from that of some row which would move the other way.
        away = [gradient[i] - gradient[j] for j in np.flatnonzero(fall) if rise[i]]
        away += [gradient[j] - gradient[i] for j in np.flatnonzero(rise) if fall[i]]
        assert slack == (min(away) if min(away) > 0 else -np.inf)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 200),
    levels=st.sampled_from([None, 3, 25]),
    size=st.integers(2, 220),
    share=st.floats(0, 1),
)
def test_a_working_set_is_what_is_retained_and_the_worst_violators(seed, n, levels, size, share):
    y, upper, alpha, gradient, rise, fall = state(seed, n, levels)
    low, high = gradient[rise].min(), gradient[fall].max()
    retained = np.random.default_rng(seed).permutation(n)[: int(share * min(n, size - 2))]
    chosen = np.full(size, -1)
    count = select(y, upper, alpha, gradient, retained, low, high, chosen)
    chosen = chosen[:count]
    added = chosen[len(retained) :]

    assert count <= size
    assert len(set(chosen)) == count
    np.testing.assert_array_equal(chosen[: len(retained)], retained)
    assert ((rise & (gradient <= high)) | (fall & (gradient >= low)))[added].all()
    assert (gradient[chosen][rise[chosen]] == low).any()
    assert (gradient[chosen][fall[chosen]] == high).any()

    # Of each kind a half of what is free is taken; the order is that of histograms of 256 bins.
    wanted, bin_width = (size - len(retained) - 2) // 2, (high - low) / 255
    rest = np.setdiff1d(np.arange(n), retained)
    for may, violation in ((rise, high - gradient), (fall, gradient - low)):
        rows = rest[may[rest] & (violation[rest] >= 0)]
        assert may[added].sum() >= min(wanted, len(rows))
        worst = np.sort(violation[rows])[::-1]
        enough = worst[wanted - 1] + bin_width * (1 + 1e-9) if 0 < wanted <= len(worst) else 0.0
        needed = rows[violation[rows] > enough] if wanted > 0 else rows[:0]
        assert set(needed) <= set(added)


def test_a_working_set_as_large_as_the_problem_holds_all_violators():
    y, upper, alpha, gradient, rise, fall = state(0, 100)
    low, high = gradient[rise].min(), gradient[fall].max()
    chosen = np.empty(250, np.int64)
    count = select(y, upper, alpha, gradient, np.empty(0, np.int64), low, high, chosen)
    violators = (rise & (gradient < high)) | (fall & (gradient > low))
    assert set(np.flatnonzero(violators)) <= set(chosen[:count])
