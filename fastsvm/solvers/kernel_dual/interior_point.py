"""A primal-dual interior-point method on the whole matrix, for small problems on which SMO converges slowly.

Problem
    With x_i = α_i √K_ii the matrix has a unit diagonal, independently of the scale of the features:
        minimise  ½ xᵀQx − cᵀx   subject to  0 ≤ x ≤ u,  aᵀx = 0
    where s_i = 1/√K_ii, c = s ∘ y ∘ t with the targets t, u_i = C_i √K_ii and a = y ∘ s. Without an intercept the sum
    is unconstrained. For classes y ∘ t = 1, so that c = s.

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
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.pairwise import SPAN
from fastsvm.kernel_matrix.rounding import BALANCED, EXACT, NEAR, ROUNDING, UNIT
from fastsvm.linalg.cholesky import Inverse
from fastsvm.solvers.kernel_dual.problem import KernelProblem, violation, worst_ends

STEPS = 100
"""A path has so many steps at most."""
BLIND = 1000
"""No path makes progress at such a rounding error of F, in margins."""
_BACK = 0.995  # A step goes at most this share of the way to the boundary.
_PACE = 4  # In so many steps the residual must decrease by a decimal digit.
_FARTHER = 1e4  # A restart multiplies x by this number, and starts at the midpoint once x was multiplied twice.
_MOST_RIDGE = 1e-9  # A larger ridge, relative to the diagonal, is needed only by an indefinite matrix.
_FEW = 100  # A Newton step on so few free variables is cheap.
_REFINEMENTS = 10  # A solution is refined so often at most.
_LARGE = 0.5  # Larger violations are less informative than the duality gap; the violation is 2 for α = 0.
_MOST_UNEQUAL = 10  # An initial multiplier increases by at most this, relative to μ / x.
_LOW_RANK = 1 / 3  # A factor is cheaper up to this rank, relative to the rows.


def badness(violation: float, primal: float, dual: float) -> float:
    """Return a measure to compare solutions: the violation, or 1 plus the relative duality gap if that is large."""
    if violation <= _LARGE:
        return violation
    share = (primal - dual) / primal if primal > 0 else np.inf
    return 1 + share if share >= 0 else np.inf


class Point(NamedTuple):
    """x, its slack to the upper bound, the multipliers of both bounds, Lᵀx, and the multiplier of aᵀx = 0."""

    x: np.ndarray
    slack: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weights: np.ndarray
    intercept: float

    @property
    def mu(self) -> float:
        """Mean complementarity product: μ."""
        return float(self.x @ self.lower + self.slack @ self.upper) / (2 * len(self.x))

    def moved(self, direction: "Point", length: float) -> "Point":
        """Return the point plus `length` times the direction."""
        return Point(
            self.x + length * direction.x,
            self.slack + length * direction.slack,
            self.lower + length * direction.lower,
            self.upper + length * direction.upper,
            self.weights + length * direction.weights,
            self.intercept + length * direction.intercept,
        )

    def distance_to_boundary(self, direction: "Point") -> float:
        """Return the step length in this direction at which the first variable becomes 0."""
        pairs = zip(self[:4], direction[:4], strict=True)
        return 1 / max(1e-300, *(float(np.max(-change / value)) for value, change in pairs))


class InteriorResult(NamedTuple):
    """A point of the paths, x at first and α at the end, in which variables at a bound equal it exactly."""

    alpha: np.ndarray
    violation: float = np.inf
    badness: float = np.inf
    rounding: float = 0.0  # It is the rounding error of the gradient, that of the largest sum in it.
    n_steps: int = 0
    ended: bool = False  # The path converged: the remaining violation is rounding.

    @property
    def hidden(self) -> float:
        """The rounding error of the gradient if it may explain the whole violation, else 0."""
        return self.rounding if self.violation <= NEAR * self.rounding else 0.0


class Scaled(NamedTuple):
    """The dual problem, scaled to a unit diagonal: `matrix` is Q, `linear` c, `upper` u, and α = `scale` ∘ x.

    `balance` is a = y ∘ s; aᵀx = 0 is required if `balanced`. `factor` is L, shape (n, r), if Q = LLᵀ and r is small.
    """

    matrix: np.ndarray
    scale: np.ndarray
    balance: np.ndarray
    linear: np.ndarray
    upper: np.ndarray
    balanced: bool
    factor: np.ndarray | None

    @classmethod
    def of(
        cls, kernel: np.ndarray, y: np.ndarray, upper: np.ndarray, target: np.ndarray, balanced: bool
    ) -> "Scaled | None":
        """Return the problem, which reuses the memory of the kernel matrix; None if a diagonal value is negative."""
        diagonal = kernel.diagonal().copy()
        most = diagonal.max()
        if not (diagonal.min() >= 0 and 0 < most < np.inf):
            return None
        exponent = np.round(np.log2(np.maximum(diagonal, UNIT**2 * most)) / 2)
        scale = np.exp2(-exponent)  # powers of two, so that scaling is exact
        balance = y * scale
        for a, b in spans(len(kernel), SPAN):
            kernel[a:b] *= balance
            kernel[a:b] *= balance[a:b, None]
        return cls(kernel, scale, balance, balance * target, upper / scale, balanced, _factor(kernel))

    def multipliers(self, x: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return α. Variables at a bound equal it exactly."""
        return np.where(x == self.upper, upper, np.minimum(x * self.scale, upper))

    def starts_at_midpoint(self, size: float) -> bool:
        """Return whether a start of this size puts all variables at the midpoint of their bounds."""
        return bool((size * self.scale >= 0.5 * self.upper).all())

    def begin(self, size: float) -> Point:
        """Return a start with α_i near `size` / K_ii, or at the midpoint of the bounds if that is less."""
        x = np.minimum(0.5 * self.upper, size * self.scale)
        if self.balanced:
            rising = self.balance > 0
            rise, fall = self.balance[rising] @ x[rising], -self.balance[~rising] @ x[~rising]
            x = np.where(rising, x * min(1.0, fall / rise), x * min(1.0, rise / fall))
        slack = self.upper - x
        slope = self.matrix @ x - self.linear
        products = np.minimum(x, slack) * np.maximum(np.abs(slope), self.scale)
        at_midpoint = self.starts_at_midpoint(size)
        mu = float(products.max() if at_midpoint else products.mean())
        lower, upper = mu / x, mu / slack
        more = slope - lower + upper
        # The multipliers absorb the residual: all of it if x cannot become larger, otherwise only as far as they stay
        # of similar size.
        most = np.inf if at_midpoint else _MOST_UNEQUAL
        lower, upper = lower + np.clip(more, 0, most * lower), upper + np.clip(-more, 0, most * upper)
        return Point(x, slack, lower, upper, np.zeros(0) if self.factor is None else self.factor.T @ x, 0.0)

    def residuals(self, point: Point) -> tuple[np.ndarray, float]:
        """Return the residuals of the dual feasibility equation and of aᵀx = 0."""
        product = self.matrix @ point.x if self.factor is None else self.factor @ point.weights
        slope = self.linear - product + point.lower - point.upper
        if not self.balanced:
            return slope, 0.0
        return slope - point.intercept * self.balance, -float(self.balance @ point.x)

    def vertex(self, point: Point) -> np.ndarray:
        """Return x rounded to a vertex: variables that tend to a bound are set to it exactly."""
        below = point.x < point.lower
        above = (point.slack < point.upper) & ~below
        x = np.where(below, 0.0, np.where(above, self.upper, np.minimum(point.x, self.upper)))
        if self.balanced:
            room = np.where(below | above, 0.0, np.minimum(point.x, point.slack))
            weight = self.balance * (room / max(room.max(), 1e-300)) ** 2
            share = self.balance @ weight
            if share > 0:  # the residual of the sum goes to the largest free variables
                x = np.clip(x - (self.balance @ x) / share * weight, 0, self.upper)
        return x

    def judged(self, x: np.ndarray) -> InteriorResult:
        """Return x with its violation of the optimality conditions and its `badness`, infinite if aᵀx ≠ 0."""
        if self.balanced and abs(self.balance @ x) > BALANCED * (np.abs(self.balance) @ x):
            return InteriorResult(x)
        gradient = (self.matrix @ x - self.linear) / self.balance  # F
        if np.isnan(gradient).any():
            return InteriorResult(x)
        y = np.sign(self.balance)
        problem = KernelProblem(y, self.upper, self.linear / self.balance, groups=int(self.balanced))
        worst, (low, high) = violation(problem, x, gradient), worst_ends(problem, x, gradient)
        margin = y * (gradient - ((low + high) / 2 if self.balanced else 0.0))  # y (f(x) − t)
        square = float(x @ (y * gradient * self.scale + self.linear))
        loss = float((self.upper * self.scale) @ np.maximum(0, -margin))
        return InteriorResult(x, worst, badness(worst, square / 2 + loss, float(x @ self.linear) - square / 2))

    def rounding(self, x: np.ndarray) -> float:
        """Return a bound on the rounding error of F: that of its largest sum of absolute values."""
        most = 0.0
        for a, b in spans(len(x), SPAN):
            most = max(most, float(np.max(np.abs(self.matrix[a:b]) @ x / self.scale[a:b])))
        return most * float(np.finfo(np.float64).eps)


