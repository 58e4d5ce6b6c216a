"""Newton steps on the free rows of a small problem, for the tail in which SMO steps converge slowly.

Step
    K_FF Δ = ρ − F_F with Σ Δ = 0, by a Cholesky factor, up to the first bound. Where rows fall into two groups, each
    has its own ρ and Σ Δ = 0. The row that reaches a bound is fixed there and deleted from the factor, and the step is
    taken again for the others: a primal active-set method (Nocedal and Wright, Numerical Optimization, section 16.5),
    which does not release rows. SMO steps do.

Cost
    m³/3 operations for m free rows, 4 m² for each row that is fixed, and a product with the kernel rows of the free
    ones. F on the free rows is known without products: a step of length t leaves (1 − t) F + t ρ.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.rounding import NEAR_BOUND, ROUNDING
from fastsvm.kernel_matrix.rows_on_demand import known_row
from fastsvm.linalg.cholesky_rows import delete_row, factorise, solve_factorised

__all__ = ["newton_steps"]


@jit
def newton_steps(rows, problem, groups, alpha, gradient, most_free):
    """Take Newton steps until one ends between the bounds, and return whether any was possible.

    They increase the objective; `alpha` and `gradient` are changed in place.
    """
    y, upper = problem.y, problem.upper
    free = np.empty(y.size, np.int64)
    m = first_m = np.int64(0)  # and those of the first group, which come first; literals would be types of their own
    for k in range(y.size):
        if 0 < alpha[k] < upper[k]:
            free[m] = k
            m += 1
            first_m += k < groups[1]
    if m < 2 or m > most_free:
        return False
    before = np.empty(alpha.size)
    for k in range(alpha.size):
        before[k] = alpha[k]
    factor, here, step = np.empty((m, m)), np.empty(m), np.empty(m)  # F on the free rows is in `here`
    trace = 0.0
    for s in range(m):
        row = known_row(rows, free[s])
        for t in range(s, m):
            factor[s, t] = row[free[t]]
        trace += factor[s, s]
        here[s] = gradient[free[s]]
    if not factorise(factor, ROUNDING * trace):  # repeated rows make the matrix singular
        return False
    while m >= 2:
        rho, other = _direction(factor, here[:m], step[:m], first_m)
        first, reach = _first_bound(problem, alpha, free[:m], step)
        if not abs(rho) + abs(other) < np.inf:
            break
        for s in range(m):
            _move(problem, alpha, free[s], reach * step[s])
            here[s] += reach * ((rho if s < first_m else other) - here[s])
        if first < 0:
            break
        k = free[first]
        alpha[k] = upper[k] if 2 * alpha[k] > upper[k] else 0.0
        delete_row(factor, m, first)
        m -= 1
        first_m -= first < first_m
        for s in range(first, m):
            free[s], here[s] = free[s + 1], here[s + 1]
    for k in range(alpha.size):
        delta = (alpha[k] - before[k]) * y[k]
        if delta != 0:
            row = known_row(rows, k)
            for t in range(y.size):
                gradient[t] += delta * row[t]
    return True


@jit
def _direction(factor, gradient, step, first_m):
    """Write the step without bounds and return ρ of both groups, infinite if there is none.

    `gradient` is F on the factor's rows, of which the first `first_m` are in the first group.
    """
    if 0 < first_m < step.size:
        return _direction_of_two(factor, gradient, step, first_m)
    of_ones = np.empty(step.size)
    for s in range(step.size):
        step[s], of_ones[s] = gradient[s], 1.0
    solve_factorised(factor, step, of_ones)
    of_gradient, total = 0.0, 0.0
    for s in range(step.size):
        of_gradient, total = of_gradient + step[s], total + of_ones[s]
    rho, rest = of_gradient / total if total > 0 else np.inf, 0.0
    for s in range(step.size):
        step[s] = rho * of_ones[s] - step[s]
    for s in range(step.size):
        rest += step[s]
    for s in range(step.size):
        step[s] -= rest / step.size
    return rho if abs(rest) < np.inf else np.inf, rho


@jit
def _direction_of_two(factor, gradient, step, first_m):
    """The same for two groups: K⁻¹ times F and the indicators of both gives a system of order two for their ρ."""
    m = step.size
    of_first, of_second, nothing = np.zeros(m), np.zeros(m), np.zeros(m)
    for s in range(m):
        step[s] = gradient[s]
        if s < first_m:
            of_first[s] = 1.0
        else:
            of_second[s] = 1.0
    solve_factorised(factor, step, of_first)
    solve_factorised(factor, of_second, nothing)
    a, b, c, u, v = 0.0, 0.0, 0.0, 0.0, 0.0
    for s in range(m):
        if s < first_m:
            a, b, u = a + of_first[s], b + of_second[s], u + step[s]
        else:
            c, v = c + of_second[s], v + step[s]
    determinant = a * c - b * b
    if not determinant > 0:
        return np.inf, np.inf
    rho, other = (c * u - b * v) / determinant, (a * v - b * u) / determinant
    rests = np.zeros(2)
    for s in range(m):
        step[s] = rho * of_first[s] + other * of_second[s] - step[s]
        rests[0 if s < first_m else 1] += step[s]
    for s in range(m):
        step[s] -= rests[0] / first_m if s < first_m else rests[1] / (m - first_m)
    return rho, other


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
    if moved <= NEAR_BOUND * alpha[k]:
        alpha[k] = 0.0
    elif moved >= upper * (1 - NEAR_BOUND):
        alpha[k] = upper
    else:
        alpha[k] = moved
