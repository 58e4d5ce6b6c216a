"""Exact minima along a line, for losses of `margin_loss`: roots of slopes that are piecewise linear and never fall."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_primal.huberized_hinge import MarginLoss

__all__ = ["Line", "best_length", "best_offset", "slope_at_start"]

_HALVINGS = 200
_DOUBLINGS = 4  # more, and a direction that is nothing but rounding would be followed very far
_ENOUGH = 0.25  # of the slope at the beginning, a fall that suffices; that of a quadratic function is half of it


class Line(NamedTuple):
    """Scores along the way, f + t g, and the penalty there, slope t + curvature t² / 2 but for a constant."""

    scores: np.ndarray
    direction: np.ndarray
    slope: float
    curvature: float


def slope_at_start(problem: KernelProblem, loss: MarginLoss, line: Line) -> float:
    """Return the slope of penalty and loss at t = 0."""
    return _slope(*problem, *loss, *line, 0.0)


def best_length(problem: KernelProblem, loss: MarginLoss, line: Line) -> float:
    """Return the t at which penalty and loss together are least, 16 at most, or 1 if that is half as good as hoped for.

    A step of length 1 lands on bounds; a little less would leave multipliers a little off them.
    """
    fall = _risen(problem, loss, line._replace(scores=line.scores + line.direction))
    fall += line.slope + line.curvature / 2 - _risen(problem, loss, line)
    if fall <= _ENOUGH * slope_at_start(problem, loss, line):
        return 1.0
    return _root(*problem, *loss, *line, 0.0, 1.0)


def _risen(problem: KernelProblem, loss: MarginLoss, line: Line) -> float:
    return float(problem.upper @ loss.value(problem.y * line.scores))


def best_offset(problem: KernelProblem, loss: MarginLoss, scores: np.ndarray) -> float:
    """Return what is to be added to the scores for the least loss."""
    y, upper = problem
    line = Line(scores, np.ones(len(scores)), 0.0, 0.0)
    beyond = 2 * (np.abs(scores).max() + loss.start + 1)  # where one class has no loss
    return _root(y, upper, *loss, *line, -beyond, beyond)


@jit
def _slope(y, upper, start, curvature, width, scores, direction, slope, bend, t):
    """Return the slope of penalty and loss at t."""
    total = 0.0
    for i in range(y.size):
        excess = min(max(start - y[i] * (scores[i] + t * direction[i]), 0.0), width)
        total += upper[i] * excess * y[i] * direction[i]
    return slope + bend * t - curvature * total


@jit
def _root(y, upper, start, curvature, width, scores, direction, slope, bend, low, high):
    """Return where the slope is 0, beyond `high` if it has to be, by false position with halving (Illinois)."""
    at_low = _slope(y, upper, start, curvature, width, scores, direction, slope, bend, low)
    if at_low >= 0:
        return low
    at_high = _slope(y, upper, start, curvature, width, scores, direction, slope, bend, high)
    for _ in range(_DOUBLINGS):
        if at_high >= 0:
            break
        low, at_low = high, at_high
        high *= 2
        at_high = _slope(y, upper, start, curvature, width, scores, direction, slope, bend, high)
    if at_high < 0:
        return high
    side = 0
    for _ in range(_HALVINGS):
        t = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < t < high:
            t = 0.5 * (low + high)
            if not low < t < high:
                break
        here = _slope(y, upper, start, curvature, width, scores, direction, slope, bend, t)
        if here == 0:
            return t
        if here > 0:
            high, at_high = t, here
            at_low = 0.5 * at_low if side == 1 else at_low
            side = 1
        else:
            low, at_low = t, here
            at_high = 0.5 * at_high if side == -1 else at_high
            side = -1
        if high - low <= 1e-15 * abs(high):
            break
    return 0.5 * (low + high)
