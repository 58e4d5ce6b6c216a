"""Newton steps on the free support vectors, to end where pair steps become slow.

Problem
    That of `decomposition`, with every multiplier that is at a bound fixed there. With β = y ∘ α the free ones solve
        K_FF Δ = ρ − F_F,   Σ Δ = 0
    so that F is equal to ρ on all of them: one symmetric system of order m + 1. Without an offset ρ = 0, and nothing
    is asked of the sum.

Step
    The solution of this system within the bounds, Σ Δ = 0 kept: rows that it takes beyond a bound are fixed there, rows
    that are fixed against their will are released, and the system is solved again, until neither occurs (Hintermüller,
    Ito and Kunisch 2002, the primal-dual active set method). The matrix is factorised once; holding k rows adds a
    system of order k + 1. If that does not end, the step is the first solution, as far as the first bound.
    Rows that violate join the set in the pair steps that follow. The block is ridged by a little of its trace, for
    repeated rows make it singular; a few rounds make up for it.

Cost
    m³/3 operations and m² values a step, m² for every row fixed, one product with m kernel rows.
"""

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.row_cache import RowCache
from fastsvm.linalg.cholesky import Inverse
from fastsvm.solvers.kernel_dual.gradient_update import KernelProducts
from fastsvm.solvers.kernel_dual.gram_block import WorkingBlock
from fastsvm.solvers.kernel_dual.problem import BALANCED, Formulation, KernelDualState

__all__ = ["NewtonTrial", "moved", "newton_step"]

_SPEED = 1_000_000  # multiplications of a factorisation in the time of a step
_STEPS_BEFORE = 20_000

_RIDGE = {4: 1e-8, 8: 1e-12}  # of the trace, above the rounding of values of so many bytes
_ROUNDS = 30
_RELEASING_ROUNDS = 15  # then rows are only fixed, so that it ends
_ROUNDING = 16 * np.finfo(float).eps
_MOST_FIXED = 0.25  # of the rows; more, and the free set was far from the right one


