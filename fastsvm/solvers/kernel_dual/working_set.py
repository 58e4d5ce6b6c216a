"""Which rows to solve next: those whose multipliers may move and violate the optimality conditions most."""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scalars import maximum, minimum

__all__ = ["bounds", "bounds_without_intercept", "freedom", "movable", "select", "settled"]

_FAR = np.inf  # It keeps a row out of a minimum or maximum.


@jit
def bounds(y, upper, alpha, gradient):
    """Return the least F that may rise and the greatest that may fall."""
    low, high = _FAR, -_FAR
    for i in range(y.size):
        rises, falls = freedom(y[i], alpha[i], upper[i])
        low = minimum(low, gradient[i] if rises else _FAR)
        high = maximum(high, gradient[i] if falls else -_FAR)
    return low, high


def bounds_without_intercept(
    y: np.ndarray, upper: np.ndarray, alpha: np.ndarray, gradient: np.ndarray
) -> tuple[float, float]:
    """Return the same, with 0 among the values that may rise and among those that may fall."""
    low, high = bounds(y, upper, alpha, gradient)
    return min(low, 0.0), max(high, 0.0)


@jit
def select(y, upper, alpha, gradient, retained, kkt_bounds, chosen):
    """Write a working set to `chosen` and return its size: the rows `retained` and the worst violators.

    At least two rows are not retained ones. The worst violators of all, whose F is one of `kkt_bounds`, are always
    chosen. The others are found by histograms of their violations, in two passes and without a sort.
    """
    low, high = kkt_bounds
    n, size, bins = y.size, chosen.size, 256
    scale = (bins - 1) / (high - low)
    taken = np.zeros(n, np.uint8)
    count = retained.size
    for t in range(count):
        chosen[t] = retained[t]
        taken[retained[t]] = 1
    rising, falling = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    lowest, highest = -1, -1
    for i in range(n):
        if low <= gradient[i] <= high:
            place = int((gradient[i] - low) * scale)
            rises, falls = freedom(y[i], alpha[i], upper[i])
            if rises and gradient[i] == low:
                lowest = i
            if falls and gradient[i] == high:
                highest = i
            if taken[i] == 0:
                rising[place] += rises
                falling[bins - 1 - place] += falls
    for i in (lowest, highest):
        if i >= 0 and taken[i] == 0:
            chosen[count] = i
            taken[i] = 1
            count += 1
    wanted = (size - count) // 2
    worst_rising, spare_rising = _threshold(rising, wanted)
    worst_falling, spare_falling = _threshold(falling, wanted)
    for i in range(n):
        if taken[i] == 0 and low <= gradient[i] <= high and count < size:
            place = int((gradient[i] - low) * scale)
            rises, falls = freedom(y[i], alpha[i], upper[i])
            take = False
            if rises and place <= worst_rising:
                # Rows of the last bin compete only for what the better bins leave.
                take = place < worst_rising or spare_rising > 0
                spare_rising -= place == worst_rising
            if falls and not take and bins - 1 - place <= worst_falling:
                take = bins - 1 - place < worst_falling or spare_falling > 0
                spare_falling -= bins - 1 - place == worst_falling
            if take:
                chosen[count] = i
                count += 1
    return count


@jit
def settled(y, upper, alpha, gradient, low, high):
    """Return for each row how far it is from being able to move: minus infinity if it can.

    A row that may only rise does so if its F is below `high`, one that may only fall if it is above `low`
    (Joachims 1999; Fan, Chen and Lin 2005, section 4).
    """
    slack = np.empty(y.size)
    for i in range(y.size):
        rises, falls = freedom(y[i], alpha[i], upper[i])
        away = (gradient[i] - high) if rises else (low - gradient[i])
        slack[i] = away if away > 0 and rises != falls else -np.inf
    return slack


@jit
def movable(y, upper, alpha, gradient):
    """Return F where it may rise, else infinity; and F where it may fall, else minus infinity."""
    rising, falling = np.empty(y.size), np.empty(y.size)
    for i in range(y.size):
        rises, falls = freedom(y[i], alpha[i], upper[i])
        rising[i] = gradient[i] if rises else _FAR
        falling[i] = gradient[i] if falls else -_FAR
    return rising, falling


@jit
def freedom(y, alpha, upper):
    """Return whether y α may rise and whether it may fall."""
    above, below = alpha > 0, alpha < upper
    if y > 0:
        return below, above
    return above, below


@jit
def _threshold(counts, wanted):
    """Return the bin in which the cumulative count reaches `wanted`, and how many of its rows are still wanted."""
    total = 0
    for place in range(counts.size):
        if total + counts[place] >= wanted:
            return place, wanted - total
        total += counts[place]
    return counts.size, 0
