"""Two-class problems that are so small that SMO steps on all their rows at once are fastest.

Problem
    That of `problem`, with an intercept.

Method
    SMO steps on all rows (`smo`), then Newton steps to rounding error. Kernel rows are computed when they are first
    used. One call solves many problems.

Newton step
    K_FF Δ = ρ − F_F with Σ Δ = 0 on the free rows, by a Cholesky factor, up to the first bound. Where rows fall into
    two groups, each has its own ρ and Σ Δ = 0. The row that reaches a bound is fixed there and deleted from the factor,
    and the step is taken again for the others: a primal active-set method (Nocedal and Wright, Numerical Optimization,
    section 16.5), which does not release rows. SMO steps do. F on the free rows is known without products: a step of
    length t leaves (1 − t) F + t ρ.

End
    F is summed anew from the multipliers, and the certificate holds whatever its rounding is. A problem on which steps
    make slow progress is left to the decomposition, which has other means, where it continues from the multipliers
    found here.

Cost
    A step on q rows takes 5 q operations on cached numbers, and a new kernel row q d. Newton steps take m³/3 for m free
    rows, 4 m² for each row that is fixed, and a product with the kernel rows of the free ones.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import inlined, jit
from fastsvm.kernel_matrix.accurate_sums import SUMMED_ROWS
from fastsvm.kernel_matrix.rounding import EXACT, INVISIBLE, NEAR_BOUND, RETURNED, ROUNDING, SEEN, SEEN_OBJECTIVE, UNIT
from fastsvm.kernel_matrix.rows_on_demand import diagonal_value, kernel_row, known_row, rows_among
from fastsvm.linalg.cholesky_rows import delete_row, factorise, solve_factorised
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.smo import move_to_bounds, pair_steps
from fastsvm.solvers.kernel_dual.working_set import bounds
from fastsvm.tuning import KernelTuning

__all__ = ["CERTIFICATE", "PairLimits", "SmallPairs", "newton_steps", "solve_pairs"]

CERTIFICATE = (
    "intercept", "objective", "duality_gap", "kkt_violation", "n_steps", "n_rows", "is_solved", "margin", "is_blurred"
)  # fmt: skip
"""Columns of what is known of each problem."""


class SmallPairs(NamedTuple):
    """Problems, the rows of each after those of the one before.

    Those of each problem begin at its entry of `starts`. `places` says which of all samples the rows are. A sample has
    `rows_of_sample`, 1 or 2. If it has two, the first ones are followed by the second ones, and `places` has each once.
    `totals` is the sum of the multipliers of each class of a problem where it is given (`WithinClasses`), else 0. The
    rows of such a problem with y = 1 come first.
    """

    starts: np.ndarray
    places: np.ndarray
    rows_of_sample: int
    y: np.ndarray
    upper: np.ndarray
    target: np.ndarray
    totals: np.ndarray


class PairLimits(NamedTuple):
    """The largest gap at the end, the largest number of steps of a problem, and the tuning of what they take.

    The names of the last ones are those of `KernelTuning`.
    """

    tol: float
    most_steps: int
    newton: bool
    small_steps: int
    step_operations: int
    polished_rows: int
    rounds: int

    @classmethod
    def of(cls, tol: float, most_steps: int, tuning: KernelTuning) -> "PairLimits":
        """Return the limits of a fit."""
        return cls(tol, min(most_steps, tuning.many_steps), *(getattr(tuning, name) for name in cls._fields[2:]))


@jit
def solve_pairs(given, pairs, which, limits, memory, alpha, certificate):
    """Solve problems `which[0]` to `which[1]`, the latter excluded, and write their certificates.

    `limits` are `PairLimits`, and `memory` is for the kernel rows of one problem. `alpha`, feasible multipliers of all
    problems, are changed in place. `certificate`, shape (n_problems, 9), gets the columns of `CERTIFICATE`.
    """
    for number in range(*which):
        a, b = pairs.starts[number], pairs.starts[number + 1]
        problem = KernelProblem(pairs.y[a:b], pairs.upper[a:b], pairs.target[a:b], pairs.totals[number])
        places = pairs.places[a // pairs.rows_of_sample : b // pairs.rows_of_sample]
        rows = rows_among(given, places, b - a, memory)
        _solve(rows, problem, _groups(problem), limits, alpha[a:b], certificate[number])


@jit
def _groups(problem):
    """Return where the groups of rows begin and end: one, or one a class, of which that with y = 1 comes first."""
    y, n_first = problem.y, 0
    while problem.total > 0 and n_first < y.size and y[n_first] > 0:
        n_first += 1
    return np.array([0, n_first, y.size]) if 0 < n_first < y.size else np.array([0, y.size])


@inlined
def _solve(rows, problem, groups, limits, alpha, certificate):
    tol, n = limits.tol, alpha.size
    gradient = np.empty(n)
    for k in range(n):
        if alpha[k] != 0:
            kernel_row(rows, k)
    _sum_rows(rows, problem, alpha, gradient)
    n_steps = _improve(rows, problem, groups, limits, alpha, gradient)
    largest = 1.0
    for k in range(n):
        largest = max(largest, abs(diagonal_value(rows, k)))
    move_to_bounds(alpha, problem.upper, INVISIBLE * tol / largest)
    _sum_rows(rows, problem, alpha, gradient)
    error = _error_bounds(rows, problem, alpha, gradient)
    low, high = _bounds(problem, groups, alpha, gradient)
    certificate[3] = _violation(problem, groups, alpha, gradient, error)
    certificate[4], certificate[5], certificate[6] = n_steps, rows.slot_of[n], certificate[3] <= tol
    _certify(problem, groups, alpha, gradient, error, certificate)
    if certificate[3] - max(0.0, high - low) > SEEN * tol:
        certificate[8] = 1


@inlined
def _improve(rows, problem, groups, limits, alpha, gradient):
    """Take SMO steps and Newton steps; return the number of SMO steps until the gap was within tolerance.

    Until then Newton steps are taken after as many SMO steps as cost the same; if they gain little, the wait doubles.
    Then they reduce the gap to rounding error, with few SMO steps where they do not halve it, because then the free
    rows are not the right ones yet. One loop for both: each call below is compiled into it.
    """
    tol, most_steps = limits.tol, limits.most_steps
    n, n_steps, since, wait, polished, best = alpha.size, 0, 0, limits.small_steps, 0, np.inf
    kept, kept_gradient = np.empty(n), np.empty(n)
    before = _objective(problem, alpha, gradient)
    for _ in range(most_steps + limits.rounds + 2):  # each round takes a step or polishes, unless values overflow
        low, high = _bounds(problem, groups, alpha, gradient)
        if polished > 0 and high - low <= best / 2:
            some, taken = 0, 0
        else:
            some = limits.polished_rows if polished > 0 else min(limits.small_steps, most_steps - n_steps)
            taken = pair_steps(rows, problem, alpha, gradient, groups, tol if polished == 0 else EXACT, some)
            low, high = _bounds(problem, groups, alpha, gradient)
        if polished == 0:
            n_steps, since = n_steps + taken, since + taken
            if not high - low <= tol:
                if taken < some or n_steps >= most_steps:
                    break
                spent = limits.step_operations * n * since
                if not limits.newton or since < wait or spent < _operations(problem, alpha):
                    continue
        elif not high - low < best:
            _copy(kept, alpha)
            _copy(kept_gradient, gradient)
            break
        most_free = n
        if high - low <= tol:
            polished, best, most_free = polished + 1, high - low, limits.polished_rows
            _copy(alpha, kept)
            _copy(gradient, kept_gradient)
            if not limits.newton or best <= EXACT or polished > limits.rounds:
                break
        reached = _objective(problem, alpha, gradient)
        is_possible = newton_steps(rows, problem, groups, alpha, gradient, most_free)
        if polished > 0:
            if not is_possible:
                break
            continue
        gain = _objective(problem, alpha, gradient) - reached
        wait = limits.small_steps if gain > SEEN * (reached - before) else 2 * wait
        since, before = 0, reached + gain
    return n_steps


@jit
def _copy(source, target):
    for k in range(source.size):
        target[k] = source[k]


@jit
def _operations(problem, alpha):
    """Return the operations of Newton steps: a factorisation, and about as many rows are fixed as are free."""
    m = 0
    for k in range(alpha.size):
        m += 0 < alpha[k] < problem.upper[k]
    return m**3


@jit
def _objective(problem, alpha, gradient):
    total = 0.0
    for k in range(alpha.size):
        total += alpha[k] * (problem.y[k] * (problem.target[k] - gradient[k])) / 2
    return total


@jit
def _bounds(problem, groups, alpha, gradient):
    """Return the least F that may rise and the greatest that may fall, in the group whose gap is largest."""
    y, upper = problem.y, problem.upper
    low, high = bounds(y[: groups[1]], upper[: groups[1]], alpha[: groups[1]], gradient[: groups[1]])
    if groups.size > 2:
        a = groups[1]
        bottom, top = bounds(y[a:], upper[a:], alpha[a:], gradient[a:])
        if top - bottom > high - low:
            return bottom, top
    return low, high


@jit
def _sum_rows(rows, problem, alpha, gradient):
    """Write F from the multipliers alone. Those of one sample, which have one kernel row, are added first.

    Otherwise two that are equal, as at the start with a given total, would leave the rounding error of a large sum.
    Sums of few rows are summed, which has less rounding.
    """
    y, n_samples, part, count = problem.y, rows.places.size, np.zeros(alpha.size), 0
    for k in range(y.size):
        gradient[k] = -problem.target[k]
    for i in range(n_samples):
        coef = 0.0
        for k in range(i, y.size, n_samples):
            coef += alpha[k] * y[k]
        if coef != 0:
            row = known_row(rows, i)
            for k in range(y.size):
                part[k] += coef * row[k]
            count += 1
        if count == SUMMED_ROWS or i == n_samples - 1:
            for k in range(y.size):
                gradient[k] += part[k]
                part[k] = 0.0
            count = 0


@jit
def _error_bounds(rows, problem, alpha, gradient):
    """Return bounds on the errors of F that was summed from the multipliers alone; see `ValueBounds`."""
    given, n_samples, n_support, size, spread = rows.given, rows.places.size, 0, 0.0, 0.0
    for k in range(alpha.size):
        place = rows.places[k % n_samples]
        n_support += alpha[k] != 0
        size, spread = size + alpha[k] * given.sizes[place], spread + alpha[k] * given.spreads[place]
    of_sums, error = (16 + min(n_support, SUMMED_ROWS) + n_support // SUMMED_ROWS) * UNIT, np.empty(alpha.size)
    for k in range(alpha.size):
        place = rows.places[k % n_samples]
        of_last = 2 * UNIT * (abs(gradient[k]) + abs(problem.target[k]))
        largest = size * given.sizes[place]
        error[k] = min(spread * given.error * given.spreads[place], 2 * largest) + of_sums * largest + of_last
    return error


@jit
def _violation(problem, groups, alpha, gradient, error):
    """Return a bound on the gap where F may err by `error`."""
    y, upper, found = problem.y, problem.upper, 0.0
    below, above = gradient - error, gradient + error
    for group in range(groups.size - 1):
        a, b = groups[group], groups[group + 1]
        low, _ = bounds(y[a:b], upper[a:b], alpha[a:b], below[a:b])
        _, high = bounds(y[a:b], upper[a:b], alpha[a:b], above[a:b])
        found = max(found, high - low)
    return found


@jit
def _certify(problem, groups, alpha, gradient, error, certificate):
    """Write intercept, objective, duality gap, margin, and whether rounding is visible in the gap.

    As `kernel_dual.certificate` does, which has the same bounds for all other problems.
    """
    y, upper, target = problem.y, problem.upper, problem.target
    rho, margin = _levels(problem, groups, alpha, gradient)
    dual, raw, gap, slack, share = 0.0, 0.0, 0.0, 0.0, 16 * UNIT
    of_coef = RETURNED * (problem.total > 0 and groups.size > 2)
    for k in range(y.size):
        share += UNIT * (alpha[k] != 0)
    for k in range(y.size):
        level, missing = rho + margin * y[k], y[k] * (target[k] - gradient[k])
        away, doubt = -y[k] * (gradient[k] - level), error[k] + 2 * UNIT * (abs(rho) + abs(margin))
        raw += upper[k] * max(0.0, away) - alpha[k] * away
        gap += max((upper[k] - alpha[k]) * (away + doubt), alpha[k] * (doubt - away)) * (1 + share)
        dual += alpha[k] * missing / 2
        slack += alpha[k] * (error[k] + share * abs(missing)) / 2 + of_coef * alpha[k] * (abs(away) + doubt)
    gap += slack + _imbalance(problem, groups, alpha, (rho, margin), share)
    certificate[0], certificate[1], certificate[2], certificate[7] = -rho, dual, gap, margin
    certificate[8] = gap - raw > SEEN * raw + SEEN_OBJECTIVE * abs(dual)


@jit
def _imbalance(problem, groups, alpha, levels, share):
    """Return what rounding of the multipliers' sums, these ones included, may add to a dual objective."""
    (rho, margin), above, below = levels, 0.0, 0.0
    for k in range(alpha.size):
        if problem.y[k] > 0:
            above += alpha[k]
        else:
            below += alpha[k]
    of_sums = share * (abs(rho) + abs(margin)) * (above + below)
    if problem.total == 0:
        return of_sums + abs(rho * (above - below))
    found = of_sums + abs((rho + margin) * (above - problem.total))
    return found + abs((rho - margin) * (below - problem.total)) if groups.size > 2 else found


@jit
def _levels(problem, groups, alpha, gradient):
    """Return the mean of the levels of the groups and half of their difference, as `WithinClasses` does."""
    levels, is_tube = np.empty(groups.size - 1), False
    for group in range(levels.size):
        a, b = groups[group], groups[group + 1]
        levels[group] = _level(problem.y[a:b], problem.upper[a:b], alpha[a:b], gradient[a:b])
    for k in range(alpha.size):
        is_tube = is_tube or problem.target[k] != 0
    margin = (levels[0] - levels[-1]) / 2
    return (levels[0] + levels[-1]) / 2, min(0.0, margin) if is_tube else max(0.0, margin)


@jit
def _level(y, upper, alpha, gradient):
    """Return the mean of F over the free rows, else the middle of the interval that is optimal, or its finite end."""
    n_free, rho = 0, 0.0
    for k in range(y.size):
        if 0 < alpha[k] < upper[k]:
            n_free += 1
            rho += gradient[k]
    if n_free > 0:
        return rho / n_free
    low, high = bounds(y, upper, alpha, gradient)
    if low < np.inf and high > -np.inf:
        return (low + high) / 2
    return low if low < np.inf else high


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
