"""Newton's method in the primal, for kernel SVMs with the squared hinge.

Problem
    minimise over β and b    ½ βᵀKβ + Σ_i C_i max(0, 1 − y_i f_i)²,    f = Kβ + b

Step
    Let B be the rows within the margin, y f < 1. If no row crosses its margin, the minimum has β_i = 0 outside B, and
        (K_BB + D) β_B + b = y_B,   D = 1 / (2 C_i),   Σ_i β_i = 0
    (Chapelle 2007, section 4). Without an intercept, b = 0 and the sum is unconstrained. A full step goes from β to
    this solution. If it does not decrease the objective sufficiently, an exact line search finds the minimum along the
    step, where the objective is piecewise quadratic. Once no row crosses its margin, the step is exact and the method
    ends.

Line search
    Exact: the root of the derivative along the step, which is piecewise linear and nondecreasing.

System
    Solved by Cholesky factorisation if its order is small enough, else inexactly by conjugate gradients, to a residual
    that is small relative to the remaining violation (Dembo, Eisenstat and Steihaug 1982).

Start
    For more than 2,000 rows, the solution on 1,000 of them. Most rows are then outside the margin from the first step
    on (Chapelle 2007).

Certificate
    That of the dual problem (`certificate`): at the solution, α = yβ are its multipliers.

Cost
    |B|³/3 multiplications and n |B| kernel values per step, or n |B| multiplications per conjugate gradient. A fit
    takes 5 to 20 steps.

Memory
    64 n bytes, the row cache, and two square matrices of the order of the factorised system.
"""

import time
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.rounding import ROUNDING, SEEN, SEEN_OBJECTIVE, UNIT
from fastsvm.kernel_matrix.rows import KernelProducts, KernelRows, SquareRows
from fastsvm.linalg.cholesky import Inverse
from fastsvm.solvers.kernel_dual.dual_gradient import rounding_is_visible
from fastsvm.solvers.kernel_dual.problem import KernelProblem, KernelSolution, violation
from fastsvm.solvers.kernel_dual.working_sets import WorkingBlock
from fastsvm.solvers.kernel_primal.certificate import DualView, KernelPrimalState, MarginLoss, bounded_sums
from fastsvm.solvers.outer_loop import Limits, Memoryless, Report, drive

# A sufficient decrease is this share of the slope at t = 0; a quadratic function decreases by half of it.
_ENOUGH = 0.25
_MOST_ITERATIONS = 1000  # A system that takes more conjugate gradients is left as it is.
_FORCING = 1e-3  # It is the relative residual of systems, and the factor by which that decreases.
_LONGEST = 16.0  # A longer step would follow a direction of pure rounding error very far.
_START_ROWS = 1000  # More than twice as many rows begin at the solution on so many.


class Line(NamedTuple):
    """Scores f + t g along a direction g, and the penalty slope t + curvature t² / 2, up to a constant."""

    scores: np.ndarray
    direction: np.ndarray
    slope: float
    curvature: float


def best_length(problem: KernelProblem, line: Line) -> float:
    """Return the t that minimises penalty plus loss, or 1 if the decrease there is sufficient.

    A step of length 1 makes the multipliers outside the margin exactly 0; one of nearly that length would not.
    """
    margins = problem.y * line.scores, problem.y * (line.scores + line.direction)
    before, after = (float(problem.upper @ MarginLoss(squared=True).value(one)) for one in margins)
    change = after - before + line.slope + line.curvature / 2
    if change <= _ENOUGH * slope_near(problem, line, 0.0)[0] + 8 * UNIT * before:
        return 1.0
    return _minimum(problem, line, 0.0, _LONGEST)


def best_intercept(problem: KernelProblem, scores: np.ndarray) -> float:
    """Return the intercept to add to the scores that minimises the loss."""
    line = Line(scores, np.ones(len(scores)), 0.0, 0.0)
    beyond = 2 * (np.abs(scores).max() + 2)  # where one class has zero loss
    return _minimum(problem, line, -beyond, beyond)


def _minimum(problem: KernelProblem, line: Line, low: float, high: float) -> float:
    """Return the t from `low` to `high` that minimises penalty plus loss, whose slope is linear between its kinks."""

    def slope(t: float) -> float:
        constant, rate = slope_near(problem, line, t)
        return constant + rate * t

    with np.errstate(divide="ignore", invalid="ignore"):  # scores that do not change
        kinks = (1 - problem.y * line.scores) / (problem.y * line.direction)
    ends = np.concatenate([[low], np.sort(kinks[(low < kinks) & (kinks < high)]), [high]])
    k = bisect_left(ends, 0.0, key=slope)
    if k in (0, len(ends)):
        return low if k == 0 else high
    constant, rate = slope_near(problem, line, (ends[k - 1] + ends[k]) / 2)
    return float(np.clip(-constant / rate, ends[k - 1], ends[k])) if rate > 0 else float(ends[k - 1])


