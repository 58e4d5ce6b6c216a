"""Rows of the kernel matrix, and expansions in kernel values, over blocks of any source."""

from typing import Any

import numpy as np

from fastsvm._jit import jit
from fastsvm._threads import Pool, spans
from fastsvm.evaluators import Evaluator, PrecomputedEvaluator, Rows
from fastsvm.sources import Block, Source

__all__ = ["Gram", "expand", "operand_rows", "transpose"]

_LEAST_COLUMNS, _MOST_COLUMNS = 256, 4096  # of a piece of work
_PIECE_PRODUCTS = 6_000_000  # multiplications of a piece, some tenths of a millisecond
_OPERAND_BYTES = 64 << 20
_EXPAND_ROWS = 2048
_FILLED_ROWS = 512
_COPIED_ROWS = 512
_REST = 1024  # columns gathered for one product
_MANY_ROWS = 160  # from which on gathering columns is little beside multiplying them
_WORTH_FILLING = 0.95  # share of the rows needed from which on it is cheaper to compute all at once
_SMALL_PRODUCT = 4_000_000  # multiplications that take no longer than waking a thread


def operand_rows(n_features: int, feature_bytes: int) -> int:
    """Return how many rows are made ready at once: of many features few, for they are dense."""
    return max(16, _OPERAND_BYTES // (n_features * feature_bytes))


@jit
def transpose(source, rows, columns, out):
    """Write the rectangle of `source` between two bounds of rows and two of columns, transposed, to `out`."""
    for left in range(rows[0], rows[1], 16):  # so that few rows are read at a time
        right = min(left + 16, rows[1])
        for t in range(columns[0], columns[1]):
            target = out[t]
            for s in range(left, right):
                target[s] = source[s, t]


@jit
def _copy_columns(out, new, known):
    """Write the columns `known` of the rows `new` from the rows `known`; each is row numbers and where they are."""
    rows, slots = new
    columns, places = known
    values = np.empty((16, rows.size), out.dtype)
    for first in range(0, columns.size, 16):  # so that whole cache lines are written
        count = min(16, columns.size - first)
        for t in range(count):
            source, read = out[places[first + t]], values[t]
            for k in range(rows.size):
                read[k] = source[rows[k]]
        for k in range(rows.size):
            target = out[slots[k]]
            for t in range(count):
                target[columns[first + t]] = values[t, k]


@jit
def _scatter(tile, out, slots, columns):
    """Write a tile to the rows `slots` and the columns `columns` of `out`."""
    for s in range(slots.size):
        target, source = out[slots[s]], tile[s]
        for t in range(columns.size):
            target[columns[t]] = source[t]


def _columns(operand_size: int) -> int:
    """Return how many columns a piece of work has; on threads it must not depend, for BLAS may round otherwise."""
    columns = _PIECE_PRODUCTS // max(1, operand_size)
    return min(max(columns // _LEAST_COLUMNS * _LEAST_COLUMNS, _LEAST_COLUMNS), _MOST_COLUMNS)


class Gram:
    """The kernel matrix of a source with itself, or with another, a few rows at a time.

    Parameters
    ----------
    evaluator : Evaluator
        The kernel.
    source : Source
        The rows that the columns stand for.
    pool : Pool
        Threads for the tiles.
    left : Source or None
        The rows that the rows stand for, None for those of `source`.
    """

    def __init__(self, evaluator: Evaluator, source: Source, pool: Pool, left: Source | None = None) -> None:
        self.evaluator, self.source, self.pool = evaluator, source, pool
        self.left = source if left is None else left
        self.dtype = evaluator.dtype
        self.passes = 0
        self.worth_filling = _WORTH_FILLING
        self._terms: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.source)

    def take(self, indices: np.ndarray, source: Source) -> "Gram":
        """Return the kernel matrix of the rows `indices`, which are those of `source`."""
        evaluator = self.evaluator
        if isinstance(evaluator, PrecomputedEvaluator):
            evaluator = PrecomputedEvaluator(evaluator.columns[indices])
        return Gram(evaluator, source, self.pool)

    def rows_beside(self, indices: np.ndarray, out: np.ndarray, slots: np.ndarray, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `slots` of `out`, where others are already.

        Their values in the columns of those others are copied from them, if computing them again is dearer.

        Parameters
        ----------
        slot_of : ndarray of int64, shape (n,)
            The row of `out` in which each of the matrix's rows is, or -1.
        """
        known = np.flatnonzero(slot_of >= 0)
        if not (self.evaluator.dear and self.resident and len(indices) >= _MANY_ROWS and 16 * len(known) >= len(self)):
            self.rows(indices, out, slots)
            return
        self.passes += 1
        order = np.argsort(indices)
        new = indices[order], slots[order]
        pieces = [(out, new, (known[a:b], slot_of[known[a:b]])) for a, b in spans(len(known), _COPIED_ROWS)]
        self.pool.run(_copy_columns, pieces)
        rest = np.flatnonzero(slot_of < 0)
        if self._terms is None:
            self._terms = np.concatenate([self.evaluator.terms(block) for _, block in self.source.blocks()])
        most = operand_rows(self.source.shape[1], self.evaluator.feature_bytes)
        for a, b in spans(len(indices), most):
            operand = self.evaluator.prepare(self.left.rows(indices[a:b]))
            self.pool.run(self._scattered, [(operand, rest[c:d], out, slots[a:b]) for c, d in spans(len(rest), _REST)])

    def _scattered(self, operand: Any, columns: np.ndarray, out: np.ndarray, slots: np.ndarray) -> None:
        tile = np.empty((len(slots), len(columns)), self.dtype)
        block = self.source.rows(columns)
        self.evaluator.tile(operand, block, self._terms[columns], Rows(tile, np.arange(len(slots)), 0))
        _scatter(tile, out, slots, columns)

    def rows(self, indices: np.ndarray, out: np.ndarray, slots: np.ndarray, start: int = 0) -> None:
        """Write the matrix's rows `indices` to the rows `slots` of `out`, from column `start` on."""
        if isinstance(self.evaluator, PrecomputedEvaluator):
            self.passes += 1
            out[slots] = self.source.rows(indices).dense(self.dtype)[:, self.evaluator.columns]
            return
        most = operand_rows(self.source.shape[1], self.evaluator.feature_bytes)
        for a, b in spans(len(indices), most):
            operand = self.evaluator.prepare(self.left.rows(indices[a:b]))
            self._sweep(operand, Rows(out, slots[a:b], start), 0)

    @property
    def resident(self) -> bool:
        """Whether all rows are in memory."""
        return self.source.resident

    def fill(self, out: np.ndarray) -> None:
        """Write the whole matrix of a source with itself, which is symmetric, computing half of it."""
        n = len(self)
        if isinstance(self.evaluator, PrecomputedEvaluator):
            self.rows(np.arange(n), out, np.arange(n))
            return
        step = min(_FILLED_ROWS, operand_rows(self.source.shape[1], self.evaluator.feature_bytes))
        for a, b in spans(n, step):
            operand = self.evaluator.prepare(self.source.rows(np.arange(a, b)))
            self._sweep(operand, Rows(out, np.arange(a, b), 0), a)
            self.pool.run(transpose, [(out, (a, b), (c, d), out) for c, d in spans(n, step) if c > a])

    def _sweep(self, operand: Any, out: Rows, first: int) -> None:
        """Write the operand's rows from column `first` on; in the first one, from 0 on, find the terms of all."""
        self.passes += 1
        terms = self._terms

        def tile(block: Block, start: int) -> None:
            stop = start + block.shape[0]
            if terms is None:
                self._terms_of(block, start, found)
            self.evaluator.tile(operand, block, found[start:stop], out._replace(start=out.start + start))

        columns = _columns(operand.size) if self.evaluator.parallel else _LEAST_COLUMNS
        found = np.empty(len(self), self.evaluator.terms_dtype) if terms is None else terms
        for start, block in self.source.blocks():
            skipped = min(max(first - start, 0), block.shape[0])
            bounds = [(skipped + a, skipped + b) for a, b in spans(block.shape[0] - skipped, columns)]
            pieces = [(block.slice(a, b), start + a) for a, b in bounds]
            if not self.evaluator.parallel or operand.size * block.shape[0] < _SMALL_PRODUCT:
                for piece in pieces:
                    tile(*piece)
                continue
            self.pool.start(tile, pieces)
            self.pool.finish(most=2 * len(pieces))  # so that few blocks of a file are in memory at once
        self.pool.finish()
        self._terms = found

    def _terms_of(self, block: Block, start: int, out: np.ndarray) -> None:
        out[start : start + block.shape[0]] = self.evaluator.terms(block)

    def diagonal(self) -> np.ndarray:
        """Return the matrix's diagonal in float64."""
        pieces = [self.evaluator.diagonal(block, start) for start, block in self.source.blocks()]
        return np.concatenate(pieces).astype(np.float64)


def expand(
    evaluator: Evaluator, support: Block, coef: np.ndarray, block: Block, pool: Pool
) -> np.ndarray:
    """Return Σ_s coef[s, c] k(support_s, x) for the rows x of a block, in float64.

    Parameters
    ----------
    evaluator : Evaluator
        The kernel.
    support : Block
        The rows of the expansion, each once; for a precomputed kernel it is not looked at.
    coef : ndarray of float64, shape (n_support, n_outputs)
        Coefficients.
    block : Block
        Rows to evaluate.
    pool : Pool
        Threads for the tiles.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
    """
    n = block.shape[0]
    scores = np.zeros((n, coef.shape[1]))
    if isinstance(evaluator, PrecomputedEvaluator):
        return block.dense(evaluator.dtype)[:, evaluator.columns] @ coef

    terms: dict[int, np.ndarray] = {}

    def add(operand: Any, weights: np.ndarray, a: int, b: int) -> None:
        part = block.slice(a, b)
        if a not in terms:
            terms[a] = evaluator.terms(part)
        tile = np.empty((len(weights), b - a), evaluator.dtype)
        evaluator.tile(operand, part, terms[a], Rows(tile, np.arange(len(weights)), 0))
        scores[a:b] += tile.T.astype(np.float64) @ weights

    most = min(_EXPAND_ROWS, operand_rows(block.shape[1], evaluator.feature_bytes))
    for first, last in spans(len(coef), most):
        operand = evaluator.prepare(support.slice(first, last))
        pieces = [(operand, coef[first:last], a, b) for a, b in spans(n, _LEAST_COLUMNS)]
        if evaluator.parallel:
            pool.run(add, pieces)
        else:
            for piece in pieces:
                add(*piece)
    return scores
