"""Decomposition: the working-set method for the duals of kernel SVMs, with and without an intercept.

Step
    A working set has q rows: the newer half of the last one and the rows that violate most (Joachims 1999,
    section 3.2; the halves as in Wen et al. 2018, ThunderSVM). Its q × q block of K is copied to where the
    processor's cache holds it. The block's own problem is solved there, by steps of two multipliers (`smo`) or one
    (`coordinate_ascent`), until its gap is a small part of the whole problem's. Then F += K_B Δ.

Where kernel values are cheap
    With few features, reading a kernel row from memory takes as long as computing it. No row is stored then
    (`RecomputedRows`). A working set has thousands of rows, and is solved by working sets of its own
    (`working_sets`), so that F of all rows changes a few dozen times, not some hundred. The first sets are smaller
    and have none, while most multipliers that change go to a bound and stay there. Where rows are long and
    values cheap, whole rows are computed after a set is solved, for its rows that changed. Kernel values are float32
    even where their rounding is visible. What it does to F is corrected in float64 where it matters (`dual_gradient`).

Where that is slow
    Steps are slow once the free set is nearly right, most of all for large C. After as many steps as cost the same, a
    Newton step on the free rows is tried, and kept if it raises the objective. A small problem on which steps progress
    slowly, as with unscaled features, is solved by an interior-point method (`interior_point`) after as many steps as
    cost the same.

Newton steps
    With every multiplier at a bound fixed there, and β = y ∘ α, the free rows solve
        K_FF Δ = ρ − F_F,   Σ Δ = 0
    so that F equals ρ on all of them: one symmetric system of order m + 1. Without an intercept, ρ = 0 and the sum is
    unconstrained. The primal-dual active set method (Hintermüller, Ito and Kunisch 2002) solves this system within the
    bounds. Rows that leave their bounds are fixed at them, fixed rows whose multiplier has the wrong sign are released,
    and the system is solved again until neither occurs. The matrix is factorised once; fixing k rows adds a system of
    order k + 1. If this does not end, the step is the first solution, cut at the first bound. Violating rows at a bound
    become free in the SMO steps that follow. A small multiple of its trace is added to the diagonal of the block
    because repeated rows make it singular. Further Newton steps correct for that.

End
    A gap within tolerance counts only by an F that is verified, where kernel values are float64, or confirmed in
    float64, where they are float32. If F in float64 refuses the gap, steps aim for a smaller one. A solution that is
    confirmed is polished by Newton steps to rounding error, where they are cheap. If the gap is within the rounding
    error of F but not within tolerance, steps follow an F in more digits, and the fit ends once they gain nothing.

Cost
    A working set takes q n kernel values for new rows at most, q n multiplications for F, and some 10 q steps of O(q).
    A Newton step takes m³/3 operations and m² values, m² operations for each fixed row, and one product with m kernel
    rows.

Memory
    24 n bytes, 2 q² values, and the cache of rows.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.rounding import BALANCED, EXACT, NEAR_BOUND, ROUNDING, SEEN, UNIT
from fastsvm.kernel_matrix.rows import ProblemRows
from fastsvm.linalg.cholesky import Inverse
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient, StoredGradient
from fastsvm.solvers.kernel_dual.interior_point import BLIND, STEPS, InteriorResult, badness, interior_solution
from fastsvm.solvers.kernel_dual.problem import (
    KernelDualState,
    KernelProblem,
    KernelSolution,
    duality_gap_is_within,
    feasible,
    followed,
    group_level,
    levelled,
    objective,
    primal_objective,
    violation,
)
from fastsvm.solvers.kernel_dual.working_sets import SolveBlock, WorkingSetSteps
from fastsvm.solvers.outer_loop import Report
from fastsvm.tuning import KernelTuning, current_tuning

# The ridge of a Newton step is relative to the trace, above the rounding error of values of so many bytes.
_RIDGE = {4: 1e-8, 8: ROUNDING}


@storable("decomposition memory")
class DecompositionMemory(NamedTuple):
    """What a decomposition knows beside its state; it decides the steps to come."""

    aim: float  # Steps aim for this gap.
    drift: float  # It is Σ |coef| of all that was added to F since F was recomputed.
    since_newton: int  # So many steps were taken since the last Newton step.
    failures: int  # So many Newton steps in a row gained little.
    n_sets: int  # So many working sets were solved.
    all_considered: bool  # It was decided whether all kernel rows should be computed.
    random: Mapping[str, object] | None = None  # It is the state of the random number generator, if there is one.
    n_steps: int = 0  # So many steps were taken in all, for some of which the interior-point method waits.
    interior_tried: bool = False
    rounding: float = 0.0  # It is the rounding error of F at the interior solution, 0 if that was not adopted.
    largest: float = 1.0  # No diagonal value of the kernel was larger among all rows that were in a working set.
    least: float = np.inf  # It is the least gap by an F in more digits.
    waited: int = 0  # So many gaps since were not less.
    best: float = -np.inf  # The objective after a working set was never higher.
    lowest: float = np.inf  # The gap after a working set was never lower.
    in_vain: tuple[int, int] = (0, 0)  # So many sets and steps reached neither since.


class _Verdict(Enum):
    """Whether a state is a solution."""

    CONTINUE = auto()
    CONFIRMED = auto()
    ROUNDING = auto()  # The gap is not within tolerance, but within the rounding error of F.


class Decomposition(ABC):
    """Solve one problem by working sets of `size` rows to a gap of `tol`; `tuning` None takes the current one.

    Newton and interior-point steps have at most `most_free` rows, and end at `deadline`, a moment of time.perf_counter.
    """

    _solve_block: SolveBlock

    def __init__(
        self,
        problem: KernelProblem,
        rows: ProblemRows,
        tol: float,
        size: int,
        pool: Pool,
        most_free: int = 2000,
        deadline: float = np.inf,
        tuning: KernelTuning | None = None,
    ) -> None:
        self.tuning = tuning = current_tuning().kernel if tuning is None else tuning
        self.problem, self.rows, self.tol, self.pool = problem, rows, tol, pool
        self.working_sets = WorkingSetSteps(problem, rows, size, pool, tuning)
        kind = StoredGradient if rows.gram.is_kernel else DualGradient
        self.gradient = kind(problem, rows, self.working_sets.products, tol)
        self._most_free, self._since_newton, self._newton_failures = most_free, 0, 0
        self._deadline, self._n_steps, self._interior_tried = deadline, 0, False
        self._all_considered = False
        self._aim = tol
        self._best, self._lowest, self._in_vain = -np.inf, np.inf, (0, 0)

    @abstractmethod
    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution and its certificate."""

    def memory(self) -> DecompositionMemory:
        """Return what the solver knows beside the state."""
        products = self.gradient.products
        return DecompositionMemory(
            aim=self._aim, drift=products.drift, since_newton=self._since_newton, failures=self._newton_failures,
            n_sets=self.working_sets.n_sets, all_considered=self._all_considered, n_steps=self._n_steps,
            interior_tried=self._interior_tried, rounding=self.gradient.rounding, largest=products.largest,
            least=self.gradient.least, waited=self.gradient.waited, best=self._best, lowest=self._lowest,
            in_vain=self._in_vain,
        )  # fmt: skip

    def recall(self, memory: DecompositionMemory) -> None:
        """Take over what another solver of the problem knew, to continue as that one would have."""
        products = self.gradient.products
        self._aim, products.drift = memory.aim, memory.drift
        self._since_newton, self._newton_failures = memory.since_newton, memory.failures
        self.working_sets.n_sets, self._all_considered = memory.n_sets, memory.all_considered
        self._n_steps, self._interior_tried = memory.n_steps, memory.interior_tried
        self.gradient.rounding, products.largest = memory.rounding, memory.largest
        self.gradient.least, self.gradient.waited = memory.least, memory.waited
        self._best, self._lowest, self._in_vain = memory.best, memory.lowest, memory.in_vain

    def init(self, alpha: np.ndarray | None = None) -> KernelDualState:
        """Return the state at `alpha`, made feasible, or at zero; given totals start as LIBSVM does."""
        n, nothing = len(self.problem.y), np.empty(0, np.int64)
        if alpha is None and self.problem.total == 0:
            if not self.gradient.exact:  # else sums of changes are replaced at the end, which rounds less
                self.gradient.products.drift = 0.0
            return KernelDualState(np.zeros(n), -self.problem.target, nothing)
        alpha = feasible(self.problem, np.zeros(n) if alpha is None else alpha)
        state = KernelDualState(alpha, np.empty(n), nothing)
        self.gradient.recompute(state)
        return state

    def follow(self, before: "Decomposition", state: KernelDualState) -> KernelDualState:
        """Return the state at which to begin after that in which the solver of a similar problem ended."""
        if before.rows is self.rows:
            self.working_sets.block = before.working_sets.block
        wanted, factor = followed(self.problem, state, before.problem)
        alpha, gradient = feasible(self.problem, wanted), factor * (state.gradient + before.problem.target)
        delta = (alpha - factor * state.alpha) * self.problem.y
        rows = np.flatnonzero(delta)
        state = KernelDualState(alpha, gradient - self.problem.target, state.working_set)
        if len(rows) >= np.count_nonzero(alpha):
            self.gradient.recompute(state)
        else:
            self.gradient.products.drift = factor * before.gradient.products.drift
            self.gradient.products.add_rows(state.gradient, rows, delta[rows])
        return state

    def trust_values(self) -> None:
        """Take the values of the kernel rows for the kernel, so that none is computed anew in float64."""
        self.gradient = StoredGradient(self.problem, self.rows, self.gradient.products, self.tol)

    def step(self, state: KernelDualState, most_steps: int) -> tuple[KernelDualState, Report]:
        """Solve one working set, or declare convergence after F is confirmed. Changes the state in place."""
        verdict = self._confirm(state)
        if verdict is _Verdict.CONFIRMED:
            return state, self._report(state, self._polish(state))
        if verdict is _Verdict.ROUNDING:  # even if F, which may err by more than the tolerance, shows no gap
            return state, self._report(state, violation(self.problem, *state[:2]))._replace(
                converged=False, stalled=True
            )
        self.working_sets.n_sets += 1
        level, low, high = levelled(self.problem, state.alpha, state.gradient)
        self._consider_all_rows(state, level, (low + high) / 2)
        before = objective(self.problem, state.alpha, state.gradient)
        state, n_steps = self._set_steps(state, self._aim, most_steps)
        n_newton = self._newton_if_slow(state, n_steps, before)
        n_interior = self._solve_if_slow(state, n_steps) if n_steps < most_steps else 0
        report = self._report(state, violation(self.problem, *state[:2]), n_steps)
        return state, report._replace(
            n_newton=n_newton + n_interior,
            converged=report.converged and self.gradient.exact,  # else the next step confirms it
            stalled=(report.stalled or self._is_vain(state, report)) and n_interior == 0,
        )

    def _set_steps(self, state: KernelDualState, tol: float, most_steps: int) -> tuple[KernelDualState, int]:
        return self.working_sets.take(state, tol, most_steps, self._solve_block)

    def _consider_all_rows(self, state: KernelDualState, level: np.ndarray, middle: float) -> None:
        """Once a quarter of the rows is computed, compute all others if so many will be needed that it is cheaper.

        Those needed are about the rows that have a multiplier now or are on the wrong side of their margin.
        """
        n = len(self.rows.gram)
        if self._all_considered or self.rows.counts.rows_computed < n / 4:
            return
        self._all_considered = True
        wrong = self.problem.y * (level - middle) < 0
        needed = self.rows.columns(np.flatnonzero((state.alpha > 0) | wrong))
        if len(np.unique(needed)) > self.rows.worth_filling * n:
            self.rows.fill()

    # --- Newton steps ------------------------------------------------------------------------------------------

    def _newton_if_slow(self, state: KernelDualState, n_steps: int, before: float) -> int:
        """Try a Newton step once the decomposition steps have cost as much, and return the number of kept ones, 0 or 1.

        `n_steps` were taken since the last call, from the objective `before`. Each failure doubles the wait.
        """
        self._since_newton += n_steps
        if n_steps == 0 or self._since_newton < self.tuning.many_steps or not self.tuning.newton:
            return 0
        n_free = np.count_nonzero((state.alpha > 0) & (state.alpha < self.problem.upper))
        wait = self.tuning.many_steps + int(n_free**3 / self.tuning.multiplications_of_step)
        if self._since_newton < wait << min(self._newton_failures, 10):
            return 0
        gap, reached = violation(self.problem, *state[:2]), objective(self.problem, *state[:2])
        kept = self._newton(state, self._most_free)
        gain_of_steps = (reached - before) * self._since_newton / n_steps
        is_higher = objective(self.problem, *state[:2]) > reached + SEEN * gain_of_steps
        good = violation(self.problem, *state[:2]) < (1 - SEEN) * gap or is_higher
        self._newton_failures = 0 if good else self._newton_failures + 1
        self._since_newton = 0
        return int(kept)

    def _newton(self, state: KernelDualState, most: int) -> bool:
        """Try a Newton step on at most `most` free rows; return whether it increased the objective and was accepted."""
        y, upper, balanced = self.problem.y, self.problem.upper, self.problem.groups > 0
        if self.problem.groups > 1 or not self.tuning.newton:
            return False
        free = np.flatnonzero((state.alpha > 0) & (state.alpha < upper))
        if not 2 <= len(free) <= min(most, self.rows.n_slots):
            return False
        slots, block = self.rows.fetch(free), self.working_sets.block.square(len(free))
        self.working_sets.block.gather(free, slots, 0, block)
        old, bound, sign = state.alpha[free], upper[free], y[free]
        low, high = np.where(sign > 0, -old, old - bound), np.where(sign > 0, bound - old, old)
        dtype = block.dtype if self.rows.cheap_among else self.rows.store.dtype
        change = newton_step(block, dtype, state.gradient[free], low, high, self.pool, balanced, self.tuning)
        if change is None:
            return False
        new = moved(old, bound, change * sign)
        if balanced and not _balance(new, old, bound, sign):
            return False
        delta = (new - old) * sign
        if self.rows.cheap and dtype != self.rows.store.dtype:  # float32 may hide what the step gains
            exact = state.gradient[free] + self.rows.weighted_sum(free, delta, free)
            if delta @ (state.gradient[free] + exact) > 0:  # minus twice the gain
                return False
            state.alpha[free] = new
            self.gradient.products.add(state.gradient, slots, delta)
            state.gradient[free] = exact
            return True
        before = state.alpha.copy(), state.gradient.copy(), objective(self.problem, *state[:2])
        state.alpha[free] = new
        self.gradient.products.add(state.gradient, slots, delta)
        if objective(self.problem, *state[:2]) >= before[2]:
            return True
        state.alpha[:], state.gradient[:] = before[:2]
        return False

    # --- the interior-point method -----------------------------------------------------------------------------

    def _solve_if_slow(self, state: KernelDualState, n_steps: int) -> int:
        """Solve the problem once the decomposition steps have cost as much, or if no step improves.

        Returned is the number of Newton steps, 0 if the state is not replaced by a better one.
        """
        self._n_steps += n_steps
        if not self._interior_is_due(state, n_steps):
            return 0
        y, upper, target, _, groups = self.problem
        result = interior_solution(self.gradient.matrix(), y, upper, target, groups > 0, self.pool, self._deadline)
        if result is None:
            self._interior_tried = time.perf_counter() < self._deadline  # after a time-out, a resumed fit tries again
            return 0
        self._interior_tried = True
        return max(1, result.n_steps) if self._adopt(state, result) else 0

    def _interior_is_due(self, state: KernelDualState, n_steps: int) -> bool:
        upper = self.problem.upper
        n = len(upper)
        if (
            self._interior_tried
            or not self.tuning.interior
            or self.problem.total > 0
            or n > min(self._most_free, self.tuning.block_rows, self.rows.n_slots)
        ):
            return False
        wait = self.tuning.many_steps + STEPS * n**3 / self.tuning.multiplications_of_step
        if n_steps > 0 and self._n_steps < wait:
            return False
        return violation(self.problem, *state[:2]) > self._aim and 0 < upper.min() <= upper.max() < np.inf

    def _adopt(self, state: KernelDualState, result: InteriorResult) -> bool:
        """Take the solution if it is better than the state, and return whether it is."""
        gradient, products = self.gradient, self.gradient.products
        saved = state.alpha.copy(), state.gradient.copy()
        drift, before = products.drift, self._badness(state)
        state.alpha[:] = feasible(self.problem, result.alpha)
        if gradient.exact:
            state.gradient[:], products.drift = gradient.certain(state)[0].gradient, 0.0
        else:
            gradient.recompute(state)
        if result.rounding <= BLIND and self._badness(state) < before:
            gradient.rounding = result.rounding
            return True
        state.alpha[:], state.gradient[:] = saved
        products.drift = drift
        if before >= 2 - SEEN and result.rounding > BLIND:  # steps from next to nothing cannot make progress either
            gradient.rounding = result.rounding
        return False

    def _badness(self, state: KernelDualState) -> float:
        rho = group_level(self.problem, 0, state.alpha, state.gradient) if self.problem.groups else 0.0
        primal = primal_objective(self.problem, state, rho)
        return badness(violation(self.problem, *state[:2]), primal, objective(self.problem, *state[:2]))

    # --- the end -----------------------------------------------------------------------------------------------

    def _confirm(self, state: KernelDualState) -> _Verdict:
        """Confirm or refuse the state as a solution; F may be corrected and the aim lowered."""
        while True:
            gap = violation(self.problem, *state[:2])
            if self.gradient.is_rounding(gap) and not (gap <= self.tol and self._is_certified(state)):
                if not self.gradient.refines(state):
                    return _Verdict.ROUNDING
                gap = violation(self.problem, *state[:2])
                if gap > self.tol:
                    return _Verdict.CONTINUE
            while 0 < gap <= self._aim and not self._is_certified(state):
                self._aim = gap / 2
            if gap <= self._aim:
                if state.alpha.any() and self.gradient.exact and not self.gradient.verified:
                    self.gradient.recompute(state)
                    self._best, self._lowest = -np.inf, np.inf  # those were of another F
                    continue
                if not self.gradient.confirm(state):
                    return _Verdict.CONFIRMED
                self._best, self._lowest = -np.inf, np.inf  # those were of another F
                gap = violation(self.problem, *state[:2])
                enough = self.tol - 2 * self.gradient.doubt
                if not enough > 0:
                    return _Verdict.ROUNDING
                if gap <= enough and self._is_certified(state):
                    return _Verdict.CONFIRMED
                self._aim = min(self._aim, enough, gap) * (1 - SEEN)
            if not (self.gradient.is_blurred(max(gap, self._aim)) and self.gradient.may_be_exact(state)):
                return _Verdict.CONTINUE
            self.gradient.correct(state)  # further steps should follow the true gradient
            self._best, self._lowest = -np.inf, np.inf  # those were of another F

    def _is_vain(self, state: KernelDualState, report: Report) -> bool:
        """Return whether working sets only follow rounding errors: neither objective nor gap were better for long.

        Where kernel values are huge but finite, F has errors that are larger than all that steps could gain.
        """
        is_higher = self._best == -np.inf or report.objective > self._best + 8 * UNIT * abs(self._best)
        is_better = is_higher or report.gap < (1 - SEEN) * self._lowest
        self._best, self._lowest = max(self._best, report.objective), min(self._lowest, report.gap)
        n_sets, n_steps = self._in_vain
        self._in_vain = (0, 0) if is_better else (n_sets + 1, n_steps + report.n_steps)
        if self._in_vain[0] == self.tuning.many_sets // 2:
            self.gradient.recompute(state)  # the errors may be those that steps left there
        many, steps = self.tuning.many_sets, self.tuning.many_sets * self.tuning.many_steps
        return self._in_vain[0] >= many and self._in_vain[1] >= steps

    def _report(self, state: KernelDualState, gap: float, n_steps: int = 0) -> Report:
        """Return the report of a step that reached a gap."""
        within = gap <= self._aim and self._is_certified(state)
        converged = within and (self.gradient.verified or not state.alpha.any())
        stalled = n_steps == 0 and not converged
        return Report(gap, objective(self.problem, state.alpha, state.gradient), n_steps, within, converged, stalled)

    def _polish(self, state: KernelDualState) -> float:
        """Reduce a gap within tolerance to rounding error in the state, where that is cheap, and return the gap.

        Where Newton steps show that the free set is not the right one yet, a working set takes as many steps as it has
        rows.
        """
        gap, gradient = violation(self.problem, *state[:2]), self.gradient
        alpha, first, drift, first_gap = state.alpha.copy(), state.gradient.copy(), gradient.products.drift, gap
        for _ in range(self.tuning.most_rounds if gradient.exact else 0):
            before = state.alpha.copy(), state.gradient.copy()
            if gap <= EXACT or gradient.is_rounding(gap):
                break
            if not self._newton(state, self.tuning.polished_rows):
                break
            if violation(self.problem, *state[:2]) > gap * 0.5:  # the free set is not the right one yet
                state, _ = self._set_steps(state, 2 * EXACT, self.working_sets.size)
            if violation(self.problem, *state[:2]) >= gap:  # the rest is rounding error
                state.alpha[:], state.gradient[:] = before
                break
            gap = violation(self.problem, *state[:2])
        if gradient.verified:
            return gap
        gradient.recompute(state)
        if violation(self.problem, *state[:2]) > max(first_gap, EXACT):  # the gain was rounding error
            state.alpha[:], state.gradient[:], gradient.products.drift = alpha, first, drift
        return violation(self.problem, *state[:2])

    def _is_certified(self, state: KernelDualState) -> bool:
        return duality_gap_is_within(self.problem, state, self.tol)