def slope_near(problem: KernelProblem, line: Line, t: float) -> tuple[float, float]:
    """Return a and b of the slope a + b t of penalty plus loss, up to the next kinks."""
    fall, excess = problem.y * line.direction, 1 - problem.y * line.scores
    within = excess > t * fall
    weight = 2 * problem.upper[within] * fall[within]
    return line.slope - float(weight @ excess[within]), line.curvature + float(weight @ fall[within])


def _check_finite(numbers: np.ndarray | float) -> None:
    """Raise ValueError if a number overflowed."""
    if not np.isfinite(numbers).all():
        raise ValueError(
            "Scores overflow: products of kernel values with multipliers are too large. Lower C or the sample weights, "
            "or scale the features."
        )


class RidgeSystem:
    """Solves (K_BB + D) x + b = v for sets B of rows and a diagonal D > 0, with given Σ x or with b = 0.

    Up to the order `most_factorised` by Cholesky factorisation, else by conjugate gradients among vectors of that sum
    (Gould, Hribar and Nocedal 2001), until `deadline`, a moment of time.perf_counter.
    """

    def __init__(self, rows: KernelRows, pool: Pool, most_factorised: int, deadline: float = np.inf) -> None:
        self._rows, self._pool, self._deadline = rows, pool, deadline
        self._most = min(most_factorised, rows.n_slots)
        self._block, self._products = WorkingBlock(rows, pool), KernelProducts(rows, pool)

    def is_exact(self, inside: np.ndarray) -> bool:
        """Return whether the system of these rows is solved by factorisation."""
        return len(inside) <= self._most

    def solve(
        self, inside: np.ndarray, ridge: np.ndarray, wanted: np.ndarray, total: float | None, accuracy: float
    ) -> tuple[np.ndarray, float]:
        """Return x and b, for B, the diagonal of D, v, and Σ x; None for the sum means b = 0.

        `accuracy` is the final residual of conjugate gradients, relative to the initial one.
        """
        _check_finite(wanted)
        solve = self._by_factorisation if self.is_exact(inside) else self._by_conjugate_gradients
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                return solve(inside, ridge, wanted, total, accuracy)
            except linalg.LinAlgError:  # because kernel values are rounded by more than the ridge
                # The largest kernel value bounds the negative eigenvalues that rounding causes.
                largest = float(np.abs(self._diagonal(inside)).max())
                ridge += len(inside) * float(np.finfo(self._rows.store.dtype).eps) * largest
            try:
                return solve(inside, ridge, wanted, total, accuracy)
            except linalg.LinAlgError as error:
                raise ValueError(
                    "solver='primal' needs a kernel that is positive semi-definite, and its values are not, be it by "
                    "their rounding: scale the features, lower C, or take solver='smo'."
                ) from error

    def _by_factorisation(
        self, inside: np.ndarray, ridge: np.ndarray, wanted: np.ndarray, total: float | None, accuracy: float
    ) -> tuple[np.ndarray, float]:
        block = self._block.square(len(inside))
        self._block.gather(inside, self._rows.fetch(inside), 0, block)
        block[np.diag_indices_from(block)] += ridge
        x, of_ones = Inverse(block, self._pool).times(np.column_stack([wanted, np.ones(len(inside))])).T
        if total is None:
            return x, 0.0
        intercept = float((x.sum() - total) / of_ones.sum())
        return x - intercept * of_ones, intercept

    def _by_conjugate_gradients(
        self, inside: np.ndarray, ridge: np.ndarray, wanted: np.ndarray, total: float | None, accuracy: float
    ) -> tuple[np.ndarray, float]:
        diagonal = self._diagonal(inside) + ridge
        if not diagonal.min() > 0:
            raise linalg.LinAlgError
        of_ones = 1 / diagonal  # the preconditioner
        of_all = float(of_ones.sum())
        share = 0.0 if total is None else 1.0 / of_all
        x = (total or 0.0) * share * of_ones
        residual = wanted - self._product(inside, ridge, x) if x.any() else wanted.copy()
        p, square, least, b = np.zeros(len(x)), np.inf, 0.0, 0.0
        for _ in range(_MOST_ITERATIONS):
            z = of_ones * residual
            shift = share * float(z.sum())  # so that the sum of x stays, up to the rounding of what is left
            z, residual, b = z - shift * of_ones, residual - shift, b + shift
            before, square = square, float(z @ residual)
            _check_finite(square)
            least = least or max(accuracy, ROUNDING) ** 2 * square
            if square <= least or time.perf_counter() >= self._deadline:
                break
            p = z + square / before * p
            product = self._product(inside, ridge, p)
            curvature = float(p @ product)
            _check_finite(curvature)
            if curvature <= 0:
                raise linalg.LinAlgError
            length = square / curvature
            x += length * p
            residual -= length * product
        return x, b

    def _diagonal(self, inside: np.ndarray) -> np.ndarray:
        """Return the kernel of each row with itself."""
        store, parts = self._rows.store, spans(len(inside), self._rows.n_slots)
        return np.concatenate([store[self._rows.fetch(some), some] for some in (inside[a:b] for a, b in parts)])

    def _product(self, inside: np.ndarray, ridge: np.ndarray, vector: np.ndarray) -> np.ndarray:
        sums = np.zeros(self._rows.store.shape[1])
        self._products.add_rows(sums, inside, vector)
        return sums[inside] + ridge * vector


