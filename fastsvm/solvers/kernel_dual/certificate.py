"""What multipliers are worth: bounds on the objective, the duality gap and the violation, rounding included.

F is known up to errors, of which there are bounds. The certificate holds whatever F is within them: the primal
objective exceeds neither the dual one nor `objective`, which is the dual one rounded, by more than `duality_gap`, and
no row violates the optimality conditions by more than `violation`.
"""

from typing import NamedTuple

import numpy as np

from fastsvm.kernel_matrix.accurate_sums import Samples, ValueBounds, accurate_sums
from fastsvm.kernel_matrix.rounding import RETURNED, SEEN, SEEN_OBJECTIVE, UNIT
from fastsvm.linalg.double_floats import Wide, minus
from fastsvm.solvers.kernel_dual.problem import (
    Formulation,
    KernelDualState,
    KernelProblem,
    KernelSolution,
)

__all__ = ["Certificate", "GradientBounds", "certificate", "sharpened", "solution_of"]


class Certificate(NamedTuple):
    """The objective, rounded, and bounds that hold for the arrays of a solution.

    `seen_in_violation` and `seen_in_gap` say whether rounding is a visible part of them.
    """

    objective: float
    duality_gap: float
    violation: float
    seen_in_violation: bool
    seen_in_gap: bool


def certificate(
    formulation: Formulation, state: KernelDualState, error: np.ndarray, tol: float, rho: float, margin: float = 0.0
) -> Certificate:
    """Return the certificate of a state whose F is known up to bounds on its errors, `error`.

    The gap is a sum over the rows, of which those have no share that are on the right side for certain, whether their
    multiplier is 0 or at its bound. `tol` is the largest violation at the end, `rho` minus the intercept, and `margin`
    half of the difference between the levels of the classes.
    """
    (y, upper, target, _), alpha, F = formulation.problem, state.alpha, state.gradient
    share = (np.count_nonzero(alpha) + 16) * UNIT  # of the absolute values of a sum's terms, its error
    level = rho + margin * y
    away, doubt = -y * (F - level), error + 2 * UNIT * (abs(rho) + abs(margin))
    raw = float((upper * np.maximum(0, away) - alpha * away).sum())
    gap = float(np.maximum((upper - alpha) * (away + doubt), alpha * (doubt - away)).sum()) * (1 + share)
    gap += formulation.imbalance(alpha, rho, margin)
    dual = formulation.objective(state)
    slack = float(alpha @ (error + share * np.abs(target - F))) / 2
    slack += formulation.of_coef * float(alpha @ (np.abs(away) + doubt))
    violation = formulation.violation(state, error)
    seen = gap + slack - raw > SEEN * raw + SEEN_OBJECTIVE * abs(dual)
    blurred = violation - formulation.gap(state) > SEEN * tol
    return Certificate(dual, gap + slack, violation, bool(blurred), bool(seen))


def sharpened(
    formulation: Formulation, state: KernelDualState, error: np.ndarray, tol: float, bounds: "GradientBounds"
) -> tuple[KernelDualState, np.ndarray]:
    """Return F with bounds on its errors, in more digits than float64 has where its rounding is visible."""
    rho, margin = formulation.rho(state), formulation.margin(state)
    found = certificate(formulation, state, error, tol, rho, margin)
    if not (found.seen_in_violation or found.seen_in_gap):
        return state, error
    y, at = formulation.problem.y, np.arange(len(state.alpha))
    if not found.seen_in_violation:  # other rows have no share in the objective or the gap
        at = np.flatnonzero((state.alpha > 0) | (y * (state.gradient - rho - margin * y) <= 2 * error))
    exact = bounds.accurate(state.alpha, at)
    if exact is None:
        return state, error
    gradient, error = state.gradient.copy(), error.copy()
    gradient[at], error[at] = exact
    return state._replace(gradient=gradient), error


def solution_of(formulation: Formulation, state: KernelDualState, error: np.ndarray, tol: float) -> KernelSolution:
    """Return the solution of a problem with an intercept; arguments as for `certificate`."""
    rho, margin = formulation.rho(state), formulation.margin(state)
    found = certificate(formulation, state, error, tol, rho, margin)
    return KernelSolution(state.alpha, state.alpha > 0, -rho, *found[:3], margin)


class GradientBounds:
    """Bounds on the errors of F, and F in more digits than float64 has.

    `samples` returns the kernel and some samples, and `bounds` are those of their kernel values. Multiplier k belongs
    to sample k modulo the number of samples.
    """

    def __init__(self, problem: KernelProblem, samples: Samples, bounds: ValueBounds) -> None:
        self._problem, self._samples, self._bounds = problem, samples, bounds
        self._sample_of = np.arange(len(problem.y)) % len(bounds.sizes)
        is_divided = problem.total > 0 and len(problem.y) == len(bounds.sizes) and np.ptp(problem.y) > 0
        self._of_coef = RETURNED if is_divided else 0.0

    def errors(self, state: KernelDualState, by_parts: bool = False) -> np.ndarray:
        """Return bounds on the errors of F where it was summed from the multipliers in float64, maybe by parts."""
        of_sums = self.of_change(state.alpha, by_parts)
        return of_sums + 2 * UNIT * (np.abs(state.gradient) + np.abs(self._problem.target))

    def of_change(self, delta: np.ndarray, by_parts: bool = False) -> np.ndarray:
        """Return bounds on the errors of what changes of multipliers, in float64, add to F."""
        places = np.flatnonzero(delta)
        return self._bounds.errors(self._sample_of[places], delta[places], by_parts)[self._sample_of]

    def accurate(self, alpha: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return F of some rows in twice the digits, and bounds on its errors; None where that is not possible."""
        places = np.flatnonzero(alpha)
        coef, support = (alpha * self._problem.y)[places], self._sample_of[places]
        columns, inverse = np.unique(self._sample_of[at], return_inverse=True)
        sums = accurate_sums(self._samples, support, coef, columns)
        if sums is None:
            return None
        found = minus(Wide(*(part[inverse] for part in sums)), Wide.of(self._problem.target[at])).high
        fine = self._bounds.fine_errors(support, coef, self._of_coef)[self._sample_of[at]]
        return found, fine + UNIT * (np.abs(found) + np.abs(self._problem.target[at]))
