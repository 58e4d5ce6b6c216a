"""Decides when decomposition is slow enough to try the interior-point method, and whether to accept its result."""

import time

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rounding import SEEN
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient
from fastsvm.solvers.kernel_dual.interior_point import BLIND, STEPS, InteriorResult, badness, interior_solution
from fastsvm.solvers.kernel_dual.problem import Formulation, KernelDualState
from fastsvm.tuning import KernelTuning

__all__ = ["InteriorTrial"]


class InteriorTrial:
    """Tries the interior-point method once, on a small problem on which decomposition is slow.

    It is tried for at most `most_rows`, and given up at `deadline`, a moment of time.perf_counter, once steps took as
    long as all factorisations of a path and the usual wait. `n_steps` counts the
    steps of the decomposition so far, and `tried` says whether the method was tried.
    """

    def __init__(
        self,
        formulation: Formulation,
        gradient: DualGradient,
        pool: Pool,
        most_rows: int,
        deadline: float,
        tuning: KernelTuning,
    ) -> None:
        self.n_steps, self.tried = 0, False
        self._formulation, self._gradient, self._pool = formulation, gradient, pool
        self._most_rows, self._deadline, self._tuning = min(most_rows, tuning.block_rows), deadline, tuning

    def solve_if_slow(self, state: KernelDualState, n_steps: int, aim: float) -> int:
        """Solve the problem once the decomposition steps have cost as much, or if no step improves.

        The multipliers and the gradient of the state are replaced if the method finds better ones. `n_steps` were taken
        since the last call, and aim for the gap `aim`. Returned is the number of Newton steps, 0 if the result is
        rejected.
        """
        self.n_steps += n_steps
        if not self._is_due(state, n_steps, aim):
            return 0
        matrix, formulation = self._gradient.matrix(), self._formulation
        given = *formulation.problem[:3], formulation.balanced
        found = interior_solution(matrix, *given, self._pool, self._deadline)
        del matrix  # it was overwritten
        if found is None:
            self.tried = time.perf_counter() < self._deadline  # after a time-out, a resumed fit tries again
            return 0
        self.tried = True
        return max(1, found.n_steps) if self._adopt(state, found) else 0

    def _is_due(self, state: KernelDualState, n_steps: int, aim: float) -> bool:
        upper = self._formulation.problem.upper
        n = len(upper)
        if (
            self.tried
            or not self._tuning.interior
            or not self._formulation.has_interior_method
            or n > min(self._most_rows, self._gradient.rows.n_slots)
        ):
            return False
        wait = self._tuning.many_steps + STEPS * n**3 / self._tuning.multiplications_of_step
        if n_steps > 0 and self.n_steps < wait:
            return False
        return self._formulation.gap(state) > aim and 0 < upper.min() <= upper.max() < np.inf

    def _adopt(self, state: KernelDualState, found: InteriorResult) -> bool:
        """Take the solution if it is better than the state, and return whether it is."""
        gradient, products = self._gradient, self._gradient.products
        saved = state.alpha.copy(), state.gradient.copy()
        drift, before = products.drift, self._badness(state)
        state.alpha[:] = self._formulation.feasible(found.alpha)
        if gradient.exact:
            state.gradient[:], products.drift = gradient.certain(state)[0].gradient, 0.0
        else:
            gradient.recompute(state)
        if found.rounding <= BLIND and self._badness(state) < before:
            gradient.rounding = found.rounding
            return True
        state.alpha[:], state.gradient[:] = saved
        products.drift = drift
        if before >= 2 - SEEN and found.rounding > BLIND:  # steps from next to nothing cannot make progress either
            gradient.rounding = found.rounding
        return False

    def _badness(self, state: KernelDualState) -> float:
        formulation = self._formulation
        primal = formulation.primal(state, formulation.rho(state))
        return badness(formulation.gap(state), primal, formulation.objective(state))
