"""Working-set methods for the duals of kernel SVMs: what those with an offset and those without have in common.

Problem
    minimise    ½ αᵀQα − Σ_i α_i        with Q_ij = y_i y_j K_ij
    subject to  0 ≤ α_i ≤ C_i, and what the method adds to it,  y_i = ±1

State
    α and F_i = Σ_j α_j y_j K_ij − y_i, both float64. With U = {α_i < C_i, y_i = 1} ∪ {α_i > 0, y_i = −1} (rows whose
    y_i α_i may rise) and L = {α_i > 0, y_i = 1} ∪ {α_i < C_i, y_i = −1} (may fall), α is optimal if and only if
    the gap max_L F − min_U F is not positive; without an offset, if 0 is counted among both.

Step
    A working set of q rows: the newer half of the last one and the rows that violate most (Joachims 1999,
    section 3.2; the halves as in Wen et al. 2018, ThunderSVM). Its q × q block of K is copied to where the
    processor's cache holds it, and solved there, by steps that are the method's own, until its gap is a small part of
    the whole problem's. Then F += K_B Δ.

Where that is slow
    After many working sets, those to come are chosen within an active set (`active_set`), and F of the other rows is
    brought up to date now and then. Steps are slow too once the free set is nearly right, most of all for large
    C: when as many were taken as cost the same, a Newton step on the free rows (`newton`) is tried, and kept if it
    raises the objective. A problem of few rows on which steps creep, as they do where features are not scaled, is
    solved by an interior-point method (`interior_point`) after as many as cost the same. If what that finds is within
    the rounding error of F, but not within tolerance, nothing would be gained by more steps.

Cost
    q n kernel values for new rows, q n multiplications for F, some 10 q steps of O(q) each.

Memory
    24 n bytes, q² values, and the cache of rows.
"""

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.row_cache import RowCache
from fastsvm.solvers.kernel_dual.active_set import ActiveContents, ActiveSet
from fastsvm.solvers.kernel_dual.gradient_update import KernelProducts
from fastsvm.solvers.kernel_dual.gram_block import WorkingBlock
from fastsvm.solvers.kernel_dual.interior.interior_point import BLIND, interior_solution
from fastsvm.solvers.kernel_dual.interior.problem import badness, extended_sums
from fastsvm.solvers.kernel_dual.newton_step import moved, newton_step
from fastsvm.solvers.kernel_dual.working_set import bounds, select, settled
from fastsvm.solvers.outer_loop import Report

__all__ = ["Decomposition", "KernelDualState", "KernelProblem", "KernelSolution", "feasible", "shows"]

_STEPS_PER_ROW = 100
_COMPARISONS = 25_000_000  # some tens of milliseconds, during which no interrupt is noticed
_SETS_BEFORE_ACTIVE = 128  # working sets after which progress is slow
_ACTIVE_RATIO = 0.1  # of the gap, to which an active set is solved
INNER_SIZE = 1024  # rows of a working set within it
_INNER_ITERATIONS = 100
_LEAST_SET = 256  # rows of a working set when nothing is known
_RATIO = 0.02  # of the gap, to which a working set is solved
_PATIENCE = 0.6  # of the gap that rows in the cache must have to be solved before expensive ones are computed
_MOST_POLISHED = 300
_NEWTON_SPEED = 1_000_000  # multiplications of a factorisation in the time of a step
_STEPS_BEFORE_NEWTON = 20_000
_MOST_INTERIOR = 3072  # rows
_STEPS_BEFORE_INTERIOR = 100_000
_INTERIOR_SPEED = 5_000  # of the rows' cube, in the time of a step
_ROUNDED = 16  # times the rounding error of F that is of its largest sum, what others together may come to
_NOWHERE = 1.9  # badness of a solution whose duality gap is nine tenths of its objective
_POLISH_ROUNDS = 20
_UNSEEN = 0.1  # of the tolerance, which errors of the gradient may be
_DECIDING_ROWS = 32  # of either end, whose F is computed in float64 before a fit ends, and as many others
_DOUBT = 10  # times the error that was met, what errors elsewhere may be
_FEW_DOUBTFUL = 0.7  # of the rows, up to which those in doubt are computed and not all
_STRICTER = 0.9  # of the gap that was gone for, what is gone for after F in float64 refused it
_ROUNDING = 0.05  # of an error in each value, what comes to if there are few values: their errors do not cancel
_NEAR = 10  # times the tolerance
_EXACT = 1e-11
_BALANCED = 1e-13


