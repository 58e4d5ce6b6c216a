"""Sweeps of coordinate updates over the rows of a block; the Gram matrix updates the scores after each."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.generic import generic
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

__all__ = ["GramBlock", "SweepState", "sweep"]


class GramBlock(NamedTuple):
    """A block of consecutive rows and its Gram matrix, which may be larger.

    `order` has the places in the block of the rows to process, in order. `first` is the index of the first row, and
    `length` the number of rows. A change of Σ β_i x_i changes the weights by the factor `damping` of each score. There
    are at most `n_sweeps`; each one after the first processes the rows that the one before changed.
    """

    gram: np.ndarray
    order: np.ndarray
    first: int
    length: int
    damping: np.ndarray
    n_sweeps: int


class SweepState(NamedTuple):
    """Arrays that a sweep modifies.

    `dual` has the variables of all rows, shape (n, n_scores). `scores` and `changes` are of the rows of the block,
    shape (n_scores, at least n_rows). `moved` is set to 1 for rows whose variables change. The duality gaps of the rows
    before the first sweep are added to `gaps`.
    """

    dual: np.ndarray
    scores: np.ndarray
    changes: np.ndarray
    moved: np.ndarray
    gaps: np.ndarray


@generic
def sweep_rows(loss: Loss, demands: Demands, block: GramBlock, state: SweepState, bounds: tuple[int, int]) -> None:
    """Process the rows of a block; a body for each kind of loss."""


def _each_score(loss, demands, block, state, bounds):
    dual, scores, changes, gram = state.dual, state.scores, state.changes, block.gram
    real, active = changes.dtype.type, np.empty(block.order.size, np.int64)
    for c in range(bounds[0], bounds[1]):
        damping, gaps, count = block.damping[c], 0.0, block.order.size
        for t in range(count):  # an assignment of arrays would compile an error message, for a second
            active[t] = block.order[t]
        for k in range(block.n_sweeps):
            n_changed = 0
            for t in range(count):
                place = active[t]
                row = block.first + place
                target, cost = cost_of(demands, row, c)
                if cost == 0:  # of a class that the score leaves out
                    continue
                own, score = float(dual[row, c]), float(scores[c, place])
                if k == 0:
                    gaps += cost * loss_value(loss, score, target) + conjugate(loss, own, target, cost) + own * score
                curvature = least_curvature(float(gram[place, place]) * damping)
                change = real(coordinate_update(loss, own, score, target, cost, curvature)) - dual[row, c]
                if change == 0:
                    continue
                active[n_changed] = place
                n_changed += 1
                state.moved[place] = 1
                dual[row, c] += change
                changes[c, place] += change
                _update_scores(scores, c, real(change * damping), gram, place, block.length)
            if n_changed == 0:
                break
            count = n_changed
        state.gaps[c] += gaps


def _all_scores(loss, demands, block, state, bounds):
    dual, scores, changes, gram = state.dual, state.scores, state.changes, block.gram
    low, high = bounds
    real, active, count = changes.dtype.type, block.order.copy(), block.order.size
    own, curvature, ignored = np.empty(high, dual.dtype), np.empty(high), np.empty(high)
    for k in range(block.n_sweeps):
        n_changed = 0
        for t in range(count):
            place = active[t]
            row = block.first + place
            for c in range(low, high):
                curvature[c] = float(gram[place, place]) * block.damping[c]
            gaps = state.gaps if k == 0 else ignored
            if not update_of_classes(loss, demands, RowAt(dual, row, scores, place), curvature, own, gaps):
                continue
            active[n_changed] = place
            n_changed += 1
            state.moved[place] = 1
            for c in range(low, high):
                if own[c] != 0:
                    dual[row, c] += own[c]
                    changes[c, place] += own[c]
                    _update_scores(scores, c, real(own[c] * block.damping[c]), gram, place, block.length)
        if n_changed == 0:
            break
        count = n_changed


@jit
def _update_scores(scores, c, factor, gram, place, n):
    """Update the scores of a block after a change of the variable of the row at `place`."""
    for j in range(n):
        scores[c, j] += factor * gram[place, j]


sweep_rows.default(lambda kind: _all_scores if kind.of_classes else _each_score)


@outlined
def sweep(loss: Loss, demands: Demands, block: GramBlock, state: SweepState, bounds: tuple[int, int]) -> None:
    """Sweep over the rows of a block, in the scores within `bounds`."""
    sweep_rows(loss, demands, block, state, bounds)
