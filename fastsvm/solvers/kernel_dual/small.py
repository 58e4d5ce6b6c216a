"""Problems that are so small that SMO steps on all their rows at once are fastest.

Problem
    Those of `problem` with one group of rows or two. There may be a hundred thousand of them.

Step
    Some problems are solved in one compiled call each, on all threads: by SMO steps on all rows (`smo`), then by Newton
    steps to rounding error. Kernel rows are computed when they are first used.

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

import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import inlined, jit, jit_as_written, outlined
from fastsvm._compiled.threads import Pool, scratch_array
from fastsvm.kernel_matrix.accurate_sums import SUMMED_ROWS
from fastsvm.kernel_matrix.rounding import EXACT, INVISIBLE, NEAR_BOUND, RETURNED, ROUNDING, SEEN, SEEN_OBJECTIVE, UNIT
from fastsvm.kernel_matrix.rows_on_demand import (
    LINEAR,
    PADDING,
    SmallKernel,
    diagonal_value,
    kernel_row,
    known_row,
    rows_among,
)
from fastsvm.linalg.cholesky import delete_row, factorise, half_solve, solve_half
from fastsvm.linalg.double_floats import FINE, added, times, two_product
from fastsvm.solvers.kernel_dual.problem import KernelProblem, Problems, certify, feasible, fill, objective, violation
from fastsvm.solvers.kernel_dual.smo import group_starts, move_to_bounds, pair_steps
from fastsvm.solvers.outer_loop import Report
from fastsvm.tuning import KernelTuning

CERTIFICATE = (
    "intercept", "objective", "duality_gap", "kkt_violation", "margin", "n_steps", "n_rows", "is_solved", "is_odd"
)  # fmt: skip
"""Columns of what is known of each problem; the first ones are those of `KernelSolution`.

