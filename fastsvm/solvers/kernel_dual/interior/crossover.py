"""Crossover: from the point to which an interior-point method led to a vertex near it, by active-set steps.

Step
    The slope of the free variables is that of the balance times an offset, which is their mean. If a variable at a
    bound violates that by more than the free ones do, it is let free. A Newton step on the free variables ends there,
    or at the first bound that it meets. Where the system is singular, what it cannot reach has a direction in which
    the objective falls without bend; the step goes on in it to a bound. So the number of free variables comes down to
    the rank of their kernel, as it must for the Newton step to be exact.

    At the end fewer and fewer of the least free variables change. Their last digits are worth less than those of the
    others, so that they make up for the rounding of these.

Cost
    A singular value decomposition of the kernel among the free variables a step; the slope is summed with more digits
    than float64 has, n² such products.

Source
    Scheinberg (2006), An efficient implementation of an active set method for SVMs, JMLR 7, on steps where the free
    variables' kernel is singular.
"""

import numpy as np
from scipy import linalg

from fastsvm.solvers.kernel_dual.interior.problem import EXACT, Judgement, Scaled, extended_sums

__all__ = ["crossover", "newton_on_free"]

_MOST_FREE = 500
_STEPS, _IN_VAIN = 100, 20
_LEAST_SHARE = 8  # the least free variables become fewer by one part of so many
_SINGULAR = 2e-16  # of the greatest singular value
_UNREACHED = 0.1  # of what a step is to change


def crossover(problem: Scaled, x: np.ndarray) -> tuple[np.ndarray, Judgement]:
    """Return the best x that was met, which may be the one given, and what it is worth."""
    slope = problem.exact_slope(x)
    best, least = x, problem.judged(x, slope)
    idle = 0
    for _ in range(_STEPS):
        if least.violation <= EXACT or idle > _IN_VAIN:
            break
        ahead = _active_set_step(problem, x, slope)
        if ahead is None:
            break
        x, slope = ahead, problem.exact_slope(ahead)
        judged = problem.judged(x, slope)
        idle = idle + 1 if judged.badness >= least.badness else 0
        if idle == 0:
            best, least = x, judged
    return _refine_rounding(problem, best, least)


def _active_set_step(problem: Scaled, x: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
    """Return x after a step, None if there are no free variables or too many."""
    inside = (x > 0) & (x < problem.upper)
    free = np.flatnonzero(inside)
    if not 0 < len(free) <= _MOST_FREE:
        return None
    gradient = slope / problem.balance  # F
    rho = float(gradient[free].mean()) if problem.balanced else 0.0
    rises, falls = problem.freedom(x)
    violation = np.maximum(np.where(rises, rho - gradient, 0.0), np.where(falls, gradient - rho, 0.0))
    worst = int(np.argmax(np.where(inside, -1.0, violation)))
    if violation[worst] > 2 * violation[free].max():
        free = np.append(free, worst)
    block, right = _system(problem, x, slope - rho * problem.balance, free, free)
    left, values, turned = linalg.svd(block)
    regular = values > _SINGULAR * values[0]
    null = turned[~regular].T @ (turned[~regular] @ right)
    singular = float(np.linalg.norm(null)) > _UNREACHED * float(np.linalg.norm(right))
    change = (null if singular else turned[regular].T @ ((left[:, regular].T @ right) / values[regular]))[: len(free)]
    with np.errstate(all="ignore"):
        room = np.where(change < 0, x[free], (problem.upper - x)[free]) / np.abs(change)
    room[change == 0] = np.inf
    first = int(np.argmin(room))
    length = room[first] if singular else min(1.0, room[first])
    if not length < np.inf:
        return None
    ahead = x.copy()
    ahead[free] = np.clip(x[free] + length * change, 0, problem.upper[free])
    if length == room[first]:
        ahead[free[first]] = 0.0 if change[first] < 0 else problem.upper[free[first]]
    return ahead


def _refine_rounding(problem: Scaled, best: np.ndarray, least: Judgement) -> tuple[np.ndarray, Judgement]:
    """Return x after Newton steps in which ever fewer variables make up for the rounding of the others."""
    n_free = int(np.count_nonzero((best > 0) & (best < problem.upper)))
    count = n_free if n_free <= _MOST_FREE else 0
    while count > 0 and least.violation > EXACT:
        x = newton_on_free(problem, best, count)
        judged = problem.judged(x, problem.exact_slope(x))
        if judged.badness < least.badness:
            best, least = x, judged
        else:
            count -= max(1, count // _LEAST_SHARE)
    return best, least


def newton_on_free(problem: Scaled, x: np.ndarray, n_least: int) -> np.ndarray:
    """Return x after a Newton step on so many of the least free variables, clipped."""
    free = np.flatnonzero((x > 0) & (x < problem.upper))
    changed = free[np.argsort(x[free], kind="stable")[:n_least]]
    slope = np.zeros(len(x))
    slope[free] = extended_sums(problem.matrix[free], x, -problem.scale[free])
    block, right = _system(problem, x, slope, free, changed)
    ahead = x.copy()
    change = linalg.lstsq(block, right, cond=_SINGULAR, check_finite=False)[0][: len(changed)]
    ahead[changed] = np.clip(x[changed] + change, 0, problem.upper[changed])
    return ahead


def _system(
    problem: Scaled, x: np.ndarray, slope: np.ndarray, free: np.ndarray, changed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the equations for the changes of some variables, and of the offset, that end the slopes of the free."""
    block, right = np.zeros((len(free) + 1, len(changed) + 1)), np.append(-slope[free], 0.0)
    block[:-1, :-1] = problem.matrix[np.ix_(free, changed)]
    if problem.balanced:
        unit = 1 / np.abs(problem.balance[free]).max()
        block[-1, :-1], block[:-1, -1] = unit * problem.balance[changed], unit * problem.balance[free]
        right[-1] = -unit * float(problem.balance @ x)
    return block, right
