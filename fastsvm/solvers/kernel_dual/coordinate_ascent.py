"""Dual coordinate ascent: one multiplier at a time, for kernel SVMs without an intercept.

Problem
    That of `problem` without groups. The primal problem is
    minimise    ½ ‖w‖² + Σ_i C_i max(0, 1 − y_i f(x_i)),   f(x) = Σ_j α_j y_j k(x_j, x).

Step
    α_k ← clip(α_k + η_k (1 − y_k f(x_k)), 0, C_k) with η_k = 1 / k(x_k, x_k), the exact minimum along the coordinate
    (Hsieh et al. 2008, equation 9), in cyclic or random order. With F_k = f(x_k) − y_k it moves y_k α_k by −η_k F_k.
    With one learning rate η for all coordinates, all of them take this step at once. That is projected gradient
    ascent, which rises as long as η is less than 2 over the greatest eigenvalue of Q.

End
    The projected gradient: the difference between the greatest F that may fall and the least that may rise, with 0 an
    element of both (in the manner of Hsieh et al. 2008, section 3.2, for y ∘ F). And the duality gap P − D relative
    to P.

Intercept
    The problem has none. Decision values may get one afterwards: the mean of −F over the free rows.

Cost, memory
    Those of `decomposition`; with one learning rate n² multiplications for a step, and all kernel rows.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.solvers.kernel_dual.decomposition import Decomposition, DecompositionMemory
from fastsvm.solvers.kernel_dual.problem import (
    KernelDualState,
    KernelProblem,
    KernelSolution,
    freedom,
    group_level,
    objective,
    solution_of,
)

_SHARE = 0.3  # The next sweep skips rows that violate less than this share of the largest violation of a sweep.
# The generator is that of Park and Miller 1988, revised 1993, modulo the prime 2³¹ − 1: products fit int64.
_MULTIPLIER, _MODULUS = 48271, int(np.iinfo(np.int32).max)


class Sweeps(NamedTuple):
    """Order of the coordinates, and the seed that shuffles it before each sweep; 0 for cyclic order."""

    order: np.ndarray
    seed: int


@jit
def solve_block(K, problem, alpha, gradient, sweeps, tol, most_steps):
    """Solve the problem of a block in `alpha` by sweeps over its coordinates and return the number of steps.

    Skipping a row costs almost nothing, so rows with small violations are skipped until no row violates much more.
    """
    y, upper = problem.y, problem.upper
    order, seed = sweeps
    q = K.shape[0]
    g = np.empty(q, K.dtype)
    for k in range(q):
        g[k] = gradient[k]
    steps, worst = 0, np.inf
    for _ in range(2 * most_steps):  # of two sweeps, one takes a step or is the last
        if seed != 0:
            seed = _shuffle(order, seed)
        least, last = max(0.5 * tol, _SHARE * worst if worst < np.inf else 0.0), worst
        worst = 0.0
        before = steps
        for t in range(q):
            k = order[t]
            rises, falls = freedom(y[k], alpha[k], upper[k])
            violation = max(-g[k] if rises else 0.0, g[k] if falls else 0.0)  # that of the projected gradient
            worst = max(worst, violation)
            if violation <= least:
                continue
            old, newton = alpha[k], float(g[k]) / max(float(K[k, k]), ROUNDING)
            alpha[k] = min(max(old - y[k] * newton, 0.0), upper[k])
            length = y[k] * (alpha[k] - old)
            if length != 0.0:
                row, change = K[k], K.dtype.type(length)
                for i in range(q):
                    g[i] += change * row[i]
                steps += 1
                if steps == most_steps:
                    return steps
        if steps == before and (least <= 0.5 * tol or worst >= last):  # or rounding errors cancel the steps
            break
    return steps


@jit
def _shuffle(order, seed):
    """Shuffle in place (Fisher and Yates) by a congruential generator, and return its next state."""
    for t in range(order.size - 1, 0, -1):
        seed = seed * _MULTIPLIER % _MODULUS
        k = seed % (t + 1)
        order[t], order[k] = order[k], order[t]
    return seed


class Coordinate(Decomposition):
    """Solve one two-class problem without an intercept; other arguments are as for `Decomposition`.

    `rng` draws the order of the coordinates, None for cyclic order. With a learning rate η for all, `rate`, they move
    at once.
    """

    def __init__(
        self,
        problem: KernelProblem,
        *sizes: Any,
        rng: np.random.Generator | None = None,
        fit_intercept: bool = True,
        rate: float | None = None,
        **more: Any,
    ) -> None:
        super().__init__(problem._replace(groups=0), *sizes, **more)
        self._rng, self._fit_intercept, self._rate = rng, fit_intercept, rate

    def memory(self) -> DecompositionMemory:
        """Return what the solver knows beside the state."""
        random = None if self._rng is None else self._rng.bit_generator.state
        return super().memory()._replace(random=random)

    def recall(self, memory: DecompositionMemory) -> None:
        """Take over what another solver of the problem knew, to continue as that one would have."""
        super().recall(memory)
        if self._rng is not None and memory.random is not None:
            self._rng.bit_generator.state = memory.random

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
        sweeps = Sweeps(np.arange(len(alpha)), seed)
        return solve_block(block, part, alpha, gradient, sweeps, target, most_steps)

    def _set_steps(self, state: KernelDualState, tol: float, most_steps: int) -> tuple[KernelDualState, int]:
        if self._rate is None:
            return super()._set_steps(state, tol, most_steps)
        return state, self._ascend(state, self._rate) if most_steps > 0 else 0

    def _ascend(self, state: KernelDualState, rate: float) -> int:
        """Step with all coordinates, and return 1, or 0 if the objective would fall."""
        y, before = self.problem.y, objective(self.problem, state.alpha, state.gradient)
        alpha = np.clip(state.alpha - rate * y * state.gradient, 0, self.problem.upper)
        delta = (alpha - state.alpha) * y
        changed = np.flatnonzero(delta)
        gradient = state.gradient.copy()
        self.gradient.products.add_rows(gradient, changed, delta[changed])
        if not objective(self.problem, alpha, gradient) >= before - ROUNDING * abs(before):  # NaN at too large a rate
            return 0
        state.alpha[:], state.gradient[:] = alpha, gradient
        return 1

    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution, and the certificate of the problem without an intercept."""
        state, error = self.gradient.certain(state)
        solution = solution_of(self.problem, state, error, self.tol)
        with_intercept = self.problem._replace(groups=1)
        intercept = -group_level(with_intercept, 0, state.alpha, state.gradient) if self._fit_intercept else 0.0
        return solution._replace(intercept=intercept)
