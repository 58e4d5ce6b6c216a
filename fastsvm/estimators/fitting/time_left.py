"""How long a fit may still take, by the pace at which its gap falls."""

from collections.abc import Sequence

import numpy as np

__all__ = ["time_left"]

_SHARE = 0.5  # of the time so far, whose pace counts
_LEAST = 3  # observations of it


def time_left(times: Sequence[float], gaps: Sequence[float], tol: float) -> float | None:
    """Return after about how many seconds a gap will be as small as is asked for, None if nothing tells.

    Parameters
    ----------
    times, gaps : sequence of float
        Moments in seconds, in order, and the gap at each.
    tol : float
        What is asked for.

    Examples
    --------
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
    late = at >= at[-1] - _SHARE * (at[-1] - at[0])
    if np.count_nonzero(late) < _LEAST:
        return None
    from_mean = at[late] - at[late].mean()
    bend = float(from_mean @ from_mean)
    pace = -float(from_mean @ gap[late]) / bend if bend > 0 else 0.0
    return float(gap[-1] - np.log(tol)) / pace if pace > 0 else None
