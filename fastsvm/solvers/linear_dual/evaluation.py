"""What an evaluation of the objective decides: the best weights, progress, and when to evaluate again."""

import numpy as np

from fastsvm.solvers.linear_dual.proximal_point import STRICTER
from fastsvm.solvers.linear_dual.state import MAX_INEXACTNESS, MIN_INEXACTNESS, LinearDualSettings, LinearDualState

__all__ = ["newton_is_due", "recorded", "relative_gap"]

_PROGRESS = 0.98  # factor of the gap that counts as progress
_LAXER = 1.5  # factor of the inexactness after progress
_SOON = 8  # most epochs until the next evaluation, if the last two found no progress
_GROWTH = 3  # evaluations are at most one epoch apart, and one more for each `_GROWTH` done
_NEWTON_EPOCHS, _NEWTON_FACTOR = 20, 2  # epochs before Newton steps: a constant, and per unit of the shorter side


def relative_gap(primal: np.ndarray, dual: np.ndarray, least: float = 1e-300) -> float:
    """Return the largest duality gap of a problem, relative to its primal objective, or to `least` if that is more."""
    return float(np.max((primal - dual) / np.maximum(np.abs(primal), least)))


def recorded(
    state: LinearDualState, weights: np.ndarray, primal: np.ndarray, settings: LinearDualSettings
) -> tuple[LinearDualState, float]:
    """Return the state after an evaluation of weights, and the relative gap of the best weights.

    `primal` are the primal objectives of the weights. Weights that are `state.best` itself are those of the lowest
    objectives, those of this evaluation included.
    """
    better = primal < state.primal
    by_score = np.broadcast_to(better, len(weights))[:, None]
    best = weights if weights is state.best else np.where(by_score, weights, state.best)
    primal = np.where(better, primal, state.primal)
    gap = relative_gap(primal, state.dual_value, settings.least)
    progress_at = state.epoch if gap < _PROGRESS * state.gap else state.progress_at
    change = 1 / STRICTER if progress_at < state.epoch else _LAXER
    state = state._replace(
        best=best, primal=primal, gap=min(gap, state.gap), progress_at=progress_at,
        inexactness=float(np.clip(state.inexactness * change, MIN_INEXACTNESS, MAX_INEXACTNESS)),
        next_evaluation=state.epoch + _epochs_until_next(state, gap, settings), last_evaluation=state.epoch,
    )  # fmt: skip
    if gap <= state.halved_gap / 2:
        state = state._replace(halved_at=state.epoch, halved_gap=gap)
    return state, gap


def _epochs_until_next(state: LinearDualState, gap: float, settings: LinearDualSettings) -> int:
    """Return the number of epochs until the next evaluation: not before the gap may be within tolerance."""
    most = 1 + state.epoch // _GROWTH
    if state.progress_at < state.last_evaluation:  # the remedies for slow progress depend on evaluations
        most = min(most, _SOON)
    known = np.isfinite(state.gap) and 0 < gap < state.gap
    rate = np.log(state.gap / gap) / max(1, state.epoch - state.last_evaluation) if known else 0.0
    if rate == 0 or gap <= settings.tol or settings.criterion != "gap":
        return most
    return int(np.clip(np.log(gap / settings.tol) / rate, 1, most))


def newton_is_due(state: LinearDualState, shorter_side: int, last: bool, stalled: bool) -> bool:
    """Return whether to try Newton steps, which take about as long as the epochs so far.

    They may take longer where ascent has `stalled`. In the `last` epoch they are tried even if they failed before.
    `shorter_side` is the smaller of the numbers of features and of rows.
    """
    if stalled:
        return state.epoch >= shorter_side / _NEWTON_FACTOR
    epochs = _NEWTON_EPOCHS + _NEWTON_FACTOR * shorter_side
    return state.epoch >= (epochs if last else max(epochs, state.next_finish))