An odd problem has numbers that are not finite, or bounds in which rounding is a visible part.
"""
_OBJECTIVE, _VIOLATION = (CERTIFICATE.index(name) for name in ("objective", "kkt_violation"))


class SmallState(NamedTuple):
    """Multipliers of all problems, the rows of their `CERTIFICATE`, and how many problems were solved or given up."""

    alpha: np.ndarray
    certificate: np.ndarray
    n_done: int


class SmallLimits(NamedTuple):
    """Largest gap at the end, most steps of a problem, and fields of `KernelTuning` under their names."""

    tol: float
    most_steps: int
    newton: bool
    small_steps: int
    step_operations: int
    polished_rows: int
    most_rounds: int

    @classmethod
    def of(cls, tol: float, most_steps: int, tuning: KernelTuning) -> "SmallLimits":
        """Return the limits of a fit. A problem that takes more steps than is usual for a small one is given up."""
        return cls(tol, min(most_steps, tuning.many_steps), *(getattr(tuning, name) for name in cls._fields[2:]))


class SmallSMO:
    """Solve small problems over the rows of one kernel matrix to a gap of `tol`; a step of the loop is a problem."""

    def __init__(
        self, problems: Problems, kernel: SmallKernel, tol: float, most_steps: int, pool: Pool, tuning: KernelTuning
    ) -> None:
        self.problems, self._kernel, self._pool, self._tuning = problems, kernel, pool, tuning
        self._limits = SmallLimits.of(tol, most_steps, tuning)
        self._sizes = problems.starts[1:] - problems.starts[:-1]
        self._longest = int(self._sizes.max(initial=0))
        self._of_value = 1 + kernel.values.shape[1] / PADDING  # So many features at a time are multiplied.

    def init(self, start: Mapping[int, np.ndarray] | None = None, /) -> SmallState:
        """Return the state at the multipliers of some problems, by number, which are made feasible; else at zero."""
        starts, alpha = self.problems.starts, np.zeros(len(self.problems.y))
        for number, near in (start or {}).items():
            alpha[starts[number] : starts[number + 1]] = feasible(self.problems.problem(number), near)
        return SmallState(alpha, np.empty((len(self._sizes), len(CERTIFICATE))), 0)

    def step(self, state: SmallState, most_steps: int) -> tuple[SmallState, Report]:
        """Solve the next problems, which take long enough to be handed to threads. Changes the state in place."""
        first, n_problems = state.n_done, len(self._sizes)
        parts = self._next(first, min(n_problems, first + most_steps))

        def solve(a: int, b: int) -> None:
            rows = scratch_array("small rows", (self._longest * (self._longest + PADDING),), np.float64)
            solve_problems(self._kernel, self.problems, self._limits, rows, state, a, b)

        self._pool.run(solve, parts)
        last = parts[-1][1] if parts else first
        violation, objectives = state.certificate[first:last, _VIOLATION], state.certificate[first:last, _OBJECTIVE]
        # Of one problem, NumPy's maximum and sum would take as long as ten steps.
        gap, reached = max(violation.tolist(), default=0.0), sum(objectives.tolist())
        report = Report(gap, reached, last - first, False, last == n_problems, False)
        return state._replace(n_done=last), report

    @functools.cached_property
    def _work(self) -> np.ndarray:
        """Nanoseconds that the problems up to each take together: for kernel values, and for the first steps."""
        return np.cumsum(self._sizes * (self._of_value * self._sizes + self._tuning.small_steps))

    def _next(self, first: int, most: int) -> list[tuple[int, int]]:
        """Return ranges of problems from `first` on, each of which takes as long as a task for a thread."""
        longest = self._longest * (self._of_value * self._longest + self._tuning.small_steps)
        if most - first == 1 or 0 < (most - first) * longest < self._tuning.task_ns:
            return [(first, most)]  # without estimates for each
        spent = self._work[first:most] - (self._work[first - 1] if first else 0.0)
        most_work = self._tuning.call_ns * self._pool.n_threads
        some = spent[: max(1, int(np.searchsorted(spent, most_work)))]
        ends_of = first + 1 + np.flatnonzero(np.diff(some // self._tuning.task_ns, append=np.inf))
        return list(zip([first, *ends_of[:-1].tolist()], ends_of.tolist(), strict=True)) if len(some) else []


@jit
def solve_problems(kernel, problems, limits, memory, state, first, last):
    """Solve problems `first` to `last`, the latter excluded, from multipliers of the state, feasible or zero.

    `memory` is for the kernel rows of one problem. Of two groups of rows, those with y = 1 are put first.
    """
    k = problems.multipliers_per_sample
    for number in range(first, last):
        a, b = problems.starts[number], problems.starts[number + 1]
        y, upper, target = problems.y[a:b], problems.upper[a:b], problems.target[a:b]
        samples, alpha, order = problems.samples[a // k : b // k], state.alpha[a:b], problems.samples
        is_sorted = problems.groups < 2 or k > 1
        if not is_sorted:
            order = _by_class(y)
            y, upper, target, samples, alpha = y[order], upper[order], target[order], samples[order], alpha[order]
        problem = KernelProblem(y, upper, target, problems.totals[number], problems.groups)
        if problem.total > 0:
            fill(problem, alpha)
        rows = rows_among(kernel, samples, b - a, memory)
        _solve(rows, problem, limits, alpha, state.certificate[number])
        if not is_sorted:
            for i in range(b - a):
                state.alpha[a + order[i]] = alpha[i]


@jit
def _by_class(y):
    """Return the places of the rows with y = 1, then of those with y = −1."""
    order, n_ordered = np.empty(y.size, np.int64), 0
    for sign in (1.0, -1.0):
        for i in range(y.size):
            if y[i] == sign:
                order[n_ordered] = i
                n_ordered += 1
    return order


@inlined
def _solve(rows, problem, limits, alpha, certificate):
    tol, n = limits.tol, alpha.size
    gradient = np.empty(n)
    for k in range(n):
        if alpha[k] != 0:
            kernel_row(rows, k)
    _sum_kernel_rows(rows, problem, alpha, gradient)
    n_steps = _improve(rows, problem, limits, alpha, gradient)
    largest = 1.0
    for k in range(n):
        largest = max(largest, abs(diagonal_value(rows, k)))
    move_to_bounds(alpha, problem.upper, INVISIBLE * tol / largest)
    _sum_kernel_rows(rows, problem, alpha, gradient)
    error = _error_bounds(rows, problem, alpha, gradient)
    judged = certify(problem, alpha, gradient, error, tol)
    if judged.seen_in_gap and _step_beyond(problem, alpha, gradient, error, judged.rho):
        _sum_kernel_rows(rows, problem, alpha, gradient)
        judged = certify(problem, alpha, gradient, _error_bounds(rows, problem, alpha, gradient), tol)
    is_odd = judged.seen_in_violation or judged.seen_in_gap
    if is_odd and rows.kernel.kind == LINEAR:
        judged = certify(problem, alpha, gradient, _sum_weights(rows, problem, alpha, gradient), tol)
        is_odd = False
    certificate[0], certificate[1], certificate[2] = -judged.rho, judged.objective, judged.duality_gap
    certificate[3], certificate[4], certificate[5] = judged.violation, judged.margin, n_steps
    certificate[6], certificate[7] = rows.slot_of[n], judged.violation <= tol
    size = abs(judged.rho) + abs(judged.objective) + abs(judged.duality_gap) + judged.violation + abs(judged.margin)
    certificate[8] = is_odd or not size < np.inf


@jit
def _step_beyond(problem, alpha, gradient, error, rho):
    """Lengthen w until no row is within the margin for certain, and return whether that costs nothing to be seen.

    Free rows are on the margin. By rounding they may be within it, which C times their number makes visible in the gap
    where C is large beside the multipliers. The longer w is, the farther they are beyond, unless some are at a bound.
    """
    n_free, most, share = 0, 0.0, 0.0
    for i in range(alpha.size):
        if problem.target[i] != problem.y[i] or alpha[i] >= problem.upper[i] or problem.groups != 1:
            return False
        if alpha[i] > 0:
            n_free += 1
            share += problem.y[i]
            most = max(most, error[i] + abs(gradient[i] - rho))
    # The offset is the mean over free rows, so that it moves towards the class with more of them.
    longer = 2 * most / (1 - abs(share) / n_free)
    if not longer <= SEEN * SEEN_OBJECTIVE:
        return False
    for i in range(alpha.size):
        alpha[i] *= 1 + longer
    return True


@inlined
def _improve(rows, problem, limits, alpha, gradient):
    """Take SMO steps and Newton steps; return the number of SMO steps until the gap was within tolerance.

    Newton steps wait for SMO steps that cost as much, twice as long if they gain little. Then they reduce the gap to
    rounding error, with few SMO steps where they do not halve it. One loop for both: each call is compiled into it.
    """
    tol, most_steps = limits.tol, limits.most_steps
    n, n_steps, since, wait, polished, best = alpha.size, 0, 0, limits.small_steps, 0, np.inf
    kept, kept_gradient, left = np.empty(n), np.empty(n), limits.polished_rows
    before = objective(problem, alpha, gradient)
    for _ in range(most_steps + limits.most_rounds + 2):  # each round takes a step or polishes, unless values overflow
        gap = violation(problem, alpha, gradient)
        if polished > 0 and gap <= best / 2:
            some, taken = 0, 0
        else:
            some = min(left, n_steps + n) if polished > 0 else min(limits.small_steps, most_steps - n_steps)
            taken = pair_steps(rows, problem, alpha, gradient, tol if polished == 0 else EXACT, some)
            left -= taken * (polished > 0)
            gap = violation(problem, alpha, gradient)
        if polished == 0:
            n_steps, since = n_steps + taken, since + taken
            if not gap <= tol:
                if taken < some or n_steps >= most_steps:
                    break
                spent = limits.step_operations * n * since
                if not limits.newton or since < wait or spent < _operations(problem, alpha):
                    continue
        elif not gap < best:
            alpha[:] = kept
            gradient[:] = kept_gradient
            break
        most_free = n
        if gap <= tol:
            polished, best, most_free = polished + 1, gap, limits.polished_rows
            kept[:] = alpha
            kept_gradient[:] = gradient
            if not limits.newton or best <= EXACT or polished > limits.most_rounds:
                break
        reached = objective(problem, alpha, gradient)
        is_possible = newton_steps(rows, problem, alpha, gradient, most_free)
        if polished > 0:
            if not is_possible:
                break
            continue
        gain = objective(problem, alpha, gradient) - reached
        wait = limits.small_steps if gain > SEEN * (reached - before) else 2 * wait
        since, before = 0, reached + gain
    return n_steps


@jit
def _operations(problem, alpha):
    """Return the operations of Newton steps: a factorisation, and about as many rows are fixed as are free."""
    m = 0
    for k in range(alpha.size):
        m += 0 < alpha[k] < problem.upper[k]
    return m**3


@outlined
def _sum_kernel_rows(rows, problem, alpha, gradient):
    """Write F from the multipliers alone, those of one sample added first, by sums of the sums of few rows.

    Otherwise two equal ones, as at the start with a given total, would leave the rounding error of a large sum.
    """
    y, n_samples, part, count = problem.y, rows.samples.size, np.zeros(alpha.size), 0
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


@outlined
def _error_bounds(rows, problem, alpha, gradient):
    """Return bounds on the errors of F that was summed from the multipliers alone; see `ValueBounds`."""
    kernel, n_samples, n_support, size, spread = rows.kernel, rows.samples.size, 0, 0.0, 0.0
    for k in range(alpha.size):
        sample = rows.samples[k % n_samples]
        n_support += alpha[k] != 0
        size, spread = size + alpha[k] * kernel.sizes[sample], spread + alpha[k] * kernel.spreads[sample]
    of_sums, error = (16 + min(n_support, SUMMED_ROWS) + n_support // SUMMED_ROWS) * UNIT, np.empty(alpha.size)
    for k in range(alpha.size):
        sample = rows.samples[k % n_samples]
        of_last = 2 * UNIT * (abs(gradient[k]) + abs(problem.target[k]))
        largest = size * kernel.sizes[sample]
        error[k] = min(spread * kernel.error * kernel.spreads[sample], 2 * largest) + of_sums * largest + of_last
    return error


@jit_as_written
def _sum_weights(rows, problem, alpha, gradient):
    """Write F of a linear kernel, by weights of the features in twice the digits; return bounds on its errors."""
    kernel, n_samples, d = rows.kernel, rows.samples.size, rows.kernel.values.shape[1]
    high, low, size, error = np.zeros(d), np.zeros(d), 0.0, np.empty(alpha.size)
    for k in range(alpha.size):
        if alpha[k] != 0:
            sample = rows.samples[k % n_samples]
            size += alpha[k] * kernel.sizes[sample]
            for j in range(d):
                term = two_product(alpha[k] * problem.y[k], kernel.values[sample, j])
                high[j], low[j] = added(high[j], low[j], *term)
    # The coefficients of ν-classification are divided by the margin.
    fine = kernel.fine_error + 2 * FINE + RETURNED * (problem.groups == 2 and n_samples == alpha.size)
    for k in range(alpha.size):
        sample, total, rest = rows.samples[k % n_samples], 0.0, 0.0
        for j in range(d):
            total, rest = added(total, rest, *times(high[j], low[j], kernel.values[sample, j], 0.0))
        gradient[k] = (total - problem.target[k]) + rest
        of_last = 2 * UNIT * (abs(gradient[k]) + abs(problem.target[k]))
        error[k] = size * kernel.sizes[sample] * fine + of_last
    return error


@jit
def newton_steps(rows, problem, alpha, gradient, most_free):
    """Take Newton steps until one ends between the bounds, and return whether any was possible."""
    y, upper = problem.y, problem.upper
    free, last_of_first = np.empty(y.size, np.int64), group_starts(problem)[1]
    m = first_m = np.int64(0)  # and those of the first group, which come first; literals would be types of their own
    for k in range(y.size):
        if 0 < alpha[k] < upper[k]:
            free[m] = k
            m += 1
            first_m += k < last_of_first
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
    """Write the step without bounds and return ρ of both groups, of `first_m` and other rows, or infinity.

    U Δ is −U⁻ᵀ F without its parts along U⁻ᵀ 1 of each group. Where groups have equal rows, these are so long and so
    nearly parallel that the system of order two for both ρ would have no digits left.
    """
    m = step.size
    first, second = np.zeros(m), np.zeros(m)
    for s in range(m):
        step[s] = -gradient[s]
        if s < first_m:
            first[s] = 1.0
        else:
            second[s] = 1.0
    half_solve(factor, step)
    half_solve(factor, first)
    half_solve(factor, second)
    along, of_first, of_second = _taken_out(first, second), 0.0, 0.0
    for _ in range(2):  # the second time what rounding left
        of_first += _taken_out(first, step)
        of_second += _taken_out(second, step)
    solve_half(factor, step)
    rests = np.zeros(2)
    for s in range(m):
        rests[0 if s < first_m else 1] += step[s]
    if not abs(rests[0]) + abs(rests[1]) < np.inf:
        return np.inf, np.inf
    for s in range(m):
        step[s] -= rests[0] / first_m if s < first_m else rests[1] / (m - first_m)
    return of_second * along - of_first, -of_second


@jit
def _taken_out(direction, vector):
    """Take the part along a direction out of a vector, and return it in units of the direction."""
    size, square = 0.0, 0.0
    for s in range(vector.size):
        size, square = size + direction[s] * vector[s], square + direction[s] * direction[s]
    size = size / square if square > 0 else 0.0
    for s in range(vector.size):
        vector[s] -= size * direction[s]
    return size


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
