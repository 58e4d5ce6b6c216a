import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import cache
from naive import problem

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.kernels import RBF
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource
from fastsvm.tuning import changed, tuned

NO_LIMITS = Limits(10**7, np.inf)


def solve(K, y, upper, tol=1e-8, size=1024, n_slots=None, alpha=None, limits=NO_LIMITS):
    """Return the solution, why it ended, and the number of pair steps, for a kernel matrix."""
    with Pool.open() as pool:
        solver = SMO(KernelProblem(y, upper, y), cache(K, pool, n_slots), tol, size, pool)
        state, reason, n_steps = drive(solver, solver.init(alpha), limits, lambda state, report: False)
    return solver.finish(state), reason, n_steps


def check(solution, reason, K, y, upper, tol=1e-8, wanted=None):
    """The solution is feasible, and its certificate is that of a computation from scratch."""
    assert reason is StopReason.CONVERGED
    alpha = solution.alpha
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    assert abs(alpha @ y) <= 1e-11 * upper.max() * len(y)
    violation = naive.kkt_violation(K, y, upper, alpha)
    assert violation <= tol + 1e-10
    scale = max(1.0, abs(solution.objective))
    assert solution.kkt_violation == pytest.approx(violation, abs=1e-10 * scale)
    assert solution.objective == pytest.approx(naive.dual_objective(K, y, alpha), abs=1e-10 * scale)
    gap = naive.duality_gap(K, y, upper, alpha, solution.intercept)
    slack = 4 * np.finfo(float).eps * upper.sum()  # a margin that is off by its last digit costs as much
    assert gap - 1e-9 * scale - slack <= solution.duality_gap <= gap + 1e-8 * scale + slack
    if wanted is not None:
        assert solution.objective == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(("seed", "C"), list(enumerate([0.1, 1.0, 10.0, 1.0])))
def test_the_solution_is_that_of_a_general_solver(seed, C):
    K, y, upper = problem(seed, 40, C=C)
    alpha, offset, objective = naive.solve_dual(K, y, upper)
    solution, reason, _ = solve(K, y, upper, 1e-10)
    check(solution, reason, K, y, upper, 1e-10, objective)
    assert solution.intercept == pytest.approx(offset, abs=1e-4)
    np.testing.assert_allclose(K @ (solution.alpha * y), K @ (alpha * y), atol=1e-4)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 16, 17, 64, 149])
def test_any_size_of_the_working_set(size):
    K, y, upper = problem(5, 150)
    wanted = solve(K, y, upper)[0].objective
    solution, reason, _ = solve(K, y, upper, size=size)
    check(solution, reason, K, y, upper, wanted=wanted)


@pytest.mark.parametrize("n_slots", [2, 16, 40])
def test_any_size_of_the_cache(n_slots):
    K, y, upper = problem(5, 150)
    wanted = solve(K, y, upper)[0].objective
    solution, reason, _ = solve(K, y, upper, n_slots=n_slots)
    check(solution, reason, K, y, upper, wanted=wanted)


@pytest.mark.parametrize("size", [4, 16, 50])
@pytest.mark.parametrize("order", [1, -1])
def test_sorted_labels(order, size):
    K, y, upper = problem(6, 150)
    by_label = np.argsort(order * y, kind="stable")
    K, y = np.ascontiguousarray(K[np.ix_(by_label, by_label)]), y[by_label]
    solution, reason, _ = solve(K, y, upper, size=size)
    check(solution, reason, K, y, upper, wanted=solve(K, y, upper)[0].objective)


@pytest.mark.parametrize("size", [4, 16, 200])
def test_repeated_rows(size):
    K, y, upper = problem(7, 30)
    many = np.repeat(np.arange(30), 5)
    wanted = solve(K, y, 5 * upper)[0].objective
    K, y, upper = np.ascontiguousarray(K[np.ix_(many, many)]), y[many], upper[many]
    solution, reason, _ = solve(K, y, upper, size=size)
    check(solution, reason, K, y, upper, wanted=wanted)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    size=st.integers(2, 70),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
    gamma=st.sampled_from([1e-3, 0.5, 50.0]),
    by_label=st.booleans(),
)
def test_any_problem(seed, n, size, C, gamma, by_label):
    K, y, upper = problem(seed, n, gamma, C)
    upper = upper * np.random.default_rng(seed).choice([0.5, 1.0, 2.0], n)
    if by_label:
        order = np.argsort(y)
        K, y, upper = np.ascontiguousarray(K[np.ix_(order, order)]), y[order], upper[order]
    solution, reason, _ = solve(K, y, upper, 1e-6, size=size)
    check(solution, reason, K, y, upper, 1e-6)


def test_hard_margin():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 2))
    X[:20] += 8
    y = np.repeat([1.0, -1.0], 20)
    K = X @ X.T
    solution, reason, _ = solve(K, y, np.full(40, 1e8))
    check(solution, reason, K, y, np.full(40, 1e8))
    margins = y * (K @ (solution.alpha * y) + solution.intercept)
    assert margins.min() == pytest.approx(1, abs=1e-7)


def test_the_offset_when_no_multiplier_is_free():
    K, y, upper = np.eye(4), np.array([1.0, 1.0, -1.0, -1.0]), np.full(4, 0.01)
    solution, reason, _ = solve(K, y, upper)
    np.testing.assert_array_equal(solution.alpha, upper)
    assert reason is StopReason.CONVERGED
    assert solution.intercept == pytest.approx(0.0, abs=1e-12)


