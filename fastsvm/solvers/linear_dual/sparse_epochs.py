"""Epochs over sparse rows, one by one."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import generic, inlined, jit
from fastsvm._compiled.threads import Pool
from fastsvm.linalg.sparse_products import CACHED_VALUES, readable, unsigned
from fastsvm.losses import (
    Demands,
    Loss,
    RowAt,
    conjugate,
    coordinate_update,
    cost_of,
    least_curvature,
    loss_value,
    update_of_classes,
)
from fastsvm.solvers.linear_dual.problem import PIECE_VALUES, LinearProblem, class_bounds
from fastsvm.solvers.linear_dual.state import Epochs, EpochState, Layout, weight_left
from fastsvm.sources import CSRBlock

__all__ = ["SparseEpochs"]


class _WindowRows(NamedTuple):
    """Rows of a window in the order of processing, and the metric.

    `places` and `rows` are the places in the block and the indices of the rows, and `left` are the factors of
    `weight_left` for each. `n_together` rows are processed in one score before the next score. The others are as in
    `Metric` and `Epochs`.
    """

    places: np.ndarray
    rows: np.ndarray
    left: np.ndarray
    damping: np.ndarray
    scaling: np.ndarray
    constant: float
    n_together: int


class _StepState(NamedTuple):
    """Arrays that updates modify: variables, weights, their mean, flags of changed rows, and gaps."""

    dual: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    moved: np.ndarray
    gaps: np.ndarray


class SparseEpochs(Epochs[CSRBlock]):
    """Runs epochs on single sparse rows."""

    consecutive = False

    def __init__(self, problem: LinearProblem, dual: np.ndarray, layout: Layout, pool: Pool) -> None:
        super().__init__(problem, dual, layout, pool)
        self.values_of_row = problem.source.values_per_row

    def begin(self, path: EpochState) -> None:
        """Do nothing: the weights are modified in place."""

    def end(self, path: EpochState) -> None:
        """Compute Σ β_i x_i from the weights."""
        path.position[:] = path.weights / (path.metric.damping[:, None] * path.metric.scaling) - path.anchor_term

    def process(
        self, block: CSRBlock, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]
    ) -> None:
        """Update the variables of some rows."""
        active = np.flatnonzero(path.shrinking.is_active(rows, path.turn))
        left = weight_left((path.seen + path.row_share * active) / len(self.dual))
        block, places = readable(block, places[active])
        together = max(1, int(CACHED_VALUES / (1 + self.values_of_row)))
        metric = path.metric
        plan = _WindowRows(places, rows[active], left, metric.damping, metric.scaling, self.constant, together)
        moved = np.zeros(len(active), np.uint8)
        state = _StepState(self.dual, path.weights, path.mean, moved, path.gaps)
        k = self.n_scores
        work = len(active) * k * (1 + self.values_of_row)
        pieces = class_bounds(k, self.pool.n_threads if work > PIECE_VALUES and not self.loss.of_classes else 1)
        self.pool.run(
            lambda low, high: _take(self.loss, self.demands, unsigned(block), plan, state, (low, high)), pieces
        )
        path.shrinking.update(rows[active], moved, path.turn, self.layout.longest_pause)


@generic
def take_steps(
    loss: Loss, demands: Demands, block: CSRBlock, plan: _WindowRows, state: _StepState, bounds: tuple
) -> None:
    """Process rows; a body for each kind of loss."""


def _each_score(loss, demands, block, plan, state, bounds):
    dual, n = state.dual, plan.places.size
    values = block.data, block.indices, block.indptr
    for start in range(0, n, plan.n_together):
        stop = min(start + plan.n_together, n)
        for c in range(bounds[0], bounds[1]):
            damping, gaps = plan.damping[c], 0.0
            weights, mean = state.weights[c], state.mean[c]
            for t in range(start, stop):
                place, row = plan.places[t], plan.rows[t]
                target, cost = cost_of(demands, row, c)
                if cost == 0:  # of a class that the score leaves out
                    continue
                score, square = _score(values, place, plan.scaling, plan.constant, weights)
                own = float(dual[row, c])
                gaps += cost * loss_value(loss, score, target) + conjugate(loss, own, target, cost) + own * score
                new = coordinate_update(loss, own, score, target, cost, least_curvature(square * damping))
                change = dual.dtype.type(new) - dual[row, c]
                if change != 0:
                    state.moved[t] = 1
                    dual[row, c] += change
                    step = change * damping, plan.left[t]
                    _add(values, place, plan.scaling, plan.constant, step, weights, mean)
            state.gaps[c] += gaps


def _all_scores(loss, demands, block, plan, state, bounds):
    dual, k = state.dual, state.dual.shape[1]
    values = block.data, block.indices, block.indptr
    scores, changes, curvature = np.empty((k, 1)), np.empty(k, dual.dtype), np.empty(k)
    for t in range(plan.places.size):
        place, row, left = plan.places[t], plan.rows[t], plan.left[t]
        for c in range(k):
            score, square = _score(values, place, plan.scaling, plan.constant, state.weights[c])
            scores[c, 0], curvature[c] = score, square * plan.damping[c]
        if not update_of_classes(loss, demands, RowAt(dual, row, scores, 0), curvature, changes, state.gaps):
            continue
        state.moved[t] = 1
        for c in range(k):
            if changes[c] != 0:
                dual[row, c] += changes[c]
                step, weights, mean = (changes[c] * plan.damping[c], left), state.weights[c], state.mean[c]
                _add(values, place, plan.scaling, plan.constant, step, weights, mean)


@inlined
def _score(values, place, scaling, constant, weights):
    """Return the product of a row with the weights of one score, and xᵀ R x."""
    data, indices, indptr = values
    last = weights.size - 1
    score, square = constant * weights[last], constant**2 * scaling[last]
    for p in range(indptr[place], indptr[place + 1]):
        value, j = float(data[p]), indices[p]
        score += value * weights[j]
        square += value * value * scaling[j]
    return score, square


@inlined
def _add(values, place, scaling, constant, step, weights, mean):
    """Add `change` R x to the weights of one score, and `left` times as much to their mean."""
    (data, indices, indptr), (change, left) = values, step
    last, share = weights.size - 1, change * left
    for p in range(indptr[place], indptr[place + 1]):
        j = indices[p]
        value = float(data[p]) * scaling[j]
        weights[j] += change * value
        mean[j] += share * value
    weights[last] += change * constant * scaling[last]
    mean[last] += share * constant * scaling[last]


take_steps.default(lambda kind: _all_scores if kind.of_classes else _each_score)


@jit
def _take(loss, demands, block, plan, state, bounds):
    """Process rows in the scores within `bounds`."""
    take_steps(loss, demands, block, plan, state, bounds)