class KernelProblem(NamedTuple):
    """What is to be solved: labels ±1 and upper bounds, both float64 of shape (n,)."""

    y: np.ndarray
    upper: np.ndarray


@storable("kernel dual state")
class KernelDualState(NamedTuple):
    """All that a solver must remember: multipliers, gradient F, and the last working set."""

    alpha: np.ndarray
    gradient: np.ndarray
    working_set: np.ndarray


@storable("decomposition memory")
class Memory(NamedTuple):
    """What a solver knows beside its state, which decides how it goes on.

    Attributes
    ----------
    aim, drift : float
        The gap that is gone for; and Σ |coef| of all that was added to the gradient since it was computed anew.
    since_newton, failures, n_sets : int
        Steps since a Newton step, how many of those gave little, and working sets.
    all_considered : bool
        Whether it was decided whether to compute all kernel rows.
    active : ActiveContents or None
        Rows of the active set.
    random : dict or None
        State of the generator of random numbers, if there is one.
    n_steps : int
        Steps since the beginning.
    interior_tried : bool
        Whether an interior-point method had its try.
    rounding : float
        Error of F for what it found, 0 if that was not kept.
    largest : float
        The greatest kernel value of a row with itself, of those that were in a working set.
    """

    aim: float
    drift: float
    since_newton: int
    failures: int
    n_sets: int
    all_considered: bool
    active: ActiveContents | None
    random: dict[str, Any] | None = None
    n_steps: int = 0
    interior_tried: bool = False
    rounding: float = 0.0
    largest: float = 1.0


@storable("kernel solution")
class KernelSolution(NamedTuple):
    """Multipliers, which rows are on or within the margin, offset, and the certificate of how good they are."""

    alpha: np.ndarray
    within: np.ndarray
    intercept: float
    objective: float
    duality_gap: float
    kkt_violation: float


def feasible(alpha: np.ndarray, problem: KernelProblem) -> np.ndarray:
    """Return multipliers near `alpha` that satisfy the constraints: clipped, then the larger class scaled down."""
    alpha = np.clip(alpha, 0, problem.upper)
    positive = problem.y > 0
    if abs(alpha @ problem.y) <= _BALANCED * alpha.sum():  # scaling would take rows off their bounds for nothing
        return alpha
    rise, fall = alpha[positive].sum(), alpha[~positive].sum()
    if rise > fall:
        alpha[positive] *= fall / rise
    elif fall > rise:
        alpha[~positive] *= rise / fall
    return alpha


def shows(total: float, dtype: np.dtype, tol: float) -> bool:
    """Return whether rounding errors of kernel values, times multipliers of that total, may be seen at `tol`."""
    return total * _ROUNDING * np.finfo(dtype).eps > _UNSEEN * tol


def _balance(new: np.ndarray, old: np.ndarray, upper: np.ndarray, y: np.ndarray) -> bool:
    """Make Σ y α of new multipliers that of the old ones, which clipping at bounds changed; return whether it is.

    All that are not at a bound share the difference.
    """
    inside = (new > 0) & (new < upper)
    for _ in range(2):  # the second time for the rounding of the first
        if inside.any():
            new[inside] -= (y * float(y @ (new - old)) / np.count_nonzero(inside))[inside]
    within = bool(((new >= 0) & (new <= upper)).all())
    return within and abs(float(y @ (new - old))) <= _BALANCED * float(new.sum() + old.sum())


