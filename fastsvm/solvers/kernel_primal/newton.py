"""Newton's method in the primal, for kernel SVMs with hinge or squared hinge.

Problem
    minimise over β and b    ½ βᵀKβ + Σ_i C_i ℓ(y_i f_i),    f = Kβ + b
    where ℓ is the squared hinge or the hinge. The hinge is replaced by huberized hinges (`huberized_hinge`) whose
    smoothing decreases until it is below the tolerance.

Step
    A row is in the linear part of the loss, L (ℓ'' = 0, ℓ' < 0), in the curved part, B (ℓ'' > 0), or in the flat part
    (ℓ' = 0). If no row changes its part, the minimum has β_i = y_i C_i |ℓ'| on L, β_i = 0 on the flat part, and on B
        (K_BB + D) β_B + b = y_B start − K_BL β_L,   D = 1 / (C_i ℓ''),   Σ_i β_i = 0
    (Chapelle 2007, section 4, there for the squared hinge and constant smoothing). Without an intercept, b = 0 and the
    sum is unconstrained. A full step goes from β to this solution. If it does not decrease the objective sufficiently,
    an exact line search finds the minimum along the step, where the objective is piecewise quadratic. Once no row
    changes its part, the step is exact and the method ends.

System
    Solved by Cholesky factorisation if its order is small enough, else inexactly by conjugate gradients, to a residual
    that is small relative to the remaining violation (Dembo, Eisenstat and Steihaug 1982).

Start
    For more than 2,000 rows, the solution on a sample of 1,000 rows. Most rows are then in the flat part from the first
    step on (Chapelle 2007).

Certificate
    That of the dual problem (`certificate`): at the solution, α = yβ are its multipliers.

Cost
    |B|³/3 multiplications and n |B ∪ L| kernel values per step. The squared hinge takes 5 to 20, the hinge 50 to 200.

Memory
    64 n bytes, the row cache, and two square matrices of the order of the factorised system, or 512 features per row.
"""

import time
from typing import ClassVar, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.interface import KernelRows
from fastsvm.kernel_matrix.products import KernelProducts
from fastsvm.solvers.kernel_dual.active_set import ActiveSet
from fastsvm.solvers.kernel_dual.problem import KernelProblem, KernelSolution, rounding_is_visible
from fastsvm.solvers.kernel_primal.certificate import DualView, bounded_sums
from fastsvm.solvers.kernel_primal.huberized_hinge import MarginLoss, huberized_hinge, squared_hinge
from fastsvm.solvers.kernel_primal.line_search import Line, best_intercept, best_length
from fastsvm.solvers.kernel_primal.regularized_system import RidgeSystem
from fastsvm.solvers.outer_loop import Memoryless, Report

__all__ = ["KernelPrimalState", "Method", "Primal", "Step"]

_FIRST_SMOOTHING = 1.0  # powers of two, so that multipliers of rows in the linear part equal their bounds exactly
_NARROWED = 0.125  # factor by which the smoothing decreases
_LAST_SMOOTHING = 0.25  # relative to the tolerance
_SUFFICES = 0.2  # violation at which the smoothing decreases, relative to the smoothing
_START_ROWS, _START_STEPS, _START_TOL = 1000, 30, 0.1
_FORCING, _FINER, _FINEST = 1e-3, 1e-2, 1e-9  # relative residual of systems; factor by which it decreases; its minimum
_AT_BOUND = 4 * np.finfo(float).eps
_LITTLE = 1e-8  # relative decrease of the objective that an inexact step must reach


@storable("kernel primal state")
class KernelPrimalState(NamedTuple):
    """Multipliers y β (of any sign before convergence), Kβ, the intercept, and h of the huberized hinge."""

    alpha: np.ndarray
    sums: np.ndarray
    intercept: float
    smoothing: float


class Step(NamedTuple):
    """Changes of β, of Kβ and of the intercept (None if undetermined), and whether the system was solved exactly."""

    delta: np.ndarray
    sums: np.ndarray
    shift: float | None
    exact: bool


