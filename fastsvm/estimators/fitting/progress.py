"""Who watches a fit: the history, a progress bar, and scikit-learn's callbacks."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from fastsvm.estimators.fitting.checkpoints import keeper_of
from fastsvm.estimators.fitting.time_left import time_left
from fastsvm.estimators.linear.loss_curve import LossCurve
from fastsvm.solvers.outer_loop import Report
from fastsvm.solvers.sgd.solver import SGD, State
from fastsvm.sources import Source

__all__ = ["AscentWatch", "DescentWatch", "Watch", "Watched"]

_REFRESH_SECONDS = 0.2
_LATEST = 1000  # records, by which it is told how much time is left


def _told(context: Any, estimator: Any, name: str, attributes: Callable[[], dict]) -> bool:
    """Tell scikit-learn's callbacks that an iteration is over, and return whether one asks to stop."""
    task = context.subcontext(task_name=name)
    task.call_on_fit_task_begin(estimator=estimator)
    return bool(task.call_on_fit_task_end(estimator=estimator, reconstruction_attributes=attributes))


def _left(times: Sequence[float], gaps: Sequence[float], tol: float) -> dict[str, str]:
    """Return how much time may be left, as it is shown beside a bar."""
    left = time_left(times, gaps, tol)
    return {} if left is None else {"left": tqdm.format_interval(left)}


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
    records : list of tuple
        Of a fit that is gone on with.

    Attributes
    ----------
    keeper : Keeper or None
        Who looks after the fit.
    """

    COLUMNS = (
        "problem", "time", "iteration", "objective", "gap", "rows_computed", "cache_hits", "bytes_read", "newton"
    )  # fmt: skip

    def __init__(
        self, estimator: Any, context: Any, n_problems: int, verbose: bool, records: Sequence[tuple] = ()
    ) -> None:
        self._estimator, self._context, self.keeper = estimator, context, keeper_of(estimator)
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
            self.stopped |= _told(self._context, self._estimator, "outer iteration", attributes)
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
        known = self._records[-_LATEST:]
        return _left([one[1] for one in known], [one[4] for one in known], self._estimator.tol)

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an outer iteration, problem after problem."""
        records = sorted(self._records, key=lambda record: record[0])
        columns = zip(*records, strict=True) if records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}


class Watched(NamedTuple):
    """A fit by epochs, which is watched.

    Attributes
    ----------
    estimator : estimator
        Its callbacks are called, one subtask an epoch.
    context : CallbackContext or None
        Root context of scikit-learn's callbacks, None where there are none.
    n_epochs : int
        Epochs at most.
    attributes : callable
        `attributes(state)` gives the fitted attributes of a model that stops there.
    state : Any
        Where it begins.
    records : list of tuple
        Where records are added, to those of a fit that is gone on with.
    kept_of : callable
        `kept_of(state)` gives what is needed to go on from there.
    """

    estimator: Any
    context: Any
    n_epochs: int
    attributes: Callable[[Any], dict]
    state: Any
    records: list[tuple]
    kept_of: Callable[[Any], Any]


class EpochWatch(ABC):
    """Records every epoch of a fit and tells those who asked.

    Parameters
    ----------
    watched : Watched
        The fit.

    Attributes
    ----------
    state : Any
        The last that was seen.
    """

    COLUMNS: ClassVar[tuple[str, ...]]

    def __init__(self, watched: Watched) -> None:
        self._watched, self._keeper = watched, keeper_of(watched.estimator)
        self._records = watched.records
        self._begin = time.perf_counter() - (self._records[-1][1] if self._records else 0.0)
        self.state = watched.state
        name, shown = type(watched.estimator).__name__, watched.estimator.verbose
        self._bar = tqdm(total=watched.n_epochs, unit="epoch", desc=name, disable=None if shown else True)

    @abstractmethod
    def row(self, state: Any, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return what is recorded of an epoch after its number and the time, and what is shown beside the bar."""

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def observe(self, state: Any, report: Report) -> bool:
        """Record an epoch if one ended; return whether a callback asks to stop."""
        self.state = state
        stop = self._record(state, report) if report.n_steps else False
        if self._keeper is not None and not report.converged:
            facts = dict(zip(self.COLUMNS, self._records[-1], strict=True)) if self._records else {}
            self._keeper.observe(lambda: self._watched.kept_of(state), facts | {"epoch": state.epoch})
        return stop

    def _record(self, state: Any, report: Report) -> bool:
        """Record an epoch, and return whether a callback asks to stop."""
        values, shown = self.row(state, report)
        self._records.append((state.epoch, time.perf_counter() - self._begin, *values))
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(1)
        estimator, context = self._watched.estimator, self._watched.context
        return context is not None and _told(context, estimator, "epoch", lambda: self._watched.attributes(state))

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an epoch."""
        columns = zip(*self._records, strict=True) if self._records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}


class DescentWatch(EpochWatch):
    """Records every epoch of gradient descent, and the loss of every batch.

    Parameters
    ----------
    watched : Watched
        The fit.
    solver : SGD
        What it is done by.
    curve : LossCurve
        Where the losses of batches are added.
    """

    COLUMNS = ("epoch", "time", "steps", "objective", "rate", "validation_score", "bytes_read")

    def __init__(self, watched: Watched, solver: SGD, curve: LossCurve) -> None:
        super().__init__(watched)
        self._solver, self._curve = solver, curve

    def observe(self, state: State, report: Report) -> bool:
        """Record a window, and an epoch if one ended; return whether a callback asks to stop."""
        for losses in self._solver.losses:
            self._curve.extend(losses)
        self._solver.losses = []
        return super().observe(state, report)

    def row(self, state: State, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return steps, objective, rate, validation score and bytes read."""
        settings = self._solver.settings
        rate = state.factor * float(settings.schedule.rates(max(0, state.n_steps - 1), 1)[0])
        score = self._solver.score if self._solver.validate is not None else np.nan
        read = self._solver.problem.source.reads.nbytes
        values = state.n_steps, report.objective, rate, score, read
        return values, {"objective": f"{report.objective:.4g}"}


class AscentWatch(EpochWatch):
    """Records every epoch of dual coordinate ascent.

    Parameters
    ----------
    watched : Watched
        The fit.
    source : Source
        What is read.
    """

    COLUMNS = ("epoch", "time", "objective", "dual_objective", "gap", "bytes_read")

    def __init__(self, watched: Watched, source: Source) -> None:
        super().__init__(watched)
        self._source = source

    def row(self, state: Any, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return primal and dual objective, relative gap and bytes read."""
        values = float(state.primal.sum()), report.objective, report.gap, self._source.reads.nbytes
        shown = {"gap": f"{report.gap:.2g}"}
        if self._watched.estimator.criterion == "gap" and not self._bar.disable:
            known = self._records[-_LATEST:]
            shown |= _left([one[1] for one in known], [one[4] for one in known], self._watched.estimator.tol)
        return values, shown
