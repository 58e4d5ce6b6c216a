"""The penalties ‖w‖₁ and ½‖w‖² of linear machines: minima of quadratic models, and the length of a step."""

from typing import NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at
from fastsvm.losses import MOST_STEPS, Loss, loss_slope
from fastsvm.solvers.linear_dual.problem import ACCEPTED, ROUNDING
from fastsvm.solvers.linear_primal.quadratic_model import RIDGE, QuadraticModel
from fastsvm.solvers.linear_primal.sweeps import minimise


class L2:
    """½‖w‖². Weights and gradients have the shape (n_scores, n_weights)."""

    l1_ratio = 0.0  # It is 1 for ‖w‖₁.

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the penalty of each score."""
        total: np.ndarray = np.einsum("cj,cj->c", weights, weights) / 2
        return total

    def violations(self, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the distance of 0 from the subdifferential of losses and penalty, for each weight."""
        return np.abs(gradient + weights)

    def target(
        self, model: QuadraticModel, gradient: np.ndarray, weights: np.ndarray, wanted: tuple[float, float, float, int]
    ) -> np.ndarray:
        """Return the minimum of a second-order model of the losses of one score and the penalty.

        It is that of the model's diagonal, where rounding makes the model indefinite.
        """
        square, downhill = model.hessian.copy(), gradient + weights
        diagonal = square.diagonal() * (1 + RIDGE) + 1.0
        np.fill_diagonal(square, diagonal)
        try:
            factor = linalg.cho_factor(square, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            return weights - downhill / diagonal
        return weights - linalg.cho_solve(factor, downhill, check_finite=False)


class L1:
    """‖w‖₁."""

    l1_ratio = 1.0

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the penalty of each score."""
        total: np.ndarray = np.abs(weights).sum(axis=1)
        return total

    def violations(self, gradient: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the distance of 0 from the subdifferential, for each weight."""
        return np.where(weights != 0, np.abs(gradient + np.sign(weights)), np.maximum(np.abs(gradient) - 1, 0))

    def target(
        self, model: QuadraticModel, gradient: np.ndarray, weights: np.ndarray, wanted: tuple[float, float, float, int]
    ) -> np.ndarray:
        """Return about the minimum of a second-order model."""
        z = weights.copy()
        minimise(model, np.arange(len(z)), z, gradient, np.zeros(len(z)), wanted)
        return z


# --- the length of a step --------------------------------------------------------------------------------

FLAT = (ACCEPTED, float(np.sqrt(np.finfo(np.float64).eps)))
"""Shares of the first slope, below which a length is accepted; the next one if the objective is not lower there."""


class Line(NamedTuple):
    """Scores and weights along a direction, for one score of a problem.

    `change` and `direction` are the changes of scores and weights in a step of length 1. `l1_ratio` is 1 for the
    penalty ‖w‖₁, 0 for ½‖w‖².
    """

    loss: Loss
    targets: np.ndarray
    costs: np.ndarray
    scores: np.ndarray
    change: np.ndarray
    weights: np.ndarray
    direction: np.ndarray
    l1_ratio: float


def suits(weights: np.ndarray, direction: np.ndarray, slopes: tuple[float, float], l1_ratio: float) -> bool:
    """Return whether the best length is about 1. `slopes` are derivatives of the losses at the lengths 0 and 1."""
    begin, end = (
        slope + _penalty_slope(weights, direction, t, l1_ratio) for t, slope in zip((0.0, 1.0), slopes, strict=True)
    )
    return bool(begin < 0 and _is_flat(begin, end, weights, direction, l1_ratio, FLAT[0]))


@slope_at.register(Line)
def _slope(line, t):
    total = 0.0
    for i in range(line.scores.size):
        slope = loss_slope(line.loss, line.scores[i] + t * line.change[i], line.targets[i])
        total += line.change[i] * line.costs[i] * slope
    return total + _penalty_slope(line.weights, line.direction, t, line.l1_ratio)


@jit
def _penalty_slope(weights, direction, t, l1_ratio):
    total = 0.0
    for j in range(weights.size):
        there = weights[j] + t * direction[j]
        if l1_ratio == 0:
            total += there * direction[j]
        else:
            total += abs(direction[j]) if there == 0 else direction[j] if there > 0 else -direction[j]
    return total


@jit
def _is_flat(begin, end, weights, direction, l1_ratio, flat):
    """Return whether the slope `end` at length 1 is small beside that at 0.

    Weights that become 0 in a step of length 1 make the slope jump there: it is often the minimum.
    """
    below = end
    for j in range(weights.size):
        if l1_ratio > 0 and weights[j] + direction[j] == 0:
            below -= 2 * abs(direction[j])
    return end >= flat * begin and below <= -flat * begin


@jit
def best_length(line, losses_slope, flat):
    """Return the length of the best step, or 1 if a slope there is small; 0 if no step leads downhill.

    `losses_slope` is the derivative of the losses at length 0, and `flat` the share of the slope there that is small.
    """
    begin = losses_slope + _penalty_slope(line.weights, line.direction, 0.0, line.l1_ratio)
    if not begin < 0:
        return 0.0
    above = slope_at(line, 1.0)
    if _is_flat(begin, above, line.weights, line.direction, line.l1_ratio, flat):
        return 1.0
    limits = RootLimits(MOST_STEPS, MOST_STEPS, -flat * begin, ROUNDING)
    return illinois_root(line, Bracket(0.0, begin, 1.0, above), limits)
