"""Sequential minimal optimisation: two multipliers at a time, for kernel SVMs with an offset.

Problem
    That of `decomposition`, with Σ_i y_i α_i = 0. Its optimality condition is that of Keerthi et al. (2001),
    equation 2.11.

Step
    Two multipliers of a working set move so that the sum is kept, to the minimum or the first bound (Platt 1998); which
    two is said in `pair_steps`.

Offset
    The mean of −F over the free rows; if there are none, the middle of what the others allow.
"""

import numpy as np

from fastsvm.solvers.kernel_dual import decomposition
from fastsvm.solvers.kernel_dual.decomposition import (
    Decomposition,
    KernelDualState,
    KernelProblem,
    KernelSolution,
    feasible,
)
from fastsvm.solvers.kernel_dual.smo_block import solve_block
from fastsvm.solvers.kernel_dual.working_set import bounds

__all__ = ["SMO"]

_ROUNDING = 1e-12  # of the bound
_INVISIBLE = 1e-6  # of the tolerance


class SMO(Decomposition):
    """Solve one two-class problem, with an offset."""

    balanced = True

    def _feasible(self, alpha: np.ndarray) -> np.ndarray:
        return feasible(alpha, self.problem)

    _ends = staticmethod(bounds)

    def _solve_block(
        self,
        block: np.ndarray,
        part: KernelProblem,
        alpha: np.ndarray,
        gradient: np.ndarray,
        target: float,
        most_steps: int,
    ) -> int:
        return solve_block(block, *part, alpha, gradient, target, most_steps)

    def _on_active(self, part: KernelProblem, target: float) -> "SMO":
        return SMO(part, self.active, target, decomposition.INNER_SIZE, self.pool)

    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution and its certificate."""
        state = self._summed_anew(state)
        near = self._at_bounds(state)
        if self._gap(near) > self.tol >= self._gap(state):
            near = state
        rho, objective = self._rho(near), self._objective(near)
        gap = max(0.0, self._primal(near, rho) - objective)
        return KernelSolution(near.alpha, near.alpha > 0, -rho, objective, gap, self._gap(near))

    def _at_bounds(self, state: KernelDualState) -> KernelDualState:
        """Return the state with multipliers at a bound that rounding left beside it, and F changed by as much.

        They would set the offset as free ones. Only those move that cannot be seen in F whatever the scale of the
        kernel: where its values are large, all multipliers are far below their bounds.
        """
        y, upper = self.problem
        near = np.where(state.alpha < _ROUNDING * upper, 0.0, state.alpha)
        near = np.where(near > upper * (1 - _ROUNDING), upper, near)
        seen = np.abs(near - state.alpha) * max(1.0, self._largest) > _INVISIBLE * self.tol
        moved = np.flatnonzero((near != state.alpha) & ~seen)
        if len(moved) == 0:
            return state
        alpha = state.alpha.copy()
        alpha[moved] = near[moved]
        change = (alpha - state.alpha)[moved] * y[moved]
        return state._replace(alpha=alpha, gradient=state.gradient + self.rows.weighted_sum(moved, change))
