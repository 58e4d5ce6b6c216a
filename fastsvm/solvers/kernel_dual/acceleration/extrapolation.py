"""Extrapolation along the last changes of the multipliers, for problems with too many free rows for a Newton step.

Problem
    That of `problem`. Where thousands of rows are free, working sets solve it as block coordinate descent does: each
    takes a nearly constant share off the distance from the solution. Much of what is left lies in the plane of the last
    few changes.

Step
    F is affine in β = y ∘ α. So the changes d_j of β from earlier states to the present one have known images
    K d_j, the changes of F. The weights c that minimise the objective along D c solve a system with as many unknowns as
    there are changes, and no kernel value is needed (subspace optimisation, Narkiss and Zibulevsky 2005; for coordinate
    descent, Bertrand and Massias 2021, Anderson acceleration, who combine iterates by weights of another system).
    Each change keeps the constraints on sums.

Bounds
    Rows that would leave their bounds stay where they are: they are taken out of the changes, whose images are
    corrected by kernel rows, and the system is solved again, now with the sums of the changes as constraints. What then
    still leaves shortens the step.

Rounding
    The images carry the rounding errors of the kernel rows that were added in between. The weights multiply them, and
    the drift of F counts that. Nearly dependent changes have large weights, so that these directions are left out. A
    step whose errors would be visible beside the gap is not taken.

Worth
    A step that takes many kernel rows and gains little beside the working set before it makes the next one wait.

Cost
    10 m n operations for m changes, m kernel rows for each row that is taken out. 16 m n bytes.
"""

import numpy as np
from scipy import linalg

from fastsvm.solvers.kernel_dual.acceleration.newton_step import reach
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient
from fastsvm.solvers.kernel_dual.problem import Formulation, KernelDualState, PastState

__all__ = ["Extrapolation"]

_CHANGES = 5
_ROUNDS = 4  # in which rows are taken out
_MOST_OUT = 0.25  # of the free rows; with more, the free set is far from the right one
_UNSEEN = 1e-31  # of the square of the longest change, that of one which is rounding
_WORTH = 0.1  # of what the last working set gained, a gain for which a step was worth any number of kernel rows
_LONGEST_WAIT = 4  # the binary logarithm of the most working sets from one step to the next
_DEPENDENT = 1e-6  # eigenvalue of the changes' system, relative to the largest, below which it is rounding


