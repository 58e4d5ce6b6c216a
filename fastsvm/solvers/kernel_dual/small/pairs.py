"""Two-class problems that are so small that SMO steps on all their rows at once are fastest.

Problem
    That of `problem`, with an intercept.

Method
    SMO steps on all rows (`smo_block`), then Newton steps to rounding error (`newton_polish`). Kernel rows are computed
    when they are first used. One call solves many problems.

End
    F is summed anew from the multipliers. A problem on which steps make slow progress is left to the decomposition,
    which has other means, where it continues from the multipliers found here.

Cost
    A step on q rows takes 5 q operations on cached numbers, and a new kernel row q d.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.rows_on_demand import diagonal_value, kernel_row, n_computed, rows_among
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.small.newton_steps import newton_steps, polish
from fastsvm.solvers.kernel_dual.smo_block import pair_steps
from fastsvm.solvers.kernel_dual.working_set import bounds

_NEAR = 1e-12  # of the bound
_INVISIBLE = 1e-6  # of the tolerance
_STEPS_BEFORE_NEWTON = 500
_STEP_OPERATIONS = 6  # of a factorisation that take as long as an SMO step, for each row
_WORTH = 0.1  # of what steps gained that cost as much, a gain for which Newton steps are worth it

__all__ = ["CERTIFICATE", "SmallPairs", "solve_pairs"]

CERTIFICATE = ("intercept", "objective", "duality_gap", "kkt_violation", "n_steps", "n_rows", "is_solved")
"""Columns of what is known of each problem."""


class SmallPairs(NamedTuple):
    """Problems, the rows of each after those of the one before.

    Attributes
    ----------
    starts : ndarray of int64, shape (n_problems + 1,)
        Where the rows of each problem start.
    places : ndarray of int64
        Which of all samples the rows are.
    y, upper : ndarrays of float64
        Labels ±1 and upper bounds.
    """

    starts: np.ndarray
    places: np.ndarray
    y: np.ndarray
    upper: np.ndarray


@jit
def solve_pairs(given, pairs, which, limits, memory, alpha, certificate):
    """Solve some of the problems and write their certificates.

    Parameters
    ----------
    given : KernelSquare or Samples
        The kernel among all samples.
    pairs : SmallPairs
        The problems.
    which : tuple of int
        The first of those to solve, and the first after them.
    limits : tuple of float, int
        Largest gap at the end, and largest number of steps of a problem.
    memory : ndarray of float64
        For the kernel rows of one problem.
    alpha : ndarray of float64
        Multipliers, feasible, of all problems. They are changed in place.
    certificate : ndarray of float64, shape (n_problems, 7)
        Written: the columns of `CERTIFICATE`.
    """
    tol, most_steps = limits
    for number in range(*which):
        a, b = pairs.starts[number], pairs.starts[number + 1]
        problem = KernelProblem(pairs.y[a:b], pairs.upper[a:b])
        rows = rows_among(given, pairs.places[a:b], memory)
        _solve(rows, problem, tol, most_steps, alpha[a:b], certificate[number])


@jit
def _solve(rows, problem, tol, most_steps, alpha, certificate):
    y, upper = problem
    gradient = np.empty(y.size)
    _sum_rows(rows, y, alpha, gradient)
    n_steps = _steps(rows, problem, alpha, gradient, tol, most_steps)
    low, high = bounds(y, upper, alpha, gradient)
    if high - low <= tol:
        polish(rows, problem, alpha, gradient)
        _to_bounds(rows, problem, alpha, tol)
    _sum_rows(rows, y, alpha, gradient)
    low, high = bounds(y, upper, alpha, gradient)
    certificate[4], certificate[5], certificate[6] = n_steps, n_computed(rows), high - low <= tol
    _certify(problem, alpha, gradient, low, high, certificate)


@jit
def _steps(rows, problem, alpha, gradient, tol, most_steps):
    """Take SMO steps until the gap is within `tol`, and Newton steps after as many as cost the same; return the number.

    Newton steps that gain little double the wait for the next.
    """
    n_steps, since, wait = 0, 0, _STEPS_BEFORE_NEWTON
    before = _objective(problem, alpha, gradient)
    while n_steps < most_steps:
        some = min(_STEPS_BEFORE_NEWTON, most_steps - n_steps)
        taken = pair_steps(rows, problem, alpha, gradient, tol, some)
        n_steps, since = n_steps + taken, since + taken
        if taken < some:
            break
        spent = _STEP_OPERATIONS * alpha.size * since
        if since < wait or spent < _operations(problem, alpha):
            continue
        reached = _objective(problem, alpha, gradient)
        newton_steps(rows, problem, alpha, gradient, alpha.size)
        gain = _objective(problem, alpha, gradient) - reached
        wait = _STEPS_BEFORE_NEWTON if gain > _WORTH * (reached - before) else 2 * wait
        since, before = 0, reached + gain
    return n_steps


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
        total += alpha[k] * (1 - problem.y[k] * gradient[k]) / 2
    return total


@jit
def _to_bounds(rows, problem, alpha, tol):
    """Set multipliers that rounding left beside a bound to the bound, where that is invisible in F.

    As free multipliers they would determine the intercept.
    """
    upper, largest = problem.upper, 1.0
    for k in range(alpha.size):
        largest = max(largest, abs(diagonal_value(rows, k)))
    for k in range(alpha.size):
        bound = 0.0 if alpha[k] < _NEAR * upper[k] else upper[k] if alpha[k] > upper[k] * (1 - _NEAR) else alpha[k]
        if abs(bound - alpha[k]) * largest <= _INVISIBLE * tol:
            alpha[k] = bound


@jit
def _sum_rows(rows, y, alpha, gradient):
    """Write F from the multipliers alone."""
    for k in range(y.size):
        gradient[k] = -y[k]
    for i in range(y.size):
        if alpha[i] != 0:
            row, coef = kernel_row(rows, i), alpha[i] * y[i]
            for k in range(y.size):
                gradient[k] += coef * row[k]


@jit
def _certify(problem, alpha, gradient, low, high, certificate):
    """Write intercept, dual objective, duality gap and violation."""
    y, upper = problem
    n_free, rho, primal = 0, 0.0, 0.0
    for k in range(y.size):
        if 0 < alpha[k] < upper[k]:
            n_free += 1
            rho += gradient[k]
    rho = rho / n_free if n_free else (low + high) / 2
    dual = _objective(problem, alpha, gradient)
    for k in range(y.size):
        primal += alpha[k] * (y[k] * gradient[k] + 1) / 2 + upper[k] * max(0.0, -y[k] * (gradient[k] - rho))
    certificate[0], certificate[1] = -rho, dual
    certificate[2], certificate[3] = max(0.0, primal - dual), max(0.0, high - low)
