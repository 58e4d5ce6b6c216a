"""Progress of the fit of a kernel machine: history, progress bar, callbacks."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from fastsvm.estimators.fitting.checkpoints import Checkpointer
from fastsvm.estimators.fitting.progress import LATEST, left_of
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.kernel_matrix.row_cache import CacheCounts
from fastsvm.progress_bar import progress_bar
from fastsvm.solvers.outer_loop import Report

__all__ = ["KernelFitMonitor", "KernelMonitor", "NoMonitor"]

_REFRESH_SECONDS = 0.2


class KernelMonitor(Protocol):
    """Sees the outer iterations of all two-class problems, from several threads.

    Attributes
    ----------
    checkpointer : Checkpointer or None
        Is offered checkpoints of the fit.
    stopped : bool
        Whether all problems are to stop after their current iteration.
    """

    checkpointer: Checkpointer | None
    stopped: bool

    def observe(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> bool:
        """Record an outer iteration, and return whether to stop."""

    def end(self) -> None:
        """Record that a problem was solved."""

    def records(self) -> list[tuple]:
        """Return what was recorded so far."""


class NoMonitor:
    """Records nothing; the fits stop only after an error in one of them."""

    def __init__(self) -> None:
        self.checkpointer: Checkpointer | None = None
        self.stopped = False

    def observe(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> bool:
        """Return whether to stop."""
        return self.stopped

    def end(self) -> None:
        """Do nothing."""

    def records(self) -> list[tuple]:
        """Return an empty list."""
        return []


class KernelFitMonitor:
    """Records every outer iteration of a fit, shows it, and reports it to callbacks.

    Parameters
    ----------
    session : FitSession
        The fit. A progress bar is shown if its estimator is `verbose`, on a terminal only.
    n_problems : int
        Number of two-class problems.
    attributes : callable
        Returns the fitted attributes of a model that stops now.
    records : sequence of tuple
        Records of the fit that is resumed.

    Attributes
    ----------
    checkpointer : Checkpointer or None
        Is offered checkpoints of the fit.
    stopped : bool
        Whether a callback, or an error in a thread, stopped the fit.
    """

    COLUMNS = (
        "problem", "time", "iteration", "objective", "gap", "rows_computed", "cache_hits", "bytes_read", "newton"
    )  # fmt: skip

    def __init__(
        self, session: FitSession, n_problems: int, attributes: Callable[[], dict], records: Sequence[tuple] = ()
    ) -> None:
        self._session, self._attributes, self.checkpointer = session, attributes, session.checkpointer
        self._records = list(records)
        self._begin = time.perf_counter() - max((record[1] for record in records), default=0.0)
        self._n_steps = [max((one[2] for one in records if one[0] == k), default=0) for k in range(n_problems)]
        self._lock = threading.Lock()
        self.stopped = False
        self._next_refresh = 0.0
        name, shown = type(session.estimator).__name__, session.estimator.verbose
        self._bar = progress_bar(shown=shown, total=n_problems, unit="problem", desc=name)

    def end(self) -> None:
        """Record that a problem was solved."""
        with self._lock:
            self._bar.update(1)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def observe(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> bool:
        """Record an outer iteration, and return whether to stop.

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
        """
        with self._lock:
            self._record(problem, report, counts, bytes_read)
        if self._session.report_to_callbacks("outer iteration", self._attributes):
            self.stopped = True
        return self.stopped

    def records(self) -> list[tuple]:
        """Return what was recorded so far."""
        with self._lock:
            return list(self._records)

    def _record(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> None:
        self._n_steps[problem] += report.n_steps
        elapsed, n_steps = time.perf_counter() - self._begin, self._n_steps[problem]
        use = counts.rows_computed, counts.hits, bytes_read, report.n_newton
        self._records.append((problem, elapsed, n_steps, report.objective, report.gap, *use))
        if elapsed >= self._next_refresh and not self._bar.disable:
            self._next_refresh = elapsed + _REFRESH_SECONDS
            self._bar.set_postfix(gap=f"{report.gap:.2g}", steps=n_steps, **self._left_of_problem())

    def _left_of_problem(self) -> dict[str, str]:
        """Return the time left of an only problem; for several, the bar shows how many are solved."""
        if len(self._n_steps) > 1:
            return {}
        known = self._records[-LATEST:]
        return left_of([one[1] for one in known], [one[4] for one in known], self._session.estimator.tol)

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an outer iteration, problem after problem."""
        records = sorted(self._records, key=lambda record: record[0])
        columns = zip(*records, strict=True) if records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}