class Step(NamedTuple):
    """Changes of β, of Kβ and of the intercept (None if undetermined), and whether the system was solved exactly."""

    delta: np.ndarray
    sums: np.ndarray
    shift: float | None
    exact: bool


class Primal(Memoryless):
    """Solve one two-class problem in the primal, to a violation of at most `tol`; see `RidgeSystem`."""

    def __init__(
        self,
        problem: KernelProblem,
        rows: KernelRows,
        tol: float,
        pool: Pool,
        fit_intercept: bool,
        most_factorised: int,
        deadline: float = np.inf,
    ) -> None:
        self.problem, self.rows, self.tol, self.pool = problem, rows, tol, pool
        self._fit_intercept, self._most_factorised, self._deadline = fit_intercept, most_factorised, deadline
        self._dual = DualView(problem, squared=True, fit_intercept=fit_intercept)
        self._products = KernelProducts(rows, pool)
        self._system = RidgeSystem(rows, pool, most_factorised, deadline)
        self._ridge = 1 / (2 * problem.upper)
        self._settled = False  # whether Kβ of the last state returned was recomputed

    def init(self, alpha: np.ndarray | None = None) -> KernelPrimalState:
        """Return the state at `alpha`, or at zero, with the best intercept."""
        n = len(self.problem.y)
        if alpha is None:
            return self._centred(KernelPrimalState(np.zeros(n), np.zeros(n), 0.0))
        return self._centred(KernelPrimalState(alpha.copy(), self._products.times(self.problem.y * alpha), 0.0))

    def step(self, state: KernelPrimalState, most_steps: int) -> tuple[KernelPrimalState, Report]:
        """Take one Newton step, or declare convergence after recomputing Kβ. Changes the state in place."""
        if not state.alpha.any() and most_steps > 0:
            state = self._presolved(state)
        self._settled = False
        while (violation := self._violation(state)) <= self.tol:
            if self._settled:
                return state, self._report(state, violation)._replace(within=True, converged=True)
            state.alpha[:] = self._dual.feasible(state.alpha)
            state.sums[:] = self._true_sums(state)
            self._settled = True
        if most_steps < 1:
            return state, self._report(state, violation)
        self._settled = False
        before, kept = self._objective(state), state._replace(alpha=state.alpha.copy(), sums=state.sums.copy())
        accuracy, step = _FORCING, self._newton(state, _FORCING)
        state = self._walk(state, step)
        while not (step.exact or accuracy <= ROUNDING or time.perf_counter() >= self._deadline):
            if self._is_better(state, (1 - SEEN_OBJECTIVE) * before, violation / 2):
                break
            accuracy *= _FORCING  # the exact step would be better
            step = self._newton(state, accuracy)
            state = self._walk(state, step)
        if not self._is_better(state, before, violation):
            state = self._centred(kept)  # rounding errors made the step worse
        if not self._is_better(state, before, violation):
            return kept, self._report(kept, violation)._replace(n_steps=1, stalled=True)
        return state, self._report(state, self._violation(state))._replace(n_steps=1)

    def finish(self, state: KernelPrimalState) -> KernelSolution:
        """Return the solution and its certificate."""
        assert not isinstance(self.rows, SquareRows)  # a start on some rows has no solution of its own
        sums_of = bounded_sums(self.problem, self.rows)
        solution = self._dual.solution(state.alpha, state.intercept, sums_of, self.tol, self._settled)
        return solution._replace(
            within=solution.within | (state.alpha > 0)
        )  # margins are accurate only up to the violation

    def _report(self, state: KernelPrimalState, violation: float) -> Report:
        """Return a report of no step."""
        return Report(violation, self._objective(state), 0, False, False, False)

    # --- convergence -----------------------------------------------------------------------------------------

    def _objective(self, state: KernelPrimalState) -> float:
        return self._dual.primal(*state)

    def _violation(self, state: KernelPrimalState) -> float:
        """Return the KKT violation, in units of margins."""
        y, dual = self.problem.y, self._dual.problem
        gradient = state.sums + y * (self._ridge * state.alpha - 1)
        worst = violation(dual, np.maximum(state.alpha, 0), gradient)
        if worst > self.tol:
            return worst
        change = y * (self._dual.feasible(state.alpha) - state.alpha)
        gradient += self._products.times(change) + self._ridge * change
        return max(worst, violation(dual, state.alpha + y * change, gradient))

    def _is_better(self, state: KernelPrimalState, objective: float, violation: float) -> bool:
        """Return whether the objective or, where rounding hides that, the violation decreased."""
        return self._objective(state) < objective or self._violation(state) < violation

    # --- a step ----------------------------------------------------------------------------------------------

    def _newton(self, state: KernelPrimalState, accuracy: float) -> Step:
        """Return the step to the minimum, assuming that no row crosses its margin."""
        y = self.problem.y
        within = y * (state.sums + state.intercept) < 1
        delta = np.where(within, 0.0, -y * state.alpha)
        sums, inside = self._products.times(delta), np.flatnonzero(within)
        if not len(inside):
            return Step(delta, sums, None, exact=True)
        ridge = self._ridge[inside]
        wanted = y[inside] * (1 - ridge * state.alpha[inside]) - state.sums[inside] - sums[inside]
        total = -float(y @ state.alpha + delta.sum()) if self._fit_intercept else None
        delta[inside], shift = self._system.solve(inside, ridge, wanted - state.intercept, total, accuracy)
        self._products.add_rows(sums, inside, delta[inside])
        return Step(delta, sums, shift, self._system.is_exact(inside))

    def _walk(self, state: KernelPrimalState, step: Step) -> KernelPrimalState:
        """Return the state at the minimum of the objective along the step."""
        slope, curvature = float(step.delta @ state.sums), float(step.delta @ step.sums)
        line = Line(state.sums + state.intercept, step.sums + (step.shift or 0.0), slope, curvature)
        t = best_length(self.problem, line)
        state.alpha[:] += t * self.problem.y * step.delta
        state.sums[:] += t * step.sums
        state = state._replace(intercept=state.intercept + t * (step.shift or 0.0))
        return self._centred(state) if step.shift is None else state

    def _centred(self, state: KernelPrimalState) -> KernelPrimalState:
        """Return the state with the optimal intercept."""
        if not self._fit_intercept:
            return state
        return state._replace(intercept=best_intercept(self.problem, state.sums))

    def _presolved(self, state: KernelPrimalState) -> KernelPrimalState:
        """Return the state at the solution on some rows, whose losses are weighted to represent all rows."""
        n, count = len(self.problem.y), min(_START_ROWS, self.rows.n_slots)
        if n <= 2 * count:
            return state
        some = np.linspace(0, n - 1, count).astype(np.int64)
        among = SquareRows(self.rows.store[self.rows.fetch(some)[:, None], some])
        y, upper = self.problem.y[some], self.problem.upper[some] * (n / count)
        ways = self._fit_intercept, self._most_factorised, self._deadline
        few = Primal(KernelProblem(y, upper, y), among, SEEN, self.pool, *ways)
        limits = Limits(count, self._deadline)
        of_some, _, _ = drive(few, few.init(), limits, lambda state, report: False)
        state.alpha[some] = of_some.alpha
        state.sums[:] = self._products.times(self.problem.y * state.alpha)
        return self._centred(state)

    def _true_sums(self, state: KernelPrimalState) -> np.ndarray:
        """Return Kβ, from kernel values in float64 if rounding in float32 could exceed the tolerance."""
        coef = self.problem.y * state.alpha
        seen = rounding_is_visible(float(np.abs(coef).sum()), self.rows.store.dtype, self.tol)
        if not (seen and self.rows.store.dtype == np.float32 and self.rows.cheap):
            return self._products.times(coef)
        some = np.flatnonzero(coef)
        return self.rows.weighted_sum(some, coef[some])
