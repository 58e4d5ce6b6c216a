"""Newton steps on the free rows of a small problem, for the tail in which SMO steps converge slowly.

Step
    K_FF Δ = ρ − F_F with Σ Δ = 0, by a Cholesky factor, up to the first bound. The row that reaches it is fixed there
    and deleted from the factor, and the step is taken again for the others: a primal active-set method (Nocedal and
    Wright, Numerical Optimization, section 16.5), which does not release rows. SMO steps do.

Cost
    m³/3 operations for m free rows, 4 m² for each row that is fixed, and a product with the kernel rows of the free
    ones. F on the free rows is known without products: a step of length t leaves (1 − t) F + t ρ.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.rows_on_demand import kernel_row
from fastsvm.linalg.cholesky_rows import delete_row, factorise, solve_factorised
from fastsvm.solvers.kernel_dual.smo_block import pair_steps
from fastsvm.solvers.kernel_dual.working_set import bounds

__all__ = ["newton_steps", "polish"]

_EXACT = 1e-11  # gap that is rounding error
_ROUNDS = 20
_MOST_POLISHED = 300  # with more free rows the steps before take less time than a Newton step
_POLISHING_STEPS = 300  # between two Newton steps
_RIDGE = 1e-12  # relative to the trace: repeated rows make the matrix singular
_ROUNDING = 4e-15


@jit
def polish(rows, problem, alpha, gradient):
    """Reduce the gap to rounding error as far as Newton steps do so; `alpha` and `gradient` are changed in place."""
    y, upper = problem
    low, high = bounds(y, upper, alpha, gradient)
    gap = high - low
    for _ in range(_ROUNDS):
        if gap <= _EXACT:
            return
        old_alpha, old_gradient = alpha.copy(), gradient.copy()
        if not newton_steps(rows, problem, alpha, gradient, _MOST_POLISHED):
            return
        low, high = bounds(y, upper, alpha, gradient)
        if high - low > gap / 2:
            pair_steps(rows, problem, alpha, gradient, _EXACT, min(y.size, _POLISHING_STEPS))
            low, high = bounds(y, upper, alpha, gradient)
        if not high - low < gap:
            alpha[:], gradient[:] = old_alpha, old_gradient
            return
        gap = high - low


@jit
def newton_steps(rows, problem, alpha, gradient, most_free):
    """Take Newton steps until one ends between the bounds, and return whether any was possible.

    They increase the objective; `alpha` and `gradient` are changed in place.
    """
    y, upper = problem
    free = np.empty(y.size, np.int64)
    m = 0
    for k in range(y.size):
        if 0 < alpha[k] < upper[k]:
            free[m] = k
            m += 1
    if m < 2 or m > most_free:
        return False
    moved, before = free[:m].copy(), alpha.copy()
    factor, here = np.empty((m, m)), np.empty(m)  # and F on the free rows
    trace = 0.0
    for s in range(m):
        row = kernel_row(rows, free[s])
        for t in range(s, m):
            factor[s, t] = row[free[t]]
        trace += factor[s, s]
        here[s] = gradient[free[s]]
    if not factorise(factor, _RIDGE * trace):
        return False
    while m >= 2:
        step, rho = _direction(factor, here[:m])
        first, reach = _first_bound(problem, alpha, free[:m], step)
        if not abs(rho) < np.inf or not reach * np.abs(step).max() < np.inf:
            break
        for s in range(m):
            _move(problem, alpha, free[s], reach * step[s])
            here[s] += reach * (rho - here[s])
        if first < 0:
            break
        k = free[first]
        alpha[k] = upper[k] if 2 * alpha[k] > upper[k] else 0.0
        delete_row(factor, m, first)
        m -= 1
        free[first:m], here[first:m] = free[first + 1 : m + 1].copy(), here[first + 1 : m + 1].copy()
    for k in moved:
        delta = (alpha[k] - before[k]) * y[k]
        if delta != 0:
            row = kernel_row(rows, k)
            for t in range(y.size):
                gradient[t] += delta * row[t]
    return True


@jit
def _direction(factor, gradient):
    """Return the step without bounds, and ρ; `gradient` is F on the rows of the factor."""
    of_gradient, of_ones = gradient.copy(), np.ones(gradient.size)
    solve_factorised(factor, of_gradient)
    solve_factorised(factor, of_ones)
    total = of_ones.sum()
    rho = of_gradient.sum() / total if total > 0 else np.inf
    step = rho * of_ones - of_gradient
    return step - step.mean(), rho


@jit
def _first_bound(problem, alpha, free, step):
    """Return the place of the row that reaches a bound first, -1 if none does, and the share of the step to there."""
    first, reach = -1, 1.0
    for s in range(free.size):
        k = free[s]
        room = problem.upper[k] - alpha[k] if step[s] * problem.y[k] > 0 else alpha[k]
        if abs(step[s]) * reach > room:
            first, reach = s, room / abs(step[s])
    return first, reach


@jit
def _move(problem, alpha, k, delta):
    """Add `delta` to y_k α_k. A multiplier within the rounding error of a bound is set to the bound."""
    moved, upper = alpha[k] + delta * problem.y[k], problem.upper[k]
    if moved <= _ROUNDING * alpha[k]:
        alpha[k] = 0.0
    elif moved >= upper * (1 - _ROUNDING):
        alpha[k] = upper
    else:
        alpha[k] = moved
