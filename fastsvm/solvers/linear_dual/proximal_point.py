"""The accelerated proximal point method, of which each epoch of dual coordinate ascent solves a subproblem.

Subproblem
    The objective plus ½ (W - V) M (W - V) near an anchor V. In weights, W = (I + M)⁻¹ (Σ_i β_i x_i + M V).

Acceleration
    When the subproblem is solved, the anchor moves beyond its solution, by a part of the way from the solution before
    (Güler 1992; Lin, Mairal and Harchaoui 2015, A universal catalyst for first-order optimization, algorithm 1;
    Frostig, Ge, Kakade and Sidford 2015). Momentum restarts where the way turns back (O'Donoghue and Candès 2015).

Accuracy
    The subproblem counts as solved when its accumulated duality gap is small relative to the proximal term. It also
    does when an epoch raises its dual objective by little more than that term, which bounds the distance of W from the
    solution (Rockafellar 1976); where C is large, that happens many epochs before the gap is small.

Evaluation
    The objective is evaluated now and then. What is found decides the best weights, how exact subproblems are solved,
    and when to evaluate again.
"""

import numpy as np

from fastsvm.solvers.linear_dual.metric import Metric
from fastsvm.solvers.linear_dual.problem import LinearProblem, relative_gap
from fastsvm.solvers.linear_dual.state import (
    MAX_INEXACTNESS,
    EpochState,
    LinearDualState,
    LinearSettings,
    Shrinking,
)
from fastsvm.tuning import LinearTuning

__all__ = ["ProximalPoint", "newton_is_due", "recorded"]

# In an epoch of a solved subproblem the dual objective grows by at most so many times the proximal term.
_CLIMB = 2.0
_WEAKER = 0.25  # A weaker metric is this multiple of the one before.


