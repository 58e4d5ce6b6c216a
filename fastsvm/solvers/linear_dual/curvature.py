"""The metric of the proximal term, estimated from a sample of the rows and their costs."""

from collections.abc import Generator
from typing import cast

import numpy as np

from fastsvm.linalg.linear_predictor import product_type
from fastsvm.solvers.linear_dual.problem import LinearProblem, explain
from fastsvm.solvers.linear_dual.proximal_metric import Metric, diagonal, principal
from fastsvm.sources import CSRBlock, Window

__all__ = ["mean_square", "metric_of"]

_DIRECTIONS, _STREAMED_DIRECTIONS = 16, 4  # without cached Gram matrices each costs as much as a score
_SAMPLED_ROWS, _SAMPLED_BLOCKS = 256, 16
_SPARSE_VALUES = 1 << 17  # at a time
_ONE_CLASS = 0.25  # cost times ‖x‖² of the constant feature, for a machine of one class, whose costs have no scale
_LONG = 4  # times the median of ‖x‖²: the norms of longer rows, whose variables are small, are clipped to this


def metric_of(problem: LinearProblem, width: int) -> Metric:
    """Return the metric for rows with `width` weights."""
    costs, source = _mean_costs(problem), problem.source
    if problem.total is not None:
        costs = np.full(1, _ONE_CLASS / problem.constant**2)
    if source.sparse:
        return diagonal(costs, _mean_squares(problem, width))
    most = _DIRECTIONS if source.resident else _STREAMED_DIRECTIONS
    return principal(costs, _sampled(problem, width), most, np.finfo(product_type(source.dtype)).eps)


def mean_square(problem: LinearProblem) -> float:
    """Return the mean ‖x‖², the constant feature included; long rows are shortened."""
    width = problem.source.shape[1] + 1
    if problem.source.sparse:
        return float(_mean_squares(problem, width).sum())
    rows = _sampled(problem, width)
    return float(np.vdot(rows, rows)) / len(rows)


def _mean_costs(problem: LinearProblem) -> np.ndarray:
    """Return the mean cost of a row in each score."""
    demands = problem.demands
    used = demands.costs > 0
    costs = np.full(problem.n_scores, demands.costs[used].mean())
    if len(costs) > 1 and not problem.loss.of_classes:
        counts = np.bincount(demands.targets[used].astype(np.int64), demands.costs[used], len(costs))
        costs += (demands.balance - 1) * counts / used.sum()
    return costs


def _shortening(squares: np.ndarray) -> np.ndarray:
    """Return the factors that clip ‖x‖² to `_LONG` times its median."""
    limit = _LONG * np.median(squares)
    longer, found = squares > limit, np.ones(len(squares))
    found[longer] = limit / squares[longer]
    return found


def _sampled(problem: LinearProblem, width: int) -> np.ndarray:
    """Return a sample of the rows with the constant feature; long rows are shortened."""
    parts = []
    for window in _sample(problem):
        with np.errstate(all="ignore"):
            rows = problem.dense(window.block, width)
            finite = np.isfinite(np.vdot(rows, rows))
        if not finite:
            explain(window)
        parts.append(rows)
    rows = np.concatenate(parts)
    return rows * np.sqrt(_shortening(np.einsum("ij,ij->i", rows, rows)))[:, None]


def _mean_squares(problem: LinearProblem, width: int) -> np.ndarray:
    """Return the mean square of each sparse feature; long rows are shortened."""
    total, count = np.zeros(width), 0
    for window in _pieces(problem):
        block = cast(CSRBlock, window.block)
        with np.errstate(all="ignore"):
            squares = block.data.astype(np.float64) ** 2
            if not np.isfinite(squares.sum()):
                explain(window)
        indptr, d = block.indptr, block.n_features
        squares *= np.repeat(_shortening(_sums(squares, indptr)), np.diff(indptr))
        total[:d] += np.bincount(block.indices, squares, d)
        count += len(window.rows)
    total /= count
    total[-1] = problem.constant**2
    return total


def _sums(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the sum of each row's values."""
    filled = np.diff(indptr) > 0
    found = np.zeros(len(filled))
    if filled.any():
        found[filled] = np.add.reduceat(values, indptr[:-1][filled])
    return found


def _sample(problem: LinearProblem) -> Generator[Window, None, None]:
    """Yield a sample of the rows with positive cost; of all rows if they are on disk."""
    source, n = problem.source, len(problem.source)
    if source.resident:
        used = np.flatnonzero(problem.demands.costs)
        rows = used[np.unique(np.linspace(0, len(used) - 1, min(len(used), _SAMPLED_ROWS)).astype(np.int64))]
        yield Window(source.rows(rows), np.arange(len(rows)), rows)
        return
    for start in np.unique(np.linspace(0, n - 1, _SAMPLED_BLOCKS).astype(np.int64)):
        rows = np.arange(start, min(n, start + _SAMPLED_ROWS // _SAMPLED_BLOCKS))
        yield Window(source.read(rows[0], rows[-1] + 1), np.arange(len(rows)), rows)


def _pieces(problem: LinearProblem) -> Generator[Window, None, None]:
    """Yield all sparse rows in memory in pieces, or a sample of those on disk."""
    if not problem.source.resident:
        yield from _sample(problem)
        return
    n = len(problem.source)
    n_rows = max(1, _SPARSE_VALUES * n // max(1, len(problem.block.stored)))
    for start in range(0, n, n_rows):
        rows = np.arange(start, min(start + n_rows, n))
        yield Window(problem.block.slice(rows[0], rows[-1] + 1), np.arange(len(rows)), rows)
