"""Certificate of a primal solution: duality gap and KKT violation, from the dual problem.

For the hinge, the dual is that of `kernel_dual.problem`. For the squared hinge, 1 / (2C) is added to the diagonal of K
and the multipliers have no upper bound (Chapelle 2007, section 2, derives both duals).
"""

from collections.abc import Callable

import numpy as np

from fastsvm.solvers.kernel_dual.problem import KernelProblem, KernelSolution, feasible
from fastsvm.solvers.kernel_dual.working_set import bounds, bounds_without_intercept
from fastsvm.solvers.kernel_primal.huberized_hinge import MarginLoss, huberized_hinge, squared_hinge

__all__ = ["DualView"]

_NO_SMOOTHING = 2.0**-60  # 1 + h rounds to 1, so that the loss is the hinge
_AT_MARGIN = 1e-10


class DualView:
    """The dual of a primal problem with hinge or squared hinge.

    Parameters
    ----------
    problem : KernelProblem
        Labels and factors of the loss.
    squared : bool
        Whether the loss is the squared hinge.
    fit_intercept : bool
        Whether there is an intercept, and hence Σ y α = 0.
    """

    def __init__(self, problem: KernelProblem, squared: bool, fit_intercept: bool) -> None:
        y, upper = problem.box
        self._y, self._fit_intercept = y, fit_intercept
        self._factors = upper
        self.loss = squared_hinge if squared else huberized_hinge(_NO_SMOOTHING)
        self.upper = np.full(len(y), np.inf) if squared else upper
        self._ridge = 1 / (2 * upper) if squared else np.zeros(len(y))

    def kkt_bounds(self, alpha: np.ndarray, upper: np.ndarray, gradient: np.ndarray) -> tuple[float, float]:
        """Return the least F that may rise and the greatest that may fall; without an intercept, both include 0."""
        found = bounds if self._fit_intercept else bounds_without_intercept
        return found(self._y, upper, alpha, gradient)

    def primal(self, alpha: np.ndarray, sums: np.ndarray, intercept: float, loss: MarginLoss | None = None) -> float:
        """Return the primal objective at y β, Kβ and b, with `loss` in place of the problem's loss if it is given."""
        losses = (loss or self.loss).value(self._y * (sums + intercept))
        return float((self._y * alpha) @ sums) / 2 + float(self._factors @ losses)

    def within(self, scores: np.ndarray, smoothing: float = 0.0) -> np.ndarray:
        """Return a mask of the rows with y f ≤ 1 + `smoothing`: those on or within the margin."""
        return self._y * scores <= 1 + smoothing + _AT_MARGIN

    def linear(self, alpha: np.ndarray) -> float:
        """Return the terms of the dual objective that do not contain the kernel."""
        return float(alpha.sum() - self._ridge @ alpha**2 / 2)

    def solution(
        self,
        alpha: np.ndarray,
        sums: np.ndarray,
        intercept: float,
        times: Callable[[np.ndarray], np.ndarray],
        smoothing: float = 0.0,
        is_feasible: bool = False,
    ) -> KernelSolution:
        """Return the solution with its certificate, computed at dual feasible multipliers near `alpha`.

        Parameters
        ----------
        alpha, sums, intercept
            y β, Kβ and b.
        times : callable
            Multiplies a vector by K.
        smoothing : float, default=0.0
            Half-width h of the huberized hinge that was minimised; 0 for the squared hinge.
        is_feasible : bool, default=False
            Whether `alpha` is feasible already. Another projection would change it by rounding errors.
        """
        y = self._y
        objective = self.primal(alpha, sums, intercept)
        within = self.within(sums + intercept, smoothing)
        near = alpha if is_feasible else self.feasible(alpha)
        if not np.array_equal(near, alpha):
            sums = times(y * near)
        gradient = sums + self._ridge * y * near - y
        dual = float(near @ (1 - y * gradient)) / 2
        low, high = self.kkt_bounds(near, self.upper, gradient)
        return KernelSolution(alpha, within, intercept, objective, max(0.0, objective - dual), max(0.0, high - low))

    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return dual feasible multipliers near `alpha`. Those at a bound stay there if possible.

        A multiplier that rounding moves off its bound counts as free, so that its row would violate the KKT conditions.
        """
        alpha = np.clip(alpha, 0, self.upper)
        if not self._fit_intercept:
            return alpha
        excess = float(alpha @ self._y)
        spare = (alpha > 0) & (alpha < self.upper) & (self._y * excess > 0)
        if 0 < abs(excess) < (total := float(alpha[spare].sum())):
            alpha[spare] *= 1 - abs(excess) / total
        return feasible(alpha, KernelProblem(self._y, self.upper, self._y))