class Decomposition(ABC):
    """Solve one two-class problem by working sets.

    Parameters
    ----------
    problem : KernelProblem
        Labels and bounds.
    rows : RowCache
        The kernel.
    tol : float
        Largest gap at the end.
    size : int
        Rows of a working set.
    pool : Pool
        Threads.
    active : ActiveSet or None
        Where most steps are taken, empty at first; None to take them on working sets of the whole problem.
    most_free : int, default=2000
        Rows of a Newton step at most, and of an interior-point method.
    deadline : float
        Moment (of time.perf_counter) at which steps that take long are given up.
    """

    balanced: ClassVar[bool]
    """Whether Σ_i y_i α_i = 0 is asked for, as it is if there is an offset."""

    def __init__(
        self,
        problem: KernelProblem,
        rows: RowCache | ActiveSet,
        tol: float,
        size: int,
        pool: Pool,
        active: ActiveSet | None = None,
        most_free: int = 2000,
        deadline: float = np.inf,
    ) -> None:
        self.problem, self.rows, self.tol, self.pool, self.active = problem, rows, tol, pool, active
        self._deadline = deadline
        self.size = max(2, min(size, len(problem.y), rows.n_slots))
        self.most_free = most_free
        self._products = KernelProducts(rows, pool)
        self._block = WorkingBlock(rows, pool)
        self._aim = tol  # the gap that is gone for
        self._since_newton = self._failures = 0
        self._n_sets = self._n_steps = 0
        self._interior_tried, self._rounding = False, 0.0
        self._largest = 1.0  # of a row with itself
        self._all_considered = isinstance(rows, ActiveSet)

    # --- what a method adds ----------------------------------------------------------------------------------

    @abstractmethod
    def _feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers near `alpha` that satisfy the constraints."""

    @staticmethod
    @abstractmethod
    def _ends(y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray) -> tuple[float, float]:
        """Return the least F that may rise and the greatest that may fall; how much it is greater is the gap."""

    @abstractmethod
    def _solve_block(
        self,
        block: np.ndarray,
        part: KernelProblem,
        alpha: np.ndarray,
        gradient: np.ndarray,
        target: float,
        most_steps: int,
    ) -> int:
        """Solve a block's own problem in `alpha` to a gap of `target` and return the number of steps."""

    @abstractmethod
    def _on_active(self, part: KernelProblem, target: float) -> "Decomposition":
        """Return a solver of the problem among the rows of the active set."""

    @abstractmethod
    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution and its certificate."""

    def _certified(self, state: KernelDualState) -> bool:
        """Return whether all else that is asked for at the end holds; if not, the gap will have to be smaller."""
        return True

    # --- going on elsewhere ----------------------------------------------------------------------------------

    def memory(self) -> Memory:
        """Return what is known beside the state."""
        return Memory(
            self._aim, self._products.drift, self._since_newton, self._failures, self._n_sets, self._all_considered,
            None if self.active is None else self.active.contents(), None, self._n_steps, self._interior_tried,
            self._rounding, self._largest,
        )  # fmt: skip

    def recall(self, memory: Memory) -> None:
        """Go on as the solver would have that knew this."""
        self._aim, self._products.drift, self._since_newton, self._failures = memory[:4]
        self._n_sets, self._all_considered = memory[4:6]
        self._n_steps, self._interior_tried, self._rounding, self._largest = memory[8:]
        if memory.active is not None:
            self.active.refill(memory.active)

    # --- the method ------------------------------------------------------------------------------------------

    @property
    def verified(self) -> bool:
        """Whether the gradient is that of the multipliers, but for errors that are small beside the tolerance."""
        # Values of float32 were chosen because their rounding, times the values, is small.
        scale = self._largest if self._exact else 1.0
        return not shows(self._products.drift * scale, self.rows.store.dtype, self.tol)

    def init(self, alpha: np.ndarray | None = None) -> KernelDualState:
        """Return the state at `alpha`, which is made feasible, or at zero."""
        n = len(self.problem.y)
        nothing = np.empty(0, np.int64)
        if alpha is None:
            return KernelDualState(np.zeros(n), -self.problem.y, nothing)
        state = KernelDualState(self._feasible(alpha), np.empty(n), nothing)
        self._recompute(state)
        return state

    def step(self, state: KernelDualState, most_steps: int) -> tuple[KernelDualState, Report]:
        """Solve one working set, or declare convergence after recomputing the gradient.

        Parameters
        ----------
        state : KernelDualState
            Its arrays are changed in place.
        most_steps : int
            Steps allowed.
        """
        low, high = self._bounds(state)
        if self._at_rounding(high - low) and not (high - low <= self.tol and self._certified(state)):
            return state, self._report(state, high - low)
        while 0 < high - low <= self._aim and not self._certified(state):
            self._aim = (high - low) / 2
        if high - low <= self._aim:
            if state.alpha.any() and not self.verified:
                self._recompute(state)
                return self.step(state, most_steps)
            if self._confirmed(state):
                return state, self._report(state, self._polish(state))
            low, high = self._bounds(state)
            self._aim = min(self._aim, max(0.0, high - low)) * _STRICTER
        if high - low <= _NEAR * self._aim and not self.verified and self._may_be_exact(state):
            self._recompute(state)  # so that the last steps are those of the true gradient
            return self.step(state, most_steps)
        self._n_sets += 1
        self._consider_all_rows(state, low, high)
        slow = self.active is not None and self._n_sets > _SETS_BEFORE_ACTIVE
        state, n_steps = (self._active_steps if slow else self._set_steps)(state, self._aim, most_steps)
        n_newton = self._newton_if_slow(state, n_steps)
        n_interior = self._interior_if_slow(state, n_steps) if n_steps < most_steps else 0
        report = self._report(state, self._gap(state), n_steps)
        return state, report._replace(
            n_newton=n_newton + n_interior,
            converged=report.converged and self._exact,  # else the next step confirms it
            stalled=report.stalled and n_interior == 0,
        )

    def _bounds(self, state: KernelDualState) -> tuple[float, float]:
        return self._ends(*self.problem, state.alpha, state.gradient)

    def _set_steps(self, state: KernelDualState, tol: float, most_steps: int) -> tuple[KernelDualState, int]:
        """Choose and solve a working set; return the state and the number of steps."""
        low, high = self._bounds(state)
        if high <= low:
            return state, 0
        whole = self.size == len(state.alpha)
        chosen, target = (np.arange(self.size), 0.5 * tol) if whole else self._choose(state, low, high, tol)
        n_steps = self._solve(state, chosen, target, most_steps)
        return state._replace(working_set=chosen), n_steps

    def _choose(self, state: KernelDualState, low: float, high: float, tol: float) -> tuple[np.ndarray, float]:
        """Return a working set and the gap to which it is to be solved.

        While those whose rows are in the cache violate much, no expensive rows are computed for others: many will do so
        no longer when those are settled, and the rest are computed together.
        """
        # As many rows as support: with more, and little known, rows would be computed that are of no use.
        size = min(self.size, max(_LEAST_SET, np.count_nonzero(state.alpha)))
        retained = state.working_set[len(state.working_set) // 2 :][: size - 2]
        values = *self.problem, state.alpha, state.gradient
        chosen = np.empty(size, np.int64)
        if self.rows.expensive:
            known = np.flatnonzero(self.rows.cached(np.arange(len(state.alpha))))
            among = [each[known] for each in values]
            least, most = self._ends(*among) if len(known) > size else (high, low)
            if most - least > _PATIENCE * (high - low):
                places = np.searchsorted(known, retained[self.rows.cached(retained)])
                count = select(*among, places, least, most, chosen)
                return known[chosen[:count]], max(_RATIO * (most - least), 0.5 * tol)
        count = select(*values, retained, low, high, chosen)
        return chosen[:count], max(_RATIO * (high - low), 0.5 * tol)

    def _consider_all_rows(self, state: KernelDualState, low: float, high: float) -> None:
        """Once a quarter of the rows was computed, compute all others if so many will be needed that it is cheaper.

        Those needed in the end are about those that have a multiplier now or are on the wrong side of their margin.
        """
        n = len(self.problem.y)
        if self._all_considered or self.rows.n_computed < n / 4:
            return
        self._all_considered = True
        wrong = self.problem.y * (state.gradient - (low + high) / 2) < 0
        if np.count_nonzero((state.alpha > 0) | wrong) > self.rows.worth_filling * n:
            self.rows.fill()

    def _active_steps(self, state: KernelDualState, tol: float, most_steps: int) -> tuple[KernelDualState, int]:
        """Let violators into the active set, solve the problem among its rows, then bring F up to date everywhere."""
        low, high = self._bounds(state)
        if high <= low:
            return state, 0
        y, upper = self.problem
        rows = self._admit(state, low, high)
        target = max(_ACTIVE_RATIO * (high - low), 0.5 * tol)
        inner = self._on_active(KernelProblem(y[rows], upper[rows]), target)
        local = KernelDualState(state.alpha[rows], state.gradient[rows], np.empty(0, np.int64))
        n_steps = 0
        for _ in range(_INNER_ITERATIONS):
            local, taken = inner._set_steps(local, target, most_steps - n_steps)
            n_steps += taken
            if taken == 0 or n_steps >= most_steps:
                break
        delta = (local.alpha - state.alpha[rows]) * y[rows]
        state.alpha[rows] = local.alpha
        changed = delta != 0
        self._products.add_rows(state.gradient, rows[changed], delta[changed])
        return state, n_steps

    def _admit(self, state: KernelDualState, low: float, high: float) -> np.ndarray:
        """Put the worst violators into the active set and return its rows."""
        y, upper = self.problem
        present = self.active.rows
        size = min(self.size, self.active.capacity)
        most = size if len(present) else self.active.capacity
        chosen = np.empty(len(present) + most, np.int64)
        count = select(y, upper, state.alpha, state.gradient, present, low, high, chosen)
        worst = [place for end in (low, high) for place in np.flatnonzero(state.gradient[present] == end)[:1]]
        self.active.keep(worst)  # without them there might be nothing to do
        entering = chosen[len(present) : count][: self.active.capacity - len(worst)]
        for a, b in spans(len(entering), size):
            part, inside = entering[a:b], self.active.rows
            slack = settled(y[inside], upper[inside], state.alpha[inside], state.gradient[inside], low, high)
            self.active.admit(part, self.rows.fetch(part), self.rows.store, slack)
        return self.active.rows

    def _objective(self, state: KernelDualState) -> float:
        """Return Σα − ½ αᵀQα = ½ Σ α_i (1 − y_i F_i)."""
        return float(state.alpha @ (1 - self.problem.y * state.gradient)) / 2

    def _primal(self, state: KernelDualState, rho: float) -> float:
        """Return the primal objective with the offset −ρ."""
        y, upper = self.problem
        loss = float(upper @ np.maximum(0, -y * (state.gradient - rho)))  # y_i (f(x_i) − ρ) = 1 + y_i (F_i − ρ)
        return float(state.alpha @ (y * state.gradient + 1)) / 2 + loss

    def _rho(self, state: KernelDualState) -> float:
        """Return the mean of F over the free rows; if there are none, the middle of what the others allow.

        Without an offset in the problem they may bound it on one side only: then it is the least that is allowed.
        """
        free = (state.alpha > 0) & (state.alpha < self.problem.upper)
        if free.any():
            return float(state.gradient[free].mean())
        low, high = bounds(*self.problem, state.alpha, state.gradient)
        return (low + high) / 2 if low - high < np.inf else float(np.clip(0.0, high, low))

    def _report(self, state: KernelDualState, gap: float, n_steps: int = 0) -> Report:
        within = gap <= self._aim and self._certified(state)
        converged = within and (self.verified or not state.alpha.any())
        stalled = n_steps == 0 and not converged
        return Report(max(0.0, gap), self._objective(state), n_steps, within, converged, stalled)

    def _solve(self, state: KernelDualState, chosen: np.ndarray, target: float, most_steps: int) -> int:
        part = KernelProblem(self.problem.y[chosen], self.problem.upper[chosen])
        slots = self.rows.fetch(chosen)
        block = self._block.of(chosen, slots)
        self._largest = max(self._largest, float(np.abs(np.diagonal(block)).max()))
        before = state.alpha[chosen]
        alpha = before.copy()
        limit = min(most_steps, _STEPS_PER_ROW * len(chosen), _COMPARISONS // len(chosen))
        n_steps = self._solve_block(block, part, alpha, state.gradient[chosen], target, limit)
        state.alpha[chosen] = alpha
        delta = (alpha - before) * part.y
        changed = delta != 0
        self._products.add(state.gradient, slots[changed], delta[changed])
        return n_steps

    def _newton_if_slow(self, state: KernelDualState, n_steps: int) -> int:
        """Try a Newton step after as many steps as cost the same, after one that gave little twice as many."""
        self._since_newton += n_steps
        if self._since_newton < _STEPS_BEFORE_NEWTON:
            return 0
        n_free = np.count_nonzero((state.alpha > 0) & (state.alpha < self.problem.upper))
        if self._since_newton < (_STEPS_BEFORE_NEWTON + n_free**3 // _NEWTON_SPEED) << min(self._failures, 10):
            return 0
        gap, objective = self._gap(state), self._objective(state)
        kept = self._newton(state, self.most_free)
        good = self._gap(state) < 0.9 * gap or self._objective(state) > objective + 0.01 * abs(objective)
        self._failures = 0 if good else self._failures + 1
        self._since_newton = 0
        return int(kept)

    def _interior_if_slow(self, state: KernelDualState, n_steps: int) -> int:
        """Solve the problem by an interior-point method after as many steps as cost the same, or if none improves.

        Returns
        -------
        int
            Newton steps taken, 0 if what they led to is not kept.
        """
        self._n_steps += n_steps
        n = len(self.problem.y)
        if self._interior_tried or n > min(_MOST_INTERIOR, self.most_free, self.rows.n_slots):
            return 0
        if n_steps > 0 and self._n_steps < _STEPS_BEFORE_INTERIOR + n**3 // _INTERIOR_SPEED:
            return 0
        if self._gap(state) <= self._aim or not 0 < self.problem.upper.min() <= self.problem.upper.max() < np.inf:
            return 0
        found = interior_solution(self._matrix(), *self.problem, self.balanced, self.pool, self._deadline)
        if found is None:
            self._interior_tried = time.perf_counter() < self._deadline  # one that was cut short is begun again
            return 0
        self._interior_tried = True
        kept = KernelDualState(state.alpha.copy(), state.gradient.copy(), state.working_set), self._products.drift
        before = self._badness(state)
        state.alpha[:] = self._feasible(found.alpha)
        if self._exact:
            state.gradient[:] = self._extended_gradient(state.alpha)
            self._products.drift = 0.0
        else:
            self._recompute(state)
        if found.rounding <= BLIND and self._badness(state) < before:
            self._rounding = found.rounding
            return max(1, found.n_steps)
        state.alpha[:], state.gradient[:] = kept[0][:2]
        self._products.drift = kept[1]
        if before >= _NOWHERE and found.rounding > BLIND:  # nor would steps lead anywhere
            self._rounding = found.rounding
        return 0

    def _at_rounding(self, gap: float) -> bool:
        """Return whether a gap may be the rounding error of a gradient, so that steps would follow that."""
        return self._rounding > 0 and gap <= _ROUNDED * self._rounding

    def _matrix(self) -> np.ndarray:
        """Return the kernel matrix in float64, in new memory."""
        places = np.arange(len(self.problem.y))
        if self._exact or not self.rows.cheap_among:
            return self.rows.store[self.rows.fetch(places)].astype(np.float64, copy=False)
        out = np.empty((len(places), len(places)))
        self.rows.among(places, 0, out)
        return out

    def _extended_gradient(self, alpha: np.ndarray) -> np.ndarray:
        """Return F, summed with more digits than float64 has."""
        return extended_sums(self._matrix(), alpha * self.problem.y, -self.problem.y)

    def _badness(self, state: KernelDualState) -> float:
        rho = self._rho(state) if self.balanced else 0.0
        return badness(self._gap(state), self._primal(state, rho), self._objective(state))

    def _newton(self, state: KernelDualState, most: int) -> bool:
        """Try a Newton step on the free rows; keep it and return true if it raises the objective."""
        y, upper = self.problem
        free = np.flatnonzero((state.alpha > 0) & (state.alpha < upper))
        if not 2 <= len(free) <= min(most, self.rows.n_slots):
            return False
        slots, block = self.rows.fetch(free), self._block.square(len(free))
        self._block.gather(free, slots, 0, block)
        old, bound, sign = state.alpha[free], upper[free], y[free]
        low, high = np.where(sign > 0, -old, old - bound), np.where(sign > 0, bound - old, old)
        dtype = block.dtype if self.rows.cheap_among else self.rows.store.dtype
        change = newton_step(block, dtype, state.gradient[free], low, high, self.pool, self.balanced)
        if change is None:
            return False
        new = moved(old, bound, change * sign)
        if self.balanced and not _balance(new, old, bound, sign):
            return False
        kept = state.alpha.copy(), state.gradient.copy(), self._objective(state)
        state.alpha[free] = new
        self._products.add(state.gradient, slots, (state.alpha - kept[0])[free] * y[free])
        if self._objective(state) >= kept[2]:
            return True
        state.alpha[:], state.gradient[:] = kept[:2]
        return False

    def _polish(self, state: KernelDualState) -> float:
        """Go on from within tolerance to rounding error, where that is cheap, and return the gap."""
        gap = self._gap(state)
        begin = state.alpha.copy(), state.gradient.copy(), self._products.drift, gap
        for _ in range(_POLISH_ROUNDS):
            kept = state.alpha.copy(), state.gradient.copy()
            if gap <= _EXACT or self._at_rounding(gap):
                break
            if not self._exact or not self._newton(state, _MOST_POLISHED):
                break
            if self._gap(state) > gap * 0.5:  # the free set is not the right one yet
                state, _ = self._set_steps(state, 2 * _EXACT, self.size)
            if self._gap(state) >= gap:  # rounding is all that is left
                state.alpha[:], state.gradient[:] = kept
                break
            gap = self._gap(state)
        if self.verified:
            return gap
        self._recompute(state)
        if self._gap(state) > max(begin[3], _EXACT):  # what was gained was rounding
            state.alpha[:], state.gradient[:], self._products.drift = begin[:3]
        return self._gap(state)

    def _gap(self, state: KernelDualState) -> float:
        low, high = self._bounds(state)
        return max(0.0, high - low)

    def _may_be_exact(self, state: KernelDualState) -> bool:
        """Return whether kernel values in float64 are of use for the gradient, and cheap."""
        dtype = self.rows.store.dtype
        return dtype == np.float32 and self.rows.cheap and shows(state.alpha.sum(), dtype, self.tol)

    @property
    def _exact(self) -> bool:
        """Whether kernel values are computed in float64."""
        return self.rows.store.dtype == np.float64

    def _confirmed(self, state: KernelDualState) -> bool:
        """Return whether the gap is within tolerance by F in float64, which is written to the rows that decide.

        Those are the rows that violate most or nearly do, and some others. If F is wrong there by more than may be,
        it is computed anew for more rows: all that have a multiplier, of which the objective is made, and those that
        would violate if F were wrong by many times as much.
        """
        support = np.flatnonzero(state.alpha)
        if self._exact or len(support) == 0:
            return True
        error = self._set_exactly(state, support, self._deciding(state))
        if error > _UNSEEN * self.tol:
            slack = settled(*self.problem, state.alpha, state.gradient, *self._bounds(state))
            doubtful = np.flatnonzero((state.alpha > 0) | (slack <= _DOUBT * error))
            few = self.rows.resident and len(doubtful) <= _FEW_DOUBTFUL * len(slack)
            if not few or self._set_exactly(state, support, doubtful) > _DOUBT / 2 * error:
                self._set_exactly(state, support, None)
        low, high = self._bounds(state)
        return high - low <= self.tol and self._certified(state)

    def _set_exactly(self, state: KernelDualState, support: np.ndarray, places: np.ndarray | None) -> float:
        """Write F in float64 to some rows, or to all, and return by how much it was wrong."""
        coef = (state.alpha * self.problem.y)[support]
        where = slice(None) if places is None else places
        exact = self.rows.weighted_sum(support, coef, places) - self.problem.y[where]
        error = float(np.abs(exact - state.gradient[where]).max(initial=0.0))
        state.gradient[where] = exact
        return error

    def _deciding(self, state: KernelDualState) -> np.ndarray:
        """Return the rows of least F among those that may rise, of greatest among those that may fall, and others."""
        y, upper = self.problem
        n = len(y)
        up = np.where(y > 0, state.alpha < upper, state.alpha > 0)
        down = np.where(y > 0, state.alpha > 0, state.alpha < upper)
        most = min(_DECIDING_ROWS, n)
        rises = np.argpartition(np.where(up, state.gradient, np.inf), most - 1)[:most]
        falls = np.argpartition(np.where(down, -state.gradient, np.inf), most - 1)[:most]
        return np.unique(np.concatenate([rises, falls, np.linspace(0, n - 1, most).astype(np.int64)]))

    def _summed_anew(self, state: KernelDualState) -> KernelDualState:
        """Return the state with F from its multipliers alone, if the kernel rows for it are cached in float64.

        The sum of all changes differs from it by the rounding of each.
        """
        support = np.flatnonzero(state.alpha)
        slots = self.rows.slots_of(support)
        if not self._exact or (slots < 0).any():
            return state
        if self._rounding > 0:  # which is large here
            return state._replace(gradient=self._extended_gradient(state.alpha))
        gradient, drift = -self.problem.y, self._products.drift
        self._products.add(gradient, slots, (state.alpha * self.problem.y)[support])
        self._products.drift = drift
        return state._replace(gradient=gradient)

    def _recompute(self, state: KernelDualState) -> None:
        """Set the gradient from the multipliers alone."""
        support = np.flatnonzero(state.alpha)
        coef = (state.alpha * self.problem.y)[support]
        state.gradient[:] = -self.problem.y
        if self._may_be_exact(state):
            state.gradient[:] += self.rows.weighted_sum(support, coef)
        else:
            self._products.add_rows(state.gradient, support, coef)
        self._products.drift = 0.0
