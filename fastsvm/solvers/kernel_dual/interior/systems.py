"""Newton systems of the interior-point method: with the whole matrix, or with a low-rank factor."""

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.linalg.cholesky import Inverse
from fastsvm.solvers.kernel_dual.interior.problem import Point, Scaled

__all__ = ["LowRankSystem", "System"]

_REFINEMENTS = 10  # A solution is refined so often at most.


class System:
    """The Newton system at a point, with the whole matrix Q.

    For the factorisation `ridge` is added to the diagonal. `room`, shape (n, n), is memory for the factor.
    """

    def __init__(self, problem: Scaled, point: Point, ridge: float, room: np.ndarray, pool: Pool) -> None:
        self._problem, self._point = problem, point
        self._diagonal = point.lower / point.x + point.upper / point.slack
        np.copyto(room, problem.matrix)
        room[np.diag_indices_from(room)] += self._diagonal + ridge * (1 + self._diagonal)
        self._inverse = Inverse(room, pool)
        self._of_balance = self._solved(problem.balance) if problem.balanced else np.zeros(0)

    def direction(self, right: np.ndarray, total: float, own: np.ndarray | float, other: np.ndarray | float) -> Point:
        """Return the step after which x ∘ z is `own` and s ∘ w is `other`, to first order.

        `right` is the residual of the dual feasibility equation, and `total` that of aᵀx = 0.
        """
        point, balance = self._point, self._problem.balance
        lower, upper = own / point.x - point.lower, other / point.slack - point.upper
        x, shift = self._solved(right + lower - upper), 0.0
        if self._problem.balanced:
            shift = float((balance @ x - total) / (balance @ self._of_balance))
            x = x - shift * self._of_balance
        return Point(
            x, -x, lower - point.lower / point.x * x, upper + point.upper / point.slack * x, np.zeros(0), shift
        )

    def _solved(self, right: np.ndarray) -> np.ndarray:
        """Return the solution without ridge, by conjugate gradients started at the solution with ridge."""
        found = best = self._inverse.times(right)
        left = right - self._times(found)
        least, enough = float(np.abs(left).max()), ROUNDING * float(np.abs(right).max())
        direction, before = np.zeros_like(found), np.inf
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
            found, left = found + product / curvature * direction, left - product / curvature * times_direction
            size = float(np.abs(left).max())
            if size < least:
                best, least = found, size
        return best

    def _times(self, x: np.ndarray) -> np.ndarray:
        return self._problem.matrix @ x + self._diagonal * x


class LowRankSystem:
    """The Newton system for Q = LLᵀ with Lᵀx as separate variables: one equation per column of L.

    Large components of x that cancel in Lᵀx are then not rounded again in each product with the matrix.
    """

    def __init__(self, problem: Scaled, point: Point, ridge: float, pool: Pool) -> None:
        assert problem.factor is not None
        self._problem, self._point, self._factor = problem, point, problem.factor
        columns: list[np.ndarray] = [problem.factor]
        if problem.balanced:
            columns.append(problem.balance[:, None])
        self._sides: np.ndarray = np.concatenate(columns, axis=1)
        self._diagonal = point.lower / point.x + point.upper / point.slack
        normal = self._sides.T @ (self._sides / self._diagonal[:, None])
        self._own = np.zeros(len(normal))
        self._own[: problem.factor.shape[1]] = 1
        normal[np.diag_indices_from(normal)] += self._own
        normal[np.diag_indices_from(normal)] *= 1 + ridge
        self._inverse = Inverse(normal, pool)

    def direction(self, right: np.ndarray, total: float, own: np.ndarray | float, other: np.ndarray | float) -> Point:
        """Return the same step as `System.direction`."""
        point = self._point
        lower, upper = own / point.x - point.lower, other / point.slack - point.upper
        right, unlinked = right + lower - upper, point.weights - self._factor.T @ point.x
        sums = np.append(unlinked, total) if self._problem.balanced else unlinked
        x = right / self._diagonal
        found, least = np.zeros(len(sums)), np.inf
        best = x, found
        for _ in range(_REFINEMENTS):
            lacking = self._sides.T @ x - self._own * found - sums
            size = float(np.abs(lacking).max())
            if not size < least:
                break
            best, least = (x, found), size
            found = found + self._inverse.times(lacking)
            x = (right - self._sides @ found) / self._diagonal
        x, found = best
        weights, shift = (found[:-1], float(found[-1])) if self._problem.balanced else (found, 0.0)
        return Point(x, -x, lower - point.lower / point.x * x, upper + point.upper / point.slack * x, weights, shift)
