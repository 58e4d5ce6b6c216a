"""Epochs over sparse rows, one by one."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool
from fastsvm.linalg.sparse_products import CACHED_VALUES, readable, unsigned
from fastsvm.losses import least_curvature
from fastsvm.solvers.linear_dual.coordinate_pass import PassState, score_at, step_at, take_pass
from fastsvm.solvers.linear_dual.problem import PIECE_VALUES, LinearProblem, class_bounds
from fastsvm.solvers.linear_dual.state import Epochs, EpochState, LinearSettings, weight_left
from fastsvm.sources import CSRBlock

__all__ = ["SparseEpochs"]


class SparseEpochs(Epochs[CSRBlock]):
    """Runs epochs on single sparse rows."""

    consecutive = False

    def __init__(self, problem: LinearProblem, dual: np.ndarray, settings: LinearSettings, pool: Pool) -> None:
        super().__init__(problem, dual, settings, pool)
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
        metric, state = path.metric, PassState(self.dual, np.zeros(len(active), np.uint8), path.gaps)
        view = SparseRows(
            unsigned(block), places, left, metric.damping, metric.scaling, self.constant, path.weights, path.mean
        )  # fmt: skip
        work = len(active) * self.n_scores * (1 + self.values_of_row)
        is_apart = work > PIECE_VALUES and not self.loss.of_classes

        def some(low: int, high: int) -> None:
            _take_passes(self.loss, self.demands, view, rows[active], together, state, (low, high))

        self.pool.run(some, class_bounds(self.n_scores, self.pool.n_threads if is_apart else 1))
        path.shrinking.update(rows[active], state.moved, path.turn, self.settings.tuning.longest_pause)


@jit
def _take_passes(loss, demands, view, rows, n_together, state, bounds):
    """Process rows in the scores within `bounds`, so many in one score before the next score."""
    for start in range(0, rows.size, n_together):
        stop = min(start + n_together, rows.size)
        some = SparseRows(
            view.block, view.places[start:stop], view.left[start:stop], view.damping, view.scaling, view.constant,
            view.weights, view.mean,
        )  # fmt: skip
        of_some = PassState(state.dual, state.moved[start:stop], state.gaps)
        take_pass(loss, demands, some, rows[start:stop], 1, of_some, bounds)


# --- the view of sparse rows -----------------------------------------------------------------------------


class SparseRows(NamedTuple):
    """Sparse rows at some `places` of a block, with the weights and their mean.

    `left` has the factors of `weight_left` for each. The others are as in `Metric` and `Epochs`.
    """

    block: CSRBlock
    places: np.ndarray
    left: np.ndarray
    damping: np.ndarray
    scaling: np.ndarray
    constant: float
    weights: np.ndarray
    mean: np.ndarray


@score_at.register(SparseRows)
def _score_at(view, t, c):
    (data, indices, indptr, _), scaling, constant = view.block, view.scaling, view.constant
    place, weights = view.places[t], view.weights[c]
    last = weights.size - 1
    score, square = constant * weights[last], constant**2 * scaling[last]
    for p in range(indptr[place], indptr[place + 1]):
        value, j = float(data[p]), indices[p]
        score += value * weights[j]
        square += value * value * scaling[j]
    return score, least_curvature(square * view.damping[c])


@step_at.register(SparseRows)
def _step_at(view, t, c, step):
    (data, indices, indptr, _), scaling, place = view.block, view.scaling, view.places[t]
    weights, mean = view.weights[c], view.mean[c]
    change = step * view.damping[c]
    last, share = weights.size - 1, change * view.left[t]
    for p in range(indptr[place], indptr[place + 1]):
        j = indices[p]
        value = float(data[p]) * scaling[j]
        weights[j] += change * value
        mean[j] += share * value
    weights[last] += change * view.constant * scaling[last]
    mean[last] += share * view.constant * scaling[last]
