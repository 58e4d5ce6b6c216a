"""The problem of a linear machine: scores, objectives and optimality conditions, by a pass over the rows."""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.dense_products import add_products, readable_rows, write_products
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.linalg.sparse_products import add_sparse, readable, unsigned, write_sparse
from fastsvm.losses import Demands, Loss, dual_losses, feasible, primal_losses, violation_of
from fastsvm.sources import Block, CSRBlock, DenseBlock, MemorySource, Source, Window, check_finite

__all__ = [
    "ACCEPTED",
    "OVERFLOW",
    "PANEL",
    "PARTS",
    "PIECE_ROWS",
    "PIECE_VALUES",
    "ROUNDING",
    "Certificate",
    "CertificateSums",
    "GivenSum",
    "LinearProblem",
    "all_scores",
    "certificate_of",
    "certify",
    "class_bounds",
    "combination",
    "explain",
    "primal_of",
    "rows_of_piece",
    "sums_of",
]


class GivenSum(NamedTuple):
    """The constraint Σ β_i = total, 0 ≤ β_i ≤ c_i, with the costs c; the total is at most their sum."""

    costs: np.ndarray
    total: float

    @property
    def _ends(self) -> np.ndarray:
        """Bounds of the total as sums of costs are rounded."""
        rounding = len(self.costs) * np.finfo(np.float64).eps
        return np.array([1 - rounding, 1 + rounding]) * self.total

    def corrected(self, dual: np.ndarray) -> np.ndarray:
        """Return feasible variables near others, which are within their bounds; shape (n,).

        Variables whose sum is too large are diminished in proportion. Others are moved towards the costs; those that
        are 0 stay so if the others suffice.
        """
        lack = self.total - float(dual.sum(dtype=np.float64))
        if lack <= 0:
            return self.total / (self.total - lack) * dual
        room = self.costs - dual
        of_used = np.where(dual > 0, room, 0.0)
        room = of_used if of_used.sum() >= lack else room
        most = float(room.sum())
        return dual + (lack / most if most > 0 else 0.0) * room

    def offset(self, scores: np.ndarray) -> float:
        """Return the offset ρ that minimises -total ρ + Σ c_i max(0, ρ - s_i), a weighted quantile of the scores.

        Where each offset between two scores is such, it is the middle, as in LIBSVM.
        """
        least = self.costs.min()
        if least == self.costs.max():  # no order is needed
            places = np.clip(np.ceil(self._ends / least).astype(np.int64) - 1, 0, len(scores) - 1)
            low, high = np.partition(scores, places)[places]
            return float(low + (high - low) / 2)
        order = np.argsort(scores)
        order = order[self.costs[order] > 0]
        sums = np.cumsum(self.costs[order])
        low, high = np.searchsorted(sums, self._ends)
        low, high = scores[order[np.minimum((low, high), len(order) - 1)]]
        return float(low + (high - low) / 2)

    def losses(self, scores: np.ndarray, offset: float) -> float:
        """Return -total ρ + Σ c_i max(0, ρ - s_i)."""
        return float(self.costs @ np.maximum(0.0, offset - scores)) - self.total * offset


# --- the problem -----------------------------------------------------------------------------------------

ROUNDING = 512 * float(np.finfo(np.float64).eps)
"""Sums over many rows in float64 have a relative error of some hundred units of rounding."""

ACCEPTED = 0.25
"""A step is accepted where the slope along it is at most this share of the first slope (Nocedal and Wright, section
3.1, curvature condition). Exact searches are not worth their time."""

PIECE_VALUES = 1 << 17
"""A piece of work of so many multiplications takes longer than to hand it to a thread."""

PIECE_ROWS = 8192
"""A piece of work has at most so many rows, so that what is computed of a row stays in the processor's cache."""

PANEL = 128
"""A piece of a product of matrices has so many rows or columns, which BLAS multiplies as fast as more."""

PARTS = 8
"""Threads share sums over sparse rows in at most so many parts, each of which has a sum of its own."""

OVERFLOW = (
    "Products of the rows overflow: their values are too large. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler or standardize=True. Or lower C, the sample weights or the targets, if these "
    "are as large."
)
"""Message of the error that weights are not finite."""


