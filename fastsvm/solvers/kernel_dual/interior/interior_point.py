"""A primal-dual interior-point method on the whole matrix, for small problems on which SMO converges slowly.

Problem
    That of `decomposition`, scaled as in `problem`:
        minimise  ½ xᵀQx − cᵀx   subject to  0 ≤ x ≤ u,  aᵀx = 0

Step
    With the slack s = u − x and multipliers z, w of the bounds, Newton's method on
        Qx − c + νa − z + w = 0,   aᵀx = 0,   x_i z_i = μ,   s_i w_i = μ
    is a system in Q + diag(z/x + w/s). It is factorised once and solved twice (Mehrotra 1992). The predictor for μ = 0
    determines the target μ. The corrector aims at it and includes the second-order terms of the predictor. Primal and
    dual variables share one step length because Q couples them. Each solution is refined by conjugate gradients with
    the factor as the preconditioner: kernels with fewer features than rows are singular, and near the end the diagonal
    is below their rounding error. If Q = LLᵀ and L has r columns, the system has only r equations (Fine and Scheinberg
    2001).

Start
    x_i = 1/√K_ii, so α_i = 1/K_ii, or the midpoint of the bounds if that is less. This suits rows that a large C does
    not bound. If the residual of the first equation decreases slowly, μ is too small relative to it, and the path
    restarts from a larger x.

End
    Each iterate is rounded to a vertex, which is then judged. In the limit x_i or z_i is 0, and both have the same
    scale: if x_i is the smaller, it is set to its bound exactly, otherwise it stays free. A Newton step on the free
    variables follows if they are few. The path ends once the violation of the vertex is of the size of rounding errors.
    Where rounding hides the violation, the vertex of the least duality gap is best.

Cost
    n³/3 operations per step, or n r² if L has r columns, and some tens of matrix-vector products. 15 to 100 steps,
    independently of the scaling, and a few times as many if the path restarts.

Memory
    16 n² bytes, and 8 n r bytes for L.

Sources
    Mehrotra (1992), On the implementation of a primal-dual interior point method, SIAM J. Optimization 2. Fine and
    Scheinberg (2001), Efficient SVM training using low-rank kernel representations, JMLR 2. Scheinberg (2006), An
    efficient implementation of an active set method for SVMs, JMLR 7, on what ends at a bound.
"""

import time
from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rounding import NEAR, ROUNDING, UNIT
from fastsvm.solvers.kernel_dual.interior.problem import Point, Scaled, extended_sums
from fastsvm.solvers.kernel_dual.interior.systems import LowRankSystem, System

__all__ = ["BLIND", "STEPS", "InteriorResult", "interior_solution"]

STEPS = 100
"""A path has so many steps at most."""
BLIND = 1000
"""No path makes progress at such a rounding error of F, in margins."""
_BACK = 0.995  # A step goes at most this share of the way to the boundary.
_SHORT = 1e-4  # A step below this length is short.
_PACE = 4  # In so many steps the residual must decrease by a decimal digit, and so many short ones end a path.
_FARTHER = 1e4  # A restart multiplies x by this number, and starts at the midpoint once x was multiplied twice.
_MOST_RIDGE = 1e-9  # A larger ridge, relative to the diagonal, is needed only by an indefinite matrix.
_FEW = 100  # A Newton step on so few free variables is cheap.


class InteriorResult(NamedTuple):
    """Best point of the paths."""

    alpha: np.ndarray  # Multipliers at a bound equal it exactly.
    violation: float
    badness: float  # It is the value of `badness` for these multipliers.
    rounding: float  # It is the rounding error of the gradient, that of the largest sum in it.
    n_steps: int
    ended: bool = False  # The path converged: the remaining violation is rounding.

    @property
    def hidden(self) -> float:
        """The rounding error of the gradient if it may explain the whole violation, else 0."""
        return self.rounding if self.violation <= NEAR * self.rounding else 0.0


def interior_solution(
    kernel: np.ndarray,
    y: np.ndarray,
    upper: np.ndarray,
    target: np.ndarray,
    balanced: bool,
    pool: Pool,
    deadline: float = np.inf,
) -> InteriorResult | None:
    """Return the best solution found, or None if the kernel is not positive semi-definite or time is up.

    The kernel values, shape (n, n), are overwritten. Upper bounds are greater than 0. If `balanced`, there is an
    intercept, and hence Σ_i y_i α_i = 0. At `deadline`, a moment of time.perf_counter, the method gives up.
    """
    problem = Scaled.of(kernel, (y, upper), target, balanced)
    if problem is None or (balanced and not (y.max() > 0 > y.min())):
        return None
    best = InteriorResult(y, np.inf, np.inf, 0.0, 0)
    try:
        if problem.factor is not None:
            best = _best_of_paths(problem, best, pool, deadline)
        if not (best.ended or best.hidden > 1 or best.rounding > BLIND):
            best = _best_of_paths(problem._replace(factor=None), best, pool, deadline)
    except np.linalg.LinAlgError:
        return None
    if time.perf_counter() >= deadline or not best.badness < np.inf:
        return None
    return best._replace(alpha=problem.multipliers(best.alpha, upper))


