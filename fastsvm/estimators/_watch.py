"""Who watches a fit: the history, a progress bar, and scikit-learn's callbacks."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fastsvm.solvers.drive import Report

__all__ = ["Watch"]

_REFRESH_SECONDS = 0.2


class Watch:
    """Records every outer iteration of a fit and tells those who asked.

    Parameters
    ----------
    estimator : estimator
        Its callbacks are called, one subtask an outer iteration.
    context : CallbackContext or None
        Root context of scikit-learn's callbacks, None where there are none.
    n_problems : int
        How many two-class problems will be solved.
    verbose : bool
        Whether to show a progress bar; it is shown on a terminal only.
    """

    COLUMNS = (
        "problem", "time", "iteration", "objective", "gap", "rows_computed", "cache_hits", "bytes_read"
    )  # fmt: skip

    def __init__(self, estimator: Any, context: Any, n_problems: int, verbose: bool) -> None:
        self._estimator, self._context = estimator, context
        self._begin = time.perf_counter()
        self._records: list[tuple] = []
        self._problem = 0
        self._n_steps = 0
        self.stopped = False
        self._next_refresh = 0.0
        self._bar = tqdm(
            total=n_problems, unit="problem", desc=type(estimator).__name__, disable=None if verbose else True
        )

    def begin(self, problem: int) -> None:
        """Note that the two-class problem of this number begins."""
        self._problem, self._n_steps = problem, 0

    def end(self) -> None:
        """Note that the current problem ended."""
        self._bar.update(1)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def observe(self, report: Report, counts: tuple, bytes_read: int, attributes: Callable[[], dict]) -> bool:
        """Record an outer iteration and return whether a callback asks to stop.

        Parameters
        ----------
        report : Report
            What the iteration reached.
        counts : CacheCounts
            Use of the row cache.
        bytes_read : int
            Bytes read from storage so far.
        attributes : callable
            Gives the fitted attributes of a model that stopped here.
        """
        self._n_steps += report.n_steps
        elapsed = time.perf_counter() - self._begin
        use = counts.rows_computed, counts.hits, bytes_read
        self._records.append((self._problem, elapsed, self._n_steps, report.objective, report.gap, *use))
        if elapsed >= self._next_refresh:
            self._next_refresh = elapsed + _REFRESH_SECONDS
            self._bar.set_postfix(gap=f"{report.gap:.2g}", steps=self._n_steps)
        if self._context is not None:
            task = self._context.subcontext(task_name="outer iteration")
            task.call_on_fit_task_begin(estimator=self._estimator)
            self.stopped |= task.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=attributes
            )
        return self.stopped

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an outer iteration."""
        columns = zip(*self._records, strict=True) if self._records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}
