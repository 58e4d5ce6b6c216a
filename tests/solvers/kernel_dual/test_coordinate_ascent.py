from collections import Counter

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import cache
from naive import problem

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.kernels import RBF
from fastsvm.solvers.kernel_dual.coordinate_ascent import Coordinate, Sweeps, solve_block
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource
from fastsvm.tuning import changed, tuned

NO_LIMITS = Limits(10**8, np.inf)


def solve(
    K, y, upper, tol=1e-8, size=1024, n_slots=None, alpha=None, limits=NO_LIMITS, seed=None, seen=None,
    **more,
):  # fmt: skip
    """Return the solution, why it ended, and the number of steps, for a kernel matrix in its type."""
    with Pool.open() as pool:
        rows = cache(K, pool, n_slots)
        rng = None if seed is None else np.random.default_rng(seed)
        solver = Coordinate(KernelProblem(y, upper, y), rows, tol, size, pool, rng=rng, **more)

        def watch(state, report):
            if seen is not None:
                seen.append(report)
            return False

        state, reason, n_steps = drive(solver, solver.init(alpha), limits, watch)
    return solver.finish(state), reason, n_steps


def free_mean(K, y, upper, alpha):
    """Return the mean of y - f over free rows, or the middle between the others."""
    missing = y - K @ (alpha * y)
    free = (alpha > 0) & (alpha < upper)
    if free.any():
        return missing[free].mean()
    may_rise = np.where(y > 0, alpha < upper, alpha > 0)
    may_fall = np.where(y > 0, alpha > 0, alpha < upper)
    return (missing[may_rise].max() + missing[may_fall].min()) / 2


def check(solution, reason, K, y, upper, tol=1e-8, wanted=None):
    """The solution is feasible, and its certificate is that of a computation from scratch."""
    assert reason is StopReason.CONVERGED
    K, alpha = K.astype(float), solution.alpha
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    violation = naive.kkt_violation(K, y, upper, alpha, balanced=False)
    assert violation <= tol + 1e-10
    scale = max(1.0, abs(solution.objective))
    assert solution.kkt_violation == pytest.approx(violation, abs=1e-10 * scale)
    assert solution.objective == pytest.approx(naive.dual_objective(K, y, alpha), abs=1e-10 * scale)
    gap = naive.duality_gap(K, y, upper, alpha, 0.0)
    slack = 4 * np.finfo(float).eps * upper.sum()
    assert gap - 1e-9 * scale - slack <= solution.duality_gap <= gap + 1e-8 * scale + slack
    assert gap <= 1.01 * max(tol, 1e-12) * (solution.objective + gap)
    np.testing.assert_array_equal(solution.within, alpha > 0)
    assert solution.intercept == pytest.approx(free_mean(K, y, upper, alpha), abs=1e-9 * scale)
    if wanted is not None:
        assert solution.objective == pytest.approx(wanted, rel=1e-6)


# --- the solution ----------------------------------------------------------------------------------------


def linear(seed, n, C):
    """Return a kernel matrix of low rank, labels and bounds."""
    _, y, upper = problem(seed, n, C=C)
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X @ X.T, y, upper


@pytest.mark.parametrize("draw", [problem, linear], ids=["Gaussian", "linear"])
@pytest.mark.parametrize(("seed", "C"), list(enumerate([0.1, 1.0, 10.0])))
def test_the_solution_is_that_of_a_general_solver(seed, C, draw):
    K, y, upper = draw(seed, 40, C=C)
    alpha, _, objective = naive.solve_dual(K, y, upper, balanced=False)
    solution, reason, _ = solve(K, y, upper, 1e-10)
    check(solution, reason, K, y, upper, 1e-10, objective)
    np.testing.assert_allclose(K @ (solution.alpha * y), K @ (alpha * y), atol=1e-4)
    assert abs(solution.alpha @ y) > 1e-3  # another problem than that with an intercept


def test_the_solution_is_not_that_of_a_problem_with_an_intercept():
    K, y, upper = problem(0, 40)
    free, balanced = (naive.solve_dual(K, y, upper, balanced)[2] for balanced in (False, True))
    assert free > 1.01 * balanced
    assert solve(K, y, upper)[0].objective == pytest.approx(free, rel=1e-6)


