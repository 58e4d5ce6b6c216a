"""The time left, as it is shown beside a progress bar."""

from collections.abc import Iterator, Sequence
from typing import Any

from tqdm.auto import tqdm

from fastsvm.estimators.fitting.time_left import time_left
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import Block

__all__ = ["LATEST", "left_of", "shown"]

LATEST = 1000
"""Number of latest records from which the time left is estimated."""


def shown(blocks: Iterator[tuple[int, Block]], n_rows: int, what: str, estimator: Any) -> Iterator[tuple[int, Block]]:
    """Yield blocks of rows, and show how many of all rows they were, if the estimator's `verbose` is set."""
    bar = progress_bar(shown=estimator.verbose, total=n_rows, unit="row", desc=f"{what} of {type(estimator).__name__}")
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
