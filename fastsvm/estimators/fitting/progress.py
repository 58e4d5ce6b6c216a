"""Progress of a fit by epochs: history, progress bar, callbacks, checkpoints, and the time that is left."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from tqdm import tqdm

from fastsvm._compiled.compilations import work_clock
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.progress_bar import progress_bar
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import Block

LATEST = 1000
"""Number of latest records from which the time left is estimated."""


def shown(
    blocks: Iterator[tuple[int, Block]], n_rows: int, what: str, estimator: BaseEstimator
) -> Iterator[tuple[int, Block]]:
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


def time_left(times: Sequence[float], gaps: Sequence[float], tol: float) -> float | None:
    """Estimate the seconds until a gap falls to `tol`, by a line through its last logarithms; None if that fails.

    >>> times = [0.0, 1.0, 2.0, 3.0, 4.0]
    >>> round(time_left(times, [10.0**-t for t in times], 1e-6), 3)
    2.0
    """
    at, gap = np.asarray(times, np.float64), np.asarray(gaps, np.float64)
    good = np.isfinite(gap) & (gap > 0)
    at, gap = at[good], np.log(gap[good])
    if not len(at):
        return None
    if gap[-1] <= np.log(tol):
        return 0.0
    late = at >= (at[-1] + at[0]) / 2
    from_mean = at[late] - at[late].mean()
    spread = float(from_mean @ from_mean)
    rate = -float(from_mean @ gap[late]) / spread if spread > 0 else 0.0
    return float(gap[-1] - np.log(tol)) / rate if rate > 0 else None


class _Epochs(Protocol):
    """A state that counts epochs."""

    @property
    def epoch(self) -> int: ...


State = TypeVar("State", bound=_Epochs)


class MonitoredFit(NamedTuple, Generic[State]):
    """A fit by at most `n_epochs` epochs, as its monitor sees it."""

    session: FitSession
    n_epochs: int
    attributes: Callable[[State], dict]  # They are those of a model that stops there.
    checkpoint: Callable[[State], object]  # A fit resumes from it.
    state: State
    records: list[tuple]  # Those of a fit that is resumed are continued.
    solver: str = ""  # It is named beside the estimator.


class EpochMonitor(ABC, Generic[State]):
    """Records every epoch of a fit, shows it, reports it to callbacks, and offers checkpoints of the latest `state`."""

    COLUMNS: ClassVar[tuple[str, ...]]

    def __init__(self, fit: MonitoredFit[State]) -> None:
        self._fit, self._estimator, self._records = fit, fit.session.estimator, fit.records
        self._begin = work_clock() - (self._records[-1][1] if self._records else 0.0)
        self.state = fit.state
        name, shown = type(self._estimator).__name__, self._estimator.verbose
        name += f" ({fit.solver})" if fit.solver else ""
        self._bar = progress_bar(shown=shown, total=fit.n_epochs, unit="epoch", desc=name)

    @abstractmethod
    def row(self, state: State, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return what is recorded after the number of the epoch and the time, and what is shown beside the bar."""

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def observe(self, state: State, report: Report) -> bool:
        """Record an epoch if one ended, offer a checkpoint, and return whether a callback asks to stop."""
        self.state = state
        stop = self._record(state, report) if report.n_steps else False
        checkpointer = self._fit.session.checkpointer
        if checkpointer is not None and not report.converged:
            facts = dict(zip(self.COLUMNS, self._records[-1], strict=True)) if self._records else {}
            checkpointer.observe(lambda: self._fit.checkpoint(state), facts | {"epoch": state.epoch})
        return stop

    def _record(self, state: State, report: Report) -> bool:
        """Record an epoch, and return whether a callback asks to stop."""
        values, shown = self.row(state, report)
        self._records.append((state.epoch, work_clock() - self._begin, *values))
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(max(1, report.n_steps))
        return self._fit.session.report_to_callbacks("epoch", lambda: self._fit.attributes(state))

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an epoch."""
        columns = zip(*self._records, strict=True) if self._records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}
