"""Warnings of fits that ended before they converged, at the line of the user's program that called the fit."""

import contextlib
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from fastsvm.estimators.fitting.session import with_callbacks
from fastsvm.solvers.outer_loop import StopReason

__all__ = ["warn_caller", "warn_of_gap", "warn_of_margin", "warn_of_sgd", "warn_of_violation"]

# Between a warning and the call of a fit are the files of the package and those of the fit's decorators.
_FILES_OF_FITS = str(Path(__file__).parents[2]), with_callbacks.__code__.co_filename, contextlib.__file__

_ADVICE = {
    StopReason.MAX_ITER: (
        "raise max_iter",
        "scale the features (standardize=True)",
        "lower C",
        "choose another solver",
    ),
    StopReason.MAX_TIME: ("raise max_time", "resume with warm_start=True", "choose another solver"),
    StopReason.CALLBACK: ("a callback asked to stop",),
    StopReason.STALLED: ("no step improves in floating point: scale the features (standardize=True)", "raise tol"),
}
_NOT_OF_ALL = {  # advice, and the parameter that it takes
    "lower C": "C",
    "choose another solver": "solver",
    "resume with warm_start=True": "warm_start",
}
_SGD_ADVICE = {
    StopReason.MAX_ITER: "raise max_iter or tol, or scale the features",
    StopReason.MAX_TIME: "raise max_time, or resume with warm_start=True",
    StopReason.CALLBACK: "resume with warm_start=True; a callback asked to stop",
    StopReason.STALLED: "choose a learning_rate that falls, or lower eta0, at which the objective no longer falls",
}
_GAP_ADVICE = _SGD_ADVICE | {
    StopReason.MAX_ITER: "raise max_iter or tol, scale the features (standardize=True), or lower C",
    StopReason.STALLED: "raise tol, scale the features (standardize=True), or pass float64 samples",
}


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the innermost line outside of the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FILES_OF_FITS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _warn_of_stop(model: BaseEstimator, steps: str, lack: str, advice: str) -> None:
    """Warn that a fit stopped after so many steps, with what it lacks and what the user may try."""
    warn_caller(
        f"{type(model).__name__} stopped before it converged ({model.stop_reason_}) after {steps}: {lack}. "
        f"What to try: {advice}.",
        ConvergenceWarning,
    )


def warn_of_violation(model: BaseEstimator) -> None:
    """Warn if the optimality conditions of a kernel machine are violated by more than `tol`."""
    if not model.converged_:
        lack = f"the optimality conditions are violated by {model.kkt_violation_:.3g}, tol is {model.tol:g}"
        _warn_of_stop(model, f"{np.sum(model.n_iter_)} iterations", lack, _advice(model))


def _advice(model: BaseEstimator) -> str:
    reason = StopReason(model.stop_reason_)
    if model.learning_rate is not None and reason in (StopReason.MAX_ITER, StopReason.STALLED):
        return "lower learning_rate" if reason is StopReason.STALLED else "raise max_iter, or leave out learning_rate"
    parameters = model.get_params(deep=False)
    *first, last = [advice for advice in _ADVICE[reason] if _NOT_OF_ALL.get(advice, "tol") in parameters]
    return f"{', '.join(first)}, or {last}" if first else last


def warn_of_margin(model: BaseEstimator) -> None:
    """Warn if a classifier with a given total of multipliers has no margin; else as `warn_of_violation`."""
    none = model._margin <= model.kkt_violation_
    if not (model.converged_ and none.any()):
        return warn_of_violation(model)
    warn_caller(
        f"{type(model).__name__} found no margin in {np.count_nonzero(none)} of {len(none)} two-class problems: "
        f"{model._margin.min():.3g} is not larger than the violation of the optimality conditions, "
        f"{model.kkt_violation_:.3g}. Its decision values are rounding errors. What to try: raise nu, or "
        f"another kernel; if samples are tiny, lower tol, which is {model.tol:g}, or scale the features "
        "(standardize=True).",
        ConvergenceWarning,
    )


def warn_of_sgd(model: BaseEstimator) -> None:
    """Warn if the objective of a model fitted by SGD may still decrease."""
    if not model.converged_:
        more = "" if model.tol is None else f" by more than tol={model.tol:g}"
        lack = f"its objective, {model.objective_:.6g}, may still decrease{more}"
        _warn_of_stop(model, f"{model.n_iter_} epochs", lack, _SGD_ADVICE[StopReason(model.stop_reason_)])


def warn_of_gap(model: BaseEstimator) -> None:
    """Warn if the criterion of a linear SVM is not within its tolerance."""
    if model.converged_:
        return
    goal, reason = f"tol allows a share of {model.tol:g}", StopReason(model.stop_reason_)
    advice = _GAP_ADVICE[reason]
    if reason is StopReason.MAX_ITER and "C" not in model.get_params(deep=False):
        advice = "raise max_iter or tol"
    if model.criterion == "gradient":
        goal = f"the optimality conditions are violated by {model.kkt_violation_:.3g}, tol is {model.tol:g}"
    lack = f"its objective, {model.objective_:.6g}, may be too high by {model.duality_gap_:.3g}; {goal}"
    _warn_of_stop(model, f"{model.n_iter_} epochs", lack, advice)
