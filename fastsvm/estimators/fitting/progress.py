"""The time left, as it is shown beside a progress bar."""

from collections.abc import Sequence

from tqdm.auto import tqdm

from fastsvm.estimators.fitting.time_left import time_left

__all__ = ["LATEST", "left_of"]

LATEST = 1000
"""Number of latest records from which the time left is estimated."""


def left_of(times: Sequence[float], gaps: Sequence[float], tol: float) -> dict[str, str]:
    """Return the estimated time left under the name "left", or nothing if there is no estimate."""
    left = time_left(times, gaps, tol)
    return {} if left is None else {"left": tqdm.format_interval(left)}