def test_the_offset_when_no_multiplier_is_free_and_classes_differ():
    K, y = np.eye(5), np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    upper = np.array([0.25, 0.25, 0.25, 0.375, 0.375])
    solution, _, _ = solve(K, y, upper, 1e-12)
    np.testing.assert_allclose(solution.alpha, upper, atol=1e-12)
    F = K @ (upper * y) - y  # rho lies between the greatest F that may fall and the least that may rise
    middle = (F[y > 0].max() + F[y < 0].min()) / 2
    assert solution.intercept == pytest.approx(-middle, abs=1e-12)


def test_the_violation_of_decision_values_of_any_size():
    x, y, upper = np.linspace(1, 2, 8), np.array([1.0, -1.0] * 4), np.ones(8)
    K = 1e40 * x[:, None] * x
    alpha = np.array([1.0, 0, 0, 0, 0, 0, 0, 1.0])  # so that all F are below -1e39
    solution, _, _ = solve(K, y, upper, alpha=alpha, limits=Limits(0, np.inf))
    np.testing.assert_array_equal(solution.alpha, alpha)
    assert solution.kkt_violation == pytest.approx(naive.kkt_violation(K, y, upper, alpha), rel=1e-12)


def test_a_constant_kernel():
    solution, reason, _ = solve(np.ones((10, 10)), np.repeat([1.0, -1.0], 5), np.ones(10))
    assert reason is StopReason.CONVERGED
    assert solution.objective == pytest.approx(10.0)


def test_a_kernel_of_zeros():
    solution, reason, _ = solve(np.zeros((6, 6)), np.repeat([1.0, -1.0], 3), np.ones(6))
    assert reason is StopReason.CONVERGED
    np.testing.assert_array_equal(solution.alpha, 1)


def test_the_number_of_steps_is_limited():
    K, y, upper = problem(9, 100)
    _, reason, n_steps = solve(K, y, upper, limits=Limits(7, np.inf))
    assert (reason, n_steps) == (StopReason.MAX_ITER, 7)


def test_the_time_is_limited():
    K, y, upper = problem(9, 100)
    assert solve(K, y, upper, size=4, limits=Limits(10**7, 0.0))[1] is StopReason.MAX_TIME


def test_an_early_stop_is_certified():
    K, y, upper = problem(9, 100)
    solution, _, _ = solve(K, y, upper, limits=Limits(20, np.inf))
    assert solution.kkt_violation == pytest.approx(naive.kkt_violation(K, y, upper, solution.alpha), abs=1e-10)
    gap = naive.duality_gap(K, y, upper, solution.alpha, solution.intercept)
    assert solution.duality_gap == pytest.approx(gap, abs=1e-9)
    assert gap > 0


def test_the_objective_never_falls():
    K, y, upper = problem(10, 150, C=100.0)
    seen = []
    with Pool.open() as pool:
        solver = SMO(KernelProblem(y, upper, y), cache(K, pool), 1e-8, 16, pool)
        drive(solver, solver.init(), NO_LIMITS, lambda state, report: seen.append(report.objective))
    assert len(seen) > 5
    assert np.diff(seen).min() >= -1e-9 * max(seen)


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


def test_float32_kernel_values():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(120, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    upper = np.ones(120)
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.5), np.float32, None, False), MemorySource.of(X), pool)
        solver = SMO(KernelProblem(y, upper, y), RowCache(gram, np.empty(120 * 120 * 4, np.uint8)), 1e-3, 32, pool)
        state, reason, _ = drive(solver, solver.init(), NO_LIMITS, lambda state, report: False)
    K = naive.kernel_matrix("rbf", X, X, gamma=0.5)
    assert reason is StopReason.CONVERGED
    assert naive.kkt_violation(K, y, upper, state.alpha) <= 1.01e-3


@pytest.mark.parametrize("cheap", [True, False])
def test_float32_values_that_are_few_meet_the_tolerance_for_large_bounds(cheap, monkeypatch):
    """Rows of zeros and ones have few distances, whose rounding errors add up; float64 decides at the end."""
    rng, tol = np.random.default_rng(0), 2e-4
    X = (rng.random((600, 12)) < 0.4).astype(np.float64)
    y = np.where(X[:, :6].sum(axis=1) + rng.normal(size=600) > 2.4, 1.0, -1.0)
    upper = np.full(600, 300.0)
    monkeypatch.setattr(Gram, "cheap", cheap)
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.037), np.float32, None, False), MemorySource.of(X), pool)
        solver = SMO(KernelProblem(y, upper, y), RowCache(gram, np.empty(600 * 600 * 4, np.uint8)), tol, 64, pool)
        state, reason, _ = drive(solver, solver.init(), NO_LIMITS, lambda state, report: False)
    K = naive.kernel_matrix("rbf", X, X, gamma=0.037)
    assert reason is StopReason.CONVERGED
    assert naive.kkt_violation(K, y, upper, state.alpha) <= 1.001 * tol


@pytest.mark.parametrize("tol", [1e-9, 1e-8])
@pytest.mark.parametrize("seed", [139, 148, 309, 310, 319, 340])
def test_a_last_newton_step_does_not_leave_the_tolerance(seed, tol):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] + rng.normal(size=80) > 0, 1.0, -1.0)
    solution, reason, _ = solve(X @ X.T, y, np.ones(80), tol)
    check(solution, reason, X @ X.T, y, np.ones(80), tol)


def test_newton_steps_end_a_problem_on_which_pair_steps_are_slow():
    K, y, upper = problem(3, 200, gamma=0.05, C=1e4, d=5)
    with tuned(changed({"kernel": {"many_steps": 500}})):
        solution, reason, n_steps = solve(K, y, upper, 1e-6, size=32)
    check(solution, reason, K, y, upper, 1e-6)
    with tuned(changed({"kernel": {"many_steps": 10**9}})):
        without, reason, more_steps = solve(K, y, upper, 1e-6, size=32)
    check(without, reason, K, y, upper, 1e-6, solution.objective)
    assert n_steps < more_steps / 2