class ProximalPoint:
    """Anchors, momentum and objectives of the subproblems.

    It begins with the strongest metric of the proximal term. `most_momentum` is the largest factor of the momentum of
    each score, that of a strongly convex problem. Arguments `conjugates` are Σ_i c_i ℓ*(-β_i / c_i) of each score.
    """

    def __init__(self, problem: LinearProblem, metric: Metric, tuning: LinearTuning) -> None:
        self.problem, self.strongest, self.tuning = problem, metric, tuning
        self.take_metric(metric)

    def take_metric(self, metric: Metric) -> None:
        """Set the metric of the proximal term."""
        self.metric = metric
        ratio = np.sqrt(metric.mean_damping)
        self.most_momentum = (1 - ratio) / (1 + ratio) if self.tuning.momentum else np.zeros_like(ratio)

    def with_other_metric(self, state: LinearDualState, conjugates: np.ndarray) -> LinearDualState:
        """Return the state with a weaker metric; with a stronger one if the last change slowed convergence."""
        gap = max(state.gap, np.finfo(np.float64).tiny)  # rounding may make it negative
        rate = np.log(max(state.halved_gap, gap) / gap) / max(1, state.epoch - state.halved_at)
        change = state.metric_change if rate >= state.metric_rate else -state.metric_change
        return self.at_level(state, change, conjugates)._replace(metric_change=change, metric_rate=rate)

    def at_level(self, state: LinearDualState, change: int, conjugates: np.ndarray) -> LinearDualState:
        """Return the state with the metric weakened by `change` levels, or unchanged if there is no such metric."""
        state, level = state._replace(halved_gap=state.gap, halved_at=state.epoch), state.metric_level + change
        if level < 0 or (change > 0 and self.metric.vanishes) or not self.tuning.metric_changes:
            return state
        self.take_metric(self.strongest.weaker(_WEAKER**level) if level else self.strongest)
        state = self.placed(state, state.path.position, state.best, conjugates)
        return state._replace(metric_level=level, inexactness=_STRICTER)

    def placed(
        self, state: LinearDualState, position: np.ndarray, anchor: np.ndarray, conjugates: np.ndarray
    ) -> LinearDualState:
        """Return the state at Σ β_i x_i = position with momentum restarted at an anchor."""
        path = self.path(position, anchor, state.path)
        initial = self.near_value(conjugates, position, anchor)
        return state._replace(
            path=path, anchor=anchor, last=anchor, momentum=np.ones_like(state.momentum), initial_value=initial
        )

    def path(self, position: np.ndarray, anchor: np.ndarray, before: EpochState | None = None) -> EpochState:
        """Return the state of a new epoch at Σ β_i x_i = position, with the shrinking of the epoch `before`."""
        anchor_term = self.metric.times(anchor)
        weights = self.metric.solve(position + anchor_term)
        fresh = Shrinking.of(self.problem.demands.costs), 0
        shrinking, turn = fresh if before is None else (before.shrinking, before.turn)
        gaps = np.zeros(self.problem.n_scores)
        return EpochState(weights, weights.copy(), position.copy(), anchor_term, gaps, self.metric, shrinking, turn)

    def moved(self, state: LinearDualState, conjugates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return anchor, last solution and momentum, updated for each problem whose subproblem is solved."""
        path = state.path
        away = path.mean - state.anchor
        proximal = self.problem.by_problem(0.5 * np.einsum("cj,cj->c", away, self.metric.times(away)))
        climb = _CLIMB * np.sqrt(state.inexactness / MAX_INEXACTNESS)
        climbed = self.near_value(conjugates, path.position, state.anchor) - state.initial_value
        ready = (self.problem.by_problem(path.gaps) <= state.inexactness * proximal) | (climbed <= climb * proximal)
        forth = path.mean - state.last
        against = self.problem.by_problem(np.einsum("cj,cj->c", away, self.metric.times(forth))) < 0
        momentum = np.where(against, 1.0, state.momentum)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        factor = np.minimum((momentum - 1) / following, self.most_momentum)[:, None]
        momentum = np.where(ready, following, state.momentum)
        ready = np.broadcast_to(ready, self.problem.n_scores)[:, None]
        beyond = path.mean + factor * forth
        return np.where(ready, beyond, state.anchor), np.where(ready, path.mean, state.last), momentum

    def best_share(self, dual: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the multiple of the dual variables of each problem that maximises the dual objective.

        The conjugates are quadratic in the multiple and 0 at 0, so that their values at two points determine them.
        """
        whole, half = (self.problem.by_problem(self.problem.conjugates(dual * share)) for share in (1.0, 0.5))
        square = 2 * (whole - 2 * half)
        curvature = square + self.problem.penalty(position)
        with np.errstate(all="ignore"):
            share = (square - whole) / (2 * curvature)
        return np.where(curvature > 0, share, 1.0)

    def near_value(self, conjugates: np.ndarray, position: np.ndarray, anchor: np.ndarray) -> np.ndarray:
        """Return the dual objectives of the subproblems up to constants."""
        total = position + self.metric.times(anchor)
        return -self.problem.by_problem(conjugates + 0.5 * np.einsum("cj,cj->c", total, self.metric.solve(total)))


# --- evaluations -----------------------------------------------------------------------------------------

_PROGRESS = 0.98  # An evaluation finds progress if the gap is at most this share of the least before.
_STRICTER, _LAXER = 3.0, 1.5  # The inexactness is divided by the first without progress, and else times the second.
_GROWTH = 3  # Evaluations are at most one epoch apart, and one more for each so many epochs that are done.
_SOON = 8  # After two evaluations without progress, the next one is at most so many epochs later.
# Newton steps take the time of so many epochs, and so many for each feature or row, whichever are fewer.
_NEWTON_EPOCHS, _NEWTON_FACTOR = 20, 2


def recorded(
    state: LinearDualState, weights: np.ndarray, primal: np.ndarray, settings: LinearSettings
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
    change = 1 / _STRICTER if progress_at < state.epoch else _LAXER
    state = state._replace(
        best=best, primal=primal, gap=min(gap, state.gap), progress_at=progress_at,
        inexactness=float(np.clip(state.inexactness * change, 1.0, MAX_INEXACTNESS)),
        next_evaluation=state.epoch + _epochs_until_next(state, gap, settings), last_evaluation=state.epoch,
    )  # fmt: skip
    if gap <= state.halved_gap / 2:
        state = state._replace(halved_at=state.epoch, halved_gap=gap)
    return state, gap


def _epochs_until_next(state: LinearDualState, gap: float, settings: LinearSettings) -> int:
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
