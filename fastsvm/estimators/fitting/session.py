"""One fit of an estimator, from its beginning to its last warning.

A fit works on a copy of the estimator, so that the estimator has the whole new model or the one before. Its session
has the deadline, callbacks, checkpoints and warm starts; warnings point at the user's line.
"""

import contextlib
import functools
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from fastsvm._compiled.compilations import stopwatch
from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.documentation import Learning, PublicEstimator, documented_by
from fastsvm.estimators.fitting.validation import (
    Attributes,
    Column,
    Rule,
    Samples,
    TrainingSet,
    check_training_set,
    forget,
)
from fastsvm.messages import tell
from fastsvm.solvers.outer_loop import StopReason

try:
    from sklearn import callback
except ImportError:  # scikit-learn has them from 1.9 on
    callback = None

_WARM_STARTS = "_multipliers", "_fit_state"  # what an interrupted fit leaves for the next one


CallbackSupportMixin: Any = object if callback is None else callback.CallbackSupportMixin
with_callbacks: Callable[[Callable], Callable] = (lambda fit: fit) if callback is None else callback.with_callbacks


# --- what a fit is given, and the copy on which it works ---------------------------------------------------


class Checkpointer(Protocol):
    """Takes checkpoints of a fit."""

    def observe(self, tree: Callable[[], object], facts: dict[str, float]) -> None:
        """Take a checkpoint if one is due. The fit calls this between two steps; an exception ends the fit.

        `tree` returns all that a fit needs to resume, in arrays that are valid until `observe` returns, and `facts`
        tell its progress.
        """


@contextmanager
def lent(estimator: BaseEstimator, **attributes: object) -> Iterator[None]:
    """Give an estimator private attributes, which a fit in this context finds."""
    vars(estimator).update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            delattr(estimator, name)


def checkpointed(
    estimator: BaseEstimator, checkpointer: Checkpointer | None, resume_from: object = None
) -> AbstractContextManager[None]:
    """Let a checkpointer see the fit of an estimator in this context, which resumes from `resume_from`, if any."""
    return lent(estimator, _checkpoints=(checkpointer, resume_from))


def drafted(fit: Callable) -> Callable:
    """Let a method fit a copy, whose attributes the estimator gets at once; a failed fit leaves a warm start."""

    @functools.wraps(fit)
    def fitted(self: BaseEstimator, *args: object, **kwargs: object) -> BaseEstimator:
        draft = _with_attributes(self, dict(vars(self)))
        try:
            fit(draft, *args, **kwargs)
        except BaseException:
            vars(self).update({name: vars(draft)[name] for name in _WARM_STARTS if name in vars(draft)})
            raise
        self.__dict__ = vars(draft)
        return self

    return fitted


def of_one_model(method: Callable) -> Callable:
    """Let a method read the attributes of one model, although another thread may fit the estimator anew."""

    @functools.wraps(method)
    def read(self: BaseEstimator, *args: object, **kwargs: object) -> object:
        return method(view_of(self), *args, **kwargs)

    return read


def view_of(estimator: BaseEstimator) -> BaseEstimator:
    """Return an estimator that shares the attributes, until a fit gives the other one new attributes."""
    return _with_attributes(estimator, vars(estimator))


def _with_attributes(estimator: BaseEstimator, attributes: Attributes) -> BaseEstimator:
    other = object.__new__(type(estimator))
    other.__dict__ = attributes
    return other


# --- the course of a fit -------------------------------------------------------------------------------------