@pytest.mark.parametrize(
    ("seed", "size"), [((None, 7)[i % 2], size) for i, size in enumerate([2, 3, 5, 16, 17, 64, 149, 150])]
)
def test_any_size_of_the_working_set(seed, size):
    K, y, upper = problem(5, 150)
    solution, reason, _ = solve(K, y, upper, size=size, seed=seed)
    check(solution, reason, K, y, upper, wanted=solve(K, y, upper)[0].objective)


@pytest.mark.parametrize("n_slots", [2, 16, 40])
def test_any_size_of_the_cache(n_slots):
    K, y, upper = problem(5, 150)
    solution, reason, _ = solve(K, y, upper, n_slots=n_slots)
    check(solution, reason, K, y, upper, wanted=solve(K, y, upper)[0].objective)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    size=st.integers(2, 70),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
    gamma=st.sampled_from([1e-3, 0.5, 50.0]),
    by_label=st.booleans(),
    draws=st.booleans(),
)
def test_any_problem(seed, n, size, C, gamma, by_label, draws):
    K, y, upper = problem(seed, n, gamma, C)
    upper = upper * np.random.default_rng(seed).choice([0.5, 1.0, 2.0], n)
    if by_label:
        order = np.argsort(y)
        K, y, upper = np.ascontiguousarray(K[np.ix_(order, order)]), y[order], upper[order]
    solution, reason, _ = solve(K, y, upper, 1e-6, size=size, seed=seed if draws else None)
    check(solution, reason, K, y, upper, 1e-6)


@pytest.mark.parametrize("size", [4, 16, 200])
def test_repeated_rows(size):
    K, y, upper = problem(7, 30)
    many = np.repeat(np.arange(30), 5)
    wanted = solve(K, y, 5 * upper)[0].objective
    K, y, upper = np.ascontiguousarray(K[np.ix_(many, many)]), y[many], upper[many]
    solution, reason, _ = solve(K, y, upper, size=size)
    check(solution, reason, K, y, upper, wanted=wanted)


@pytest.mark.parametrize("size", [8, 60])
@pytest.mark.parametrize("seed", range(4))
def test_an_indefinite_kernel_ends(seed, size):
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(60, 60))
    K, y = K + K.T, rng.choice([-1.0, 1.0], 60)
    assert (np.diag(K) < 0).any()
    solution, reason, _ = solve(K, y, np.ones(60), limits=Limits(10**6, np.inf), size=size)
    assert reason is not StopReason.MAX_ITER
    assert ((solution.alpha >= 0) & (solution.alpha <= 1)).all()
    assert np.isfinite(solution.objective)


def test_a_constant_kernel():
    solution, reason, _ = solve(np.ones((10, 10)), np.repeat([1.0, -1.0], 5), np.ones(10))
    assert reason is StopReason.CONVERGED
    assert solution.objective == pytest.approx(10.0)


def test_a_kernel_of_zeros():
    solution, reason, _ = solve(np.zeros((6, 6)), np.repeat([1.0, -1.0], 3), np.ones(6))
    assert reason is StopReason.CONVERGED
    np.testing.assert_array_equal(solution.alpha, 1)


def test_one_class_has_a_solution_without_an_intercept():
    K, _, upper = problem(3, 20)
    solution, reason, _ = solve(K, np.ones(20), upper)
    check(solution, reason, K, np.ones(20), upper, wanted=naive.solve_dual(K, np.ones(20), upper, balanced=False)[2])


def test_float32_kernel_values():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(120, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.5), np.float32, None, False), MemorySource.of(X), pool)
        solver = Coordinate(
            KernelProblem(y, np.ones(120), y), RowCache(gram, np.empty(120 * 120 * 4, np.uint8)), 1e-3, 32, pool
        )
        state, reason, _ = drive(solver, solver.init(), NO_LIMITS, lambda state, report: False)
    K = naive.kernel_matrix("rbf", X, X, gamma=0.5)
    assert reason is StopReason.CONVERGED
    assert naive.kkt_violation(K, y, np.ones(120), state.alpha, balanced=False) <= 1.01e-3


# --- the intercept ---------------------------------------------------------------------------------------