def _factor(matrix: np.ndarray) -> np.ndarray | None:
    """Return L if the matrix is LLᵀ up to the rounding of a gap, by pivoted Cholesky; None if L has many columns."""
    lower, pivots, rank, _ = linalg.lapack.dpstrf(matrix, tol=ROUNDING, lower=1)
    if rank > _LOW_RANK * len(matrix):
        return None
    factor = np.empty((len(matrix), rank))
    factor[pivots - 1] = np.tril(lower[:, :rank])
    left = max(float(np.abs(matrix[a:b] - factor[a:b] @ factor.T).max()) for a, b in spans(len(matrix), SPAN))
    return factor if left <= EXACT else None


class System(ABC):
    """The Newton system at a point."""

    def __init__(self, problem: Scaled, point: Point) -> None:
        self._problem, self._point = problem, point
        self._diagonal = point.lower / point.x + point.upper / point.slack

    def direction(self, right: np.ndarray, total: float, low: np.ndarray | float, high: np.ndarray | float) -> Point:
        """Return the step after which x ∘ z is `low` and s ∘ w is `high`, from the residuals of both equations."""
        point = self._point
        lower, upper = low / point.x - point.lower, high / point.slack - point.upper
        x, weights, shift = self._solved(right + lower - upper, total)
        return Point(x, -x, lower - point.lower / point.x * x, upper + point.upper / point.slack * x, weights, shift)

    @abstractmethod
    def _solved(self, right: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the changes of x, of Lᵀx if that is a variable, and of the multiplier of aᵀx = 0."""


class WholeSystem(System):
    """The system with Q, which is factorised with a `ridge` in the memory `room`, shape (n, n)."""

    def __init__(self, problem: Scaled, point: Point, ridge: float, room: np.ndarray, pool: Pool) -> None:
        super().__init__(problem, point)
        np.copyto(room, problem.matrix)
        room[np.diag_indices_from(room)] += self._diagonal + ridge * (1 + self._diagonal)
        self._inverse = Inverse(room, pool)
        self._of_balance = self._refined(problem.balance) if problem.balanced else np.zeros(0)

    def _solved(self, right: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray, float]:
        x, balance = self._refined(right), self._problem.balance
        if not self._problem.balanced:
            return x, np.zeros(0), 0.0
        shift = float((balance @ x - total) / (balance @ self._of_balance))
        return x - shift * self._of_balance, np.zeros(0), shift

    def _refined(self, right: np.ndarray) -> np.ndarray:
        """Return the solution without ridge, by conjugate gradients started at the solution with ridge."""
        x = best = self._inverse.times(right)
        left = right - self._times(x)
        least, enough = float(np.abs(left).max()), ROUNDING * float(np.abs(right).max())
        direction, before = np.zeros_like(x), np.inf
        for _ in range(_REFINEMENTS):
            if not least > enough:
                break
            ready = self._inverse.times(left)
            product = float(left @ ready)
            direction = ready + product / before * direction
            times_direction, before = self._times(direction), product
            curvature = float(direction @ times_direction)
            if not (product > 0 and curvature > 0):  # rounding, or an indefinite matrix
                break
            x, left = x + product / curvature * direction, left - product / curvature * times_direction
            size = float(np.abs(left).max())
            if size < least:
                best, least = x, size
        return best

    def _times(self, x: np.ndarray) -> np.ndarray:
        return self._problem.matrix @ x + self._diagonal * x


class LowRankSystem(System):
    """The system for Q = LLᵀ with Lᵀx as separate variables: one equation per column of L.

    Large components of x that cancel in Lᵀx are then not rounded again in each product with the matrix.
    """

    def __init__(self, problem: Scaled, point: Point, ridge: float, pool: Pool) -> None:
        assert problem.factor is not None
        super().__init__(problem, point)
        self._factor = problem.factor
        columns: list[np.ndarray] = [problem.factor]
        if problem.balanced:
            columns.append(problem.balance[:, None])
        self._sides: np.ndarray = np.concatenate(columns, axis=1)
        normal = self._sides.T @ (self._sides / self._diagonal[:, None])
        self._ones = np.zeros(len(normal))
        self._ones[: problem.factor.shape[1]] = 1
        normal[np.diag_indices_from(normal)] += self._ones
        normal[np.diag_indices_from(normal)] *= 1 + ridge
        self._inverse = Inverse(normal, pool)

    def _solved(self, right: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray, float]:
        unlinked = self._point.weights - self._factor.T @ self._point.x
        sums = np.append(unlinked, total) if self._problem.balanced else unlinked
        x = right / self._diagonal
        multipliers, least = np.zeros(len(sums)), np.inf
        best = x, multipliers
        for _ in range(_REFINEMENTS):
            lacking = self._sides.T @ x - self._ones * multipliers - sums
            size = float(np.abs(lacking).max())
            if not size < least:
                break
            best, least = (x, multipliers), size
            multipliers = multipliers + self._inverse.times(lacking)
            x = (right - self._sides @ multipliers) / self._diagonal
        x, multipliers = best
        return (x, multipliers[:-1], float(multipliers[-1])) if self._problem.balanced else (x, multipliers, 0.0)


def interior_solution(
    kernel: np.ndarray,
    y: np.ndarray,
    upper: np.ndarray,
    target: np.ndarray,
    balanced: bool,
    pool: Pool,
    deadline: float = np.inf,
) -> InteriorResult | None:
    """Return the best solution, or None if the kernel is not positive semi-definite or `deadline` is past.

    The kernel values, shape (n, n), are overwritten. Bounds are above 0. If `balanced`, Σ_i y_i α_i = 0.
    """
    problem = Scaled.of(kernel, y, upper, target, balanced)
    if problem is None or (balanced and not (y.max() > 0 > y.min())):
        return None
    best = InteriorResult(y)
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
            end = _follow(problem, problem.begin(size), room, pool, deadline)
        n_steps += end.n_steps
        best = end if end.badness < best.badness or end.rounding > BLIND else best
        if best.ended or best.rounding > BLIND or problem.starts_at_midpoint(size):
            return best._replace(n_steps=n_steps)
        size = size * _FARTHER if size < _FARTHER**2 else np.inf


def _follow(problem: Scaled, point: Point, room: np.ndarray, pool: Pool, deadline: float) -> InteriorResult:
    """Follow the path from a point and return the best vertex found."""
    best, idle, ridge = InteriorResult(point.x), 0, NEAR * UNIT
    first, unmet = point.mu, float(np.abs(problem.residuals(point)[0] / problem.scale).max())
    for n_steps in range(STEPS):
        x = problem.vertex(point)
        here = problem.judged(x)
        n_free = int(np.count_nonzero((x > 0) & (x < problem.upper)))
        if here.violation > ROUNDING and 0 < n_free <= _FEW:
            x = _newton_on_free(problem, x)
            here = min(here, problem.judged(x), key=lambda vertex: vertex.badness)
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
        if (slow and mu > 0.01 * first) or time.perf_counter() >= deadline:
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
        ahead = point.moved(corrector, length)
        if not all(np.isfinite(value).all() for value in ahead):
            break
        point = ahead
    return best


def _ridged_system(problem: Scaled, point: Point, ridge: float, room: np.ndarray, pool: Pool) -> tuple[System, float]:
    """Return the Newton system and the ridge that makes it positive definite; else raise LinAlgError."""
    while True:
        try:
            if problem.factor is None:
                return WholeSystem(problem, point, ridge, room, pool), ridge
            return LowRankSystem(problem, point, ridge, pool), ridge
        except np.linalg.LinAlgError:
            ridge *= 10
            if ridge > _MOST_RIDGE:
                raise


def _newton_on_free(problem: Scaled, x: np.ndarray) -> np.ndarray:
    """Return x after a clipped Newton step on the free variables and the intercept."""
    free = np.flatnonzero((x > 0) & (x < problem.upper))
    wide = problem.matrix[free].astype(np.longdouble) @ x.astype(np.longdouble)  # in more digits where there are any
    slope = (wide - problem.linear[free]).astype(np.float64)
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
