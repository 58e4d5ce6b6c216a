"""The dual problems of kernel SVMs, with and without an intercept, or with given totals: constraints, optimality.

Problem
    minimise    ½ αᵀQα − Σ_i y_i t_i α_i        with Q_ij = y_i y_j K_ij
    subject to  0 ≤ α_i ≤ C_i, with an intercept also Σ_i y_i α_i = 0,   y_i = ±1

    The targets t are what tells the machines apart (Chang and Lin 2011, LIBSVM, section 4, where p = −y ∘ t).
    Classification has t = y. Regression has two multipliers for each sample, y = 1 with the target z − ε and y = −1
    with z + ε. Machines with a parameter ν have the total s of each class given (`WithinClasses`):
        Σ_{y_i = 1} α_i = s,   and Σ_{y_i = −1} α_i = s if there are such rows
    The one-class SVM has y = 1 and t = 0 (Schölkopf et al. 2001). ν-classification has t = 0, and ν-regression has two
    multipliers for each sample with the target of the sample (Schölkopf et al. 2000).

Optimality
    F_i = Σ_j α_j y_j K_ij − t_i is the gradient times y_i. Let U = {α_i < C_i, y_i = 1} ∪ {α_i > 0, y_i = −1} be the
    rows whose y_i α_i may rise, and L = {α_i > 0, y_i = 1} ∪ {α_i < C_i, y_i = −1} those whose y_i α_i may fall. α is
    optimal if and only if the gap max_L F − min_U F is not positive (Keerthi et al. 2001, equation 2.11). Without an
    intercept, 0 is an element of both sets of values.

    With given totals this holds in each class by itself: rows of one class exchange multipliers with each other only
    (Chang and Lin 2001, Training ν-support vector classifiers, Neural Computation 13). F equals the level ρ + r of its
    class on the free rows with y = 1, and ρ − r on those with y = −1. The start has the first rows of each class at
    their bounds, as in LIBSVM.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import fsum
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.rounding import BALANCED, RETURNED, ROUNDING
from fastsvm.solvers.kernel_dual.working_set import bounds, bounds_without_intercept

__all__ = [
    "DecompositionMemory",
    "Formulation",
    "KernelDualState",
    "KernelProblem",
    "KernelSolution",
    "WithIntercept",
    "WithinClasses",
    "WithoutIntercept",
    "feasible",
    "filled",
    "formulated",
    "free_mean",
    "rounding_is_visible",
]


class KernelProblem(NamedTuple):
    """What a machine asks of its multipliers; arrays are float64 of shape (n,).

    The signs `y` are ±1. `target` is what the sum of kernel values is to reach: the labels, where samples are
    classified. `total` is the sum of the multipliers of each class, where it is given (`WithinClasses`), else 0.
    """

    y: np.ndarray
    upper: np.ndarray
    target: np.ndarray
    total: float = 0.0

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Signs and upper bounds."""
        return self.y, self.upper

    def take(self, rows: np.ndarray) -> "KernelProblem":
        """Return the problem of some multipliers, the others fixed; `total` is that of all."""
        return KernelProblem(self.y[rows], self.upper[rows], self.target[rows], self.total)


@storable("kernel dual state")
class KernelDualState(NamedTuple):
    """Multipliers α, gradient F, and the last working set."""

    alpha: np.ndarray
    gradient: np.ndarray
    working_set: np.ndarray


@storable("decomposition memory")
class DecompositionMemory(NamedTuple):
    """What a decomposition knows beside its state; it decides the steps to come."""

    aim: float  # Steps aim for this gap.
    drift: float  # It is Σ |coef| of all that was added to F since F was recomputed.
    since_newton: int  # So many steps were taken since the last Newton step.
    failures: int  # So many Newton steps in a row gained little.
    n_sets: int
    all_considered: bool  # It was decided whether all kernel rows should be computed.
    random: Mapping[str, Any] | None = None  # It is the state of the random number generator, if there is one.
    n_steps: int = 0
    interior_tried: bool = False
    rounding: float = 0.0  # It is the rounding error of F at the interior solution, 0 if that was not adopted.
    largest: float = 1.0  # No diagonal value of the kernel was larger among all rows that were in a working set.
    least: float = np.inf  # It is the least gap by an F in more digits.
    waited: int = 0  # So many gaps since were not less.
    best: float = -np.inf  # The objective after a working set was never higher.
    lowest: float = np.inf  # The gap after a working set was never lower.
    in_vain: tuple[int, int] = (0, 0)  # So many sets and steps reached neither since.


@storable("kernel solution")
class KernelSolution(NamedTuple):
    """Multipliers, which rows are on or within the margin, the intercept, and the certificate of optimality.

    `margin` is half of the difference between the levels of the classes, where each has its own (`WithinClasses`).
    """

    alpha: np.ndarray
    within: np.ndarray
    intercept: float
    objective: float
    duality_gap: float
    kkt_violation: float
    margin: float = 0.0


