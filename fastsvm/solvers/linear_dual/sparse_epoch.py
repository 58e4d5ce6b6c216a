"""Steps in the dual variables of one sparse row after another."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import inlined, jit
from fastsvm._compiled.generic import generic
from fastsvm.linalg.sparse_products import TOGETHER, readable
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
from fastsvm.solvers.linear_dual.epoch import EpochState, Visits, class_bounds, weight_left
from fastsvm.sources import CSRBlock

__all__ = ["RowVisits"]

_PIECE = 1 << 14  # values and scores that are worth a thread


class _Turn(NamedTuple):
    """Rows in the order in which they are visited, and what is the same for all of them.

    Attributes
    ----------
    places, rows : ndarray of int64
        Where in the block they are, and their numbers.
    left : ndarray of float64
        By what share a change changes the mean of the weights, for each row.
    damping, relief, constant
        As of `Metric` and `Visits`.
    n_together : int
        Rows that are met in one score before they are in the next.
    """

    places: np.ndarray
    rows: np.ndarray
    left: np.ndarray
    damping: np.ndarray
    relief: np.ndarray
    constant: float
    n_together: int


class _Books(NamedTuple):
    """What changes with the visits: variables, weights, their mean, which rows' variables moved, and gaps."""

    dual: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    moved: np.ndarray
    gaps: np.ndarray


class RowVisits(Visits):
    """Visits to single rows."""

    consecutive = False

    def begin(self, path: EpochState) -> None:
        """Take the weights as they are: they are changed where they are."""

    def end(self, path: EpochState) -> None:
        """Bring Σ β_i x_i up to date, at the end of an epoch."""
        path.position[:] = path.weights / (path.metric.damping[:, None] * path.metric.relief) - path.anchor_term

    def visit(
        self, block: CSRBlock, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]
    ) -> None:
        """Take the steps of some rows."""
        active = np.flatnonzero(path.shrinking.awake(rows, path.turn))
        left = weight_left((path.seen + path.row_share * active) / len(self.dual))
        block, places = readable(block, places[active])
        together = max(1, int(TOGETHER / (1 + self.values_of_row)))
        metric = path.metric
        turn = _Turn(places, rows[active], left, metric.damping, metric.relief, self.constant, together)
        moved = np.zeros(len(active), np.uint8)
        books = _Books(self.dual, path.weights, path.mean, moved, path.gaps)
        k = self.n_scores
        work = len(active) * k * (1 + self.values_of_row)
        pieces = class_bounds(k, self.pool.n_threads if work > _PIECE and not self.loss.of_classes else 1)
        self.pool.run(lambda low, high: _take(self.loss, self.demands, block, turn, books, (low, high)), pieces)
        path.shrinking.note(rows[active], moved, path.turn)


@generic
def take_steps(loss: Loss, demands: Demands, block: CSRBlock, turn: _Turn, books: _Books, bounds: tuple) -> None:
    """Do what `_take` says."""


def _one_score_after_another(loss, demands, block, turn, books, bounds):
    dual, n = books.dual, turn.places.size
    values = block.data, block.indices, block.indptr
    for start in range(0, n, turn.n_together):
        stop = min(start + turn.n_together, n)
        for c in range(bounds[0], bounds[1]):
            damping, gaps = turn.damping[c], 0.0
            weights, mean = books.weights[c], books.mean[c]
            for t in range(start, stop):
                place, row = turn.places[t], turn.rows[t]
                score, square = _score(values, place, turn.relief, turn.constant, weights)
                target, cost = cost_of(demands, row, c)
                own = float(dual[row, c])
                gaps += cost * loss_value(loss, score, target) + conjugate(loss, own, target, cost) + own * score
                new = coordinate_update(loss, own, score, target, cost, least_curvature(square * damping))
                change = dual.dtype.type(new) - dual[row, c]
                if change != 0:
                    books.moved[t] = 1
                    dual[row, c] += change
                    step = change * damping, turn.left[t]
                    _add(values, place, turn.relief, turn.constant, step, weights, mean)
            books.gaps[c] += gaps


def _all_scores_of_a_row(loss, demands, block, turn, books, bounds):
    dual, k = books.dual, books.dual.shape[1]
    values = block.data, block.indices, block.indptr
    scores, changes, curvature = np.empty((k, 1)), np.empty(k, dual.dtype), np.empty(k)
    for t in range(turn.places.size):
        place, row, left = turn.places[t], turn.rows[t], turn.left[t]
        for c in range(k):
            score, square = _score(values, place, turn.relief, turn.constant, books.weights[c])
            scores[c, 0], curvature[c] = score, square * turn.damping[c]
        if not update_of_classes(loss, demands, RowAt(dual, row, scores, 0), curvature, changes, books.gaps):
            continue
        books.moved[t] = 1
        for c in range(k):
            if changes[c] != 0:
                dual[row, c] += changes[c]
                step, weights, mean = (changes[c] * turn.damping[c], left), books.weights[c], books.mean[c]
                _add(values, place, turn.relief, turn.constant, step, weights, mean)


@inlined
def _score(values, place, relief, constant, weights):
    """Return the product of a row with the weights of one score, and xᵀ R x."""
    data, indices, indptr = values
    last = weights.size - 1
    score, square = constant * weights[last], constant**2 * relief[last]
    for p in range(indptr[place], indptr[place + 1]):
        value, j = float(data[p]), indices[p]
        score += value * weights[j]
        square += value * value * relief[j]
    return score, square


@inlined
def _add(values, place, relief, constant, step, weights, mean):
    """Add a change times R x to the weights of one score, and a share of that to their mean."""
    (data, indices, indptr), (change, left) = values, step
    last, share = weights.size - 1, change * left
    for p in range(indptr[place], indptr[place + 1]):
        j = indices[p]
        value = float(data[p]) * relief[j]
        weights[j] += change * value
        mean[j] += share * value
    weights[last] += change * constant * relief[last]
    mean[last] += share * constant * relief[last]


take_steps.default(lambda kind: _all_scores_of_a_row if kind.of_classes else _one_score_after_another)


@jit
def _take(loss, demands, block, turn, books, bounds):
    """Take the steps of rows in the scores from the first of `bounds` to before the last."""
    take_steps(loss, demands, block, turn, books, bounds)
