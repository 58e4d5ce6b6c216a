"""Decomposition: the working-set method for the duals of kernel SVMs, with and without an intercept.

Step
    A working set has q rows: the newer half of the last one and the rows that violate most (Joachims 1999,
    section 3.2; the halves as in Wen et al. 2018, ThunderSVM). Its q × q block of K is copied to where the
    processor's cache holds it. The block's own problem is solved there, by steps of two multipliers (`smo`) or one
    (`coordinate_ascent`), until its gap is a small part of the whole problem's. Then F += K_B Δ.

Where kernel values are cheap
    With few features, reading a kernel row from memory takes as long as computing it. No row is stored then
    (`recomputed_rows`). A working set has thousands of rows, and is solved by working sets of its own
    (`working_set_steps`), so that F of all rows changes a few dozen times, not some hundred. The first sets are smaller
    and have none, while most multipliers that change go to a bound and stay there. Where rows are long and
    values not dear, whole rows are computed after a set is solved, for its rows that changed. Kernel values are float32
    even where their rounding is visible. What it does to F is corrected in float64 where it matters (`dual_gradient`).

Where that is slow
    Steps are slow once the free set is nearly right, most of all for large C. After as many steps as cost the same, a
    Newton step on the free rows (`newton_step`) is tried, and kept if it raises the objective. A small problem on which
    steps progress slowly, as with unscaled features, is solved by an interior-point method (`interior_trial`) after as
    many steps as cost the same.

End
    See `termination`.

Cost
    q n kernel values for new rows at most, q n multiplications for F, some 10 q steps of O(q) each.

Memory
    24 n bytes, 2 q² values, and the cache of rows.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.paired_rows import ProblemRows
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient
from fastsvm.solvers.kernel_dual.interior_trial import InteriorTrial
from fastsvm.solvers.kernel_dual.newton_step import NewtonTrial
from fastsvm.solvers.kernel_dual.problem import (
    DecompositionMemory,
    Formulation,
    KernelDualState,
    KernelProblem,
    KernelSolution,
)
from fastsvm.solvers.kernel_dual.termination import Termination, Verdict
from fastsvm.solvers.kernel_dual.working_set_steps import WorkingSetSteps
from fastsvm.solvers.outer_loop import Report
from fastsvm.tuning import KernelTuning, current_tuning

__all__ = ["Decomposition"]


class Decomposition(ABC):
    """Solve one two-class problem by working sets of `size` rows.

    `tol` is the largest gap at the end. A Newton step, or an interior-point method, has at most `most_free` rows. Long
    steps are given up at `deadline`, a moment of time.perf_counter. `tuning` is that of the fit, None for the current
    one.
    """

    formulated: ClassVar[type[Formulation]]
    """What is solved."""

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
        tuning = current_tuning().kernel if tuning is None else tuning
        self.problem, self.rows, self.tol, self.pool = problem, rows, tol, pool
        self.formulation = self.formulated(problem)
        self.working_sets = WorkingSetSteps(self.formulation, rows, size, pool, tuning)
        self.gradient = DualGradient(self.formulation, rows, self.working_sets.products, tol)
        self._termination = Termination(self.formulation, self.gradient, tol, tuning)
        kernel = rows, self.working_sets.block, self.working_sets.products
        self._newton = NewtonTrial(self.formulation, kernel, pool, most_free, tuning)
        self._interior = InteriorTrial(self.formulation, self.gradient, pool, most_free, deadline, tuning)
        self._all_considered = False

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
    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution and its certificate."""

    def memory(self) -> DecompositionMemory:
        """Return what the solver knows beside the state."""
        products, newton, interior = self.gradient.products, self._newton, self._interior
        return DecompositionMemory(
            self._termination.aim, products.drift, newton.n_steps, newton.failures, self.working_sets.n_sets,
            self._all_considered, None, interior.n_steps, interior.tried,
            self.gradient.rounding, products.largest, self.gradient.least, self.gradient.waited,
            self._termination.best, self._termination.lowest, self._termination.in_vain,
        )  # fmt: skip

    def recall(self, memory: DecompositionMemory) -> None:
        """Take over what another solver of the problem knew, to continue as that one would have."""
        products, newton, interior = self.gradient.products, self._newton, self._interior
        self._termination.aim, products.drift = memory.aim, memory.drift
        newton.n_steps, newton.failures = memory.since_newton, memory.failures
        self.working_sets.n_sets, self._all_considered = memory.n_sets, memory.all_considered
        interior.n_steps, interior.tried = memory.n_steps, memory.interior_tried
        self.gradient.rounding, products.largest = memory.rounding, memory.largest
        self.gradient.least, self.gradient.waited = memory.least, memory.waited
        termination = self._termination
        termination.best, termination.lowest, termination.in_vain = memory.best, memory.lowest, memory.in_vain

    def init(self, alpha: np.ndarray | None = None) -> KernelDualState:
        """Return the state at `alpha`, which is made feasible, or at the start of the problem, which may be zero."""
        n = len(self.problem.y)
        nothing = np.empty(0, np.int64)
        alpha = self.formulation.start() if alpha is None else alpha
        if alpha is None:
            if not self.gradient.exact:  # else sums of changes are replaced at the end, which rounds less
                self.gradient.products.drift = 0.0
            return KernelDualState(np.zeros(n), -self.problem.target, nothing)
        state = KernelDualState(self.formulation.feasible(alpha), np.empty(n), nothing)
        self.gradient.recompute(state)
        return state

    def step(self, state: KernelDualState, most_steps: int) -> tuple[KernelDualState, Report]:
        """Solve one working set, or declare convergence after F is confirmed. Changes the state in place."""
        verdict = self._termination.verdict(state)
        level, (low, high) = self.formulation.levelled(state)
        if verdict is Verdict.CONFIRMED:
            gap = self._termination.polish(state, self._newton, self._set_steps, self.working_sets.size)
            return state, self._termination.report(state, gap)
        if verdict is Verdict.ROUNDING:
            return state, self._termination.report(state, high - low)
        self.working_sets.n_sets += 1
        self._consider_all_rows(state, level, (low + high) / 2)
        before = self.formulation.objective(state)
        state, n_steps = self._set_steps(state, self._termination.aim, most_steps)
        n_newton = self._newton.improve_if_slow(state, n_steps, before)
        n_interior = 0
        if n_steps < most_steps:
            n_interior = self._interior.solve_if_slow(state, n_steps, self._termination.aim)
        report = self._termination.report(state, self.formulation.gap(state), n_steps)
        return state, report._replace(
            n_newton=n_newton + n_interior,
            converged=report.converged and self.gradient.exact,  # else the next step confirms it
            stalled=(report.stalled or self._termination.is_vain(state, report)) and n_interior == 0,
        )

    def _set_steps(self, state: KernelDualState, tol: float, most_steps: int) -> tuple[KernelDualState, int]:
        return self.working_sets.take(state, tol, most_steps, self._solve_block)

    def _consider_all_rows(self, state: KernelDualState, level: np.ndarray, middle: float) -> None:
        """Once a quarter of the rows is computed, compute all others if so many will be needed that it is cheaper.

        The rows needed in the end are about those that have a multiplier now or are on the wrong side of their margin.
        """
        n = self.rows.store.shape[1]
        if self._all_considered or self.rows.n_computed < n / 4:
            return
        self._all_considered = True
        wrong = self.problem.y * (level - middle) < 0
        needed = self.rows.columns(np.flatnonzero((state.alpha > 0) | wrong))
        if len(np.unique(needed)) > self.rows.worth_filling * n:
            self.rows.fill()
