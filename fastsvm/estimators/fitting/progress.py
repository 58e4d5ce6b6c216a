"""The time left, as it is shown beside a progress bar."""

from collections.abc import Sequence
from typing import Any

from tqdm.auto import tqdm

from fastsvm.estimators.fitting.time_left import time_left

__all__ = ["LATEST", "left_of", "progress_bar"]

LATEST = 1000
"""Number of latest records from which the time left is estimated."""


class _NoBar:
    """Stands in for a bar that is not shown: tqdm's own takes a tenth of a small fit."""

    disable = True

    def update(self, n: int = 1) -> None:
        """Do nothing."""

    def set_postfix(self, *shown: Any, **more: Any) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def progress_bar(total: int, unit: str, name: str, shown: bool) -> Any:
    """Return a bar of tqdm; if it is not to be shown, what does nothing in its place."""
    return tqdm(total=total, unit=unit, desc=name, disable=None) if shown else _NoBar()


def left_of(times: Sequence[float], gaps: Sequence[float], tol: float) -> dict[str, str]:
    """Return the estimated time left under the name "left", or nothing if there is no estimate."""
    left = time_left(times, gaps, tol)
    return {} if left is None else {"left": tqdm.format_interval(left)}
