"""Sequential minimal optimisation: two multipliers at a time, for kernel SVMs with an intercept.

Problem
    That of `problem` with one group of rows or two.

Step
    Two multipliers of a working set move so that Σ_i y_i α_i stays, to the minimum or the first bound (Platt 1998). The
    pair is that of Fan, Chen and Lin (2005), WSS 2: the first row violates most, the second promises the largest gain
    by second-order information. Both are of the group whose gap is largest.
"""

import numpy as np

from fastsvm._compiled.compiler import inlined, jit, outlined
from fastsvm._compiled.scalars import maximum, minimum
from fastsvm.kernel_matrix.rounding import INVISIBLE, ROUNDING
from fastsvm.kernel_matrix.rows_on_demand import KernelSquare, diagonal_value, kernel_row
from fastsvm.solvers.kernel_dual.decomposition import Decomposition
from fastsvm.solvers.kernel_dual.problem import (
    KernelDualState,
    KernelProblem,
    KernelSolution,
    freedom,
    solution_of,
    violation_bound,
)
from fastsvm.solvers.kernel_dual.working_sets import reordered

_PART = 128  # The rows of a part are searched one by one for the one that has the extremum.


@jit
def group_starts(problem):
    """Return where the groups begin and end: one, or one a class, of which that with y = 1 comes first."""
    y, n_first = problem.y, 0
    while problem.groups == 2 and n_first < y.size and y[n_first] > 0:
        n_first += 1
    return np.array([0, n_first, y.size]) if 0 < n_first < y.size else np.array([0, y.size])


@jit
def solve_block(K, problem, alpha, gradient, tol, most_steps):
    """Solve the problem of a block in `alpha` by SMO steps and return their number; F is not changed."""
    g = np.empty(gradient.size, K.dtype)
    for k in range(g.size):
        g[k] = gradient[k]
    return pair_steps(KernelSquare(K), problem, alpha, g, tol, most_steps)


@outlined
def pair_steps(rows, problem, alpha, g, tol, most_steps):
    """Take SMO steps until the gap is within `tol`, and return their number; `alpha` and F, `g`, change in place.

    The rows of a group are side by side. Membership of U and L is 0 or infinity that is added, not a branch, so both
    passes vectorise, part by part: only the part with the extremum is searched for its place.
    """
    y, upper = problem.y, problem.upper
    q, real = g.size, g.dtype.type
    far, tiny = real(np.inf), real(ROUNDING)
    up, low = np.empty(q, g.dtype), np.empty(q, g.dtype)
    diagonal, score = np.empty(q, g.dtype), np.empty(q, g.dtype)
    starts, first = _parts_of(group_starts(problem))
    extrema = np.empty(starts.size - 1, g.dtype)
    for k in range(q):
        diagonal[k] = diagonal_value(rows, k)
        _admit(up, low, k, freedom(y[k], alpha[k], upper[k]))
    i = j = 0
    move = real(0)
    for step in range(most_steps + 1):
        Ki, Kj = kernel_row(rows, i), kernel_row(rows, j)
        least, greatest, begin, end = far, -far, 0, 0
        for group in range(first.size - 1):
            bottom, top = far, -far
            for part in range(first[group], first[group + 1]):
                a, b = starts[part], starts[part + 1]
                lowest, highest = _moved(g[a:b], move, Ki[a:b], Kj[a:b], up[a:b], low[a:b])
                extrema[part] = lowest
                bottom, top = minimum(bottom, lowest), maximum(top, highest)
            if top - bottom > greatest - least or group == 0:
                least, greatest, begin, end = bottom, top, first[group], first[group + 1]
        if greatest - least <= tol or step == most_steps:
            return step
        a, b = _part_of(extrema, least, starts, begin, end)
        i = b - 1  # of equal rows the last, as LIBSVM: it matters where the kernel is not positive semi-definite
        while i > a and g[i] + up[i] != least:
            i -= 1
        Ki, of_i = kernel_row(rows, i), diagonal[i]
        best = real(0)
        for part in range(begin, end):
            a, b = starts[part], starts[part + 1]
            extrema[part] = _scored(g[a:b], low[a:b], least, of_i, diagonal[a:b], Ki[a:b], score[a:b])
            best = maximum(best, extrema[part])
        if best <= real(0):
            return step
        a, b = _part_of(extrema, best, starts, begin, end)
        j = b - 1
        while j > a and score[j] != best:
            j -= 1
        curvature = maximum(of_i + diagonal[j] - Ki[j] - Ki[j], tiny)
        rise = upper[i] - alpha[i] if y[i] > 0 else alpha[i]
        fall = alpha[j] if y[j] > 0 else upper[j] - alpha[j]
        length = float(g[j] - least) / float(curvature)
        if length >= rise or length >= fall:
            length = min(rise, fall)
        _move(y, upper, alpha, i, length, rise)
        _move(y, upper, alpha, j, -length, fall)
        for k in (i, j):
            _admit(up, low, k, freedom(y[k], alpha[k], upper[k]))
        move = real(length)
    return most_steps


