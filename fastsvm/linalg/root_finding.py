"""Roots of increasing functions of one variable, by the Illinois method: false position with halving.

Where one end of the bracket stays, its value is halved, so that the next point lies beyond the root (Dowell and Jarratt
1971, A modified regula falsi method for computing the root of an equation). Convergence is superlinear. Piecewise
linear functions with few pieces take a few steps.

Beyond a kink a function may be much steeper than before it: false position then lands before the kink again and again.
So every other step extrapolates from the last two points of the end whose value is larger, which is exact within a
linear piece.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import generic, jit


class Bracket(NamedTuple):
    """Two points and the values at them; the value at the lower point is negative."""

    low: float
    at_low: float
    high: float
    at_high: float


class RootLimits(NamedTuple):
    """Stopping rule of a search."""

    doublings: int  # While its value is negative, the upper point is doubled at most so often.
    steps: int  # At most so many steps of false position are taken.
    value: float  # An absolute value up to this counts as zero.
    # The midpoint of a bracket of this width, relative to the upper point, is returned. If rounding puts the
    # interpolated point on an end of the bracket, a search with width 0 ends there; others bisect.
    width: float


@generic
def slope_at(line: Any, t: float) -> float:
    """Return the value at t of the function that a NamedTuple describes; register a body for its class."""
    raise NotImplementedError


@jit
def illinois_root(line: Any, bracket: Bracket, limits: RootLimits) -> float:
    """Return the root of `slope_at(line, t)`, or the last upper point if its value is still negative."""
    low, at_low, high, at_high = bracket
    for _ in range(limits.doublings):
        if at_high >= 0:
            break
        low, at_low = high, at_high
        high *= 2
        at_high = slope_at(line, high)
    if at_high < 0:
        return high
    side, below, above = 0, (low, at_low, low, at_low), (high, at_high, high, at_high)
    for step in range(limits.steps):
        t = (low * at_high - high * at_low) / (at_high - at_low)
        if step % 2:
            further = _extrapolated(above if above[1] > -below[1] else below)
            t = further if low < further < high else t
        if not low < t < high:
            if limits.width == 0:
                return t
            t = 0.5 * (low + high)
            if not low < t < high:
                break
        here = slope_at(line, t)
        if abs(here) <= limits.value:
            return t
        if here > 0:
            high, at_high, above = t, here, (t, here, above[0], above[1])
            at_low = 0.5 * at_low if side == 1 else at_low
            side = 1
        else:
            low, at_low, below = t, here, (t, here, below[0], below[1])
            at_high = 0.5 * at_high if side == -1 else at_high
            side = -1
        if high - low <= limits.width * np.abs(high):
            break
    return 0.5 * (low + high)


@jit
def _extrapolated(points: tuple[float, float, float, float]) -> float:
    """Return the root of the line through two points and their values, the newer first; infinity if there is none."""
    newer, at_newer, older, at_older = points
    if at_newer == at_older:
        return np.inf
    return newer - at_newer * (newer - older) / (at_newer - at_older)