class Formulation(ABC):
    """The dual of one problem."""

    balanced: ClassVar[bool]
    """Whether Σ_i y_i α_i is given, as it is with an intercept."""
    has_interior_method: ClassVar[bool] = True
    """Whether the interior-point method solves it."""

    @property
    def n_levels(self) -> int:
        """How many values F may have on the free rows: that of the intercept, or one a class."""
        return 1

    @property
    def of_coef(self) -> float:
        """Relative error of the multipliers that are returned."""
        return 0.0

    def __init__(self, problem: KernelProblem) -> None:
        self.problem = problem

    @abstractmethod
    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers near `alpha` that satisfy the constraints."""

    @staticmethod
    @abstractmethod
    def level(
        y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, tuple[float, float]]:
        """Return F, and the least F that may rise and the greatest that may fall; their difference is the gap.

        Where each class has a level of its own, it is taken from F, so that rows of all classes compare.
        """

    def centred(self, part: KernelProblem, alpha: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return F of some rows, less a number that those which exchange have in common, if there is one.

        Steps see differences only. Those near the gap would be lost in float32 where all F are large, as with targets
        far from 0, or with totals of thousands.
        """
        level, (low, high) = self.level(*part.box, alpha, gradient)
        return level - (low + high) / 2 if self.balanced and abs(low) + abs(high) < np.inf else level

    @abstractmethod
    def rho(self, state: KernelDualState) -> float:
        """Return minus the intercept of the primal problem."""

    def margin(self, state: KernelDualState) -> float:
        """Return half of the difference between the levels of the classes; 0 if they have the same."""
        return 0.0

    def start(self) -> np.ndarray | None:
        """Return the multipliers at which to begin, None for zeros."""
        return None

    def is_certified(self, state: KernelDualState, tol: float) -> bool:
        """Return whether the state satisfies what a solution must satisfy beside a gap within tolerance.

        With an intercept, or given totals, the gap bounds the violation, and the duality gap follows.
        """
        return True

    def levelled(self, state: KernelDualState) -> tuple[np.ndarray, tuple[float, float]]:
        """Return `level` of a state."""
        return self.level(*self.problem.box, state.alpha, state.gradient)

    def bounds(self, state: KernelDualState) -> tuple[float, float]:
        """Return the least F that may rise and the greatest that may fall."""
        return self.levelled(state)[1]

    def gap(self, state: KernelDualState) -> float:
        """Return the gap, at least 0."""
        low, high = self.bounds(state)
        return max(0.0, high - low)

    def objective(self, state: KernelDualState) -> float:
        """Return the dual objective Σ y t α − ½ αᵀQα = ½ Σ y_i α_i (t_i − F_i)."""
        return float(state.alpha @ (self.problem.y * (self.problem.target - state.gradient))) / 2

    def violation(self, state: KernelDualState, error: np.ndarray) -> float:
        """Return a bound on the gap where F may err by `error`."""
        low = self.bounds(state._replace(gradient=state.gradient - error))[0]
        return max(0.0, self.bounds(state._replace(gradient=state.gradient + error))[1] - low)

    def imbalance(self, alpha: np.ndarray, rho: float, margin: float) -> float:
        """Return what rounding of the multipliers' sums may add to a dual objective above the feasible ones."""
        return abs(rho * fsum(alpha * self.problem.y)) if self.balanced else 0.0

    def primal(self, state: KernelDualState, rho: float, margin: float = 0.0) -> float:
        """Return the primal objective with the intercept −ρ."""
        y, upper, target = self.problem[:3]
        loss = float(upper @ np.maximum(0, -y * (state.gradient - rho)))  # of y_i (f(x_i) − ρ − t_i) < 0
        return float(state.alpha @ (y * (state.gradient + target))) / 2 + loss


class WithIntercept(Formulation):
    """The dual of a problem with an intercept."""

    balanced = True

    @staticmethod
    def level(
        y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, tuple[float, float]]:
        """Return F, and the least F that may rise and the greatest that may fall."""
        return gradient, bounds(y, upper, alpha, gradient)

    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers near `alpha` that satisfy the constraints."""
        return feasible(alpha, self.problem)

    def rho(self, state: KernelDualState) -> float:
        """Return `free_mean`."""
        return free_mean(*self.problem.box, state.alpha, state.gradient)


class WithoutIntercept(Formulation):
    """The dual of a problem without an intercept."""

    balanced = False

    @staticmethod
    def level(
        y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, tuple[float, float]]:
        """Return F, and the least F that may rise and the greatest that may fall, 0 among both."""
        return gradient, bounds_without_intercept(y, upper, alpha, gradient)

    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers clipped to their bounds."""
        return np.clip(alpha, 0, self.problem.upper)

    def rho(self, state: KernelDualState) -> float:
        """Return 0."""
        return 0.0

    def is_certified(self, state: KernelDualState, tol: float) -> bool:
        """Return whether the duality gap, relative to the primal objective, is within tolerance."""
        primal = self.primal(state, 0.0)
        return primal - self.objective(state) <= max(tol, ROUNDING) * primal


def free_mean(y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray) -> float:
    """Return the mean of F over the free rows; without free rows, the middle of the interval that is optimal.

    Without an intercept in the problem the interval may be bounded on one side only. Then the result is the number
    in it that is nearest to 0.
    """
    free = (alpha > 0) & (alpha < upper)
    if free.any():
        return float(gradient[free].mean())
    low, high = bounds(y, upper, alpha, gradient)
    return (low + high) / 2 if low - high < np.inf else float(np.clip(0.0, high, low))


def feasible(alpha: np.ndarray, problem: KernelProblem) -> np.ndarray:
    """Return multipliers near `alpha` that satisfy the constraints: clipped, then the larger class scaled down."""
    alpha = np.clip(alpha, 0, problem.upper)
    positive = problem.y > 0
    if abs(alpha @ problem.y) <= BALANCED * alpha.sum():  # scaling would move multipliers off their bounds
        return alpha
    rise, fall = alpha[positive].sum(), alpha[~positive].sum()
    if rise > fall:
        alpha[positive] *= fall / rise
    elif fall > rise:
        alpha[~positive] *= rise / fall
    return alpha


def rounding_is_visible(total: float, dtype: np.dtype, tol: float) -> bool:
    """Return whether rounding errors of kernel values, times coefficients of that total, are visible at `tol`.

    Errors of values cancel in part, so that their largest sum may be as large as the tolerance.
    """
    return total * float(np.finfo(dtype).epsneg) > tol


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