class LinearProblem(NamedTuple):
    """Rows, loss, targets and costs of a linear machine.

    Rows are as stored; a resident source is a `MemorySource`. Values x are mapped to (x - shift) scale, unless both are
    empty. Sparse rows are scaled by their source. `constant` is the value of the constant feature; 0 for no intercept.

    `total` is the sum of the dual variables of the one score, or None. The weight b of the constant feature is then not
    penalised, and `total` constant b is added to the objective.
    """

    source: Source
    shift: np.ndarray
    scale: np.ndarray
    loss: Loss
    demands: Demands
    constant: float
    total: float | None = None

    @property
    def block(self) -> Block:
        """All rows, of a source in memory."""
        return cast(MemorySource, self.source).block

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return len(self.demands.balance)

    def by_problem(self, of_scores: np.ndarray) -> np.ndarray:
        """Return sums over the scores of each problem: one for a loss of all classes, otherwise one a score."""
        return of_scores.sum(keepdims=True) if self.loss.of_classes else of_scores

    def penalty(self, weights: np.ndarray) -> np.ndarray:
        """Return the objective less the losses, for each problem."""
        if self.total is None:
            return self.by_problem(0.5 * np.einsum("cj,cj->c", weights, weights))
        inner = weights[:, :-1]
        return 0.5 * np.einsum("cj,cj->c", inner, inner) + self.total * self.constant * weights[:, -1]

    def dense(self, block: Block, width: int) -> np.ndarray:
        """Return the mapped rows in float64, padded to `width` columns with the constant feature last."""
        rows = block.dense(np.float64)
        found = np.zeros((len(rows), width))
        found[:, : rows.shape[1]] = (rows - self.shift) * self.scale if self.scale.size else rows
        found[:, -1] = self.constant
        return found

    def with_constant(self) -> Block:
        """Return all rows, of a source in memory, in float64 as they are stored, with the constant feature last."""
        block, width = self.block, self.source.shape[1] + 1
        if not isinstance(block, CSRBlock):
            return DenseBlock(self.dense(block, width))
        n, ends = len(block.indptr) - 1, block.indptr[1:]
        data = np.insert(block.data.astype(np.float64, copy=False), ends, self.constant)
        indices = np.insert(block.indices, ends, width - 1)
        return CSRBlock(data, indices, block.indptr + np.arange(n + 1), width).compressed(np.float64)

    def windows_in_memory(self, size: int) -> Generator[Window, None, None]:
        """Yield all rows of a source in memory, in windows of at most `size` rows."""
        source, every = self.source, np.arange(len(self.source))
        for start in range(0, len(source), size):
            rows = every[start : start + size]
            yield Window(self.block, rows, rows)


def explain(window: Window) -> None:
    """Raise the error for a result that is not finite: a bad value of a row of the window, or overflow."""
    for place, row in zip(window.places, window.rows, strict=True):
        check_finite(window.block.slice(place, place + 1), row)
    raise ValueError(OVERFLOW)


# --- certificates ----------------------------------------------------------------------------------------


class Certificate(NamedTuple):
    """Objectives of each problem, and the largest violation of the dual optimality conditions, in units of the scores.

    `primal` has a dimension before that of the problems for several weights.
    """

    primal: np.ndarray
    dual: np.ndarray
    violation: float


class CertificateSums(NamedTuple):
    """Sums over rows of which a certificate is made.

    `losses`, shape (n_weights, n_scores), are those of each of some weights. `conjugates` are Σ c ℓ*(-β / c) of each
    score. `position`, shape (n_scores, n_features + 1), is Σ β_i x_i. `violation` is the largest one.
    """

    losses: np.ndarray
    conjugates: np.ndarray
    violation: float
    position: np.ndarray


def primal_of(problem: LinearProblem, weights: np.ndarray, window: Window, pool: Pool, losses: np.ndarray) -> None:
    """Add the losses of a window to `losses`, per score; a loss of all classes adds to the first."""

    def some(a: int, b: int) -> np.ndarray:
        places, rows = window.places[a:b], window.rows[a:b]
        scores = _scores(problem, window.block, places, weights)
        if not np.isfinite(scores).all():
            for place, row in zip(places, rows, strict=True):
                check_finite(window.block.slice(place, place + 1), row)
        out = np.zeros(len(weights))
        primal_losses(problem.loss, problem.demands.of_rows(rows), 0, scores, out)
        return out

    for part in _in_order(pool, some, len(window.rows), _piece_of(window.block)):
        losses += part


def _in_order(pool: Pool, function: Callable[[int, int], Any], n: int, size: int) -> Iterator[Any]:
    """Yield the results of a function on pieces of n rows, in the order of the rows for any number of threads."""
    found: list[tuple[int, Any]] = []
    pool.run(lambda a, b: found.append((a, function(a, b))), spans(n, size))
    for _, part in sorted(found, key=lambda each: each[0]):
        yield part


