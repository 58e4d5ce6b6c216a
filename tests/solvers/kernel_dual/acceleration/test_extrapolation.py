import numpy as np
import pytest
from kernel_rows import cache
from naive import problem

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.products import KernelProducts
from fastsvm.solvers.kernel_dual.acceleration import extrapolation as extrapolation_file
from fastsvm.solvers.kernel_dual.acceleration import newton_step as newton_file
from fastsvm.solvers.kernel_dual.acceleration.extrapolation import Extrapolation
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient
from fastsvm.solvers.kernel_dual.nu.nu_smo import NuSMO
from fastsvm.solvers.kernel_dual.nu.within_classes import WithinClasses
from fastsvm.solvers.kernel_dual.problem import (
    KernelDualState,
    KernelProblem,
    PastState,
    WithIntercept,
    WithoutIntercept,
)
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.outer_loop import Limits, StopReason, drive

NO_LIMITS = Limits(10**7, np.inf)
N = 60


def groups_of(kind, y):
    """Return the rows whose y ∘ α have a given sum."""
    return {WithIntercept: [y != 0], WithoutIntercept: [], WithinClasses: [y > 0, y < 0]}[kind]


class Case:
    """A problem whose solution is near the middle of its bounds, and states around that."""

    def __init__(self, kind, upper, pool, least_free=0):
        self.K, self.y, _ = problem(1, N)
        rng = np.random.default_rng(0)
        self.upper, self.groups = np.broadcast_to(upper, N).astype(float), groups_of(kind, self.y)
        target = self.K @ (0.5 * self.y) + 0.3 * rng.normal(size=N)
        self.problem = KernelProblem(self.y, self.upper, target)
        self.dual = kind(self.problem)
        changes = rng.normal(size=(4, N))
        for rows in self.groups:
            changes[:, rows] -= changes[:, rows].mean(axis=1, keepdims=True)
        self.states = [self.at(np.clip(0.5 + 0.1 * change * self.y, 0, 1)) for change in changes]
        rows = cache(self.K, pool)
        self.products = KernelProducts(rows, pool)
        self.products.drift = 1.0
        self.extrapolation = Extrapolation(self.dual, DualGradient(self.dual, rows, self.products, 1e-3), least_free)
        self.extrapolation.past = tuple(
            PastState(each.alpha * self.y, each.gradient.copy(), float(k) / 4)
            for k, each in enumerate(self.states[:-1])
        )

    def at(self, alpha):
        """Return the state of multipliers."""
        return KernelDualState(alpha, self.K @ (alpha * self.y) - self.problem.target, np.empty(0, np.int64))


@pytest.fixture
def pool():
    with Pool.open() as pool:
        yield pool


@pytest.mark.parametrize("kind", [WithIntercept, WithoutIntercept, WithinClasses])
def test_the_step_ends_where_the_objective_is_best_along_the_changes(kind, pool):
    case = Case(kind, 1e6, pool)
    state, begin = case.states[-1], case.states[-1].alpha.copy()
    case.extrapolation.improve(state)
    step = (state.alpha - begin) * case.y
    changes = np.array([(each.alpha - begin) * case.y for each in case.states[:-1]])
    assert np.abs(step).max() > 0.01
    np.testing.assert_allclose(changes @ state.gradient, 0, atol=1e-9)
    assert np.linalg.matrix_rank(np.vstack([changes, step]), tol=1e-9) == len(changes)
    np.testing.assert_allclose(state.gradient, case.at(state.alpha).gradient, atol=1e-12)
    weights = np.linalg.lstsq(changes.T, step, rcond=None)[0]
    assert case.products.drift == pytest.approx(1 + np.abs(weights) @ [1, 0.75, 0.5])
    np.testing.assert_array_equal(case.extrapolation.past[-1].gradient, state.gradient)


@pytest.mark.parametrize("kind", [WithIntercept, WithoutIntercept, WithinClasses])
def test_rows_that_would_leave_their_bounds_stay_where_they_are(kind, pool):
    case = Case(kind, 1e6, pool)
    state, begin = case.states[-1], case.states[-1].alpha.copy()
    case.extrapolation.improve(state)
    rises = state.alpha - begin
    leaving = np.argsort(rises)[-5:]
    upper = np.full(N, 1e6)
    upper[leaving] = begin[leaving] + 0.5 * rises[leaving]
    bounded = Case(kind, upper, pool)
    state = bounded.states[-1]
    bounded.extrapolation.improve(state)
    np.testing.assert_array_equal(state.alpha[leaving], begin[leaving])
    assert (state.alpha >= 0).all()
    assert bounded.dual.objective(state) > bounded.dual.objective(bounded.at(begin))
    np.testing.assert_allclose(state.gradient, bounded.at(state.alpha).gradient, atol=1e-12)
    for rows in bounded.groups:
        assert ((state.alpha - begin) * bounded.y)[rows].sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rounds", [0, 1, 2, 4])
@pytest.mark.parametrize("kind", [WithIntercept, WithoutIntercept, WithinClasses])
def test_the_gradient_is_that_of_the_multipliers_if_rows_leave_in_every_round(kind, rounds, pool, monkeypatch):
    monkeypatch.setattr(extrapolation_file, "_ROUNDS", rounds)
    monkeypatch.setattr(extrapolation_file, "_MOST_OUT", 1.0)
    upper = np.random.default_rng(0).uniform(0.0, 0.3, N) + Case(kind, 1e6, pool).states[-1].alpha
    case = Case(kind, upper, pool)
    state, begin = case.states[-1], case.states[-1].alpha.copy()
    case.extrapolation.improve(state)
    assert (state.alpha != begin).any() and (state.alpha >= 0).all() and (state.alpha <= upper).all()
    np.testing.assert_allclose(state.gradient, case.at(state.alpha).gradient, atol=1e-12)
    for rows in case.groups:
        assert ((state.alpha - begin) * case.y)[rows].sum() == pytest.approx(0, abs=1e-12)


