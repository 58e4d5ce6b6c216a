"""One fit of an estimator, from its beginning to its last warning."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from fastsvm.estimators.fitting.checkpoints import checkpoints_of

__all__ = ["FitMonitor", "FitSession"]


class FitMonitor(Protocol):
    """Records the progress of a fit and shows it."""

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record."""

    def close(self) -> None:
        """Remove what is shown."""


class FitSession:
    """What fits of all estimators do alike: the deadline, callbacks, checkpoints, warm starts and the last warning.

    A fit calls `begin` once its parameters and data are checked, solves its problem within `solving`, sets its fitted
    attributes, and calls `end`. Between steps its monitor calls `report_to_callbacks`, at most `max_subtasks` times;
    None if that is not known.

    The estimator's parameters are valid. Its `max_time` begins now and ends at `deadline`, a moment of
    time.perf_counter.
    """

    def __init__(self, estimator: Any, max_subtasks: int | None = None) -> None:
        self.deadline = time.perf_counter() + (np.inf if estimator.max_time is None else estimator.max_time)
        self.estimator = estimator
        self.checkpointer, self.resume_from = checkpoints_of(estimator)
        self._max_subtasks = max_subtasks
        self._context: Any = None

    @property
    def can_be_resumed(self) -> bool:
        """Whether a later fit may ask for the state of this one, or this one resumes."""
        return self.estimator.warm_start or self.checkpointer is not None or self.resume_from is not None

    @property
    def has_callbacks(self) -> bool:
        """Whether scikit-learn's callbacks are told of the steps."""
        return self._context is not None

    def warm_start(self, name: str) -> Any:
        """Return the private attribute `name`, in which the last fit left its state; None without `warm_start`."""
        return getattr(self.estimator, name, None) if self.estimator.warm_start else None

    def initial_state(self, name: str) -> Any:
        """Return the state to resume from: a checkpoint, else the warm start in `name`, else None."""
        return self.warm_start(name) if self.resume_from is None else self.resume_from

    def begin(self) -> None:
        """Tell scikit-learn's callbacks, if there are any, that the fit begins."""
        if hasattr(self.estimator, "_skl_callbacks"):
            self._context = self.estimator._init_callback_context(max_subtasks=self._max_subtasks)
            self._context.call_on_fit_task_begin(estimator=self.estimator)

    def report_to_callbacks(self, name: str, attributes: Callable[[], dict]) -> bool:
        """Tell the callbacks that a step such as an "epoch" ended, and return whether one of them asks to stop.

        `attributes` returns the fitted attributes of a model that stops here.
        """
        if self._context is None:
            return False
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self.estimator)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=attributes))

    @contextmanager
    def solving(self, monitor: FitMonitor, name: str, reached: Callable[[], Any]) -> Iterator[None]:
        """Close the monitor at the end, and leave `reached()` in the attribute `name` as the next fit's warm start.

        The same is done after an exception or an interrupt. Without `warm_start` the attribute is None.
        """
        try:
            yield
        finally:
            setattr(self.estimator, name, reached() if self.estimator.warm_start else None)
            monitor.close()

    def end(self, monitor: FitMonitor, warn: Callable[[Any], None]) -> None:
        """Set `history_`, tell the callbacks that the fit ended, and warn if it did not converge."""
        self.estimator.history_ = monitor.history()
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=dict)
        warn(self.estimator)
