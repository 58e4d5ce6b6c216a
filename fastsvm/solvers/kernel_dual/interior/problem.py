"""The scaled dual problem of the interior-point method, with slacks and the multipliers of the bounds.

Problem
    With x_i = α_i √K_ii the matrix has a unit diagonal, independently of the scale of the features:
        minimise  ½ xᵀQx − cᵀx   subject to  0 ≤ x ≤ u,  aᵀx = 0
    where s_i = 1/√K_ii, c = s ∘ y ∘ t with the targets t, u_i = C_i √K_ii and a = y ∘ s. Without an intercept the sum
    is unconstrained. For classes y ∘ t = 1, so that c = s.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import spans
from fastsvm.kernel_matrix.pairwise import SPAN
from fastsvm.kernel_matrix.rounding import BALANCED, EXACT, ROUNDING, UNIT

__all__ = ["Judgement", "Point", "Scaled", "badness", "extended_sums"]

_LARGE = 0.5  # Larger violations are less informative than the duality gap; the violation is 2 for α = 0.
_MOST_UNEQUAL = 10  # An initial multiplier increases by at most this, relative to μ / x.
_LOW_RANK = 1 / 3  # A factor is cheaper up to this rank, relative to the rows.


class Judgement(NamedTuple):
    """Violation of the optimality conditions at x, and its `badness`."""

    violation: float
    badness: float


_WORST = Judgement(np.inf, np.inf)


def badness(violation: float, primal: float, dual: float) -> float:
    """Return a measure to compare solutions: the violation, or 1 plus the relative duality gap if that is large."""
    if violation <= _LARGE:
        return violation
    share = (primal - dual) / primal if primal > 0 else np.inf
    return 1 + share if share >= 0 else np.inf


def extended_sums(matrix: np.ndarray, x: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Return `matrix` @ x + `more`, summed in extended precision where the platform has it."""
    found, wide = np.empty(len(matrix)), x.astype(np.longdouble)
    for a, b in spans(len(matrix), SPAN):
        found[a:b] = matrix[a:b].astype(np.longdouble) @ wide + more[a:b]
    return found


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


class Scaled(NamedTuple):
    """The dual problem, scaled to a unit diagonal: `matrix` is Q, `linear` c, and `upper` u.

    `scale` is s, so that α = s ∘ x. `balance` is a = y ∘ s, also without an intercept, and aᵀx = 0 is required if
    `balanced`. `factor` is L, shape (n, r), if Q = LLᵀ up to rounding and r is small, else None.
    """

    matrix: np.ndarray
    scale: np.ndarray
    balance: np.ndarray
    linear: np.ndarray
    upper: np.ndarray
    balanced: bool
    factor: np.ndarray | None

    @classmethod
    def of(cls, kernel: np.ndarray, box: tuple, target: np.ndarray, balanced: bool) -> "Scaled | None":
        """Return the problem, which reuses the memory of the kernel matrix; None if a diagonal value is negative."""
        diagonal = kernel.diagonal().copy()
        most = diagonal.max()
        if not (diagonal.min() >= 0 and 0 < most < np.inf):
            return None
        exponent = np.round(np.log2(np.maximum(diagonal, UNIT**2 * most)) / 2)
        scale = np.exp2(-exponent)  # powers of two, so that scaling is exact
        y, upper = box
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

    def judged(self, x: np.ndarray) -> Judgement:
        """Return the judgement of x, infinite if aᵀx ≠ 0."""
        if self.balanced and abs(self.balance @ x) > BALANCED * (np.abs(self.balance) @ x):
            return _WORST
        gradient = (self.matrix @ x - self.linear) / self.balance  # F
        rising = self.balance > 0
        rises, falls = np.where(rising, x < self.upper, x > 0), np.where(rising, x > 0, x < self.upper)
        zero = np.inf if self.balanced else 0.0
        low, high = np.min(gradient[rises], initial=zero), np.max(gradient[falls], initial=-zero)
        margin = np.sign(self.balance) * (gradient - ((low + high) / 2 if self.balanced else 0.0))  # y (f(x) − t)
        square = float(x @ (np.sign(self.balance) * gradient * self.scale + self.linear))
        loss = float((self.upper * self.scale) @ np.maximum(0, -margin))
        violation = float(np.maximum(0.0, high - low))  # NaN stays
        bad = badness(violation, square / 2 + loss, float(x @ self.linear) - square / 2)
        return Judgement(violation, bad) if violation >= 0 else _WORST

    def rounding(self, x: np.ndarray) -> float:
        """Return a bound on the rounding error of F: that of its largest sum of absolute values."""
        most = 0.0
        for a, b in spans(len(x), SPAN):
            most = max(most, float(np.max(np.abs(self.matrix[a:b]) @ x / self.scale[a:b])))
        return most * float(np.finfo(np.float64).eps)


def _factor(matrix: np.ndarray) -> np.ndarray | None:
    """Return L if the matrix is LLᵀ up to rounding, by pivoted Cholesky; None if L has many columns.

    The factorisation stops at a pivot that is rounding, and an error of a value may be as large as that of a gap.
    """
    lower, pivots, rank, _ = linalg.lapack.dpstrf(matrix, tol=ROUNDING, lower=1)
    if rank > _LOW_RANK * len(matrix):
        return None
    factor = np.empty((len(matrix), rank))
    factor[pivots - 1] = np.tril(lower[:, :rank])
    left = max(float(np.abs(matrix[a:b] - factor[a:b] @ factor.T).max()) for a, b in spans(len(matrix), SPAN))
    return factor if left <= EXACT else None