class FitMonitor(Protocol):
    """Records the progress of a fit and shows it."""

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record."""

    def close(self) -> None:
        """Remove what is shown."""


class FitSession:
    """What fits of all estimators do alike: deadline, callbacks, checkpoints, warm starts and the last warning.

    A fit calls `begin` once its data are checked, solves its problem within `solving`, sets its attributes, and calls
    `finish`. Its `deadline`, of time.perf_counter, counts from the construction of the session.
    """

    def __init__(self, estimator: BaseEstimator, max_subtasks: int | None = None) -> None:
        self.deadline = time.perf_counter() + (np.inf if estimator.max_time is None else estimator.max_time)
        self.estimator = estimator
        self._spent = stopwatch()
        self.checkpointer, self.resume_from = vars(estimator).get("_checkpoints", (None, None))
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

    def warm_start(self, attribute: str) -> Any:
        """Return the private attribute in which the last fit left its state; None without `warm_start`."""
        return getattr(self.estimator, attribute, None) if self.estimator.warm_start else None

    def initial_state(self, attribute: str) -> Any:
        """Return the state to resume from: a checkpoint, else the warm start in a private attribute, else None."""
        return self.warm_start(attribute) if self.resume_from is None else self.resume_from

    def begin(self) -> None:
        """Tell scikit-learn's callbacks, if there are any, that the fit begins."""
        if hasattr(self.estimator, "_skl_callbacks"):
            self._context = self.estimator._init_callback_context(max_subtasks=self._max_subtasks)
            self._context.call_on_fit_task_begin(estimator=self.estimator)

    def report_to_callbacks(self, task_name: str, attributes: Callable[[], dict]) -> bool:
        """Tell the callbacks that a step such as an "epoch" ended, and return whether one of them asks to stop."""
        if self._context is None:
            return False
        task = self._context.subcontext(task_name=task_name)
        task.call_on_fit_task_begin(estimator=self.estimator)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=attributes))

    @contextmanager
    def solving(self, monitor: FitMonitor, attribute: str, reached: Callable[[], object]) -> Iterator[None]:
        """Close the monitor in any case, and keep `reached()` in a private attribute for a `warm_start`."""
        with contextlib.closing(monitor):
            try:
                yield
            finally:
                setattr(self.estimator, attribute, reached() if self.estimator.warm_start else None)

    def finish(self, monitor: FitMonitor, warn: Callable[[BaseEstimator], None]) -> None:
        """Set `history_`, tell the callbacks that the fit ended, and warn if it did not converge."""
        self.estimator.history_ = monitor.history()
        if self._context is not None:
            # The estimator has its fitted attributes: a callback need not reconstruct them.
            self._context.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=lambda: {})
        if self.estimator.verbose:
            tell(self._summary())
        warn(self.estimator)

    def _summary(self) -> str:
        """Return how the fit ended, how long it took, and how far its model may be from the optimum."""
        model, fitted = self.estimator, vars(self.estimator)
        seconds, compiling = self._spent().values()
        words = f"{type(model).__name__}: {model.stop_reason_}, {seconds:.3g} s"
        words += f" and {compiling:.3g} s of compiling" if compiling else ""
        words += f"; objective {model.objective_:.6g}"
        if (gap := fitted.get("duality_gap_")) is not None:
            words += f", duality gap {gap:.2g}"
            words += f" ({100 * gap / abs(model.objective_):.2g} % of it)" if model.objective_ else ""
        if (violation := fitted.get("kkt_violation_")) is not None:
            words += f", optimality conditions violated by at most {violation:.2g}"
        return words


