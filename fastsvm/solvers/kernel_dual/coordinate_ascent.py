"""Dual coordinate ascent: one multiplier at a time, for kernel SVMs without an offset.

Problem
    That of `decomposition`, with nothing added: the primal problem is
    minimise    ½ ‖w‖² + Σ_i C_i max(0, 1 − y_i f(x_i)),   f(x) = Σ_j α_j y_j k(x_j, x).

Step
    α_k ← clip(α_k + η_k (1 − y_k f(x_k)), 0, C_k) with η_k = 1 / k(x_k, x_k), the exact minimum along the coordinate
    (Hsieh et al. 2008, equation 9), in cyclic or random order. With F_k = f(x_k) − y_k it moves y_k α_k by −η_k F_k.
    With one rate η given for all, the same step is taken by all coordinates at once: projected gradient ascent, which
    rises as long as η is less than 2 over the greatest eigenvalue of Q.

End
    The projected gradient: what the greatest F that may fall and the least that may rise differ by, 0 counted among
    both (in the manner of Hsieh et al. 2008, section 3.2, for y ∘ F). And the duality gap P − D in parts of P.

Offset
    None in the problem. Decision values may get one afterwards: the mean of −F over the free rows.

Cost, memory
    Those of `decomposition`; with one rate n² multiplications for a step, and all kernel rows.
"""

from typing import Any

import numpy as np

from fastsvm.solvers.kernel_dual import decomposition
from fastsvm.solvers.kernel_dual.coordinate_block import solve_block
from fastsvm.solvers.kernel_dual.decomposition import (
    Decomposition,
    KernelDualState,
    KernelProblem,
    KernelSolution,
    Memory,
)
from fastsvm.solvers.kernel_dual.working_set import bounds_without_offset

__all__ = ["Coordinate"]

_EXACT_GAP = 1e-12  # relative, where rounding is all that is left


class Coordinate(Decomposition):
    """Solve one two-class problem without an offset.

    Parameters
    ----------
    *sizes, **more
        As for `Decomposition`.
    rng : numpy.random.Generator or None
        Draws the order of the coordinates; None visits them in turn.
    fit_intercept : bool, default=True
        Whether decision values get an offset afterwards.
    rate : float or None
        One η for all coordinates, which then move at once; None for the exact steps.
    """

    balanced = False

    def __init__(
        self,
        *sizes: Any,
        rng: np.random.Generator | None = None,
        fit_intercept: bool = True,
        rate: float | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*sizes, **more)
        self._rng, self._fit_intercept, self._rate = rng, fit_intercept, rate

    def memory(self) -> Memory:
        """Return what is known beside the state."""
        random = None if self._rng is None else self._rng.bit_generator.state
        return super().memory()._replace(random=random)

    def recall(self, memory: Memory) -> None:
        """Go on as the solver would have that knew this."""
        super().recall(memory)
        if self._rng is not None:
            self._rng.bit_generator.state = memory.random

    def _feasible(self, alpha: np.ndarray) -> np.ndarray:
        return np.clip(alpha, 0, self.problem.upper)

    _ends = staticmethod(bounds_without_offset)

    def _certified(self, state: KernelDualState) -> bool:
        """Return whether the duality gap is within tolerance, in parts of the primal objective."""
        primal = self._primal(state, 0.0)
        return primal - self._objective(state) <= max(self.tol, _EXACT_GAP) * primal

    def _solve_block(
        self,
        block: np.ndarray,
        part: KernelProblem,
        alpha: np.ndarray,
        gradient: np.ndarray,
        target: float,
        most_steps: int,
    ) -> int:
        seed = 0 if self._rng is None else int(self._rng.integers(1, 2**31 - 1))
        order = np.arange(len(alpha))
        return solve_block(block, *part, alpha, gradient, order, seed, target, most_steps)

    def _set_steps(self, state: KernelDualState, tol: float, most_steps: int) -> tuple[KernelDualState, int]:
        if self._rate is None:
            return super()._set_steps(state, tol, most_steps)
        return state, self._ascend(state) if most_steps > 0 else 0

    def _ascend(self, state: KernelDualState) -> int:
        """Step with all coordinates, and return 1, or 0 if the objective would fall."""
        y, upper = self.problem
        before = self._objective(state)
        alpha = np.clip(state.alpha - self._rate * y * state.gradient, 0, upper)
        delta = (alpha - state.alpha) * y
        changed = np.flatnonzero(delta)
        gradient = state.gradient.copy()
        self._products.add_rows(gradient, changed, delta[changed])
        with np.errstate(over="ignore", invalid="ignore"):  # with a rate so large, what follows is false
            risen = self._objective(KernelDualState(alpha, gradient, changed)) >= before - _EXACT_GAP * abs(before)
        if not risen:
            return 0
        state.alpha[:], state.gradient[:] = alpha, gradient
        return 1

    def _on_active(self, part: KernelProblem, target: float) -> "Coordinate":
        return Coordinate(part, self.active, target, decomposition.INNER_SIZE, self.pool, rng=self._rng)

    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution, and the certificate of the problem without an offset."""
        state = self._summed_anew(state)
        low, high = self._bounds(state)
        objective = self._objective(state)
        gap = max(0.0, self._primal(state, 0.0) - objective)
        offset = -self._rho(state) if self._fit_intercept else 0.0
        return KernelSolution(state.alpha, state.alpha > 0, offset, objective, gap, max(0.0, high - low))
