"""Exact line search for the squared hinge: the root of the derivative, which is piecewise linear and nondecreasing."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.rounding import UNIT
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_primal.margin_losses import MarginLoss

__all__ = ["Line", "best_intercept", "best_length", "slope_at_start"]

_LIMITS = RootLimits(
    doublings=4,  # more would follow a direction of pure rounding error very far
    steps=200,
    value=0.0,
    width=1e-15,
)
# A sufficient decrease is this share of the slope at t = 0; a quadratic function decreases by half of it.
_ENOUGH = 0.25


class Line(NamedTuple):
    """Scores f + t g along a direction g, and the penalty slope t + curvature t² / 2, up to a constant."""

    scores: np.ndarray
    direction: np.ndarray
    slope: float
    curvature: float


class _Objective(NamedTuple):
    problem: KernelProblem
    line: Line


@slope_at.register(_Objective)
def _slope(objective, t):
    scores, direction, slope, curvature = objective.line
    y, upper = objective.problem.y, objective.problem.upper
    total = 0.0
    for i in range(y.size):
        excess = max(1.0 - y[i] * (scores[i] + t * direction[i]), 0.0)
        total += upper[i] * excess * y[i] * direction[i]
    return slope + curvature * t - 2.0 * total


@jit
def _compiled_slope(objective, t):
    return slope_at(objective, t)


@jit
def _root(objective, low, high, limits):
    """Return the root of the slope. It may lie beyond `high`; it is `low` if the slope there is not negative."""
    at_low = slope_at(objective, low)
    if at_low >= 0:
        return low
    return illinois_root(objective, Bracket(low, at_low, high, slope_at(objective, high)), limits)


def slope_at_start(problem: KernelProblem, line: Line) -> float:
    """Return the derivative of penalty plus loss at t = 0."""
    return _compiled_slope(_Objective(problem, line), 0.0)


def best_length(problem: KernelProblem, line: Line) -> float:
    """Return the t ≤ 16 that minimises penalty plus loss, or 1 if the decrease there is sufficient.

    A step of length 1 makes the multipliers outside the margin exactly 0. A step of nearly that length would not.
    """
    before, after = (_total_loss(problem, scores) for scores in (line.scores, line.scores + line.direction))
    change = after - before + line.slope + line.curvature / 2
    if change <= _ENOUGH * slope_at_start(problem, line) + 8 * UNIT * before:
        return 1.0
    return _root(_Objective(problem, line), 0.0, 1.0, _LIMITS)


def _total_loss(problem: KernelProblem, scores: np.ndarray) -> float:
    return float(problem.upper @ MarginLoss(squared=True).value(problem.y * scores))


def best_intercept(problem: KernelProblem, scores: np.ndarray) -> float:
    """Return the intercept to add to the scores that minimises the loss."""
    line = Line(scores, np.ones(len(scores)), 0.0, 0.0)
    beyond = 2 * (np.abs(scores).max() + 2)  # where one class has zero loss
    return _root(_Objective(problem, line), -beyond, beyond, _LIMITS)