def test_no_intercept_if_none_is_asked_for():
    K, y, upper = problem(1, 60)
    few = Limits(30, np.inf)  # at the optimum y = f in the free rows, so that the intercept vanishes too
    with_intercept, without = (solve(K, y, upper, limits=few, fit_intercept=asked)[0] for asked in (True, False))
    np.testing.assert_array_equal(with_intercept.alpha, without.alpha)
    assert with_intercept.intercept == pytest.approx(free_mean(K, y, upper, with_intercept.alpha), abs=1e-12)
    assert abs(with_intercept.intercept) > 1e-2
    assert without.intercept == 0


@pytest.mark.parametrize("y", [[1, 1, 0], [0, 0, 1]])
def test_an_intercept_that_is_bounded_on_one_side_only(y):
    """All rows of one class are at their bounds and none of the other supports."""
    X = np.array([[1.0], [1.1], [-1000.0]])
    model = SVC(solver="coordinate", kernel="linear", C=0.01).fit(X, y)
    assert model.converged_
    assert abs(model.dual_coef_).tolist() == [[0.01, 0.01]]
    assert model.intercept_[0] == 0  # which is that of the problem, and allowed
    np.testing.assert_array_equal(model.predict(X), y)


def test_the_intercept_when_no_multiplier_is_free():
    K, y, upper = np.eye(5), np.array([1.0, 1.0, 1.0, -1.0, -1.0]), np.full(5, 0.1)
    solution, _, _ = solve(K, y, upper)
    np.testing.assert_array_equal(solution.alpha, upper)
    assert solution.intercept == pytest.approx(0.0, abs=1e-12)  # 0.9 and -0.9 are missing
    heavier = np.where(y > 0, 0.1, 0.5)
    assert solve(K, y, heavier)[0].intercept == pytest.approx((0.9 - 0.5) / 2, abs=1e-12)


# --- steps -----------------------------------------------------------------------------------------------


def test_random_orders_are_those_of_the_seed(overlapping):
    X, y = overlapping

    def steps(seed):
        return SVC(solver="coordinate", selection="random", random_state=seed, C=10.0).fit(X, y).n_iter_[0]

    assert steps(3) == steps(3)
    assert len({steps(seed) for seed in range(4)}) > 1


def test_the_objective_never_falls():
    K, y, upper = problem(10, 150, C=100.0)
    seen = []
    solve(K, y, upper, size=16, seen=seen)
    values = [report.objective for report in seen]
    assert len(values) > 5
    assert np.diff(values).min() >= -1e-9 * max(values)


def test_newton_steps_end_a_problem_on_which_coordinate_steps_are_slow():
    K, y, upper = problem(3, 200, gamma=0.05, C=1e4, d=5)
    with tuned(changed({"kernel": {"many_steps": 500}})):
        solution, reason, n_steps = solve(K, y, upper, 1e-6, size=32)
    check(solution, reason, K, y, upper, 1e-6)
    with tuned(changed({"kernel": {"many_steps": 10**9}})):
        without, reason, more_steps = solve(K, y, upper, 1e-6, size=32)
    check(without, reason, K, y, upper, 1e-6, solution.objective)
    assert n_steps < more_steps / 2


# --- beginnings and ends ---------------------------------------------------------------------------------


def test_the_number_of_steps_is_limited():
    K, y, upper = problem(9, 100)
    solution, reason, n_steps = solve(K, y, upper, limits=Limits(7, np.inf))
    assert (reason, n_steps) == (StopReason.MAX_ITER, 7)
    assert 0 < np.count_nonzero(solution.alpha) <= 7


def test_an_early_stop_is_certified():
    K, y, upper = problem(9, 100)
    solution, _, _ = solve(K, y, upper, limits=Limits(20, np.inf))
    violation = naive.kkt_violation(K, y, upper, solution.alpha, balanced=False)
    gap = naive.duality_gap(K, y, upper, solution.alpha, 0.0)
    assert solution.kkt_violation == pytest.approx(violation, abs=1e-10)
    assert solution.duality_gap == pytest.approx(gap, abs=1e-9)
    assert gap > 0


