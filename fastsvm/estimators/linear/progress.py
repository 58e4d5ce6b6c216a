"""Progress of the fit of a linear machine, epoch by epoch: history, progress bar, callbacks, checkpoints."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fastsvm.estimators.fitting.progress import LATEST, left_of
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.linear.loss_curve import LossCurve
from fastsvm.progress_bar import progress_bar
from fastsvm.solvers.outer_loop import Report
from fastsvm.solvers.sgd.problem import SGDState
from fastsvm.solvers.sgd.solver import SGD
from fastsvm.sources import Source

__all__ = ["DualAscentMonitor", "MonitoredFit", "SGDMonitor"]


class MonitoredFit(NamedTuple):
    """A fit by epochs, as its monitor sees it.

    There are at most `n_epochs`. `attributes(state)` returns the fitted attributes of a model that stops there, and
    `checkpoint(state)` what is needed to resume from there. The records of this fit are appended to `records`, those of
    the fit that is resumed.
    """

    session: FitSession
    n_epochs: int
    attributes: Callable[[Any], dict]
    checkpoint: Callable[[Any], Any]
    state: Any
    records: list[tuple]
    solver: str = ""  # It is named beside the estimator.


class EpochMonitor(ABC):
    """Records every epoch of a fit, shows it, reports it to callbacks, and offers checkpoints of the latest `state`."""

    COLUMNS: ClassVar[tuple[str, ...]]

    def __init__(self, fit: MonitoredFit) -> None:
        self._fit, self._estimator, self._records = fit, fit.session.estimator, fit.records
        self._begin = time.perf_counter() - (self._records[-1][1] if self._records else 0.0)
        self.state = fit.state
        name, shown = type(self._estimator).__name__, self._estimator.verbose
        name += f" ({fit.solver})" if fit.solver else ""
        self._bar = progress_bar(shown=shown, total=fit.n_epochs, unit="epoch", desc=name)

    @abstractmethod
    def row(self, state: Any, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return what is recorded after the number of the epoch and the time, and what is shown beside the bar."""

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def observe(self, state: Any, report: Report) -> bool:
        """Record an epoch if one ended, offer a checkpoint, and return whether a callback asks to stop."""
        self.state = state
        stop = self._record(state, report) if report.n_steps else False
        checkpointer = self._fit.session.checkpointer
        if checkpointer is not None and not report.converged:
            facts = dict(zip(self.COLUMNS, self._records[-1], strict=True)) if self._records else {}
            checkpointer.observe(lambda: self._fit.checkpoint(state), facts | {"epoch": state.epoch})
        return stop

    def _record(self, state: Any, report: Report) -> bool:
        """Record an epoch, and return whether a callback asks to stop."""
        values, shown = self.row(state, report)
        self._records.append((state.epoch, time.perf_counter() - self._begin, *values))
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(1)
        return self._fit.session.report_to_callbacks("epoch", lambda: self._fit.attributes(state))

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an epoch."""
        columns = zip(*self._records, strict=True) if self._records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}


class SGDMonitor(EpochMonitor):
    """Records every epoch of SGD, and appends the loss of every mini-batch to `curve`."""

    COLUMNS = ("epoch", "time", "steps", "objective", "rate", "validation_score", "bytes_read")

    def __init__(self, fit: MonitoredFit, solver: SGD, curve: LossCurve) -> None:
        super().__init__(fit)
        self._solver, self._curve = solver, curve

    def observe(self, state: SGDState, report: Report) -> bool:
        """Record the losses of a window, and an epoch if one ended; return whether a callback asks to stop."""
        for losses in self._solver.take_losses():
            self._curve.extend(losses)
        return super().observe(state, report)

    def row(self, state: SGDState, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return steps, objective, rate, validation score and bytes read."""
        score = self._solver.score if self._solver.validate is not None else np.nan
        read = self._solver.problem.source.reads.nbytes
        values = state.n_steps, report.objective, self._solver.rate(state), score, read
        return values, {"objective": f"{report.objective:.4g}"}


class DualAscentMonitor(EpochMonitor):
    """Records every epoch of dual coordinate ascent."""

    COLUMNS = ("epoch", "time", "objective", "dual_objective", "gap", "bytes_read")

    def __init__(self, fit: MonitoredFit, source: Source) -> None:
        super().__init__(fit)
        self._source = source

    def row(self, state: Any, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return primal and dual objective, relative gap and bytes read."""
        values = float(state.primal.sum()), report.objective, report.gap, self._source.reads.nbytes
        shown = {"gap": f"{report.gap:.2g}"}
        if self._estimator.criterion == "gap" and not self._bar.disable:
            known = self._records[-LATEST:]
            shown |= left_of([one[1] for one in known], [one[4] for one in known], self._estimator.tol)
        return values, shown
