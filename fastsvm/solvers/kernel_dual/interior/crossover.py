"""Crossover: active-set steps from the solution of an interior-point method to a nearby vertex.

Step
    At the optimum F equals the intercept ρ on all free variables; ρ is estimated by its mean over them. A variable at
    a bound that violates the optimality conditions by more than the free ones do becomes free. A Newton step on the
    free variables follows, cut at the first bound. If the system is singular and inconsistent, the objective is linear
    along a null direction, and the step follows that direction to a bound. The number of free variables thus decreases
    to the rank of their kernel, as an exact Newton step requires.

    Final steps correct rounding errors by changing fewer and fewer of the smallest free variables: their last digits
    have smaller absolute value than those of the others.

Cost
    Per step, a singular value decomposition of the kernel among the free variables and n² products for the gradient,
    which are summed in extended precision.

Source
    Scheinberg (2006), An efficient implementation of an active set method for SVMs, JMLR 7, on steps for singular
    kernels among the free variables.
"""

import numpy as np
from scipy import linalg

from fastsvm.solvers.kernel_dual.interior.problem import EXACT, Judgement, Scaled, extended_sums

__all__ = ["crossover", "newton_on_free"]

_MOST_FREE = 500
_STEPS, _IN_VAIN = 100, 20
_LEAST_SHARE = 8  # each time, one part in so many of the smallest free variables is dropped
_SINGULAR = 2e-16  # relative to the largest singular value
_UNREACHED = 0.1  # share of the right side in the null space from which on the system is inconsistent


def crossover(problem: Scaled, x: np.ndarray) -> tuple[np.ndarray, Judgement]:
    """Return the best point found, which may be `x` itself, and its judgement."""
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
    """Return x after a step, or None if there are no free variables, too many, or no bound along the step."""
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
    """Return x after Newton steps on fewer and fewer variables, which correct the rounding errors of the others."""
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
    """Return x after a clipped Newton step on the `n_least` smallest free variables."""
    free = np.flatnonzero((x > 0) & (x < problem.upper))
    changed = free[np.argsort(x[free], kind="stable")[:n_least]]
    slope = np.zeros(len(x))
    slope[free] = extended_sums(problem.matrix[free], x, -problem.linear[free])
    block, right = _system(problem, x, slope, free, changed)
    ahead = x.copy()
    change = linalg.lstsq(block, right, cond=_SINGULAR, check_finite=False)[0][: len(changed)]
    ahead[changed] = np.clip(x[changed] + change, 0, problem.upper[changed])
    return ahead


def _system(
    problem: Scaled, x: np.ndarray, slope: np.ndarray, free: np.ndarray, changed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Newton system: matrix and right side for the changes of some variables and of the intercept."""
    block, right = np.zeros((len(free) + 1, len(changed) + 1)), np.append(-slope[free], 0.0)
    block[:-1, :-1] = problem.matrix[np.ix_(free, changed)]
    if problem.balanced:
        unit = 1 / np.abs(problem.balance[free]).max()
        block[-1, :-1], block[:-1, -1] = unit * problem.balance[changed], unit * problem.balance[free]
        right[-1] = -unit * float(problem.balance @ x)
    return block, right
