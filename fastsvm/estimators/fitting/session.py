"""One fit of an estimator, from its beginning to its last warning."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.checkpoints import checkpoints_of
from fastsvm.estimators.fitting.documentation import PublicEstimator
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.validation import Column, Samples, TrainingSet, check_training_set, forget

try:
    from sklearn import callback
except ImportError:  # scikit-learn has them from 1.9 on
    callback = None

__all__ = ["FitMonitor", "FitSession", "IterativeEstimator", "with_callbacks"]


class _NoCallbacks:
    """Stands in for the mixin of newer versions of scikit-learn; there are no callbacks."""


def _unchanged(method: Callable) -> Callable:
    return method


CallbackSupportMixin: Any = _NoCallbacks if callback is None else callback.CallbackSupportMixin
with_callbacks: Callable[[Callable], Callable] = _unchanged if callback is None else callback.with_callbacks


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

    def __init__(self, estimator: BaseEstimator, max_subtasks: int | None = None) -> None:
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


class IterativeEstimator(PublicEstimator, CallbackSupportMixin):
    """An estimator whose fit takes steps until it converges, and tells callbacks of them.

    The class attributes say what it learns, as `check_training_set` takes it.

    Parameters
    ----------
    max_time : float or None, default=None
        Time limit of a fit in seconds.

    Attributes
    ----------
    intercept_ : ndarray of float64, shape (1,)
        Intercept.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "callback", "stalled".
    """

    of_classes: ClassVar[bool] = True
    has_targets: ClassVar[bool] = True

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Samples, y: Column = None, sample_weight: Column = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; arrays of uint8, ints and float16/32/64 are used in their type. For a precomputed kernel the
            (n_samples, n_samples) kernel values.
        y : array-like of shape (n_samples,) or None
            Labels of a classifier, numbers or strings; targets of a regressor, real numbers. None takes those that come
            with an `HDF5Data`. Outlier detectors ignore them.
        sample_weight : array-like of shape (n_samples,) or None
            Factors of C for each sample; without the parameter `C`, of the upper bounds of dual variables. Samples of
            weight 0 are left out.

        Returns
        -------
        estimator
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found.
        OSError
            If samples on disk cannot be read, or a scratch file cannot be written.
        """
        self._check_parameters()
        session = self._session()
        forget(self)
        self._learn(X, y, sample_weight, session)
        return self

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter that is not usable."""
        raise NotImplementedError

    def _session(self) -> FitSession:
        """Return what a fit begins with, before its samples are read."""
        return FitSession(self)

    def _checked(self, X: Samples, y: Column, sample_weight: Column) -> TrainingSet:
        """Return the training set."""
        kind = {"of_classes": self.of_classes, "has_targets": self.has_targets}
        return check_training_set(self, X, y, sample_weight, **kind)

    def _learn(self, X: Samples, y: Column, sample_weight: Column, session: FitSession) -> None:
        """Solve the problem of the samples, from a checkpoint or a warm start if there is any, and end the session."""
        raise NotImplementedError
