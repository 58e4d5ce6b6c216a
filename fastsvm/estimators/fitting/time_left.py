"""How long a fit may still take, by the rate at which its gap falls."""

from collections.abc import Sequence

import numpy as np

__all__ = ["time_left"]

_LEAST = 3  # The rate is fitted to so many observations of the later half of the time, at least.


def time_left(times: Sequence[float], gaps: Sequence[float], tol: float) -> float | None:
    """Estimate the seconds until a gap falls to `tol`; None if that cannot be estimated.

    A line is fitted to the logarithm of the gap, by least squares over the second half of the time. The moments `times`
    are in seconds and in order.

    >>> times = [0.0, 1.0, 2.0, 3.0, 4.0]
    >>> round(time_left(times, [10.0**-t for t in times], 1e-6), 3)
    2.0
    """
    at, gap = np.asarray(times, np.float64), np.asarray(gaps, np.float64)
    good = np.isfinite(gap) & (gap > 0)
    at, gap = at[good], np.log(gap[good])
    if not len(at):
        return None
    if gap[-1] <= np.log(tol):
        return 0.0
    late = at >= (at[-1] + at[0]) / 2
    if np.count_nonzero(late) < _LEAST:
        return None
    from_mean = at[late] - at[late].mean()
    spread = float(from_mean @ from_mean)
    rate = -float(from_mean @ gap[late]) / spread if spread > 0 else 0.0
    return float(gap[-1] - np.log(tol)) / rate if rate > 0 else None
