"""The length of a step along which a convex loss and a penalty change."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at
from fastsvm.losses import Demands, Loss, cost_of, loss_slope

__all__ = ["Line", "best_length"]

_FLAT = 0.25  # share of the first slope, below which a length is accepted
_DOUBLINGS, _STEPS, _WIDTH = 6, 60, 1e-3  # limits of the search


class Line(NamedTuple):
    """Scores and weights along a direction, for score `c` of a problem.

    Attributes
    ----------
    loss : Loss
        Loss of a row.
    demands : Demands
        Targets and costs.
    c : int
        Number of the score.
    scores, change : ndarray of float64, shape (n,)
        Scores, and their change in a step of length 1.
    weights, direction : ndarray of float64, shape (n_weights,)
        Weights, and their change.
    l1_ratio : float
        1 for the penalty ‖w‖₁, 0 for ½‖w‖².
    """

    loss: Loss
    demands: Demands
    c: int
    scores: np.ndarray
    change: np.ndarray
    weights: np.ndarray
    direction: np.ndarray
    l1_ratio: float


@slope_at.register(Line)
def _slope(line, t):
    total = 0.0
    for i in range(line.scores.size):
        target, cost = cost_of(line.demands, i, line.c)
        if cost > 0:
            total += line.change[i] * cost * loss_slope(line.loss, line.scores[i] + t * line.change[i], target)
    return total + _penalty_slope(line, t)


@jit
def _penalty_slope(line, t):
    total = 0.0
    for j in range(line.weights.size):
        there = line.weights[j] + t * line.direction[j]
        if line.l1_ratio == 0:
            total += there * line.direction[j]
        else:
            total += abs(line.direction[j]) if there == 0 else line.direction[j] if there > 0 else -line.direction[j]
    return total


@jit
def best_length(line, losses_slope):
    """Return the length of the best step, or 1 if a slope there is small; 0 if no step leads downhill.

    `losses_slope` is the derivative of the losses at length 0.

    Weights that become 0 in a step of length 1 make the slope jump there: it is often the minimum.
    """
    begin, above = losses_slope + _penalty_slope(line, 0.0), slope_at(line, 1.0)
    if not begin < 0:
        return 0.0
    below = above
    for j in range(line.weights.size):
        if line.l1_ratio > 0 and line.weights[j] + line.direction[j] == 0:
            below -= 2 * abs(line.direction[j])
    if above >= _FLAT * begin and below <= -_FLAT * begin:
        return 1.0
    limits = RootLimits(_DOUBLINGS, _STEPS, -_FLAT * begin, _WIDTH)
    return illinois_root(line, Bracket(0.0, begin, 1.0, above), limits)