def certify(
    problem: LinearProblem, weights: Sequence[np.ndarray], dual: np.ndarray, position: np.ndarray, pool: Pool
) -> Certificate:
    """Return the primal objectives of some weights, the dual objective of the variables, and the violation.

    The dual objective is that of the variables nearest to `dual`, β of shape (n, n_scores), that are feasible in
    float64, since rounding to float32 may violate a bound. The optimality conditions are checked at the weights
    `position`, Σ β_i x_i as the solver updates it; the dual objective uses a sum that is computed anew.
    """
    return certificate_of(problem, weights, sums_of(problem, weights, dual, position, pool))


def certificate_of(problem: LinearProblem, weights: Sequence[np.ndarray], sums: CertificateSums) -> Certificate:
    """Return the certificate of weights and dual variables with some sums over all rows."""
    primal = np.array([
        problem.by_problem(own + 0.5 * np.einsum("cj,cj->c", each, each))
        for own, each in zip(sums.losses, weights, strict=True)
    ])  # fmt: skip
    value = -problem.by_problem(sums.conjugates + 0.5 * np.einsum("cj,cj->c", sums.position, sums.position))
    return Certificate(primal, np.maximum(value, 0.0), sums.violation)  # losses are not negative: 0 is a bound too


def sums_of(
    problem: LinearProblem, weights: Sequence[np.ndarray], dual: np.ndarray, position: np.ndarray, pool: Pool
) -> CertificateSums:
    """Return the sums over the rows that a certificate needs; the arguments are those of `certify`."""
    every, k = np.concatenate([*weights, position]), len(position)
    losses, conjugates, worst = np.zeros((len(weights), k)), np.zeros(k), 0.0
    exact_position = np.zeros((k, problem.source.shape[1] + 1))
    for start, block in problem.source.blocks():

        def some(a: int, b: int, block: Block = block, start: int = start) -> tuple:
            return _evaluated(problem, block.slice(a, b), slice(start + a, start + b), every, dual)

        for part, value, violation in _in_order(pool, some, block.shape[0], _piece_of(block)):
            losses += part
            conjugates += value
            worst = max(worst, violation)
        _combine(problem, block, start, dual, pool, exact_position)
    return CertificateSums(losses, conjugates, worst, exact_position)