def _best_of_paths(problem: Scaled, best: InteriorResult, pool: Pool, deadline: float) -> InteriorResult:
    """Return the best of `best` and of the ends of paths that start from larger and larger x."""
    room = np.empty_like(problem.matrix) if problem.factor is None else problem.matrix[:0]  # for factors
    size, n_steps = 1.0, best.n_steps
    while True:
        with np.errstate(all="ignore"):  # steps that are not finite are rejected
            found = _follow(problem, problem.begin(size), room, pool, deadline)
        n_steps += found.n_steps
        best = found if found.badness < best.badness or found.rounding > BLIND else best
        if best.ended or best.rounding > BLIND or problem.starts_at_midpoint(size):
            return best._replace(n_steps=n_steps)
        size = size * _FARTHER if size < _FARTHER**2 else np.inf


def _follow(problem: Scaled, point: Point, room: np.ndarray, pool: Pool, deadline: float) -> InteriorResult:
    """Follow the path from a point and return the best vertex found."""
    best, idle, n_short, ridge = InteriorResult(point.x, np.inf, np.inf, 0.0, 0), 0, 0, NEAR * UNIT
    first, unmet = point.mu, float(np.abs(problem.residuals(point)[0] / problem.scale).max())
    for n_steps in range(STEPS):
        x = problem.vertex(point)
        here = InteriorResult(x, *problem.judged(x), 0.0, n_steps)
        n_free = int(np.count_nonzero((x > 0) & (x < problem.upper)))
        if here.violation > ROUNDING and 0 < n_free <= _FEW:
            x = _newton_on_free(problem, x)
            here = min(here, InteriorResult(x, *problem.judged(x), 0.0, n_steps), key=_badness_of)
        better = here.badness < 0.5 * best.badness or here.violation < 0.5 * best.violation
        idle = 0 if better else idle + 1
        if here.badness < best.badness:
            best = here._replace(rounding=problem.rounding(here.alpha))
        best = best._replace(n_steps=n_steps)
        lacking, total = problem.residuals(point)
        mu, left = point.mu, float(np.abs(lacking / problem.scale).max())
        few = problem.factor is None or n_free <= problem.factor.shape[1] + 1
        rounded = few and best.violation <= max(ROUNDING, best.rounding)
        small = left <= max(best.violation, best.rounding)
        ended = rounded and small and 2 * len(x) * mu <= UNIT * float(problem.scale @ point.x)
        if best.violation <= ROUNDING or (ended and idle > (1 if best.violation <= best.rounding / 4 else 6)):
            return best._replace(ended=True)
        slow = n_steps > 3 * _PACE and left > unmet * 10.0 ** (2 - n_steps / _PACE)
        if n_short >= _PACE or (slow and mu > 0.01 * first):
            break
        if time.perf_counter() >= deadline:
            break
        try:
            system, ridge = _ridged_system(problem, point, ridge, room, pool)
        except np.linalg.LinAlgError:
            if problem.factor is None:  # the matrix is not positive semi-definite
                raise
            return best
        predictor = system.direction(lacking, total, 0.0, 0.0)
        ahead = point.moved(predictor, min(1.0, point.distance_to_boundary(predictor)))
        aim = max(0.0, ahead.mu / mu) ** 3 * mu
        products = aim - predictor.x * predictor.lower, aim - predictor.slack * predictor.upper
        corrector = system.direction(lacking, total, *products)
        length = min(1.0, _BACK * point.distance_to_boundary(corrector))
        n_short = n_short + 1 if length < _SHORT else 0
        ahead = point.moved(corrector, length)
        if not all(np.isfinite(value).all() for value in ahead):
            break
        point = ahead
    return best


def _ridged_system(
    problem: Scaled, point: Point, ridge: float, room: np.ndarray, pool: Pool
) -> tuple[System | LowRankSystem, float]:
    """Return the Newton system and its ridge, which is increased until the system is positive definite.

    If it is not with the largest ridge, LinAlgError is raised.
    """
    while True:
        try:
            if problem.factor is None:
                return System(problem, point, ridge, room, pool), ridge
            return LowRankSystem(problem, point, ridge, pool), ridge
        except np.linalg.LinAlgError:
            ridge *= 10
            if ridge > _MOST_RIDGE:
                raise


def _badness_of(found: InteriorResult) -> float:
    return found.badness


def _newton_on_free(problem: Scaled, x: np.ndarray) -> np.ndarray:
    """Return x after a clipped Newton step on the free variables and the intercept."""
    free = np.flatnonzero((x > 0) & (x < problem.upper))
    slope = extended_sums(problem.matrix[free], x, -problem.linear[free])
    block, right = np.zeros((len(free) + 1, len(free) + 1)), np.append(-slope, 0.0)
    block[:-1, :-1] = problem.matrix[np.ix_(free, free)]
    if problem.balanced:
        normal = problem.balance[free] / np.abs(problem.balance[free]).max()
        block[-1, :-1] = block[:-1, -1] = normal
        right[-1] = -float(problem.balance @ x) / np.abs(problem.balance[free]).max()
    ahead = x.copy()
    change = linalg.lstsq(block, right, cond=2 * UNIT, check_finite=False)[0][:-1]
    ahead[free] = np.clip(x[free] + change, 0, problem.upper[free])
    return ahead
