"""The dual problems of the machines with a parameter ν: the total of the multipliers of each class is given.

Problem
    minimise    ½ αᵀQα − Σ_i y_i t_i α_i        with Q_ij = y_i y_j K_ij
    subject to  0 ≤ α_i ≤ C_i,   Σ_{y_i = 1} α_i = s,   and Σ_{y_i = −1} α_i = s if there are such rows

    The one-class SVM has y = 1 and t = 0 (Schölkopf et al. 2001). ν-classification has t = 0, and ν-regression has two
    multipliers for each sample with the target of the sample (Schölkopf et al. 2000).

Optimality
    That of `problem` in each class by itself: rows of one class exchange multipliers with each other only (Chang and
    Lin 2001, Training ν-support vector classifiers, Neural Computation 13). F equals the level ρ + r of its class on
    the free rows with y = 1, and ρ − r on those with y = −1.

Start
    The first rows of each class at their bounds, as in LIBSVM.
"""

from math import fsum

import numpy as np

from fastsvm.kernel_matrix.rounding import BALANCED, RETURNED
from fastsvm.solvers.kernel_dual.problem import (
    Formulation,
    KernelDualState,
    KernelProblem,
    WithIntercept,
)
from fastsvm.solvers.kernel_dual.working_set import bounds

__all__ = ["WithinClasses", "filled", "formulated"]


class WithinClasses(Formulation):
    """The dual of a problem in which the total of each class is given."""

    balanced = True
    has_interior_method = False

    @property
    def n_levels(self) -> int:
        """Return the number of classes, 1 or 2."""
        return 2 if self.problem.y.min(initial=1.0) < 0 < self.problem.y.max(initial=-1.0) else 1

    @property
    def of_coef(self) -> float:
        """Relative error of the multipliers that are returned: of two classes they are divided by the margin."""
        return RETURNED if self.n_levels > 1 else 0.0

    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers near `alpha` that satisfy the constraints."""
        y, upper = self.problem.box
        result = np.empty(len(y))
        for rows in (y > 0, y < 0):
            result[rows] = filled(alpha[rows], upper[rows], self.problem.total)
        return result

    def start(self) -> np.ndarray:
        """Return multipliers of which the first ones are at their bounds."""
        return np.zeros(len(self.problem.y))

    @staticmethod
    def level(
        y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, tuple[float, float]]:
        """Return F less the middle of its class, and the least that may rise and the greatest that may fall."""
        if y.min(initial=1.0) > 0 or y.max(initial=-1.0) < 0:
            return gradient, bounds(y, upper, alpha, gradient)
        ends = [bounds(y[rows], upper[rows], alpha[rows], gradient[rows]) for rows in (y > 0, y < 0)]
        above, below = (_middle(low, high) for low, high in ends)
        low = min(ends[0][0] - above, ends[1][0] - below)
        high = max(ends[0][1] - above, ends[1][1] - below)
        return gradient - np.where(y > 0, above, below), (low, high)

    def rho(self, state: KernelDualState) -> float:
        """Return the mean of the levels of the classes: minus the intercept."""
        levels = self._levels(state)
        return sum(levels) / len(levels)

    def margin(self, state: KernelDualState) -> float:
        """Return half of the difference between the levels of the classes, 0 for one class.

        It is the margin, or minus half of the width of a tube, neither of which is less than 0. Rounding, or a fit that
        ended early, may lead to less.
        """
        levels = self._levels(state)
        found = (levels[0] - levels[-1]) / 2
        return min(0.0, found) if self.problem.target.any() else max(0.0, found)

    def is_certified(self, state: KernelDualState, tol: float) -> bool:
        """Return True: the gap bounds the violation, and the duality gap follows."""
        return True

    def violation(self, state: KernelDualState, error: np.ndarray) -> float:
        """Return a bound on the gap where F may err by `error`."""
        y, found = self.problem.y, 0.0
        for rows in (y > 0, y < 0):
            part = y[rows], self.problem.upper[rows], state.alpha[rows]
            low = bounds(*part, state.gradient[rows] - error[rows])[0]
            found = max(found, bounds(*part, state.gradient[rows] + error[rows])[1] - low)
        return found

    def imbalance(self, alpha: np.ndarray, rho: float, margin: float) -> float:
        """Return what rounding of the multipliers' sums may add to a dual objective above the feasible ones."""
        y, total = self.problem.y, self.problem.total
        classes = [(rows, rho + sign * margin) for rows, sign in ((y > 0, 1), (y < 0, -1)) if rows.any()]
        return sum(abs(level * (fsum(alpha[rows]) - total)) for rows, level in classes)

    def primal(self, state: KernelDualState, rho: float, margin: float = 0.0) -> float:
        """Return the primal objective with the intercept −ρ and the margin r."""
        y, upper, target = self.problem[:3]
        away = state.gradient - (rho + margin * y)
        square = float(state.alpha @ (y * (away + rho + margin * y + target))) / 2
        return square - float(state.alpha @ (y * (rho + margin * y))) + float(upper @ np.maximum(0, -y * away))

    def _levels(self, state: KernelDualState) -> list[float]:
        """Return the level of each class, that of y = 1 first."""
        y, upper = self.problem.box
        found = []
        for rows in (y > 0, y < 0):
            if rows.any():
                found.append(_level_of(y[rows], upper[rows], state.alpha[rows], state.gradient[rows]))
        return found


def formulated(problem: KernelProblem) -> Formulation:
    """Return the dual of a problem with an intercept, whose totals may be given."""
    return WithinClasses(problem) if problem.total > 0 else WithIntercept(problem)


def filled(alpha: np.ndarray, upper: np.ndarray, total: float) -> np.ndarray:
    """Return multipliers near `alpha` with a given sum: clipped, then scaled down, or the first ones raised."""
    alpha = np.clip(alpha, 0, upper)
    lacking = total - float(alpha.sum())
    if abs(lacking) <= BALANCED * total:
        return alpha
    if lacking < 0:
        return alpha * (total / (total - lacking))
    room = upper - alpha
    before = np.cumsum(room) - room
    return np.minimum(alpha + np.clip(lacking - before, 0, room), upper)


def _level_of(y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray) -> float:
    """Return the mean of F over the free rows, else the middle of the interval that is optimal, else its only end."""
    free = (alpha > 0) & (alpha < upper)
    return float(gradient[free].mean()) if free.any() else _middle(*bounds(y, upper, alpha, gradient))


def _middle(low: float, high: float) -> float:
    """Return the middle of two ends, or the one that is finite, or 0."""
    ends = [end for end in (low, high) if abs(end) < np.inf]
    return sum(ends) / len(ends) if ends else 0.0