def test_a_solution_is_where_the_next_solve_ends_at_once():
    K, y, upper = problem(11, 80)
    first, _, n_first = solve(K, y, upper)
    again, reason, n_again = solve(K, y, upper, alpha=first.alpha)
    check(again, reason, K, y, upper, wanted=first.objective)
    assert n_again <= 2 < n_first


@given(st.integers(0, 10**6))
def test_any_beginning_leads_to_the_same_end(seed):
    K, y, upper = problem(12, 40)
    begin = np.random.default_rng(seed).uniform(-1, 2, 40)
    solution, reason, _ = solve(K, y, upper, alpha=begin)
    check(solution, reason, K, y, upper, wanted=solve(K, y, upper)[0].objective)


@pytest.mark.parametrize("C", [100.0, 1000.0])
def test_the_duality_gap_is_within_the_tolerance_of_the_objective_too(C):
    """For large bounds, violations within tolerance leave much of a gap; float32 because it is not polished."""
    K, y, upper = problem(4, 300, gamma=5.0, C=C, noise=0.1)
    K = K.astype(np.float32)
    solution, reason, _ = solve(K, y, upper, 0.1, size=16)
    check(solution, reason, K, y, upper, 0.1)


# --- one rate for all ------------------------------------------------------------------------------------


def test_a_learning_rate_leads_to_the_exact_solution():
    K, y, upper = problem(1, 60)
    wanted = solve(K, y, upper)[0]
    found, reason, _ = solve(K, y, upper, 1e-6, rate=1.9 / np.linalg.eigvalsh(K)[-1], limits=Limits(10**5, np.inf))
    check(found, reason, K, y, upper, 1e-6, wanted.objective)


def test_the_objective_never_falls_with_a_learning_rate():
    K, y, upper = problem(1, 60)
    seen = []
    solve(K, y, upper, 1e-6, rate=1.9 / np.linalg.eigvalsh(K)[-1], seen=seen)
    values = [report.objective for report in seen]
    assert np.diff(values).min() >= -1e-12 * max(values)


@pytest.mark.parametrize("k", range(8))
def test_one_step_is_the_clipped_newton_step_along_a_coordinate(k):
    rng = np.random.default_rng(k)
    K, y, upper = problem(k, 8)
    K = K * (1 + 3 * rng.random())
    upper = upper * rng.uniform(0.2, 2, 8)
    before = upper * rng.choice([0.0, 0.3, 1.0], 8)
    sums = K @ (before * y)
    alpha, order = before.copy(), np.roll(np.arange(8), -k)  # the first that violates is stepped with
    n_steps = solve_block(K, KernelProblem(y, upper, y), alpha, sums - y, Sweeps(order, 0), 1e-9, 1)
    wanted = np.clip(before + (1 - y * sums) / np.diag(K), 0, upper)
    first = next(i for i in order if wanted[i] != before[i])
    assert n_steps == 1
    assert alpha[first] == pytest.approx(wanted[first], rel=1e-14)
    np.testing.assert_array_equal(np.delete(alpha, first), np.delete(before, first))


def test_a_sweep_takes_the_coordinates_in_turn():
    K, y, upper = problem(2, 12)
    alpha, wanted = np.zeros(12), np.zeros(12)
    for k in range(12):
        wanted[k] = np.clip(wanted[k] + (1 - y[k] * (K[k] @ (wanted * y))) / K[k, k], 0, upper[k])
    sweeps = Sweeps(np.arange(12), 0)
    solve_block(K, KernelProblem(y, upper, y), alpha, -y, sweeps, 1e-12, np.count_nonzero(wanted))
    np.testing.assert_allclose(alpha, wanted, rtol=1e-12)


def test_a_random_sweep_has_any_order_equally_often():
    counts, n, ones = Counter(), 4, KernelProblem(np.ones(4), np.ones(4), np.ones(4))
    for seed in np.random.default_rng(0).integers(1, 2**63, 2400):
        order = np.arange(n)
        solve_block(np.eye(n), ones, np.zeros(n), -np.ones(n), Sweeps(order, int(seed)), 1e-9, n)
        counts[tuple(order)] += 1
    assert all(sorted(order) == [0, 1, 2, 3] for order in counts)
    assert len(counts) == 24
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 45  # chi squared, 23 degrees of freedom