class IterativeEstimator(PublicEstimator, CallbackSupportMixin):
    """An estimator whose fit takes steps until it converges, and tells callbacks of them.

    `of_classes`: y has class labels. `has_targets`: y is used at all.

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

    def _own_rules(self) -> dict[str, Rule]:
        """Return the rules of the parameters that only some estimators of a kind have."""
        return {}

    @documented_by(Learning)
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

        Raises
        ------
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


# --- warnings ------------------------------------------------------------------------------------------------


# Between a warning and the call of a fit are the files of the package and those of the fit's decorators.
_FILES_OF_FITS = str(Path(__file__).parents[2]) + os.sep, with_callbacks.__code__.co_filename, contextlib.__file__

# What to try after a stop: texts, each with the parameters that it needs.
_SCALE = "scale the features (standardize=True)", "standardize"
_RESUME = "resume with warm_start=True", "warm_start"
_ADVICE = {StopReason.MAX_TIME: (("raise max_time",), _RESUME), StopReason.CALLBACK: (_RESUME,)}
_KERNEL_ADVICE = _ADVICE | {
    StopReason.MAX_ITER: (("raise max_iter",), _SCALE, ("lower C", "C"), ("choose another solver", "solver")),
    StopReason.MAX_TIME: (("raise max_time",), _RESUME, ("choose another solver", "solver")),
    StopReason.STALLED: (_SCALE, ("raise tol, as no step improves in floating point",)),
}
_RATE_ADVICE = _KERNEL_ADVICE | {
    StopReason.MAX_ITER: (("raise max_iter",), ("leave out learning_rate",)),
    StopReason.STALLED: (("lower learning_rate",),),
}
_SGD_ADVICE = _ADVICE | {
    StopReason.MAX_ITER: (("raise max_iter or tol",), _SCALE),
    StopReason.STALLED: (("choose a learning_rate that falls",), ("lower eta0",)),
}
_GAP_ADVICE = _ADVICE | {
    # Standardising moves the origin, from which a machine of one class separates the samples: it has no C.
    StopReason.MAX_ITER: (("raise max_iter or tol",), (*_SCALE, "C"), ("lower C", "C")),
    StopReason.STALLED: (("raise tol",), (*_SCALE, "C"), ("pass float64 samples",)),
}


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the innermost line outside of the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FILES_OF_FITS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _warn_of_stop(model: BaseEstimator, steps: str, lack: str, advice: Mapping[StopReason, Sequence]) -> None:
    """Warn that a fit stopped after so many steps, with what it lacks and what the user may try."""
    usable = {name for name in model.get_params(deep=False) if name != "standardize" or _may_be_scaled(model)}
    usable -= {"warm_start"} if hasattr(model, "_checkpoints") else set()  # a command has no later fit
    *others, last = (text for text, *needed in advice[StopReason(model.stop_reason_)] if usable.issuperset(needed))
    warn_caller(
        f"{type(model).__name__} stopped before it converged ({model.stop_reason_}) after {steps}: {lack}. "
        f"What to try: {', '.join(others)}{', or ' if others else ''}{last}.",
        ConvergenceWarning,
    )


def _may_be_scaled(model: BaseEstimator) -> bool:
    """Return whether a fit with `standardize=True` would be another one."""
    return not model.standardize and getattr(model, "kernel", None) != "precomputed"


def warn_of_violation(model: BaseEstimator) -> None:
    """Warn if the optimality conditions of a kernel machine are violated by more than `tol`."""
    if not model.converged_:
        lack = f"the optimality conditions are violated by {model.kkt_violation_:.3g}, tol is {model.tol:g}"
        advice = _KERNEL_ADVICE if model.learning_rate is None else _RATE_ADVICE
        _warn_of_stop(model, f"{np.sum(model.n_iter_)} iterations", lack, advice)


def warn_of_margin(model: BaseEstimator) -> None:
    """Warn if a classifier with a given total of multipliers has no margin; else as `warn_of_violation`."""
    none = model._margin <= model.kkt_violation_
    if not (model.converged_ and none.any()):
        return warn_of_violation(model)
    warn_caller(
        f"{type(model).__name__} found no margin in {np.count_nonzero(none)} of {len(none)} two-class problems: "
        f"{model._margin.min():.3g} is not larger than the violation of the optimality conditions, "
        f"{model.kkt_violation_:.3g}. Its decision values are rounding errors. What to try: raise nu, or "
        f"another kernel; if samples are tiny, lower tol, which is {model.tol:g}"
        + (", or scale the features (standardize=True)." if _may_be_scaled(model) else "."),
        ConvergenceWarning,
    )


def warn_of_sgd(model: BaseEstimator) -> None:
    """Warn if the objective of a model fitted by SGD may still decrease."""
    if not model.converged_:
        more = "" if model.tol is None else f" by more than tol={model.tol:g}"
        lack = f"its objective, {model.objective_:.6g}, may still decrease{more}"
        _warn_of_stop(model, f"{model.n_iter_} epochs", lack, _SGD_ADVICE)


def warn_of_gap(model: BaseEstimator) -> None:
    """Warn if the criterion of a linear SVM is not within its tolerance."""
    if model.converged_:
        return
    goal = f"tol allows a share of {model.tol:g}"
    if model.criterion == "gradient":
        goal = f"the optimality conditions are violated by {model.kkt_violation_:.3g}, tol is {model.tol:g}"
    lack = f"its objective, {model.objective_:.6g}, may be too high by {model.duality_gap_:.3g}; {goal}"
    _warn_of_stop(model, f"{model.n_iter_} epochs", lack, _GAP_ADVICE)