@inlined
def _admit(up, low, k, free):
    """Write to `up` and `low` whether row k is in U and in L: 0 if it is, else infinity."""
    rises, falls = free
    up[k] = 0.0 if rises else np.inf
    low[k] = 0.0 if falls else np.inf


@inlined
def _moved(g, move, Ki, Kj, up, low):
    """Add the last step to the gradient and return the least of it in U and the greatest in L."""
    least, greatest = g.dtype.type(np.inf), g.dtype.type(-np.inf)
    for k in range(g.size):
        value = g[k] + move * (Ki[k] - Kj[k])
        g[k] = value
        least = minimum(least, value + up[k])
        greatest = maximum(greatest, value - low[k])
    return least, greatest


@inlined
def _scored(g, low, least, of_i, diagonal, Ki, score):
    """Write the gain of each pair of row i with a row of L, and return the greatest."""
    zero, tiny = g.dtype.type(0), g.dtype.type(ROUNDING)
    best = zero
    for k in range(g.size):
        fall = maximum(g[k] - low[k] - least, zero)
        curvature = maximum(of_i + diagonal[k] - Ki[k] - Ki[k], tiny)
        score[k] = fall * fall / curvature
        best = maximum(best, score[k])
    return best


@jit
def _parts_of(groups):
    """Return where the parts of the groups begin and end, and the number of each group's first part."""
    first = np.zeros(groups.size, np.int64)
    for group in range(groups.size - 1):
        first[group + 1] = first[group] - (groups[group] - groups[group + 1]) // _PART
    starts = np.empty(first[-1] + 1, np.int64)
    for group in range(groups.size - 1):
        for part in range(first[group], first[group + 1]):
            starts[part] = groups[group] + (part - first[group]) * _PART
    starts[-1] = groups[-1]
    return starts, first


@inlined
def _part_of(extrema, extremum, starts, begin, end):
    """Return the bounds of the last part, of those from `begin` to `end`, that has the extremum."""
    part = end - 1
    while part > begin and extrema[part] != extremum:
        part -= 1
    return starts[part], starts[part + 1]


@jit
def _move(y, upper, alpha, k, length, room):
    """Add `length` to y_k α_k; a step of all the `room` lands on the bound itself."""
    change = length * y[k]
    if abs(length) == room:
        alpha[k] = upper[k] if change > 0 else 0.0
    else:
        alpha[k] += change


@jit
def move_to_bounds(alpha, upper, most):
    """Move multipliers by at most `most` to bounds: free ones beside them would determine the intercept."""
    for k in range(alpha.size):
        bound = 0.0 if alpha[k] < ROUNDING * upper[k] else alpha[k]
        bound = upper[k] if alpha[k] > upper[k] * (1 - ROUNDING) else bound
        if abs(bound - alpha[k]) <= most:
            alpha[k] = bound


class SMO(Decomposition):
    """Solve one problem with one group of rows or two."""

    def _solve_block(
        self,
        block: np.ndarray,
        part: KernelProblem,
        alpha: np.ndarray,
        gradient: np.ndarray,
        target: float,
        most_steps: int,
    ) -> int:
        if part.groups < 2 or (part.y == part.y[0]).all():
            return solve_block(block, part, alpha, gradient, target, most_steps)
        order = np.argsort(-part.y, kind="stable")
        sorted_alpha, block = alpha[order], reordered(block, order, self.pool)
        n_steps = solve_block(block, part.take(order), sorted_alpha, gradient[order], target, most_steps)
        alpha[order] = sorted_alpha
        return n_steps

    def finish(self, state: KernelDualState) -> KernelSolution:
        """Return the solution and its certificate."""
        state, error = self.gradient.certain(state)
        near = self._at_bounds(state)
        if near is not state:
            moved = error + self.gradient.bounds.of_change(near.alpha - state.alpha)
            before, after = (violation_bound(self.problem, *one) for one in ((*state[:2], error), (*near[:2], moved)))
            if after <= self.tol or before > self.tol:
                state, error = near, moved
        return solution_of(self.problem, state, error, self.tol)

    def _at_bounds(self, state: KernelDualState) -> KernelDualState:
        """Return the state with multipliers at a bound that rounding left beside it, and F changed accordingly.

        Only changes that are invisible in F count: where kernel values are large, all multipliers are far below their
        bounds.
        """
        alpha = state.alpha.copy()
        move_to_bounds(alpha, self.problem.upper, INVISIBLE * self.tol / max(1.0, self.gradient.products.largest))
        moved = np.flatnonzero(alpha != state.alpha)
        if len(moved) == 0:
            return state
        change = (alpha - state.alpha)[moved] * self.problem.y[moved]
        return state._replace(alpha=alpha, gradient=state.gradient + self.rows.weighted_sum(moved, change))
