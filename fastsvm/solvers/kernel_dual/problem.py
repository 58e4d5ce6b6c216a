"""The dual problems of kernel SVMs, with and without an intercept: constraints, optimality conditions, objectives.

Problem
    minimise    ½ αᵀQα − Σ_i α_i        with Q_ij = y_i y_j K_ij
    subject to  0 ≤ α_i ≤ C_i, with an intercept also Σ_i y_i α_i = 0,   y_i = ±1

Optimality
    F_i = Σ_j α_j y_j K_ij − y_i is the gradient times y_i. Let U = {α_i < C_i, y_i = 1} ∪ {α_i > 0, y_i = −1} be the
    rows whose y_i α_i may rise, and L = {α_i > 0, y_i = 1} ∪ {α_i < C_i, y_i = −1} those whose y_i α_i may fall. α is
    optimal if and only if the gap max_L F − min_U F is not positive (Keerthi et al. 2001, equation 2.11). Without an
    intercept, 0 is an element of both sets of values.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.solvers.kernel_dual.active_set import ActiveContents
from fastsvm.solvers.kernel_dual.working_set import bounds, bounds_without_intercept

__all__ = [
    "BALANCED",
    "DecompositionMemory",
    "Formulation",
    "KernelDualState",
    "KernelProblem",
    "KernelSolution",
    "WithIntercept",
    "WithoutIntercept",
    "feasible",
    "rounding_is_visible",
]

BALANCED = 1e-13
"""Largest |Σ_i y_i α_i| that counts as 0, relative to Σ_i α_i."""

_ROUNDING = 0.05  # of the error of each value: of few values, errors hardly cancel
_INVISIBLE = 0.1  # of the tolerance, up to which errors of F do not matter
_EXACT_GAP = 1e-12  # relative duality gap that is rounding error


class KernelProblem(NamedTuple):
    """Labels ±1 and upper bounds of the multipliers, both float64 of shape (n,)."""

    y: np.ndarray
    upper: np.ndarray


@storable("kernel dual state")
class KernelDualState(NamedTuple):
    """Multipliers α, gradient F, and the last working set."""

    alpha: np.ndarray
    gradient: np.ndarray
    working_set: np.ndarray


@storable("decomposition memory")
class DecompositionMemory(NamedTuple):
    """What a decomposition knows beside its state; it decides the steps to come.

    Attributes
    ----------
    aim, drift : float
        The gap that steps aim for; and Σ |coef| of all that was added to F since F was recomputed.
    since_newton, failures, n_sets : int
        Steps since the last Newton step, how many Newton steps in a row gained little, and working sets so far.
    all_considered : bool
        Whether it was decided if all kernel rows should be computed.
    active : ActiveContents or None
        Rows of the active set.
    random : mapping or None
        State of the random number generator, if there is one.
    n_steps : int
        Steps since the beginning.
    interior_tried : bool
        Whether the interior-point method was tried.
    rounding : float
        Rounding error of F at its solution, 0 if that was not adopted.
    largest : float
        The largest diagonal value of the kernel among all rows that were in a working set.
    """

    aim: float
    drift: float
    since_newton: int
    failures: int
    n_sets: int
    all_considered: bool
    active: ActiveContents | None
    random: Mapping[str, Any] | None = None
    n_steps: int = 0
    interior_tried: bool = False
    rounding: float = 0.0
    largest: float = 1.0


@storable("kernel solution")
class KernelSolution(NamedTuple):
    """Multipliers, which rows are on or within the margin, the intercept, and the certificate of optimality."""

    alpha: np.ndarray
    within: np.ndarray
    intercept: float
    objective: float
    duality_gap: float
    kkt_violation: float


class Formulation(ABC):
    """The dual of one two-class problem.

    Parameters
    ----------
    problem : KernelProblem
        Labels and bounds.
    """

    balanced: ClassVar[bool]
    """Whether Σ_i y_i α_i = 0 is a constraint, as it is with an intercept."""

    def __init__(self, problem: KernelProblem) -> None:
        self.problem = problem

    @abstractmethod
    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers near `alpha` that satisfy the constraints."""

    @staticmethod
    @abstractmethod
    def kkt_bounds(y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray) -> tuple[float, float]:
        """Return the least F that may rise and the greatest that may fall; the second minus the first is the gap."""

    @abstractmethod
    def rho(self, state: KernelDualState) -> float:
        """Return minus the intercept of the primal problem."""

    @abstractmethod
    def is_certified(self, state: KernelDualState, tol: float) -> bool:
        """Return whether the state satisfies what a solution must satisfy beside a gap within tolerance."""

    def bounds(self, state: KernelDualState) -> tuple[float, float]:
        """Return `kkt_bounds` of a state."""
        return self.kkt_bounds(*self.problem, state.alpha, state.gradient)

    def gap(self, state: KernelDualState) -> float:
        """Return the gap, at least 0."""
        low, high = self.bounds(state)
        return max(0.0, high - low)

    def objective(self, state: KernelDualState) -> float:
        """Return the dual objective Σα − ½ αᵀQα = ½ Σ α_i (1 − y_i F_i)."""
        return float(state.alpha @ (1 - self.problem.y * state.gradient)) / 2

    def primal(self, state: KernelDualState, rho: float) -> float:
        """Return the primal objective with the intercept −ρ."""
        y, upper = self.problem
        loss = float(upper @ np.maximum(0, -y * (state.gradient - rho)))  # y_i (f(x_i) − ρ) = 1 + y_i (F_i − ρ)
        return float(state.alpha @ (y * state.gradient + 1)) / 2 + loss

    def free_mean(self, state: KernelDualState) -> float:
        """Return the mean of F over the free rows; without free rows, the middle of the interval that is optimal.

        Without an intercept in the problem the interval may be bounded on one side only. Then the result is the number
        in it that is nearest to 0.
        """
        free = (state.alpha > 0) & (state.alpha < self.problem.upper)
        if free.any():
            return float(state.gradient[free].mean())
        low, high = bounds(*self.problem, state.alpha, state.gradient)
        return (low + high) / 2 if low - high < np.inf else float(np.clip(0.0, high, low))


class WithIntercept(Formulation):
    """The dual of a problem with an intercept."""

    balanced = True
    kkt_bounds = staticmethod(bounds)

    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers near `alpha` that satisfy the constraints."""
        return feasible(alpha, self.problem)

    def rho(self, state: KernelDualState) -> float:
        """Return `free_mean`."""
        return self.free_mean(state)

    def is_certified(self, state: KernelDualState, tol: float) -> bool:
        """Return True: the gap bounds the violation, and the duality gap follows."""
        return True


class WithoutIntercept(Formulation):
    """The dual of a problem without an intercept."""

    balanced = False
    kkt_bounds = staticmethod(bounds_without_intercept)

    def feasible(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers clipped to their bounds."""
        return np.clip(alpha, 0, self.problem.upper)

    def rho(self, state: KernelDualState) -> float:
        """Return 0."""
        return 0.0

    def is_certified(self, state: KernelDualState, tol: float) -> bool:
        """Return whether the duality gap, relative to the primal objective, is within tolerance."""
        primal = self.primal(state, 0.0)
        return primal - self.objective(state) <= max(tol, _EXACT_GAP) * primal


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
    """Return whether rounding errors of kernel values, times coefficients of that total, are visible at `tol`."""
    return total * _ROUNDING * np.finfo(dtype).eps > _INVISIBLE * tol