# --- the system of a Newton step ------------------------------------------------------------------------------


def _balance(new: np.ndarray, old: np.ndarray, upper: np.ndarray, y: np.ndarray) -> bool:
    """Restore Σ y α of the old multipliers in `new`, by those between their bounds; return whether that succeeds."""
    inside = (new > 0) & (new < upper)
    for _ in range(2):  # the second pass corrects the rounding of the first
        if inside.any():
            new[inside] -= (y * float(y @ (new - old)) / np.count_nonzero(inside))[inside]
    within = bool(((new >= 0) & (new <= upper)).all())
    return within and abs(float(y @ (new - old))) <= BALANCED * float(new.sum() + old.sum())


def newton_step(
    block: np.ndarray, dtype: np.dtype, gradient: np.ndarray, low: np.ndarray, high: np.ndarray, pool: Pool,
    balanced: bool, tuning: KernelTuning,
) -> np.ndarray | None:  # fmt: skip
    """Return Δ for the free rows, within `low` < 0 and `high` > 0, or None if the system cannot be solved.

    `block`, shape (m, m), has their kernel values, computed in `dtype`, and is overwritten. If `balanced`, Σ Δ = 0.
    """
    try:
        block[np.diag_indices_from(block)] += _RIDGE[dtype.itemsize] * max(float(np.trace(block)), 1e-300)
        inverse = Inverse(block, pool)
        ones = np.full(len(gradient), float(balanced))
        with np.errstate(over="ignore", invalid="ignore"):  # rows of zeros; a step that is not finite is rejected below
            of_gradient, of_ones = inverse.times(np.column_stack([gradient, ones])).T
        first = _free_step(of_gradient, of_ones, balanced)
        if first is None:
            return None
        step = _bounded_step(inverse, of_gradient, of_ones, low, high, balanced, tuning)
    except linalg.LinAlgError:
        return None
    if step is not None:
        return step
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # directions near 0
        reach = np.where(first > 0, high / first, np.where(first < 0, low / first, np.inf)).min()
    return max(0.0, min(1.0, float(reach))) * first  # so far that the step stays within its bounds