def test_nothing_moves_while_a_newton_step_is_possible_and_nothing_is_kept_of_an_f_that_was_recomputed(pool):
    case = Case(WithIntercept, 1e6, pool, least_free=N)
    state, begin = case.states[-1], case.states[-1].alpha.copy()
    case.extrapolation.improve(state)
    np.testing.assert_array_equal(state.alpha, begin)
    assert case.extrapolation.past == ()
    case = Case(WithIntercept, 1e6, pool)
    case.products.drift = 0.25
    case.extrapolation.improve(case.states[-1])
    assert [each.drift for each in case.extrapolation.past][:2] == [0.0, 0.25]
    assert len(case.extrapolation.past) == 3


@pytest.mark.parametrize("scale", [1e160, 1e200])
def test_values_whose_products_overflow_move_nothing(scale, pool):
    case = Case(WithIntercept, 1e6, pool)
    case.extrapolation.past = tuple(
        each._replace(beta=scale * each.beta, gradient=scale * each.gradient) for each in case.extrapolation.past
    )
    state, begin = case.states[-1], case.states[-1].alpha.copy()
    case.extrapolation.improve(state)
    np.testing.assert_array_equal(state.alpha, begin)


@pytest.mark.parametrize("shift", [0.0, 1e-300])
def test_a_state_that_is_there_twice_changes_nothing(shift, pool):
    once, twice = Case(WithIntercept, 1e6, pool), Case(WithIntercept, 1e6, pool)
    last = twice.states[-1]
    same = PastState(last.alpha * twice.y + shift, last.gradient.copy(), 1.0)
    twice.extrapolation.past = (*twice.extrapolation.past, same)
    for case in (once, twice):
        case.extrapolation.improve(case.states[-1])
    np.testing.assert_allclose(twice.states[-1].alpha, once.states[-1].alpha, rtol=1e-9)


def test_no_step_is_taken_whose_rounding_would_be_visible(pool):
    case = Case(WithIntercept, 1e6, pool)
    state, begin, case.products.drift = case.states[-1], case.states[-1].alpha.copy(), 1e17
    case.extrapolation.improve(state)
    np.testing.assert_array_equal(state.alpha, begin)
    assert case.products.drift == 1e17


def solver_of(kind, K, y, upper, pool, total=0.0):
    """Return a solver that takes no Newton steps, and treats any number of free rows as too many for them."""
    return kind(KernelProblem(y, upper, y, total), cache(K.astype(np.float32), pool), 1e-3, 32, pool, most_free=0)


@pytest.mark.parametrize(("kind", "total"), [(SMO, 0.0), (NuSMO, 200.0)])
def test_a_slow_problem_ends_sooner_with_the_same_solution(kind, total, pool, monkeypatch):
    monkeypatch.setattr(newton_file, "_STEPS_BEFORE", 10**9)
    monkeypatch.setattr(extrapolation_file, "_WORTH", 0.0)  # kernel rows cost nothing here
    K, y, upper = problem(3, 200, gamma=0.05, C=1e3, d=5)
    found, reason, n_steps = drive(*start(kind, K, y, upper, pool, total), NO_LIMITS, lambda state, report: False)
    monkeypatch.setattr(Extrapolation, "improve", lambda self, state: None)
    solver, begin = start(kind, K, y, upper, pool, total)
    without, _, more_steps = drive(solver, begin, NO_LIMITS, lambda state, report: False)
    assert reason is StopReason.CONVERGED
    assert n_steps < 0.9 * more_steps
    objective = solver.finish(without).objective
    assert solver.finish(found).objective == pytest.approx(objective, rel=1e-5)


def start(kind, K, y, upper, pool, total):
    """Return a solver and its first state."""
    solver = solver_of(kind, K, y, upper, pool, total)
    return solver, solver.init()


def test_a_fit_that_is_resumed_has_the_same_bits(pool):
    K, y, upper = problem(3, 120, C=100.0)
    solver, kept, report = solver_of(SMO, K, y, upper, pool), [], None
    state = solver.init()
    while report is None or not report.converged:
        kept.append((type(state)(*(value.copy() for value in state)), solver.memory()))
        state, report = solver.step(state, 10**6)
    assert max(len(memory.past) for _, memory in kept) > 1
    for begun, memory in kept[:: len(kept) // 5]:
        other = solver_of(SMO, K, y, upper, pool)
        other.recall(memory)
        found, _, _ = drive(other, begun, NO_LIMITS, lambda state, report: False)
        np.testing.assert_array_equal(found.alpha, state.alpha)
        np.testing.assert_array_equal(found.gradient, state.gradient)


def test_after_steps_that_gain_little_the_next_one_waits(pool, monkeypatch):
    case, tried, real = Case(WithIntercept, 1e6, pool), [], Extrapolation._move

    def moved(self, *given):
        tried.append(self.failures)
        return real(self, *given) if len(tried) == 1 else 1  # a second step would gain rounding errors, or none

    monkeypatch.setattr(Extrapolation, "_move", moved)
    for _ in range(8):
        case.extrapolation.improve(case.states[-1])
    assert tried == [0, 0, 1, 2]
