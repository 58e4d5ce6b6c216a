import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import cache, distinct_kernel
from naive import problem

from fastsvm._compiled.threads import Pool
from fastsvm.solvers.kernel_dual import active_set, decomposition
from fastsvm.solvers.kernel_dual.active_set import ActiveSet
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.outer_loop import Limits, StopReason, drive

NO_LIMITS = Limits(10**6, np.inf)


def solve(K, y, upper, capacity, tol=1e-8, size=16, n_slots=None, alpha=None, limits=NO_LIMITS, seen=None):
    """Return the solution, why it ended, and the number of pair steps; all of them on the whole if capacity is 0."""
    with Pool.open() as pool:
        rows = cache(K, pool, n_slots)
        active = ActiveSet(capacity, rows, pool) if capacity else None
        solver = SMO(KernelProblem(y, upper, y), rows, tol, size, pool, active)

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


def admissions(K, capacity, seed, count=15):
    """Admit random rows `count` times, and yield each time what there was, what was passed, and what there is."""
    rng = np.random.default_rng(seed)
    with Pool.open() as pool:
        active = ActiveSet(capacity, cache(K, pool, 1), pool)
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
    K, n_replaced = distinct_kernel(60, dtype), 0
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
    for time, (before, entering, slack, _, active) in enumerate(admissions(distinct_kernel(40), 9, seed, count=40)):
        order = {row: (-distance, entered[row]) for row, distance in zip(before, slack, strict=True)}
        left = set(before) - set(active.rows)
        assert len(left) == max(0, len(before) + len(entering) - 9)
        assert sorted(order[row] for row in left) == sorted(order.values())[: len(left)]
        entered |= dict.fromkeys(entering, time)


def test_of_rows_that_can_move_the_oldest_leaves():
    K = distinct_kernel(8)
    with Pool.open() as pool:
        active = ActiveSet(3, cache(K, pool, 1), pool)
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
        active = ActiveSet(4, cache(distinct_kernel(4), pool, 1), pool)
    places = np.array([3, 0, 2])
    np.testing.assert_array_equal(active.fetch(places), places)
    assert active.cached(places).all()


def test_sums_and_copies_of_rows_are_those_of_the_set():
    K, entering, coef = distinct_kernel(9), np.array([7, 0, 4, 3]), np.array([1.0, -2.0])
    with Pool.open() as pool:
        active = ActiveSet(4, cache(K, pool), pool)
        active.admit(entering, entering, K, np.empty(0))
        inside, places = K[np.ix_(entering, entering)], np.array([2, 1])
        np.testing.assert_array_equal(active.computed(places), inside[places])
        np.testing.assert_array_equal(active.weighted_sum(places, coef), coef @ inside[places])
        np.testing.assert_array_equal(active.weighted_sum(places, coef, places), coef @ inside[places][:, places])


# --- the solution ----------------------------------------------------------------------------------------

CAPACITIES = [(4, 2), (4, 4), (5, 2), (8, 4), (20, 8), (59, 16), (60, 16), (90, 16)]  # with working sets


@pytest.mark.parametrize("inner_size", [8, 1024])
@pytest.mark.parametrize(("capacity", "size"), CAPACITIES)
def test_the_solution_is_that_of_a_general_solver(capacity, size, inner_size, at_once, monkeypatch, quadratic):
    monkeypatch.setattr(decomposition, "_INNER_SIZE", inner_size)
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
    monkeypatch.setattr(decomposition, "_INNER_SIZE", 24)
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
        patch.setattr(decomposition, "_INNER_SIZE", 8)
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
    monkeypatch.setattr(decomposition, "_INNER_SIZE", 16)
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
    monkeypatch.setattr(decomposition, "_INNER_SIZE", 8)
    K, y, upper = problem(10, 150, C=100.0)
    solution, reason, n_steps = solve(K, y, upper, 40, limits=Limits(most, np.inf))
    assert (reason, n_steps) == (StopReason.MAX_ITER, most)
    violation = naive.kkt_violation(K, y, upper, solution.alpha)
    assert solution.kkt_violation == pytest.approx(violation, abs=1e-10)
    assert violation > 1e-3


def test_the_objective_never_falls_and_each_gap_is_true(at_once, monkeypatch):
    monkeypatch.setattr(decomposition, "_INNER_SIZE", 8)
    K, y, upper = problem(11, 150, C=100.0)
    seen = []
    solve(K, y, upper, 20, size=8, seen=seen)
    values = [report.objective for report in seen]
    assert len(values) > 10
    assert np.diff(values).min() >= -1e-9 * max(values)
    for most in np.cumsum([report.n_steps for report in seen])[:10]:
        solution = solve(K, y, upper, 20, size=8, limits=Limits(int(most), np.inf))[0]
        assert solution.objective == pytest.approx(naive.dual_objective(K, y, solution.alpha), rel=1e-10)