class NewtonTrial:
    """Takes Newton steps on the free rows of a problem, and keeps those that raise the objective.

    Parameters
    ----------
    formulation : Formulation
        The problem.
    kernel : tuple of (RowCache, WorkingBlock, KernelProducts)
        Kernel rows, memory for blocks of them, and their products.
    pool : Pool
        Threads.
    most_free : int
        Free rows at most.

    Attributes
    ----------
    n_steps : int
        Steps of the decomposition since the last Newton step.
    failures : int
        How many Newton steps in a row gained little.
    """

    def __init__(
        self,
        formulation: Formulation,
        kernel: tuple[RowCache, WorkingBlock, KernelProducts],
        pool: Pool,
        most_free: int,
    ) -> None:
        self.n_steps = self.failures = 0
        self._formulation, self._problem, self._pool = formulation, formulation.problem, pool
        self._rows, self._block, self._products = kernel
        self._most_free = most_free

    def improve_if_slow(self, state: KernelDualState, n_steps: int) -> int:
        """Try a Newton step after as many steps as cost the same, or twice as many for each failure before.

        Parameters
        ----------
        state : KernelDualState
            Its multipliers and gradient are changed in place.
        n_steps : int
            Steps taken since the last call.

        Returns
        -------
        int
            The number of Newton steps that were kept.
        """
        self.n_steps += n_steps
        if self.n_steps < _STEPS_BEFORE:
            return 0
        n_free = np.count_nonzero((state.alpha > 0) & (state.alpha < self._problem.upper))
        if self.n_steps < (_STEPS_BEFORE + n_free**3 // _SPEED) << min(self.failures, 10):
            return 0
        dual = self._formulation
        gap, objective = dual.gap(state), dual.objective(state)
        kept = self.improve(state, self._most_free)
        good = dual.gap(state) < 0.9 * gap or dual.objective(state) > objective + 0.01 * abs(objective)
        self.failures = 0 if good else self.failures + 1
        self.n_steps = 0
        return int(kept)

    def improve(self, state: KernelDualState, most: int) -> bool:
        """Try a Newton step on at most so many free rows; keep it and return true if it raises the objective."""
        y, upper = self._problem
        balanced, objective = self._formulation.balanced, self._formulation.objective
        free = np.flatnonzero((state.alpha > 0) & (state.alpha < upper))
        if not 2 <= len(free) <= min(most, self._rows.n_slots):
            return False
        slots, block = self._rows.fetch(free), self._block.square(len(free))
        self._block.gather(free, slots, 0, block)
        old, bound, sign = state.alpha[free], upper[free], y[free]
        low, high = np.where(sign > 0, -old, old - bound), np.where(sign > 0, bound - old, old)
        dtype = block.dtype if self._rows.cheap_among else self._rows.store.dtype
        change = newton_step(block, dtype, state.gradient[free], low, high, self._pool, balanced)
        if change is None:
            return False
        new = moved(old, bound, change * sign)
        if balanced and not _balance(new, old, bound, sign):
            return False
        before = state.alpha.copy(), state.gradient.copy(), objective(state)
        state.alpha[free] = new
        self._products.add(state.gradient, slots, (state.alpha - before[0])[free] * y[free])
        if objective(state) >= before[2]:
            return True
        state.alpha[:], state.gradient[:] = before[:2]
        return False


def _balance(new: np.ndarray, old: np.ndarray, upper: np.ndarray, y: np.ndarray) -> bool:
    """Make Σ y α of new multipliers that of the old ones, which clipping changed; return whether that succeeds.

    All multipliers between their bounds share the difference.
    """
    inside = (new > 0) & (new < upper)
    for _ in range(2):  # the second time for the rounding of the first
        if inside.any():
            new[inside] -= (y * float(y @ (new - old)) / np.count_nonzero(inside))[inside]
    within = bool(((new >= 0) & (new <= upper)).all())
    return within and abs(float(y @ (new - old))) <= BALANCED * float(new.sum() + old.sum())


def newton_step(
    block: np.ndarray, dtype: np.dtype, gradient: np.ndarray, low: np.ndarray, high: np.ndarray, pool: Pool,
    balanced: bool = True,
) -> np.ndarray | None:  # fmt: skip
    """Return Δ for the free rows, within `low` < 0 and `high` > 0, or None if the system cannot be solved.

    Parameters
    ----------
    block : ndarray of float64, shape (m, m)
        Kernel values among the free rows. It is overwritten.
    dtype : numpy.dtype
        In which they were computed.
    gradient : ndarray of float64, shape (m,)
        F on the free rows.
    low, high : ndarray of float64, shape (m,)
        Bounds of Δ.
    pool : Pool
        Threads.
    balanced : bool, default=True
        Whether there is an offset, and Σ Δ = 0.
    """
    try:
        block[np.diag_indices_from(block)] += _RIDGE[dtype.itemsize] * max(float(np.trace(block)), 1e-300)
        inverse = Inverse(block, pool)
        ones = np.full(len(gradient), float(balanced))
        with np.errstate(over="ignore", invalid="ignore"):  # among rows of zeros; what is not finite is no step
            of_gradient, of_ones = inverse.times(np.column_stack([gradient, ones])).T
        first = _free_step(of_gradient, of_ones, balanced)
        if first is None:
            return None
        step = _bounded_step(inverse, of_gradient, of_ones, low, high, balanced)
    except linalg.LinAlgError:
        return None
    return _as_far_as_bounds(first, low, high) if step is None else step


def _free_step(of_gradient: np.ndarray, of_ones: np.ndarray, balanced: bool) -> np.ndarray | None:
    """Return the solution without bounds, from the inverse times the gradient and times ones."""
    total = of_ones.sum()
    if not (np.isfinite(of_gradient).all() and np.isfinite(of_ones).all() and (total > 0 or not balanced)):
        return None
    if not balanced:
        return -of_gradient
    direction = of_gradient.sum() / total * of_ones - of_gradient
    return direction - direction.mean()


def _bounded_step(
    inverse: Inverse, of_gradient: np.ndarray, of_ones: np.ndarray, low: np.ndarray, high: np.ndarray, balanced: bool
) -> np.ndarray | None:
    """Return the solution within the bounds, or None if it is not found soon or holds too many rows."""
    m = len(of_ones)
    bound = np.zeros(m)  # -1 or 1 for rows fixed at the lower or the upper bound
    place, halves = np.full(m, -1), np.empty((0, m))  # of the inverse, for all rows fixed so far
    products = np.empty((0, 0))
    for k in range(_ROUNDS):
        fixed = np.flatnonzero(bound)
        if len(fixed) > _MOST_FIXED * m:
            return None
        fresh = fixed[place[fixed] < 0]
        if len(fresh):
            place[fresh] = len(halves) + np.arange(len(fresh))
            new = inverse.halves(fresh)
            beside = halves @ new.T
            halves, products = np.concatenate([halves, new]), np.block([[products, beside], [beside.T, new @ new.T]])
        target = np.where(bound[fixed] < 0, low[fixed], high[fixed])
        square = products[np.ix_(place[fixed], place[fixed])]
        # Without an offset `of_ones` is zero: the last equation is then that ρ = 0.
        system = np.block([[square, of_ones[fixed, None]], [of_ones[fixed], of_ones.sum() if balanced else 1.0]])
        solved = np.linalg.solve(system, np.append(target + of_gradient[fixed], of_gradient.sum() if balanced else 0.0))
        force, rho = solved[:-1], solved[-1]
        step = rho * of_ones - of_gradient
        if len(fixed):
            weights = np.zeros(len(halves))
            weights[place[fixed]] = force  # which holds them
            step += inverse.half_times(weights @ halves)
        step[fixed] = target
        below, above = (step < low) & (bound == 0), (step > high) & (bound == 0)
        released = fixed[force * bound[fixed] > 0] if k < _RELEASING_ROUNDS else fixed[:0]
        if not (below.any() or above.any() or len(released)):
            free = bound == 0
            if balanced:
                step[free] -= step.sum() / max(1, np.count_nonzero(free))
            return step if free.any() and np.isfinite(step).all() else None
        bound[below], bound[above] = -1, 1
        bound[released] = 0
    return None


def _as_far_as_bounds(direction: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # by directions of 0 or next to it
        reach = np.where(direction > 0, high / direction, np.where(direction < 0, low / direction, np.inf))
    return min(1.0, float(reach.min())) * direction


def moved(alpha: np.ndarray, upper: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return `alpha` + `change`; what comes to a bound within the rounding error of this sum meets it exactly.

    That is in parts of the multiplier, not of its bound: where kernel values are large, all multipliers are far below.
    """
    result = alpha + change
    result = np.where(result <= _ROUNDING * alpha, 0.0, result)
    return np.where(result >= upper * (1 - _ROUNDING), upper, result)
