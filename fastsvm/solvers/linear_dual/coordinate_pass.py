"""A pass of dual coordinate ascent over some rows, whatever form they have.

A view of the rows says what their scores are, how fast these change with the variables, and what a change of a variable
changes: the scores of a block with its Gram matrix, or the weights of sparse rows. It is a NamedTuple, for whose class
`score_at` and `step_at` are compiled.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import generic, outlined
from fastsvm.losses import (
    Demands,
    Loss,
    RowAt,
    conjugate,
    coordinate_update,
    cost_of,
    loss_value,
    update_of_classes,
)

__all__ = ["PassState", "score_at", "step_at", "take_pass"]


class PassState(NamedTuple):
    """Arrays that a pass modifies.

    `dual` has the variables of all rows, shape (n, n_scores). `moved` is set to 1 for rows whose variables change. The
    duality gaps of the rows before the first sweep are added to `gaps`.
    """

    dual: np.ndarray
    moved: np.ndarray
    gaps: np.ndarray


@generic
def score_at(view: Any, t: int, c: int) -> tuple[float, float]:
    """Return score `c` of the row at `t` in the order of a view, and by how much it changes with the variable."""
    raise NotImplementedError


@generic
def step_at(view: Any, t: int, c: int, step: float) -> None:
    """Change what a view has by a step of the variable in score `c` of the row at `t`."""
    raise NotImplementedError


@generic
def _sweep(loss: Loss, demands: Demands, view: Any, rows: np.ndarray, n_sweeps: int, state: PassState, bounds: tuple):
    """Process rows; a body for each kind of loss."""


def _each_score(loss, demands, view, rows, n_sweeps, state, bounds):
    dual, active = state.dual, np.empty(rows.size, np.int64)
    real = dual.dtype.type
    for c in range(bounds[0], bounds[1]):
        gaps, count = 0.0, rows.size
        for t in range(count):
            active[t] = t
        for k in range(n_sweeps):
            n_changed = 0
            for s in range(count):
                t = active[s]
                row = rows[t]
                target, cost = cost_of(demands, row, c)
                if cost == 0:  # of a class that the score leaves out
                    continue
                score, curvature = score_at(view, t, c)
                own = float(dual[row, c])
                if k == 0:
                    gaps += cost * loss_value(loss, score, target) + conjugate(loss, own, target, cost) + own * score
                step = real(coordinate_update(loss, own, score, target, cost, curvature)) - dual[row, c]
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
        state.gaps[c] += gaps


def _all_scores(loss, demands, view, rows, n_sweeps, state, bounds):
    dual, active, count = state.dual, np.arange(rows.size), rows.size
    n_scores = dual.shape[1]
    scores, steps = np.empty((n_scores, 1)), np.empty(n_scores, dual.dtype)
    curvature, ignored = np.empty(n_scores), np.empty(n_scores)
    for k in range(n_sweeps):
        n_changed = 0
        for s in range(count):
            t = active[s]
            row = rows[t]
            for c in range(n_scores):
                scores[c, 0], curvature[c] = score_at(view, t, c)
            gaps = state.gaps if k == 0 else ignored
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


_sweep.default(lambda kind: _all_scores if kind.of_classes else _each_score)


@outlined
def take_pass(
    loss: Loss, demands: Demands, view: Any, rows: np.ndarray, n_sweeps: int, state: PassState, bounds: tuple
) -> None:
    """Process rows, in the order of a view, in the scores within `bounds`.

    There are at most `n_sweeps`; each one after the first processes the rows that the one before changed.
    """
    _sweep(loss, demands, view, rows, n_sweeps, state, bounds)
