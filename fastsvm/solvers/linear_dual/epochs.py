"""Epochs of dual coordinate ascent: what they begin with, a pass over some rows, and epochs over single sparse rows.

A view of the rows says what their scores are, how fast these change with the variables, and what a change of a variable
changes: the scores of a block with its Gram matrix (`dense_epochs`), or the weights of sparse rows. It is a NamedTuple,
for whose class `score_at` and `step_at` are compiled.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, cast

import numpy as np

from fastsvm._compiled.compiler import generic, jit
from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.sparse_products import CACHED_VALUES, readable, unsigned
from fastsvm.losses import (
    Demands,
    Loss,
    RowAt,
    coordinate_update,
    cost_of,
    least_curvature,
    update_of_classes,
)
from fastsvm.solvers.linear_dual.metric import Metric
from fastsvm.solvers.linear_dual.problem import PIECE_VALUES, LinearProblem, LinearSettings, class_bounds
from fastsvm.sources import CSRBlock, Window

_NEVER = np.iinfo(np.int32).max


@storable("linear dual shrinking")
class Shrinking(NamedTuple):
    """Shrinking: a row whose variables did not change is skipped once, then two and four times and so on.

    Unlike liblinear's shrinking, this needs no bounds on the gradient.
    `due` is the pass in which each row is processed next, `_NEVER` for rows of cost 0. `pause` is the number of passes
    for which the row was last skipped.
    """

    due: np.ndarray
    pause: np.ndarray

    @classmethod
    def of(cls, costs: np.ndarray) -> "Shrinking":
        """Return the state in which all rows of positive cost are active."""
        return cls(np.where(costs > 0, 0, _NEVER).astype(np.int32), np.zeros(len(costs), np.uint8))

    def is_active(self, rows: np.ndarray, turn: int) -> np.ndarray:
        """Return which of some rows are processed in the pass `turn`."""
        return self.due[rows] <= turn

    def update(self, rows: np.ndarray, moved: np.ndarray, turn: int, longest_pause: int) -> None:
        """Skip processed rows that did not change for twice as many passes as before; reset the others."""
        pause = np.where(moved, 0, np.clip(2 * self.pause[rows], 1, longest_pause)).astype(np.uint8)
        self.pause[rows] = pause
        self.due[rows] = pause.astype(np.int32) + (turn + 1)


@storable("linear dual epoch")
class EpochState(NamedTuple):
    """Weights within an epoch; arrays are modified in place.

    They have the shape (n_scores, n_weights): weights of the features, zero padding, and the weight of the constant
    feature.
    """

    weights: np.ndarray
    mean: np.ndarray  # It is the weighted mean of the weights over the epoch, if they did not change until its end.
    position: np.ndarray  # It is Σ β_i x_i; for sparse rows, its value at the beginning of the epoch.
    anchor_term: np.ndarray  # It is M V, so that (I + M) W = Σ β_i x_i + M V.
    metric: Metric  # It is M of the proximal term.
    shrinking: Shrinking
    turn: int  # So many passes over the rows came before this one.
    seen: float = 0.0  # So many rows were processed in this epoch.
    row_share: float = 1.0  # One pass counts for this share of a row.


class Epochs(ABC):
    """Runs epochs of coordinate updates, on windows of rows of a problem.

    The dual variables, shape (n, n_scores), are modified. If `consecutive`, windows must be runs of consecutive rows,
    in order.
    """

    consecutive: bool

    def __init__(self, problem: LinearProblem, dual: np.ndarray, settings: LinearSettings, pool: Pool) -> None:
        self.settings, self.constant, self.values_of_row = settings, problem.constant, problem.source.values_per_row
        self.take(problem, dual, pool)

    def take(self, problem: LinearProblem, dual: np.ndarray, pool: Pool) -> None:
        """Go on with other dual variables, perhaps of other scores of the same rows."""
        self.loss, self.demands, self.dual, self.pool = problem.loss, problem.demands, dual, pool
        self.n_scores = dual.shape[1]

    @abstractmethod
    def begin(self, path: EpochState) -> None:
        """Start from the weights of an epoch state, at the beginning of an epoch or within one."""

    @abstractmethod
    def end(self, path: EpochState) -> None:
        """Update Σ β_i x_i in the epoch state, at the end of an epoch."""

    @abstractmethod
    def process(self, window: Window, path: EpochState, seed: tuple[int, ...]) -> None:
        """Update the variables of the rows of a window."""


def weight_left(done: np.ndarray) -> np.ndarray:
    """Return the factor of a change of the weights in their mean, when the share `done` of the epoch is over.

    The mean weights iterates in proportion to their time in the epoch (Lacoste-Julien, Schmidt and Bach 2012, A simpler
    approach to obtaining an O(1/t) convergence rate for the projected stochastic subgradient method).
    """
    return 1.0 - done**2


# --- a pass -------------------------------------------------------------------------------------------------


class PassState(NamedTuple):
    """Arrays that a pass modifies.

    `dual` has the variables of all rows, shape (n, n_scores). `moved` is set to 1 for rows whose variables change.
    """

    dual: np.ndarray
    moved: np.ndarray


@generic
def score_at(view: Any, t: int, c: int) -> tuple[float, float]:
    """Return score `c` of the row at `t` in the order of a view, and by how much it changes with the variable."""
    raise NotImplementedError


@generic
def step_at(view: Any, t: int, c: int, step: float) -> None:
    """Change what a view has by a step of the variable in score `c` of the row at `t`."""
    raise NotImplementedError


@generic
def take_pass(
    loss: Loss, demands: Demands, view: Any, rows: np.ndarray, span: tuple, state: PassState, bounds: tuple
) -> None:
    """Process rows, in the order of a view, in the scores within `bounds`; a body for each kind of loss.

    `span` is the first row, the one after the last, and the most sweeps; each sweep after the first processes the rows
    that the one before changed.
    """


def _each_score(loss, demands, view, rows, span, state, bounds):
    dual, active = state.dual, np.empty(span[1] - span[0], np.int64)
    real = dual.dtype.type
    for c in range(bounds[0], bounds[1]):
        count = active.size
        for s in range(count):
            active[s] = span[0] + s
        for _ in range(span[2]):
            n_changed = 0
            for s in range(count):
                t = active[s]
                row = rows[t]
                target, cost = cost_of(demands, row, c)
                if cost == 0:  # of a class that the score leaves out
                    continue
                score, curvature = score_at(view, t, c)
                new = coordinate_update(loss, float(dual[row, c]), score, target, cost, curvature)
                step = real(new) - dual[row, c]
                if step == 0:
                    continue
                active[n_changed] = t
                n_changed += 1
                state.moved[t] = 1
                dual[row, c] += step
                step_at(view, t, c, step)
            if n_changed == 0:
                break
            count = n_changed


def _all_scores(loss, demands, view, rows, span, state, bounds):
    dual, active, count = state.dual, np.arange(span[0], span[1]), span[1] - span[0]
    n_scores = dual.shape[1]
    scores, steps = np.empty((n_scores, 1)), np.empty(n_scores, dual.dtype)
    curvature, gaps = np.empty(n_scores), np.empty(n_scores)
    for _ in range(span[2]):
        n_changed = 0
        for s in range(count):
            t = active[s]
            row = rows[t]
            for c in range(n_scores):
                scores[c, 0], curvature[c] = score_at(view, t, c)
            if not update_of_classes(loss, demands, RowAt(dual, row, scores, 0), curvature, steps, gaps):
                continue
            active[n_changed] = t
            n_changed += 1
            state.moved[t] = 1
            for c in range(n_scores):
                if steps[c] != 0:
                    dual[row, c] += steps[c]
                    step_at(view, t, c, steps[c])
        if n_changed == 0:
            break
        count = n_changed


take_pass.default(lambda kind: _all_scores if kind.of_classes else _each_score)


# --- sparse rows ------------------------------------------------------------------------------------------


class SparseEpochs(Epochs):
    """Runs epochs on single sparse rows."""

    consecutive = False

    def begin(self, path: EpochState) -> None:
        """Do nothing: the weights are modified in place."""

    def end(self, path: EpochState) -> None:
        """Compute Σ β_i x_i from the weights."""
        path.position[:] = path.weights / (path.metric.damping[:, None] * path.metric.scaling) - path.anchor_term

    def process(self, window: Window, path: EpochState, seed: tuple[int, ...]) -> None:
        """Update the variables of the rows of a window, one by one."""
        rows = window.rows
        active = np.flatnonzero(path.shrinking.is_active(rows, path.turn))
        left = weight_left((path.seen + path.row_share * active) / len(self.dual))
        block, places = readable(cast(CSRBlock, window.block), window.places[active])
        together = max(1, int(CACHED_VALUES / (1 + self.values_of_row)))
        metric, state = path.metric, PassState(self.dual, np.zeros(len(active), np.uint8))
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
        span = start, min(start + n_together, rows.size), np.int64(1)
        take_pass(loss, demands, view, rows, span, state, bounds)


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