def _free_step(of_gradient: np.ndarray, of_ones: np.ndarray, balanced: bool) -> np.ndarray | None:
    """Return the solution without bounds, given the inverse times the gradient and times ones."""
    total = of_ones.sum()
    if not (np.isfinite(of_gradient).all() and np.isfinite(of_ones).all() and (total > 0 or not balanced)):
        return None
    if not balanced:
        return -of_gradient
    direction = of_gradient.sum() / total * of_ones - of_gradient
    return direction - direction.mean()


def _bounded_step(
    inverse: Inverse, of_gradient: np.ndarray, of_ones: np.ndarray, low: np.ndarray, high: np.ndarray, balanced: bool,
    tuning: KernelTuning,
) -> np.ndarray | None:  # fmt: skip
    """Return the solution within the bounds, or None if it takes too many rounds or fixes too many rows.

    `of_gradient` and `of_ones` are the inverse times gradient and ones. Rows are released in the first half of the
    rounds only, so that it ends.
    """
    m = len(low)
    bound = np.zeros(m)  # -1 or 1 for rows fixed at the lower or the upper bound
    place, halves = np.full(m, -1), np.empty((0, m))  # rows of the inverse's factor, for all rows ever fixed
    products = np.empty((0, 0))
    for k in range(tuning.most_rounds):
        fixed = np.flatnonzero(bound)
        if len(fixed) > tuning.most_fixed * m:
            return None
        fresh = fixed[place[fixed] < 0]
        if len(fresh):
            place[fresh] = len(halves) + np.arange(len(fresh))
            new = inverse.halves(fresh)
            beside = halves @ new.T
            halves, products = np.concatenate([halves, new]), np.block([[products, beside], [beside.T, new @ new.T]])
        target = np.where(bound[fixed] < 0, low[fixed], high[fixed])
        square = products[np.ix_(place[fixed], place[fixed])]
        # Without an intercept `of_ones` is zero, and the last equation becomes ρ = 0.
        system = np.block([[square, of_ones[fixed, None]], [of_ones[fixed], of_ones.sum() if balanced else 1.0]])
        solved = np.linalg.solve(system, np.append(target + of_gradient[fixed], of_gradient.sum() if balanced else 0.0))
        force, rho = solved[:-1], solved[-1]
        step = rho * of_ones - of_gradient
        if len(fixed):
            weights = np.zeros(len(halves))
            weights[place[fixed]] = force  # multipliers of the fixed rows
            step += inverse.half_times(weights @ halves)
        step[fixed] = target
        below, above = (step < low) & (bound == 0), (step > high) & (bound == 0)
        released = fixed[force * bound[fixed] > 0] if k < tuning.most_rounds // 2 else fixed[:0]
        if not (below.any() or above.any() or len(released)):
            free = bound == 0
            if balanced:
                step[free] -= step.sum() / max(1, np.count_nonzero(free))
            return step if free.any() and np.isfinite(step).all() else None
        bound[below], bound[above] = -1, 1
        bound[released] = 0
    return None


def moved(alpha: np.ndarray, upper: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return `alpha` + `change`, at a bound where it is within the rounding error of one.

    At 0 the error is relative to the multiplier, not to C: for large kernel values all multipliers are far below C.
    """
    result = alpha + change
    result = np.where(result <= NEAR_BOUND * alpha, 0.0, result)
    return np.where(result >= upper * (1 - NEAR_BOUND), upper, result)
