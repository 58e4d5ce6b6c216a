"""What a fit that ended early says."""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from fastsvm.solvers.outer_loop import StopReason

__all__ = ["warn_of_gap", "warn_of_unfinished_descent", "warn_unless_converged"]

_ADVICE = {
    StopReason.MAX_ITER: "raise max_iter, scale the features, lower C, or take another solver",
    StopReason.MAX_TIME: "raise max_time, go on with warm_start=True, or take another solver",
    StopReason.CALLBACK: "a callback asked to stop",
    StopReason.STALLED: "no step improves in floating point: scale the features, or raise tol",
}


def _advice(model: Any) -> str:
    reason = StopReason(model.stop_reason_)
    if model.learning_rate is not None and reason in (StopReason.MAX_ITER, StopReason.STALLED):
        return "lower learning_rate" if reason is StopReason.STALLED else "raise max_iter, or leave out learning_rate"
    return _ADVICE[reason]


def warn_unless_converged(model: Any) -> None:
    """Warn of a fitted model whose fit ended before its tolerance, with gap, work done and what to try."""
    if model.converged_:
        return
    warnings.warn(
        f"{type(model).__name__} stopped before it converged ({model.stop_reason_}) after {model.n_iter_.sum()} "
        f"iterations: the optimality conditions are violated by {model.kkt_violation_:.3g}, tol is {model.tol:g}. "
        f"What to try: {_advice(model)}.",
        ConvergenceWarning,
        stacklevel=5,
    )


_ADVICE_ON_DESCENT = {
    StopReason.MAX_ITER: "raise max_iter or tol, or scale the features",
    StopReason.MAX_TIME: "raise max_time, or go on with warm_start=True",
    StopReason.CALLBACK: "go on with warm_start=True; a callback asked to stop",
}


def warn_of_unfinished_descent(model: Any) -> None:
    """Warn of a model whose objective was still falling when its fit ended."""
    if model.converged_:
        return
    more = "" if model.tol is None else f" by more than tol={model.tol:g}"
    warnings.warn(
        f"{type(model).__name__} stopped before it converged ({model.stop_reason_}) after {model.n_iter_} epochs: its "
        f"objective, {model.objective_:.6g}, may still fall{more}. What to try: "
        f"{_ADVICE_ON_DESCENT[StopReason(model.stop_reason_)]}.",
        ConvergenceWarning,
        stacklevel=6,
    )


_ADVICE_ON_GAP = {
    StopReason.MAX_ITER: "raise max_iter or tol, scale the features (standardize=True), or lower C",
    StopReason.MAX_TIME: "raise max_time, or go on with warm_start=True",
    StopReason.CALLBACK: "go on with warm_start=True; a callback asked to stop",
    StopReason.STALLED: "raise tol, scale the features (standardize=True), or pass rows in float64",
}


def warn_of_gap(model: Any) -> None:
    """Warn of a linear model whose duality gap is not within tolerance."""
    if model.converged_:
        return
    asked = f"the share that tol allows is {model.tol:g}"
    if model.criterion == "gradient":
        asked = f"the optimality conditions are violated by {model.kkt_violation_:.3g}, tol is {model.tol:g}"
    warnings.warn(
        f"{type(model).__name__} stopped before it converged ({model.stop_reason_}) after {model.n_iter_} epochs: its "
        f"objective, {model.objective_:.6g}, may be too high by {model.duality_gap_:.3g}; {asked}. "
        f"What to try: {_ADVICE_ON_GAP[StopReason(model.stop_reason_)]}.",
        ConvergenceWarning,
        stacklevel=6,
    )
