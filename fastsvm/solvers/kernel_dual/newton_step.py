"""Newton steps on the free support vectors, for the final phase in which SMO steps converge slowly.

Problem
    That of `decomposition`, with every multiplier at a bound fixed there. With β = y ∘ α, the free rows solve
        K_FF Δ = ρ − F_F,   Σ Δ = 0
    so that F equals ρ on all of them: one symmetric system of order m + 1. Without an intercept, ρ = 0 and the sum is
    unconstrained.

Step
    The primal-dual active set method (Hintermüller, Ito and Kunisch 2002) solves this system within the bounds, with Σ
    Δ = 0. Rows that leave their bounds are fixed at them, fixed rows whose multiplier has the wrong sign are released,
    and the system is solved again until neither occurs. The matrix is factorised once; fixing k rows adds a system of
    order k + 1. If this does not end, the step is the first solution, cut at the first bound.
    Violating rows at a bound become free in the SMO steps that follow. A small multiple of its trace is added to the
    diagonal of the block because repeated rows make it singular. Further Newton steps correct for that.

Cost
    m³/3 operations and m² values per step, m² operations per fixed row, one product with m kernel rows.
"""

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rounding import BALANCED, NEAR_BOUND, ROUNDING, SEEN
from fastsvm.kernel_matrix.rows import ProblemRows
from fastsvm.linalg.cholesky import Inverse
from fastsvm.solvers.kernel_dual.problem import KernelDualState, KernelProblem, gap_of, objective
from fastsvm.solvers.kernel_dual.working_sets import WorkingSetSteps
from fastsvm.tuning import KernelTuning

# The ridge is relative to the trace, above the rounding error of values of so many bytes.
_RIDGE = {4: 1e-8, 8: ROUNDING}


class NewtonTrial:
    """Takes Newton steps on at most `most_free` free rows, and keeps those that increase the objective.

    `n_steps` counts the steps of the decomposition since, and `failures` the Newton steps in a row with little
    progress.
    """

    def __init__(
        self,
        problem: KernelProblem,
        rows: ProblemRows,
        working_sets: WorkingSetSteps,
        pool: Pool,
        most_free: int,
        tuning: KernelTuning,
    ) -> None:
        self.n_steps = self.failures = 0
        self._problem, self._pool = problem, pool
        self._rows, self._block, self._products = rows, working_sets.block, working_sets.products
        self._most_free, self._tuning = most_free, tuning

    def improve_if_slow(self, state: KernelDualState, n_steps: int, before: float) -> int:
        """Try a Newton step once the decomposition steps have cost as much, and return the number of kept ones, 0 or 1.

        `n_steps` were taken since the last call, from the objective `before`. Each failure doubles the wait.
        """
        self.n_steps += n_steps
        if n_steps == 0 or self.n_steps < self._tuning.many_steps or not self._tuning.newton:
            return 0
        n_free = np.count_nonzero((state.alpha > 0) & (state.alpha < self._problem.upper))
        wait = self._tuning.many_steps + int(n_free**3 / self._tuning.multiplications_of_step)
        if self.n_steps < wait << min(self.failures, 10):
            return 0
        gap, reached = gap_of(self._problem, state), objective(self._problem, *state[:2])
        kept = self.improve(state, self._most_free)
        gain_of_steps = (reached - before) * self.n_steps / n_steps
        is_higher = objective(self._problem, *state[:2]) > reached + SEEN * gain_of_steps
        good = gap_of(self._problem, state) < (1 - SEEN) * gap or is_higher
        self.failures = 0 if good else self.failures + 1
        self.n_steps = 0
        return int(kept)

    def improve(self, state: KernelDualState, most: int) -> bool:
        """Try a Newton step on at most `most` free rows; return whether it increased the objective and was accepted."""
        y, upper, balanced = self._problem.y, self._problem.upper, self._problem.groups > 0
        if self._problem.groups > 1 or not self._tuning.newton:
            return False
        free = np.flatnonzero((state.alpha > 0) & (state.alpha < upper))
        if not 2 <= len(free) <= min(most, self._rows.n_slots):
            return False
        slots, block = self._rows.fetch(free), self._block.square(len(free))
        self._block.gather(free, slots, 0, block)
        old, bound, sign = state.alpha[free], upper[free], y[free]
        low, high = np.where(sign > 0, -old, old - bound), np.where(sign > 0, bound - old, old)
        dtype = block.dtype if self._rows.cheap_among else self._rows.store.dtype
        change = newton_step(block, dtype, state.gradient[free], low, high, self._pool, balanced, self._tuning)
        if change is None:
            return False
        new = moved(old, bound, change * sign)
        if balanced and not _balance(new, old, bound, sign):
            return False
        delta = (new - old) * sign
        if self._rows.cheap and dtype != self._rows.store.dtype:  # float32 may hide what the step gains
            exact = state.gradient[free] + self._rows.weighted_sum(free, delta, free)
            if delta @ (state.gradient[free] + exact) > 0:  # minus twice the gain
                return False
            state.alpha[free] = new
            self._products.add(state.gradient, slots, delta)
            state.gradient[free] = exact
            return True
        before = state.alpha.copy(), state.gradient.copy(), objective(self._problem, *state[:2])
        state.alpha[free] = new
        self._products.add(state.gradient, slots, delta)
        if objective(self._problem, *state[:2]) >= before[2]:
            return True
        state.alpha[:], state.gradient[:] = before[:2]
        return False


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
    return _reach(first, low, high) * first if step is None else step


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
    for k in range(tuning.rounds):
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
        released = fixed[force * bound[fixed] > 0] if k < tuning.rounds // 2 else fixed[:0]
        if not (below.any() or above.any() or len(released)):
            free = bound == 0
            if balanced:
                step[free] -= step.sum() / max(1, np.count_nonzero(free))
            return step if free.any() and np.isfinite(step).all() else None
        bound[below], bound[above] = -1, 1
        bound[released] = 0
    return None


def _reach(step: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Return the largest factor up to 1 with which a step stays within its bounds."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # directions near 0
        factors = np.where(step > 0, high / step, np.where(step < 0, low / step, np.inf))
    return max(0.0, min(1.0, float(factors.min())))


def moved(alpha: np.ndarray, upper: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return `alpha` + `change`, at a bound where it is within the rounding error of one.

    At 0 the error is relative to the multiplier, not to C: for large kernel values all multipliers are far below C.
    """
    result = alpha + change
    result = np.where(result <= NEAR_BOUND * alpha, 0.0, result)
    return np.where(result >= upper * (1 - NEAR_BOUND), upper, result)
