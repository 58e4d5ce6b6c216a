"""Progress of the fit of a kernel machine: history, progress bar, callbacks."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Protocol

import numpy as np

from fastsvm.estimators.fitting.checkpoints import Checkpointer
from fastsvm.estimators.fitting.progress import LATEST, left_of
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.kernel_matrix.row_cache import CacheCounts
from fastsvm.progress_bar import progress_bar
from fastsvm.solvers.kernel_dual.small.pairs import CERTIFICATE
from fastsvm.solvers.outer_loop import Report

__all__ = ["KernelFitMonitor", "KernelMonitor", "NoMonitor"]

_REFRESH_SECONDS = 0.2


class KernelMonitor(Protocol):
    """Sees the outer iterations of all two-class problems, from several threads.

    Attributes
    ----------
    checkpointer : Checkpointer or None
        Is offered checkpoints of the fit.
    sees_each : bool
        Whether small problems are to be observed one by one.
    stopped : bool
        Whether all problems are to stop after their current iteration.
    """

    checkpointer: Checkpointer | None
    sees_each: bool
    stopped: bool

    def observe(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> bool:
        """Record an outer iteration, and return whether to stop."""

    def observe_small(self, problems: np.ndarray, found: np.ndarray, bytes_read: int) -> bool:
        """Record small problems by the rows of their `CERTIFICATE`, and return whether to stop."""

    def end(self, n_problems: int = 1) -> None:
        """Record that problems were solved."""

    def records(self) -> list[tuple]:
        """Return what was recorded so far."""


class NoMonitor:
    """Records nothing; the fits stop only after an error in one of them."""

    def __init__(self) -> None:
        self.checkpointer: Checkpointer | None = None
        self.sees_each = self.stopped = False

    def observe(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> bool:
        """Return whether to stop."""
        return self.stopped

    def observe_small(self, problems: np.ndarray, found: np.ndarray, bytes_read: int) -> bool:
        """Return whether to stop."""
        return self.stopped

    def end(self, n_problems: int = 1) -> None:
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
        self._n_steps = np.zeros(n_problems, np.int64)
        for problem, _, n_steps, *_ in records:
            self._n_steps[problem] = max(self._n_steps[problem], n_steps)
        self.sees_each = session.has_callbacks or session.checkpointer is not None
        self._lock = threading.Lock()
        self.stopped = False
        self._next_refresh = 0.0
        name, shown = type(session.estimator).__name__, session.estimator.verbose
        self._bar = progress_bar(shown=shown, total=n_problems, unit="problem", desc=name)

    def end(self, n_problems: int = 1) -> None:
        """Record that problems were solved."""
        with self._lock:
            self._bar.update(n_problems)

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
        row = problem, report.n_steps, report.objective, report.gap, counts.rows_computed, counts.hits, report.n_newton
        return self._observe([row], bytes_read)

    def observe_small(self, problems: np.ndarray, found: np.ndarray, bytes_read: int) -> bool:
        """Record small problems by the rows of their `CERTIFICATE`, and return whether to stop."""
        named = dict(zip(CERTIFICATE, found.T, strict=True))
        n_steps, n_rows = (named[name].astype(np.int64) for name in ("n_steps", "n_rows"))
        hits = np.maximum(0, 2 * n_steps - n_rows).tolist()
        columns = problems, n_steps, named["objective"], named["kkt_violation"], n_rows
        rows = zip(*(column.tolist() for column in columns), hits, repeat(0), strict=False)
        return self._observe(list(rows), bytes_read)

    def _observe(self, rows: list[tuple], bytes_read: int) -> bool:
        """Record iterations: problem, steps, objective, gap, rows computed, hits of the cache, Newton steps."""
        with self._lock:
            self._record(rows, bytes_read)
        if self._session.report_to_callbacks("outer iteration", self._attributes):
            self.stopped = True
        return self.stopped

    def records(self) -> list[tuple]:
        """Return what was recorded so far."""
        with self._lock:
            return list(self._records)

    def _record(self, rows: list[tuple], bytes_read: int) -> None:
        elapsed = time.perf_counter() - self._begin
        for problem, n_steps, objective, gap, computed, hits, n_newton in rows:
            self._n_steps[problem] += n_steps
            steps = int(self._n_steps[problem])
            self._records.append((problem, elapsed, steps, objective, gap, computed, hits, bytes_read, n_newton))
        if elapsed >= self._next_refresh and not self._bar.disable:
            self._next_refresh = elapsed + _REFRESH_SECONDS
            self._bar.set_postfix(gap=f"{gap:.2g}", steps=steps, **self._left_of_problem())

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
