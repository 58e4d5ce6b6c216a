"""Rows that exchange mass in pairs, those first that violate the optimality conditions most.

At the optimum, variables of rows with scores below the offset are at their bounds, and those above are 0. A round takes
the rows that are furthest from that on both sides. Of each pair, one variable grows by as much as the other shrinks,
which keeps their sum, up to the minimum of the dual objective (Chou, Lin and Lin 2020, algorithm 3).
"""

from typing import Any

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.row_products import is_readable
from fastsvm.linalg.sparse_products import readable
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.sources import Block, CSRBlock, DenseBlock

__all__ = ["exchange", "worst_pairs"]

Pairs = tuple[np.ndarray, np.ndarray]

_SHARE, _LEAST = 0.1, 1000  # pairs of a round: of the rows, and at least
_FEW = 1000  # exchanges of a round with fewer pairs, if each row of one side can meet others
_FEW_ROWS = 32


def worst_pairs(
    scores: np.ndarray, offset: float, dual: np.ndarray, costs: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows whose variables should grow, and as many that should shrink, the most urgent first."""
    grow = np.flatnonzero((scores < offset) & (dual < costs))
    shrink = np.flatnonzero((scores > offset) & (dual > 0))
    if min(len(grow), len(shrink)) < _FEW_ROWS:  # those that do not violate the conditions yet may have to move too
        grow, shrink = np.flatnonzero(dual < costs), np.flatnonzero(dual > 0)
        n = min(len(grow), len(shrink), _FEW_ROWS)
        return _first(grow, scores[grow], n), _first(shrink, -scores[shrink], n)
    n = min(len(grow), len(shrink), max(_LEAST, int(_SHARE * len(scores))), most)
    return _first(grow, scores[grow], n), _first(shrink, -scores[shrink], n)


def _first(rows: np.ndarray, keys: np.ndarray, n: int) -> np.ndarray:
    """Return the `n` rows with the smallest keys, in rising order."""
    if n < len(rows):
        some = np.argpartition(keys, n)[:n]
        rows, keys = rows[some], keys[some]
    return rows[np.argsort(keys)]


def exchange(
    problem: LinearProblem, pairs: tuple[np.ndarray, np.ndarray], dual: np.ndarray, weights: np.ndarray
) -> int:
    """Exchange mass within pairs of rows, whose variables should grow and shrink; return how many pairs changed.

    The variables `dual` and the weights Σ β_i x_i are modified. Rows that are not in memory as compiled code takes them
    are gathered first.
    """
    n, rows, costs = len(pairs[0]), np.concatenate(pairs), problem.demands.costs
    turns = max(1, min(n, _FEW // max(n, 1)))  # of few pairs: each row meets others
    if _is_at_hand(problem):
        return _exchange(problem.block, (rows, turns), costs, dual, weights)
    every, places = np.unique(rows, return_inverse=True)
    block: Block = problem.source.take(every).in_memory().block
    if not isinstance(block, CSRBlock):
        d = block.shape[1]
        block = DenseBlock(np.ascontiguousarray(problem.dense(block, d + 1)[:, :d]))
    some = dual[every]
    n_changed = _exchange(block, (places, turns), costs[every], some, weights)
    dual[every] = some
    return n_changed


def _is_at_hand(problem: LinearProblem) -> bool:
    """Return whether rows are in memory, in a form that compiled code takes."""
    source = problem.source
    if not source.resident or problem.scale.size:
        return False
    block: Any = problem.block
    return source.sparse or is_readable(block.values)


def _exchange(
    block: Block, plan: tuple[np.ndarray, int], costs: np.ndarray, dual: np.ndarray, weights: np.ndarray
) -> int:
    if isinstance(block, CSRBlock):
        block, places = readable(block, plan[0])
        return int(_exchange_sparse(block, places, plan, costs, dual, weights))
    return int(_exchange_dense(block.values, plan, costs, dual, weights))


@jit
def _exchange_dense(values, plan, costs, dual, weights):
    rows, turns = plan
    n, n_changed = rows.size // 2, 0
    for u in range(turns * n):
        i, j = rows[u % n], rows[n + (u + u // n) % n]
        difference, square = 0.0, 0.0
        for k in range(values.shape[1]):
            step = float(values[j, k]) - float(values[i, k])
            difference += weights[k] * step
            square += step * step
        more, less = _changes(difference, square, (i, j), costs, dual)
        if more != 0 or less != 0:
            n_changed += 1
            for k in range(values.shape[1]):
                weights[k] += more * float(values[i, k]) + less * float(values[j, k])
    return n_changed


@jit
def _exchange_sparse(block, places, plan, costs, dual, weights):
    rows, turns = plan
    data, indices, indptr = block.data, block.indices, block.indptr
    n, n_changed, first = rows.size // 2, 0, np.zeros(weights.size)
    for u in range(turns * n):
        t, other = u % n, n + (u + u // n) % n
        a, b = places[t], places[other]
        difference, square = 0.0, 0.0
        for p in range(indptr[a], indptr[a + 1]):
            value = float(data[p])
            first[indices[p]] += value
            difference -= weights[indices[p]] * value
        for p in range(indptr[b], indptr[b + 1]):
            value = float(data[p])
            difference += weights[indices[p]] * value
            square += value * (value - 2 * first[indices[p]])
        for p in range(indptr[a], indptr[a + 1]):
            square += float(data[p]) * first[indices[p]]
        for p in range(indptr[a], indptr[a + 1]):
            first[indices[p]] = 0.0
        more, less = _changes(difference, square, (rows[t], rows[other]), costs, dual)
        if more != 0 or less != 0:
            n_changed += 1
            for p in range(indptr[a], indptr[a + 1]):
                weights[indices[p]] += more * float(data[p])
            for p in range(indptr[b], indptr[b + 1]):
                weights[indices[p]] += less * float(data[p])
    return n_changed


@jit
def _changes(difference, square, pair, costs, dual):
    """Change the variables of a pair, whose scores differ by `difference`, and return both changes as they are stored.

    `square` is ‖x_i - x_j‖².
    """
    i, j = pair
    own, other = float(dual[i]), float(dual[j])
    if i == j or square <= 0:  # of a row and itself, rounding may leave more than 0
        return 0.0, 0.0
    step = min(difference / square, costs[i] - own, other)
    step = max(step, -own, other - costs[j])
    real = dual.dtype.type
    dual[i], dual[j] = real(own + step), real(other - step)
    return float(dual[i]) - own, float(dual[j]) - other
