"""Sequential minimal optimisation: two multipliers at a time, for kernel SVMs with an intercept.

Problem
    That of `problem`, with an intercept.

Step
    Two multipliers of a working set move so that Σ_i y_i α_i stays, to the minimum or the first bound (Platt 1998).
    `smo_block` chooses them.

Intercept
    The mean of −F over the free rows; without free rows, the middle of the interval that is optimal.
"""

from typing import ClassVar

import numpy as np

from fastsvm.kernel_matrix.rounding import INVISIBLE, ROUNDING
from fastsvm.solvers.kernel_dual.certificate import solution_of
from fastsvm.solvers.kernel_dual.decomposition import Decomposition
from fastsvm.solvers.kernel_dual.problem import (
    Formulation,
    KernelDualState,
    KernelProblem,
    KernelSolution,
    WithIntercept,
)
from fastsvm.solvers.kernel_dual.smo_block import one_group, solve_block

__all__ = ["SMO"]


class SMO(Decomposition):
    """Solve one two-class problem, with an intercept."""

    formulated: ClassVar[type[Formulation]] = WithIntercept

    def _solve_block(
        self,
        block: np.ndarray,
        part: KernelProblem,
        alpha: np.ndarray,
        gradient: np.ndarray,
        target: float,
        most_steps: int,
    ) -> int:
        return solve_block(block, part, alpha, gradient, one_group(len(alpha)), target, most_steps)

    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution and its certificate."""
        dual = self.formulation
        state, error = self.gradient.certain(state)
        near = self._at_bounds(state)
        if near is not state:
            of_change = self.gradient.bounds.of_change(near.alpha - state.alpha)
            if dual.violation(near, error + of_change) > self.tol >= dual.violation(state, error):
                near = state
            else:
                error = error + of_change
        return solution_of(dual, near, error, self.tol)

    def _at_bounds(self, state: KernelDualState) -> KernelDualState:
        """Return the state with multipliers at a bound that rounding left beside it, and F changed accordingly.

        As free multipliers they would determine the intercept. Only those move whose change is invisible in F at any
        scale of the kernel: where kernel values are large, all multipliers are far below their bounds.
        """
        y, upper = self.problem.box
        near = np.where(state.alpha < ROUNDING * upper, 0.0, state.alpha)
        near = np.where(near > upper * (1 - ROUNDING), upper, near)
        largest = max(1.0, self.gradient.products.largest)
        seen = np.abs(near - state.alpha) * largest > INVISIBLE * self.tol
        moved = np.flatnonzero((near != state.alpha) & ~seen)
        if len(moved) == 0:
            return state
        alpha = state.alpha.copy()
        alpha[moved] = near[moved]
        change = (alpha - state.alpha)[moved] * y[moved]
        return state._replace(alpha=alpha, gradient=state.gradient + self.rows.weighted_sum(moved, change))