class Extrapolation:
    """Moves a state to the best combination of it and the states before.

    Parameters
    ----------
    formulation : Formulation
        The problem.
    gradient : DualGradient
        Says whether errors of F are visible.
    least_free : int
        Number of free rows up to which nothing is done, since Newton steps do better.

    Attributes
    ----------
    past : tuple of PastState
        Earlier states, the oldest first.
    waited, failures : int
        Working sets since the last step, and how many steps in a row gained little. Each doubles the wait.
    """

    def __init__(self, formulation: Formulation, gradient: DualGradient, least_free: int) -> None:
        self.past: tuple[PastState, ...] = ()
        self.waited = self.failures = 0
        self._formulation, self._problem = formulation, formulation.problem
        self._gradient, self._products, self._least_free = gradient, gradient.products, least_free

    def improve(self, state: KernelDualState) -> None:
        """Move along the last changes if that raises the objective, and remember the state.

        Parameters
        ----------
        state : KernelDualState
            Its multipliers and gradient are changed in place.
        """
        y, upper = self._problem.box
        n_free = int(np.count_nonzero((state.alpha > 0) & (state.alpha < upper)))
        drift = self._products.drift
        if n_free <= self._least_free or not np.isfinite(drift):
            self.past = ()  # where the drift is not counted, errors would grow from step to step unseen
            return
        self.past = tuple(each for each in self.past if each.drift <= drift)  # F was not computed anew since
        self.waited += 1
        if len(self.past) > 1 and self.waited >= 1 << min(self.failures, _LONGEST_WAIT):
            self._try(state, int(_MOST_OUT * n_free))
        now = PastState(state.alpha * y, state.gradient.copy(), self._products.drift)
        self.past = (*self.past[1 - _CHANGES :], now)

    def _try(self, state: KernelDualState, most_out: int) -> None:
        """Step, and find out whether that was worth its kernel rows, those of a working set being worth its gain."""
        last, objective = self.past[-1], self._formulation.objective
        before = objective(state)
        with np.errstate(over="ignore", invalid="ignore"):  # kernel values of unscaled features
            gain_of_set = before - float(last.beta @ (self._problem.target - last.gradient)) / 2
        n_rows = self._move(state, most_out)
        least = max(min(_WORTH, n_rows / max(1, len(state.working_set))) * gain_of_set, 0.0)  # a fall is rounding error
        self.failures = 0 if objective(state) - before > least else self.failures + 1
        self.waited = 0

    def _move(self, state: KernelDualState, most_out: int) -> int:
        """Step, and return how many kernel rows that took."""
        y, upper = self._problem.box
        beta, gradient, drift = state.alpha * y, state.gradient, self._products.drift
        low, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
        changes = np.stack([each.beta - beta for each in self.past])
        images = np.stack([each.gradient - gradient for each in self.past])
        errors = np.array([drift - each.drift for each in self.past])
        members = self._members()
        sums, n_out, n_rows = np.zeros((len(changes), members.shape[1])), 0, 0
        for more in range(_ROUNDS, -1, -1):
            with np.errstate(over="ignore", invalid="ignore"):  # kernel values of unscaled features
                weights = _weights(changes @ images.T, changes @ gradient, sums)
            step = weights @ changes
            leaving = np.flatnonzero((beta + step < low) | (beta + step > high))
            n_out += len(leaving)
            if len(leaving) == 0 or n_out > most_out or more == 0:
                break  # the step is that of the changes and their images as they are now
            for change, image in zip(changes, images, strict=True):
                self._products.add_rows(image, leaving, -change[leaving])
            n_rows += changes[:, leaving].size
            errors += np.abs(changes[:, leaving]).sum(axis=1)
            sums -= changes[:, leaving] @ members[leaving]
            changes[:, leaving] = 0.0
        part = reach(step, low - beta, high - beta)
        step, image = part * step, part * (weights @ images)
        gain = -(step @ gradient + 0.5 * step @ image)
        self._products.drift = drift
        with np.errstate(over="ignore"):
            error = part * float(np.abs(weights) @ errors)
        if gain > 0 and not self._gradient.is_blurred(self._formulation.gap(state), error):
            state.alpha[:] = np.clip((beta + step) * y, 0.0, upper)
            gradient += image
            self._products.drift += error
        return n_rows

    def _members(self) -> np.ndarray:
        """Return a column for each group of rows whose β have a given sum, 1 where a row belongs to it."""
        y = self._problem.y
        if not self._formulation.balanced:
            return np.empty((len(y), 0))
        return np.ones((len(y), 1)) if self._formulation.n_levels == 1 else (y[:, None] == [1.0, -1.0]).astype(float)


def _weights(products: np.ndarray, slopes: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return the weights c of least ½ cᵀPc + sᵀc with cᵀ `sums` = 0; zeros if numbers are too large."""
    if not (np.isfinite(products).all() and np.isfinite(slopes).all()):
        return np.zeros(len(slopes))
    squares = np.diag(products)
    seen = squares > _UNSEEN * max(0.0, float(squares.max()))
    scale = np.sqrt(np.where(seen, squares, 1.0))
    system = (products + products.T) / (2 * np.outer(scale, scale)) * np.outer(seen, seen)
    slopes = slopes / scale * seen
    normals = linalg.orth(sums / scale[:, None] * seen[:, None]) if sums.any() else sums[:, :0]
    keep = np.eye(len(scale)) - normals @ normals.T
    system, slopes = keep @ system @ keep, keep @ slopes
    values, vectors = np.linalg.eigh(system)
    some = values > _DEPENDENT * max(1.0, values[-1])
    return -(vectors[:, some] / values[some]) @ (vectors[:, some].T @ slopes) / scale
