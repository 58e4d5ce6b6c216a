"""Who watches the fit of a kernel machine: the history, a progress bar, and scikit-learn's callbacks."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fastsvm.estimators.fitting.checkpoints import checkpointer_of
from fastsvm.estimators.fitting.progress import LATEST, left_of, told
from fastsvm.solvers.outer_loop import Report

__all__ = ["FitMonitor"]

_REFRESH_SECONDS = 0.2


class FitMonitor:
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
    records : list of tuple
        Of a fit that is gone on with.

    Attributes
    ----------
    checkpointer : Checkpointer or None
        Who looks after the fit.
    """

    COLUMNS = (
        "problem", "time", "iteration", "objective", "gap", "rows_computed", "cache_hits", "bytes_read", "newton"
    )  # fmt: skip

    def __init__(
        self, estimator: Any, context: Any, n_problems: int, verbose: bool, records: Sequence[tuple] = ()
    ) -> None:
        self._estimator, self._context, self.checkpointer = estimator, context, checkpointer_of(estimator)
        self._records = list(records)
        self._begin = time.perf_counter() - max((record[1] for record in records), default=0.0)
        self._n_steps = [max((one[2] for one in records if one[0] == k), default=0) for k in range(n_problems)]
        self._lock = threading.Lock()
        self.stopped = False
        self._next_refresh = 0.0
        self._bar = tqdm(
            total=n_problems, unit="problem", desc=type(estimator).__name__, disable=None if verbose else True
        )

    def end(self) -> None:
        """Note that a problem ended."""
        with self._lock:
            self._bar.update(1)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def observe(
        self, problem: int, report: Report, counts: tuple, bytes_read: int, attributes: Callable[[], dict]
    ) -> bool:
        """Record an outer iteration and return whether a callback asks to stop.

        Parameters
        ----------
        problem : int
            Number of the two-class problem.
        report : Report
            What the iteration reached.
        counts : CacheCounts
            Use of the row cache.
        bytes_read : int
            Bytes read from storage so far.
        attributes : callable
            Gives the fitted attributes of a model that stopped here.
        """
        with self._lock:
            self._record(problem, report, counts, bytes_read)
        if self._context is not None:
            self.stopped |= told(self._context, self._estimator, "outer iteration", attributes)
        return self.stopped

    def records(self) -> list[tuple]:
        """Return what was recorded so far."""
        with self._lock:
            return list(self._records)

    def _record(self, problem: int, report: Report, counts: tuple, bytes_read: int) -> None:
        self._n_steps[problem] += report.n_steps
        elapsed, n_steps = time.perf_counter() - self._begin, self._n_steps[problem]
        use = counts.rows_computed, counts.hits, bytes_read, report.n_newton
        self._records.append((problem, elapsed, n_steps, report.objective, report.gap, *use))
        if elapsed >= self._next_refresh:
            self._next_refresh = elapsed + _REFRESH_SECONDS
            self._bar.set_postfix(gap=f"{report.gap:.2g}", steps=n_steps, **self._left_of_problem())

    def _left_of_problem(self) -> dict[str, str]:
        """Return how much time may be left, of the only problem; of several, the bar tells by how many are solved."""
        if self._bar.disable or len(self._n_steps) > 1:
            return {}
        known = self._records[-LATEST:]
        return left_of([one[1] for one in known], [one[4] for one in known], self._estimator.tol)

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an outer iteration, problem after problem."""
        records = sorted(self._records, key=lambda record: record[0])
        columns = zip(*records, strict=True) if records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}
