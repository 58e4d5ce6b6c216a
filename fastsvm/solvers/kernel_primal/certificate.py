"""State of a primal solver, and the certificate of its solution: duality gap and KKT violation, from the dual problem.

For the hinge, the dual is that of `kernel_dual.problem`. For the squared hinge, 1 / (2C) is added to the diagonal of K
and the multipliers have no upper bound (Chapelle 2007, section 2, derives both duals).
"""

from collections.abc import Callable
from math import fsum
from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.rounding import EXACT, SEEN, SEEN_OBJECTIVE, UNIT
from fastsvm.kernel_matrix.rows import ProblemRows
from fastsvm.solvers.kernel_dual.dual_gradient import GradientBounds
from fastsvm.solvers.kernel_dual.problem import (
    KernelDualState,
    KernelProblem,
    KernelSolution,
    feasible,
    objective,
    violation,
    violation_bound,
)


@storable("kernel primal state")
@storable("subgradient descent state")  # the name of it in older checkpoints of subgradient descent
class KernelPrimalState(NamedTuple):
    """Multipliers y β (of any sign before convergence), Kβ, and the intercept."""

    alpha: np.ndarray
    sums: np.ndarray
    intercept: float


class MarginLoss(NamedTuple):
    """max(0, 1 − z), or its square."""

    squared: bool

    def value(self, margins: np.ndarray) -> np.ndarray:
        """Return the losses."""
        excess = np.maximum(0, 1 - margins)
        return excess * excess if self.squared else excess

    def fall(self, margins: np.ndarray) -> np.ndarray:
        """Return minus the derivatives. At the corner of the hinge it is 0."""
        return 2 * np.maximum(0, 1 - margins) if self.squared else (margins < 1).astype(float)


SumsOf = Callable[[np.ndarray, bool], tuple[np.ndarray, np.ndarray]]
"""Returns K times a vector with bounds on its errors, in more digits than float64 has if asked and if possible."""


class DualView:
    """The dual of a primal problem with hinge or squared hinge, with an intercept or without."""

    def __init__(self, problem: KernelProblem, squared: bool, fit_intercept: bool) -> None:
        self._y, self._factors, self.loss = problem.y, problem.upper, MarginLoss(squared)
        upper = np.full(len(problem.y), np.inf) if squared else problem.upper
        self.problem = problem._replace(upper=upper, groups=int(fit_intercept))
        self._ridge = 1 / (2 * problem.upper) if squared else np.zeros(len(problem.y))

    def primal(self, alpha: np.ndarray, sums: np.ndarray, intercept: float) -> float:
        """Return the primal objective at y β, Kβ and b."""
        losses = self.loss.value(self._y * (sums + intercept))
        return float((self._y * alpha) @ sums) / 2 + float(self._factors @ losses)

    def within(self, scores: np.ndarray) -> np.ndarray:
        """Return a mask of the rows with y f ≤ 1: those on or within the margin."""
        return self._y * scores <= 1 + EXACT

    def solution(
        self, alpha: np.ndarray, intercept: float, sums_of: SumsOf, tol: float, is_feasible: bool = False
    ) -> KernelSolution:
        """Return the solution with the certificate of dual feasible multipliers near `alpha`, which is y β.

        `tol` is the largest violation at the end. If `is_feasible`, another projection would only round.
        """
        y = self._y
        near = alpha if is_feasible else self.feasible(alpha)
        for is_last in (False, True):  # once more in more digits, where rounding is visible
            sums, error = sums_of(y * alpha, is_last)
            of_near = (sums, error) if np.array_equal(near, alpha) else sums_of(y * near, is_last)
            within = self.within(sums + intercept)
            primal, most = self._primal_bounds(alpha, sums, error, intercept)
            gradient = of_near[0] + self._ridge * y * near - y
            error = of_near[1] + 3 * UNIT * (np.abs(of_near[0]) + self._ridge * near + 1)
            worst = violation_bound(self.problem, near, gradient, error)
            dual, lowest = self._dual_bounds(near, gradient, error, intercept)
            gap = max(0.0, most - lowest)
            raw = max(0.0, primal - dual)
            is_seen = worst - violation(self.problem, near, gradient) > SEEN * tol
            if not (is_seen or gap - raw > SEEN * raw + SEEN_OBJECTIVE * primal):
                break
        return KernelSolution(alpha, within, intercept, primal, gap, worst)

    def _primal_bounds(
        self, alpha: np.ndarray, sums: np.ndarray, error: np.ndarray, intercept: float
    ) -> tuple[float, float]:
        """Return the primal objective, and the largest that it may be if Kβ errs by `error`."""
        share = (np.count_nonzero(alpha) + 16) * UNIT
        margins, size = self._y * (sums + intercept), np.abs(alpha)
        away = error + 3 * UNIT * (np.abs(sums) + abs(intercept) + 1)
        most = float((self._y * alpha) @ sums + size @ (error + share * np.abs(sums))) / 2
        most += float(self._factors @ self.loss.value(margins - away))
        return self.primal(alpha, sums, intercept), most + (share + len(alpha) * UNIT) * abs(most)

    def _dual_bounds(
        self, alpha: np.ndarray, gradient: np.ndarray, error: np.ndarray, intercept: float
    ) -> tuple[float, float]:
        """Return the dual objective, and the least that it may be if F errs by `error`."""
        away, share = 1 - self._y * gradient, (np.count_nonzero(alpha) + 16) * UNIT
        dual, slack = objective(self.problem, alpha, gradient), float(alpha @ (error + share * np.abs(away))) / 2
        if self.problem.groups > 0:
            slack += abs(intercept * fsum(alpha * self._y))
        return dual, dual - slack

    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return dual feasible multipliers near `alpha`, those at a bound there if possible.

        Moved off by rounding they would count as free, so that their rows would violate the KKT conditions.
        """
        upper = self.problem.upper
        alpha = np.clip(alpha, 0, upper)
        if self.problem.groups == 0:
            return alpha
        excess = float(alpha @ self._y)
        spare = (alpha > 0) & (alpha < upper) & (self._y * excess > 0)
        if 0 < abs(excess) < (total := float(alpha[spare].sum())):
            alpha[spare] *= 1 - abs(excess) / total
        return feasible(self.problem, alpha)


def bounded_sums(problem: KernelProblem, rows: ProblemRows) -> SumsOf:
    """Return what multiplies vectors by the kernel matrix of a problem."""
    unknown = problem._replace(target=np.zeros(len(problem.y)))
    bounds = GradientBounds(unknown, rows.gram.samples, rows.gram.value_bounds())

    def sums_of(coef: np.ndarray, accurately: bool) -> tuple[np.ndarray, np.ndarray]:
        alpha, support = problem.y * coef, np.flatnonzero(coef)
        accurate = bounds.accurate(alpha, np.arange(len(coef))) if accurately else None
        if accurate is not None:
            return accurate
        sums = rows.weighted_sum(support, coef[support])
        return sums, bounds.errors(KernelDualState(alpha, sums, support))

    return sums_of
