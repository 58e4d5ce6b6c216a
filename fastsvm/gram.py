"""Rows of the kernel matrix, and expansions in kernel values, over blocks of any source."""

from typing import Any

import numpy as np

from fastsvm._threads import Pool, spans
from fastsvm.evaluators import Evaluator, PrecomputedEvaluator, Rows
from fastsvm.sources import Block, Source

__all__ = ["Gram", "expand", "operand_rows"]

_LEAST_COLUMNS, _MOST_COLUMNS = 256, 4096  # of a piece of work
_PIECE_PRODUCTS = 6_000_000  # multiplications of a piece, some tenths of a millisecond
_OPERAND_BYTES = 64 << 20
_EXPAND_ROWS = 2048
_SMALL_PRODUCT = 4_000_000  # multiplications that take no longer than waking a thread


def operand_rows(n_features: int, feature_bytes: int) -> int:
    """Return how many rows are made ready at once: of many features few, for they are dense."""
    return max(16, _OPERAND_BYTES // (n_features * feature_bytes))


def _columns(operand_size: int) -> int:
    """Return how many columns a piece of work has; on threads it must not depend, for BLAS may round otherwise."""
    columns = _PIECE_PRODUCTS // max(1, operand_size)
    return min(max(columns // _LEAST_COLUMNS * _LEAST_COLUMNS, _LEAST_COLUMNS), _MOST_COLUMNS)


class Gram:
    """The kernel matrix of a source with itself, a few rows at a time.

    Parameters
    ----------
    evaluator : Evaluator
        The kernel.
    source : Source
        The rows.
    pool : Pool
        Threads for the tiles.
    """

    def __init__(self, evaluator: Evaluator, source: Source, pool: Pool) -> None:
        self.evaluator, self.source, self.pool = evaluator, source, pool
        self.dtype = evaluator.dtype
        self.passes = 0
        self._terms: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of rows and columns."""
        return len(self.source)

    def take(self, indices: np.ndarray, source: Source) -> "Gram":
        """Return the kernel matrix of the rows `indices`, which are those of `source`."""
        evaluator = self.evaluator
        if isinstance(evaluator, PrecomputedEvaluator):
            evaluator = PrecomputedEvaluator(evaluator.columns[indices])
        return Gram(evaluator, source, self.pool)

    def rows(self, indices: np.ndarray, out: np.ndarray, slots: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `slots` of `out`."""
        if isinstance(self.evaluator, PrecomputedEvaluator):
            self.passes += 1
            out[slots] = self.source.rows(indices).dense(self.dtype)[:, self.evaluator.columns]
            return
        most = operand_rows(self.source.shape[1], self.evaluator.feature_bytes)
        for a, b in spans(len(indices), most):
            operand = self.evaluator.prepare(self.source.rows(indices[a:b]))
            self._sweep(operand, out, slots[a:b])

    def _sweep(self, operand: Any, out: np.ndarray, slots: np.ndarray) -> None:
        """Write the operand's rows, and in the first sweep the terms of all rows."""
        self.passes += 1
        terms = self._terms

        def tile(block: Block, start: int) -> None:
            stop = start + block.shape[0]
            if terms is None:
                self._terms_of(block, start, found)
            self.evaluator.tile(operand, block, found[start:stop], Rows(out, slots, start))

        columns = _columns(operand.size) if self.evaluator.parallel else _LEAST_COLUMNS
        found = np.empty(len(self), self.evaluator.terms_dtype) if terms is None else terms
        for start, block in self.source.blocks():
            pieces = [(block.slice(a, b), start + a) for a, b in spans(block.shape[0], columns)]
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
