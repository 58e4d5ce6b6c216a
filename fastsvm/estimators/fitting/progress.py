"""The time left, as it is shown beside a progress bar."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tqdm.auto import tqdm

from fastsvm.estimators.fitting.time_left import time_left
from fastsvm.sources import Block

__all__ = ["LATEST", "left_of", "progress_bar", "shown"]

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
    """Return a bar of tqdm; if it is not or cannot be shown, what does nothing in its place.

    There is no standard error if it was closed, or under `pythonw` on Windows.
    """
    if not shown or sys.stderr is None:
        return _NoBar()
    return tqdm(total=total, unit=unit, desc=name, disable=None)


def shown(blocks: Iterator[tuple[int, Block]], n_rows: int, what: str, estimator: Any) -> Iterator[tuple[int, Block]]:
    """Yield blocks of rows, and show how many of all rows they were, if the estimator's `verbose` is set."""
    bar = progress_bar(n_rows, "row", f"{what} of {type(estimator).__name__}", estimator.verbose)
    try:
        for start, block in blocks:
            yield start, block
            bar.update(block.shape[0])
    finally:
        bar.close()


def left_of(times: Sequence[float], gaps: Sequence[float], tol: float) -> dict[str, str]:
    """Return the estimated time left under the name "left", or nothing if there is no estimate."""
    left = time_left(times, gaps, tol)
    return {} if left is None else {"left": tqdm.format_interval(left)}