class Method(NamedTuple):
    """What is minimised, and how.

    Attributes
    ----------
    squared : bool
        Whether the loss is the squared hinge.
    fit_intercept : bool
        Whether there is an intercept.
    most_factorised : int
        Largest order of a system that is factorised.
    rng : numpy.random.Generator
        Draws the sample of rows for the start.
    deadline : float, default=inf
        Time (of time.perf_counter) at which a long step is cut short.
    """

    squared: bool
    fit_intercept: bool
    most_factorised: int
    rng: np.random.Generator
    deadline: float = np.inf


class Primal(Memoryless):
    """Solve one two-class problem in the primal.

    Parameters
    ----------
    problem : KernelProblem
        Labels and factors of the loss.
    rows : KernelRows
        The kernel.
    tol : float
        Largest violation at the end.
    pool : Pool
        Threads.
    method : Method
        What is minimised, and how.
    """

    smoothed_bounds: ClassVar[int] = 2
    """How many of the two KKT bounds the smoothing shifts; each shift adds the smoothing to the violation."""

    def __init__(self, problem: KernelProblem, rows: KernelRows, tol: float, pool: Pool, method: Method) -> None:
        self.problem, self.rows, self.tol, self.pool, self.method = problem, rows, tol, pool, method
        self._dual = DualView(problem, method.squared, method.fit_intercept)
        self._products = KernelProducts(rows, pool)
        self._system = RidgeSystem(rows, pool, method.most_factorised, method.deadline)
        self._settled = False  # whether Kβ of the last state returned was recomputed

    def init(self, alpha: np.ndarray | None = None) -> KernelPrimalState:
        """Return the state at `alpha`, or at zero."""
        n = len(self.problem.y)
        smoothing = 0.0 if self.method.squared else _FIRST_SMOOTHING
        state = KernelPrimalState(np.zeros(n), np.zeros(n), 0.0, smoothing)
        if alpha is None:
            return state
        state.alpha[:] = alpha
        state.sums[:] = self._products.times(self.problem.y * state.alpha)
        return self._centred(state)

    def step(self, state: KernelPrimalState, most_steps: int) -> tuple[KernelPrimalState, Report]:
        """Take one Newton step, or declare convergence after recomputing Kβ.

        Parameters
        ----------
        state : KernelPrimalState
            Its arrays are changed in place.
        most_steps : int
            Newton steps allowed.
        """
        if not state.alpha.any() and most_steps > 0:
            state = self._presolved(state)
        judged = False
        self._settled = False
        while (violation := self._violation(state)) <= self._target(state):
            if not self._is_last(state):
                state = state._replace(smoothing=max(_NARROWED * state.smoothing, self._last_smoothing))
            elif not judged:
                self._settle(state)
                judged = True
            else:
                return state, self._report(state, violation)._replace(within=True, converged=True)
        if most_steps < 1:
            return state, self._report(state, violation)
        self._settled = False
        before, kept = self._smoothed_objective(state), state._replace(alpha=state.alpha.copy(), sums=state.sums.copy())
        accuracy, step = _FORCING, self._newton(state, _FORCING)
        state = self._walk(state, step)
        while self._may_be_finer(step, accuracy) and not self._is_better(state, (1 - _LITTLE) * before, violation / 2):
            accuracy *= _FINER  # the exact step would be better
            step = self._newton(state, accuracy)
            state = self._walk(state, step)
        if not self._is_better(state, before, violation):
            state = self._centred(kept)  # rounding errors made the step worse
        if not self._is_better(state, before, violation):
            return kept, self._report(kept, violation)._replace(n_steps=1, stalled=True)
        return state, self._report(state, self._violation(state))._replace(n_steps=1)

    def finish(self, state: KernelPrimalState) -> KernelSolution:
        """Return the solution and its certificate."""
        state = self._with_recomputed_sums(state)
        sums_of = bounded_sums(self.problem, self.rows)
        given = state.alpha, self._intercept(state), sums_of, self.tol, state.smoothing, self._settled
        found = self._dual.solution(*given)
        return found._replace(within=found.within | (state.alpha > 0))  # margins are accurate only up to the violation

    def _intercept(self, state: KernelPrimalState) -> float:
        """Return the state's intercept, or the best one if the state's costs more than the tolerance allows.

        The state's intercept is accurate only if rows in the curved part determine it.
        """
        if not self.method.fit_intercept:
            return 0.0
        best = best_intercept(self.problem, self._dual.loss, state.sums)
        reached, least = (self._dual.primal(state.alpha, state.sums, b) for b in (state.intercept, best))
        return best if reached - least > self.tol * least else state.intercept

    def _report(self, state: KernelPrimalState, violation: float) -> Report:
        """Return a report of no step. Its violation bounds that of the problem without smoothing."""
        violation += self.smoothed_bounds * state.smoothing
        return Report(violation, self._objective(state), 0, False, False, False)

    # --- convergence -----------------------------------------------------------------------------------------

    @property
    def _last_smoothing(self) -> float:
        return 2.0 ** np.floor(np.log2(_LAST_SMOOTHING * self.tol))

    def _is_last(self, state: KernelPrimalState) -> bool:
        return state.smoothing <= self._last_smoothing

    def _target(self, state: KernelPrimalState) -> float:
        """Return the violation to which the problem is solved at the current smoothing."""
        last = self.tol if self.method.squared else self.tol - self.smoothed_bounds * self._last_smoothing
        return last if self._is_last(state) else max(_SUFFICES * state.smoothing, last)

    def _loss(self, state: KernelPrimalState) -> MarginLoss:
        return squared_hinge if self.method.squared else huberized_hinge(state.smoothing)

    def _margins(self, state: KernelPrimalState) -> np.ndarray:
        return self.problem.y * (state.sums + state.intercept)

    def _objective(self, state: KernelPrimalState) -> float:
        return self._dual.primal(state.alpha, state.sums, state.intercept)

    def _smoothed_objective(self, state: KernelPrimalState) -> float:
        return self._dual.primal(state.alpha, state.sums, state.intercept, self._loss(state))

    def _loss_term(self, state: KernelPrimalState) -> np.ndarray:
        """Return y C |ℓ'|, which equals β at the solution."""
        y, upper = self.problem.box
        loss = self._loss(state)
        return y * upper * loss.curvature * loss.excess(self._margins(state))

    def _violation(self, state: KernelPrimalState) -> float:
        """Return the KKT violation of the problem at the current smoothing, in units of margins."""
        y, upper = self.problem.box
        loss = self._loss(state)
        ridge, most = 1 / (upper * loss.curvature), self._dual.upper
        gradient = state.sums + y * (ridge * state.alpha - loss.start)
        low, high = self._dual.kkt_bounds(np.clip(state.alpha, 0, most), most, gradient)
        violation = high - low
        if violation > self._target(state):
            return violation
        change = y * (self._dual.feasible(state.alpha) - state.alpha)
        gradient += self._products.times(change) + ridge * change
        low, high = self._dual.kkt_bounds(state.alpha + y * change, most, gradient)
        return max(violation, high - low)

    def _is_better(self, state: KernelPrimalState, objective: float, violation: float) -> bool:
        """Return whether the objective or, where rounding hides that, the violation decreased."""
        return self._smoothed_objective(state) < objective or self._violation(state) < violation

    # --- a step ----------------------------------------------------------------------------------------------

    def _newton(self, state: KernelPrimalState, accuracy: float) -> Step:
        """Return the step to the minimum, assuming that no row changes its part of the loss."""
        y, upper = self.problem.box
        loss = self._loss(state)
        curved = loss.is_curved(self._margins(state))
        delta = np.where(curved, 0.0, self._loss_term(state) - y * state.alpha)
        sums = self._products.times(delta)
        inside = np.flatnonzero(curved)
        if not len(inside):
            return Step(delta, sums, None, exact=True)
        ridge = 1 / (upper[inside] * loss.curvature)
        wanted = y[inside] * (loss.start - ridge * state.alpha[inside]) - state.sums[inside] - sums[inside]
        total = -float(y @ state.alpha + delta.sum()) if self.method.fit_intercept else None
        delta[inside], shift = self._system.solve(inside, ridge, wanted - state.intercept, total, accuracy)
        self._products.add_rows(sums, inside, delta[inside])
        return Step(delta, sums, shift, self._system.is_exact(inside))

    def _may_be_finer(self, step: Step, accuracy: float) -> bool:
        return not step.exact and accuracy > _FINEST and time.perf_counter() < self.method.deadline

    def _line(self, state: KernelPrimalState, step: Step) -> Line:
        slope, curvature = float(step.delta @ state.sums), float(step.delta @ step.sums)
        return Line(state.sums + state.intercept, step.sums + (step.shift or 0.0), slope, curvature)

    def _walk(self, state: KernelPrimalState, step: Step) -> KernelPrimalState:
        """Return the state at the minimum of the objective along the step."""
        t = best_length(self.problem, self._loss(state), self._line(state, step))
        state.alpha[:] += t * self.problem.y * step.delta
        if not self.method.squared:
            upper = self.problem.upper
            state.alpha[:] = np.where(np.abs(state.alpha - upper) <= _AT_BOUND * upper, upper, state.alpha)
        state.sums[:] += t * step.sums
        state = state._replace(intercept=state.intercept + t * (step.shift or 0.0))
        return self._centred(state) if step.shift is None else state

    def _centred(self, state: KernelPrimalState) -> KernelPrimalState:
        """Return the state with the optimal intercept."""
        if not self.method.fit_intercept:
            return state
        return state._replace(intercept=best_intercept(self.problem, self._loss(state), state.sums))

    def _presolved(self, state: KernelPrimalState) -> KernelPrimalState:
        """Return the state at the solution on a sample of rows, whose losses are weighted to represent all rows."""
        n = len(self.problem.y)
        count = min(_START_ROWS, self.rows.n_slots)
        if n <= 2 * count:
            return self._centred(state)
        some = np.sort(self.method.rng.choice(n, count, replace=False))
        y, upper = self.problem.box
        active = ActiveSet(count, self.rows, self.pool)
        active.admit(some, self.rows.fetch(some), self.rows.store, np.empty(0))
        few = Primal(
            KernelProblem(y[some], upper[some] * n / count, y[some]), active, _START_TOL, self.pool, self.method
        )
        found = few.init()
        for _ in range(_START_STEPS):
            found, report = few.step(found, _START_STEPS)
            if report.converged or report.stalled or time.perf_counter() >= self.method.deadline:
                break
        state.alpha[some] = found.alpha
        state.sums[:] = self._products.times(y * state.alpha)
        return self._centred(state)

    def _settle(self, state: KernelPrimalState) -> None:
        """Make the final multipliers dual feasible and recompute Kβ from them."""
        state.alpha[:] = self._dual.feasible(state.alpha)
        state.sums[:] = self._true_sums(state)
        self._settled = True

    def _with_recomputed_sums(self, state: KernelPrimalState) -> KernelPrimalState:
        """Return the state with Kβ recomputed from its multipliers. A sum of updates has the rounding error of each."""
        return state if self._settled else state._replace(sums=self._true_sums(state))

    def _true_sums(self, state: KernelPrimalState) -> np.ndarray:
        return self._times(self.problem.y * state.alpha)

    def _times(self, coef: np.ndarray) -> np.ndarray:
        """Return Kβ, from kernel values in float64 if rounding in float32 could exceed the tolerance."""
        seen = rounding_is_visible(float(np.abs(coef).sum()), self.rows.store.dtype, self.tol)
        if not (seen and self.rows.store.dtype == np.float32 and self.rows.cheap):
            return self._products.times(coef)
        some = np.flatnonzero(coef)
        return self.rows.weighted_sum(some, coef[some])