def _evaluated(
    problem: LinearProblem, block: Block, rows: slice, every: np.ndarray, dual: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the losses, conjugates and largest violation of some rows; `every` ends with the position."""
    k, demands = dual.shape[1], problem.demands.of_rows(rows)
    scores = _exact_scores(problem, block, every)
    losses, conjugates = np.zeros((len(every) // k - 1, k)), np.zeros(k)
    for own, first in zip(losses, range(0, len(every), k), strict=False):
        primal_losses(problem.loss, demands, 0, scores[first : first + k], own)
    dual_losses(problem.loss, demands, feasible(problem.loss, demands, dual[rows].astype(np.float64)), conjugates)
    return losses, conjugates, violation_of(problem.loss, demands, 0, dual[rows], scores[-k:])


# --- sums ------------------------------------------------------------------------------------------------


def rows_of_piece(values_of_row: float) -> int:
    """Return the number of rows of a piece of work, each with so many multiplications."""
    return int(np.clip(PIECE_VALUES / max(1.0, values_of_row), PIECE_ROWS / PARTS, PIECE_ROWS))


def _piece_of(block: Block) -> int:
    """Return the number of rows of a piece of work on the rows of a block."""
    return rows_of_piece(block.stored.size / max(1, block.shape[0]))


def combination(problem: LinearProblem, dual: np.ndarray, pool: Pool) -> np.ndarray:
    """Return Σ β_i x_i in float64, shape (n_scores, n_features + 1); the constant feature is last."""
    total = np.zeros((dual.shape[1], problem.source.shape[1] + 1))
    if problem.source.resident:
        used = np.flatnonzero(dual.any(axis=1))
        if len(used) <= len(dual) / 2:  # a copy of more would take longer than to read all
            for rows in (used[a:b] for a, b in spans(len(used), PIECE_ROWS)):
                some = problem._replace(demands=problem.demands.of_rows(rows))
                _combine(some, problem.block.take(rows), 0, dual[rows], pool, total)
            return total
    for start, block in problem.source.blocks():
        _combine(problem, block, start, dual, pool, total)
    return total


def _combine(problem: LinearProblem, block: Block, start: int, dual: np.ndarray, pool: Pool, total: np.ndarray) -> None:
    """Add Σ β_i x_i of a block, with variables made feasible in float64."""

    def beta_of(a: int, b: int) -> np.ndarray:
        rows = slice(start + a, start + b)
        return feasible(problem.loss, problem.demands.of_rows(rows), dual[rows].astype(np.float64))

    if isinstance(block, CSRBlock):
        for a, b in spans(block.shape[0], PIECE_ROWS):
            _add_sparse(problem, block.slice(a, b), beta_of(a, b), pool, total)
        return

    def some(a: int, b: int) -> np.ndarray:
        return _dense_sum(problem, block.slice(a, b), beta_of(a, b))

    for part in _in_order(pool, some, block.shape[0], _piece_of(block)):
        total += part


def _add_sparse(problem: LinearProblem, block: CSRBlock, beta: np.ndarray, pool: Pool, total: np.ndarray) -> None:
    """Add Σ β_i x_i of sparse rows. Threads share the classes, because a sum per thread would be large."""
    block, _ = readable(block, np.arange(block.shape[0]))
    block = unsigned(block)
    pool.run(lambda low, high: add_sparse(block, beta, (low, high), total), class_bounds(len(total), pool.n_threads))
    total[:, -1] += problem.constant * beta.sum(axis=0)


def _dense_sum(problem: LinearProblem, block: DenseBlock, beta: np.ndarray) -> np.ndarray:
    """Return Σ β_i x_i of dense rows."""
    k, d = beta.shape[1], block.shape[1]
    total = np.zeros((k, d + 1))
    add_products(readable_rows(block.values), np.arange(len(beta)), np.ascontiguousarray(beta.T), (0, k), total)
    if problem.scale.size:
        total[:, :-1] = (total[:, :-1] - beta.sum(axis=0)[:, None] * problem.shift) * problem.scale
    total[:, -1] = problem.constant * beta.sum(axis=0)
    return total


def class_bounds(k: int, n_parts: int) -> list[tuple[int, int]]:
    """Return the bounds of at most `n_parts` nearly equal parts of `k` scores."""
    return list(pairwise(np.linspace(0, k, min(k, n_parts) + 1).astype(int).tolist()))


# --- scores ----------------------------------------------------------------------------------------------


def _scores(problem: LinearProblem, block: Block, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return weights · x for some rows, shape (n_scores, n_places); dense rows in the type of products."""
    if problem.scale.size:  # the shift may be much larger than the result
        return _exact_scores(problem, block.take(places), weights)
    if isinstance(block, CSRBlock):
        return _sparse_scores(problem, block, places, weights)
    consecutive = places[-1] - places[0] == len(places) - 1
    values = block.values[places[0] : places[-1] + 1] if consecutive else block.values[places]
    real = product_type(values.dtype)
    return _products(readable_rows(values), weights[:, : values.shape[1]], problem.constant * weights[:, -1], real)


def _exact_scores(problem: LinearProblem, block: Block, weights: np.ndarray) -> np.ndarray:
    """Return weights · x for all rows x in float64, shape (n_scores, n_rows)."""
    n, d = block.shape
    if isinstance(block, CSRBlock):
        return _sparse_scores(problem, block, np.arange(n), weights)
    coef, intercept = weights[:, :d], problem.constant * weights[:, -1]
    if problem.scale.size:
        coef = coef * problem.scale
        intercept = intercept - coef @ problem.shift
    return _products(readable_rows(block.values), coef, intercept, np.dtype(np.float64))


def all_scores(problem: LinearProblem, weights: np.ndarray, pool: Pool, exact: bool = True) -> np.ndarray:
    """Return weights · x for all rows, shape (n_scores, n); in the type of products unless `exact`."""
    found = np.empty((len(weights), len(problem.source)))
    whole = problem.source.resident and not exact  # whose rows need no copy
    for start, block in [(0, problem.block)] if whole else problem.source.blocks():

        def some(a: int, b: int, block: Block = block, start: int = start) -> None:
            if exact:
                found[:, start + a : start + b] = _exact_scores(problem, block.slice(a, b), weights)
            else:
                found[:, start + a : start + b] = _scores(problem, block, np.arange(a, b), weights)

        pool.run(some, spans(block.shape[0], _piece_of(block)))
    return found


def _sparse_scores(problem: LinearProblem, block: CSRBlock, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    block, places = readable(block, places)
    out = np.empty((len(weights), len(places)))
    write_sparse(unsigned(block), places, weights, out)
    return out + problem.constant * weights[:, -1:]


def _products(values: np.ndarray, coef: np.ndarray, intercept: np.ndarray, real: np.dtype) -> np.ndarray:
    """Return coef · x + intercept for rows x, computed in `real`."""
    n, k = len(values), len(coef)
    out = np.empty((k, n), real)
    write_products(values, np.arange(n), writeable(np.ascontiguousarray(coef, real)), (0, n, 0, k), out)
    return out + intercept[:, None].astype(real)
