"""Visits to the rows of a block, whose scores follow each other's steps through the products of the rows."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
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

__all__ = ["Books", "Slab", "sweep"]


class Slab(NamedTuple):
    """A block of rows.

    Attributes
    ----------
    gram : ndarray of shape (at least n_rows, at least n_rows)
        Their products with each other.
    order : ndarray of int64
        Places in the block of the rows that are visited.
    first, length : int
        Number of the first row, and number of rows.
    damping : ndarray of float64, shape (n_scores,)
        By which weights follow.
    n_sweeps : int
        How often rows are visited at most; from the second time on, those that the time before changed.
    """

    gram: np.ndarray
    order: np.ndarray
    first: int
    length: int
    damping: np.ndarray
    n_sweeps: int


class Books(NamedTuple):
    """What changes with the visits.

    Attributes
    ----------
    dual : ndarray of shape (n, n_scores)
        Dual variables of all rows.
    scores, changes : ndarray of shape (n_scores, at least n_rows)
        Of the rows of the block: scores, and what is added to their variables.
    moved : ndarray of uint8, shape (n_rows,)
        Set to 1 for rows whose variables change.
    gaps : ndarray of float64, shape (n_scores,)
        The gaps of the rows before their first visits are added, as `dual_steps.ascend` does.
    """

    dual: np.ndarray
    scores: np.ndarray
    changes: np.ndarray
    moved: np.ndarray
    gaps: np.ndarray


@generic
def sweep_rows(loss: Loss, demands: Demands, slab: Slab, books: Books, bounds: tuple[int, int]) -> None:
    """Do what `sweep` says."""


def _one_score_after_another(loss, demands, slab, books, bounds):
    dual, scores, changes, gram = books.dual, books.scores, books.changes, slab.gram
    real, active = changes.dtype.type, np.empty(slab.order.size, np.int64)
    for c in range(bounds[0], bounds[1]):
        damping, gaps, count = slab.damping[c], 0.0, slab.order.size
        active[:] = slab.order
        for k in range(slab.n_sweeps):
            kept = 0
            for t in range(count):
                place = active[t]
                row = slab.first + place
                target, cost = cost_of(demands, row, c)
                own, score = float(dual[row, c]), float(scores[c, place])
                if k == 0:
                    gaps += cost * loss_value(loss, score, target) + conjugate(loss, own, target, cost) + own * score
                curvature = least_curvature(float(gram[place, place]) * damping)
                change = real(coordinate_update(loss, own, score, target, cost, curvature)) - dual[row, c]
                if change == 0:
                    continue
                active[kept] = place
                kept += 1
                books.moved[place] = 1
                dual[row, c] += change
                changes[c, place] += change
                _follow(scores, c, real(change * damping), gram, place, slab.length)
            if kept == 0:
                break
            count = kept
        books.gaps[c] += gaps


def _all_scores_of_a_row(loss, demands, slab, books, bounds):
    dual, scores, changes, gram = books.dual, books.scores, books.changes, slab.gram
    low, high = bounds
    real, active, count = changes.dtype.type, slab.order.copy(), slab.order.size
    own, curvature, ignored = np.empty(high, dual.dtype), np.empty(high), np.empty(high)
    for k in range(slab.n_sweeps):
        kept = 0
        for t in range(count):
            place = active[t]
            row = slab.first + place
            for c in range(low, high):
                curvature[c] = float(gram[place, place]) * slab.damping[c]
            gaps = books.gaps if k == 0 else ignored
            if not update_of_classes(loss, demands, RowAt(dual, row, scores, place), curvature, own, gaps):
                continue
            active[kept] = place
            kept += 1
            books.moved[place] = 1
            for c in range(low, high):
                if own[c] != 0:
                    dual[row, c] += own[c]
                    changes[c, place] += own[c]
                    _follow(scores, c, real(own[c] * slab.damping[c]), gram, place, slab.length)
        if kept == 0:
            break
        count = kept


@jit
def _follow(scores, c, factor, gram, place, n):
    """Add to scores of the rows of a block what the change of one row's variable does to them."""
    for j in range(n):
        scores[c, j] += factor * gram[place, j]


sweep_rows.default(lambda kind: _all_scores_of_a_row if kind.of_classes else _one_score_after_another)


@jit
def sweep(loss: Loss, demands: Demands, slab: Slab, books: Books, bounds: tuple[int, int]) -> None:
    """Visit the rows of a block some times, in the scores from the first of `bounds` to before the last."""
    sweep_rows(loss, demands, slab, books, bounds)
