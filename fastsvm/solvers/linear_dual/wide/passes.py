"""Passes of dual coordinate ascent over the sparse rows that matter, in one score.

A row is left out for the rest of the passes if no score near its own would change its variable. "Near" is the largest
violation of the pass before, as in LIBLINEAR's shrinking (Hsieh et al. 2008, section 3.2); here the exact update is
asked, so that no loss needs a rule of its own.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm.linalg.single_rows import add_row, row_score, sq_norm
from fastsvm.losses import (
    conjugate,
    coordinate_update,
    least_curvature,
    loss_value,
    nearly,
    projected_gradient,
    write_costs,
)

__all__ = ["COLUMNS", "PassPlan", "take_passes", "write_squares"]

COLUMNS = ("primal", "dual", "changed")
"""What `take_passes` finds of a score: both objectives before its passes, and whether these changed a variable."""

_LESS = 0.1  # of the gap: passes end when the rows that are left have no more
_NEAR, _LEAST_OF_PASS = 1e-4, 16  # near the optimum passes count by their rows, and a share of all
_HALF = 0.5  # of the gap that is asked
_FACTOR, _INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # of a congruential generator


class PassPlan(NamedTuple):
    """Where passes are taken, and when they end."""

    tol: float  # A score with this relative gap needs none.
    by_violation: bool  # If so, `tol` bounds the largest violation instead.
    n_passes: int  # There are at most so many; near the optimum as many over the rows that are left as take that time.
    seed: int = 0  # It decides the order of rows.
    score: int = 0  # It is the number of the score.


@jit
def write_squares(block, constant, out):
    """Write the squared lengths of rows, with the constant feature."""
    for i in range(out.size):
        out[i] = constant**2 + sq_norm(block, i)


@jit
def take_passes(loss, demands, rows, scores, plan, state, found):
    """Take passes in one score, unless it is within tolerance, and write `COLUMNS` to `found`.

    `rows` are a CSRBlock of a type that compiled functions take; the squared lengths, as `write_squares` writes them;
    and the value of the constant feature. `scores` are the products of the rows with the weights. `state` is modified:
    variables β, shape (n, n_scores); Σ β_i x_i, shape (n_scores, n_weights); and the weights and the primal objectives
    of the lowest objectives so far.
    """
    (block, squares, constant), (dual, position, best, lowest), c = rows, state, plan.score
    n, weights, active, size = squares.size, position[c], np.empty(squares.size, np.int64), 0.0
    for k in range(weights.size):
        size += weights[k] * weights[k] / 2
    losses, conjugates, violation, near = 0.0, 0.0, 0.0, 0.0
    targets, costs = np.empty(n), np.empty(n)
    write_costs(demands, 0, c, targets, costs)
    for i in range(n):
        target, cost = targets[i], costs[i]
        if cost > 0:
            own, score = float(dual[i, c]), scores[i]
            losses += cost * loss_value(loss, score, target)
            conjugates += conjugate(loss, own, target, cost)
            new = coordinate_update(loss, own, score, target, cost, least_curvature(squares[i]))
            near = max(near, abs(new - own) * squares[i])
            if plan.by_violation:
                violation = max(violation, projected_gradient(loss, own, score, target, nearly(cost, dual)))
    gap, value = losses + conjugates + 2 * size, -conjugates - size
    found[0], found[1], found[2] = losses + size, value, 0.0
    if losses + size < lowest[c]:
        lowest[c] = losses + size
        for k in range(weights.size):  # assigning the whole row would take two seconds more to compile
            best[c, k] = weights[k]
    if (violation <= plan.tol) if plan.by_violation else (gap <= plan.tol * (losses + size)):
        return
    m = 0
    for i in range(n):
        target, cost = targets[i], costs[i]
        if cost > 0 and not _is_idle(loss, dual, (i, c), scores[i], (target, cost, squares[i]), near):
            active[m] = i
            m += 1
    random = np.uint64(plan.seed) * _FACTOR + np.uint64(c)
    whole, left = gap > _NEAR * (losses + size), plan.n_passes * n
    while left > 0 and m > 0:
        left -= n if whole else m + n // _LEAST_OF_PASS
        for u in range(m - 1, 0, -1):
            random = random * _FACTOR + _INCREMENT
            other = np.int64((random >> np.uint64(33)) % np.uint64(u + 1))
            active[u], active[other] = active[other], active[u]
        excess, worst, t = 0.0, 0.0, 0
        while t < m:
            i = active[t]
            target, cost = targets[i], costs[i]
            own, score = float(dual[i, c]), constant * weights[weights.size - 1] + row_score(block, i, weights)
            before = conjugate(loss, own, target, cost)
            excess += cost * loss_value(loss, score, target) + before + own * score
            new = coordinate_update(loss, own, score, target, cost, least_curvature(squares[i]))
            change = float(dual.dtype.type(new)) - own
            if change == 0:
                if _is_idle(loss, dual, (i, c), score, (target, cost, squares[i]), near):
                    m -= 1
                    active[t], active[m] = active[m], i
                    continue
            else:
                found[2] = 1.0
                dual[i, c] = new
                worst = max(worst, abs(change) * squares[i])
                value -= conjugate(loss, new, target, cost) - before + change * (score + change * squares[i] / 2)
                add_row(block, i, change, weights)
                weights[weights.size - 1] += change * constant
            t += 1
        near = worst
        if excess <= max(_LESS * gap, 0.0 if plan.by_violation else _HALF * plan.tol * value) or worst == 0:
            return


@outlined
def _is_idle(loss, dual, place, score, asked, near):
    """Return whether no score within `near` of a row's would change its variable."""
    target, cost, square = asked
    own, curvature, real = dual[place], least_curvature(square), dual.dtype.type
    above = coordinate_update(loss, float(own), score + near, target, cost, curvature)
    below = coordinate_update(loss, float(own), score - near, target, cost, curvature)
    return real(above) == own and real(below) == own
