"""Who watches the fit of a linear machine, epoch by epoch: the history, a progress bar, scikit-learn's callbacks."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from fastsvm.estimators.fitting.checkpoints import checkpointer_of
from fastsvm.estimators.fitting.progress import LATEST, left_of, told
from fastsvm.estimators.linear.loss_curve import LossCurve
from fastsvm.solvers.outer_loop import Report
from fastsvm.solvers.sgd.problem import SGDState
from fastsvm.solvers.sgd.solver import SGD
from fastsvm.sources import Source

__all__ = ["DualAscentMonitor", "MonitoredFit", "SGDMonitor"]


class MonitoredFit(NamedTuple):
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


class EpochMonitor(ABC):
    """Records every epoch of a fit and tells those who asked.

    Parameters
    ----------
    watched : MonitoredFit
        The fit.

    Attributes
    ----------
    state : Any
        The last that was seen.
    """

    COLUMNS: ClassVar[tuple[str, ...]]

    def __init__(self, watched: MonitoredFit) -> None:
        self._watched, self._checkpointer = watched, checkpointer_of(watched.estimator)
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
        if self._checkpointer is not None and not report.converged:
            facts = dict(zip(self.COLUMNS, self._records[-1], strict=True)) if self._records else {}
            self._checkpointer.observe(lambda: self._watched.kept_of(state), facts | {"epoch": state.epoch})
        return stop

    def _record(self, state: Any, report: Report) -> bool:
        """Record an epoch, and return whether a callback asks to stop."""
        values, shown = self.row(state, report)
        self._records.append((state.epoch, time.perf_counter() - self._begin, *values))
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(1)
        estimator, context = self._watched.estimator, self._watched.context
        return context is not None and told(context, estimator, "epoch", lambda: self._watched.attributes(state))

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record, one entry an epoch."""
        columns = zip(*self._records, strict=True) if self._records else [()] * len(self.COLUMNS)
        return {name: np.array(column) for name, column in zip(self.COLUMNS, columns, strict=True)}


class SGDMonitor(EpochMonitor):
    """Records every epoch of gradient descent, and the loss of every batch.

    Parameters
    ----------
    watched : MonitoredFit
        The fit.
    solver : SGD
        What it is done by.
    curve : LossCurve
        Where the losses of batches are added.
    """

    COLUMNS = ("epoch", "time", "steps", "objective", "rate", "validation_score", "bytes_read")

    def __init__(self, watched: MonitoredFit, solver: SGD, curve: LossCurve) -> None:
        super().__init__(watched)
        self._solver, self._curve = solver, curve

    def observe(self, state: SGDState, report: Report) -> bool:
        """Record a window, and an epoch if one ended; return whether a callback asks to stop."""
        for losses in self._solver.take_losses():
            self._curve.extend(losses)
        return super().observe(state, report)

    def row(self, state: SGDState, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return steps, objective, rate, validation score and bytes read."""
        settings = self._solver.settings
        rate = state.factor * float(settings.schedule.rates(max(0, state.n_steps - 1), 1)[0])
        score = self._solver.score if self._solver.validate is not None else np.nan
        read = self._solver.problem.source.reads.nbytes
        values = state.n_steps, report.objective, rate, score, read
        return values, {"objective": f"{report.objective:.4g}"}


class DualAscentMonitor(EpochMonitor):
    """Records every epoch of dual coordinate ascent.

    Parameters
    ----------
    watched : MonitoredFit
        The fit.
    source : Source
        What is read.
    """

    COLUMNS = ("epoch", "time", "objective", "dual_objective", "gap", "bytes_read")

    def __init__(self, watched: MonitoredFit, source: Source) -> None:
        super().__init__(watched)
        self._source = source

    def row(self, state: Any, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return primal and dual objective, relative gap and bytes read."""
        values = float(state.primal.sum()), report.objective, report.gap, self._source.reads.nbytes
        shown = {"gap": f"{report.gap:.2g}"}
        if self._watched.estimator.criterion == "gap" and not self._bar.disable:
            known = self._records[-LATEST:]
            shown |= left_of([one[1] for one in known], [one[4] for one in known], self._watched.estimator.tol)
        return values, shown
