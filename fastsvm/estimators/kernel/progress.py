"""Progress of the fit of a kernel machine: history, progress bar, callbacks."""

import threading
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from fastsvm._compiled.compilations import work_clock
from fastsvm.estimators.fitting.progress import LATEST, left_of
from fastsvm.estimators.fitting.session import Checkpointer, FitSession
from fastsvm.kernel_matrix.rows import CacheCounts
from fastsvm.progress_bar import progress_bar
from fastsvm.solvers.kernel_dual.small import CERTIFICATE
from fastsvm.solvers.outer_loop import Report

REFRESH_SECONDS = 0.5
"""So often the bar is refreshed, and a worker keeps what it has reached for a checkpoint by another."""


class KernelMonitor:
    """Sees the outer iterations of all problems, which end once it is `stopped`, and records nothing."""

    checkpointer: Checkpointer | None = None
    sees_each = False  # Small problems are to be observed one by one.

    def __init__(self) -> None:
        self.stopped = False

    def observe(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> bool:
        """Record an outer iteration, and return whether to stop."""
        return self.stopped

    def observe_small(self, problems: np.ndarray, certificates: np.ndarray, bytes_read: int) -> bool:
        """Record small problems by the rows of their `CERTIFICATE`, and return whether to stop."""
        return self.stopped

    def count_solved(self, n_problems: int = 1) -> None:
        """Count problems that were solved."""

    def records(self) -> list[tuple]:
        """Return what was recorded so far."""
        return []


class KernelFitMonitor(KernelMonitor):
    """Records every outer iteration of a fit, shows it, and reports it to callbacks, one of which may set `stopped`.

    `attributes` returns the fitted attributes of a model that stops now; `records` are those of the fit that is
    resumed.
    """

    COLUMNS = (
        "problem", "time", "iteration", "objective", "violation", "rows_computed", "cache_hits", "bytes_read", "newton"
    )  # fmt: skip
    # They are those of the columns: numbers of Python would take 300 bytes a record, and there may be a million.
    _TYPES = "qdqddqqqq"

    def __init__(
        self,
        session: FitSession,
        n_problems: int,
        solver: str,
        attributes: Callable[[], dict],
        records: Sequence[tuple] = (),
    ) -> None:
        super().__init__()
        self._session, self._attributes, self.checkpointer = session, attributes, session.checkpointer
        columns = zip(*records, strict=True) if records else [()] * len(self.COLUMNS)
        self._columns = [array(kind, values) for kind, values in zip(self._TYPES, columns, strict=True)]
        self._begin = work_clock() - max((record[1] for record in records), default=0.0)
        self._n_steps = np.zeros(n_problems, np.int64)
        for problem, _, n_steps, *_ in records:
            self._n_steps[problem] = max(self._n_steps[problem], n_steps)
        self.sees_each = session.has_callbacks or session.checkpointer is not None
        self._lock = threading.Lock()
        self._next_refresh = 0.0
        name, shown = type(session.estimator).__name__, session.estimator.verbose
        self._bar = progress_bar(shown=shown, total=n_problems, unit="problem", desc=f"{name} ({solver})")

    def count_solved(self, n_problems: int = 1) -> None:
        """Count problems that were solved."""
        with self._lock:
            self._bar.update(n_problems)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def observe(self, problem: int, report: Report, counts: CacheCounts, bytes_read: int) -> bool:
        """Record an outer iteration of a two-class problem, and return whether to stop."""
        with self._lock:
            self._n_steps[problem] += report.n_steps
            elapsed, steps = work_clock() - self._begin, int(self._n_steps[problem])
            record = (
                problem, elapsed, steps, report.objective, report.gap, counts.rows_computed, counts.hits, bytes_read,
                report.n_newton,
            )  # fmt: skip
            for column, value in zip(self._columns, record, strict=True):
                column.append(value)
            self._show(elapsed, report.gap, steps)
        return self._is_asked_to_stop()

    def observe_small(self, problems: np.ndarray, certificates: np.ndarray, bytes_read: int) -> bool:
        """Record small problems by the rows of their `CERTIFICATE`, and return whether to stop."""
        if len(problems) == 1:  # for which NumPy takes as long as for many
            one = dict(zip(CERTIFICATE, certificates[0].tolist(), strict=True))
            steps, rows = int(one["n_steps"]), int(one["n_rows"])
            report = Report(one["kkt_violation"], one["objective"], steps, True, True, False)
            return self.observe(int(problems[0]), report, CacheCounts(max(0, 2 * steps - rows), rows), bytes_read)
        named = dict(zip(CERTIFICATE, certificates.T, strict=True))
        n_steps, n_rows = (named[name].astype(np.int64) for name in ("n_steps", "n_rows"))
        with self._lock:
            self._n_steps[problems] += n_steps
            elapsed, steps = work_clock() - self._begin, self._n_steps[problems]
            hits = np.maximum(0, 2 * n_steps - n_rows)
            columns = problems, elapsed, steps, named["objective"], named["kkt_violation"], n_rows, hits, bytes_read, 0
            for column, kind, values in zip(self._columns, self._TYPES, columns, strict=True):
                column.frombytes(np.full(len(problems), values, kind).tobytes())
            self._show(elapsed, float(named["kkt_violation"][-1]), int(steps[-1]))
        return self._is_asked_to_stop()

    def _is_asked_to_stop(self) -> bool:
        if self._session.report_to_callbacks("outer iteration", self._attributes):
            self.stopped = True
        return self.stopped

    def records(self) -> list[tuple]:
        """Return what was recorded so far."""
        with self._lock:
            return list(zip(*self._columns, strict=True))

    def _show(self, elapsed: float, violation: float, steps: int) -> None:
        if elapsed >= self._next_refresh and not self._bar.disable:
            self._next_refresh = elapsed + REFRESH_SECONDS
            times, violations = self._columns[1][-LATEST:], self._columns[4][-LATEST:]
            is_only, tol = len(self._n_steps) == 1, self._session.estimator.tol
            left = left_of(times, violations, tol) if is_only else {}  # else the bar shows how many
            self._bar.set_postfix(violation=f"{violation:.2g}", steps=steps, **left)

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an outer iteration, problem after problem."""
        order = slice(None) if len(self._n_steps) == 1 else np.argsort(np.array(self._columns[0]), kind="stable")
        return {name: np.array(column)[order] for name, column in zip(self.COLUMNS, self._columns, strict=True)}
