"""Scores of linear functions of rows, over blocks of any source."""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from fastsvm._threads import Pool, spans
from fastsvm.sources import Block, CSRBlock, Source

__all__ = ["block_scores", "each_piece", "product_type", "scores"]

_ROWS = 2048  # of a piece of work


def product_type(dtype: np.dtype) -> np.dtype:
    """Return the type in which rows of `dtype` are multiplied: float32 if it holds them exactly, else float64."""
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32, "safe") else np.float64)


def block_scores(block: Block, coef: np.ndarray, intercept: np.ndarray, exact: bool = False) -> np.ndarray:
    """Return coef·x + intercept for the rows x of a block, shape (n_rows, n_scores).

    They are computed in the type of products, or `exact`, in float64: where what is subtracted from standardised rows
    is part of the intercept, that may be much larger than what is left.
    """
    kind = block.data.dtype if isinstance(block, CSRBlock) else block.values.dtype
    dtype = np.dtype(np.float64) if exact else product_type(kind)
    if isinstance(block, CSRBlock):
        rows = sparse.csr_matrix((block.data.astype(dtype, copy=False), block.indices, block.indptr), block.shape)
        return np.asarray(rows @ coef.T.astype(dtype)) + intercept.astype(dtype)
    found = block.dense(dtype) @ coef.T.astype(dtype)
    found += intercept.astype(dtype)
    return found


def scores(source: Source, coef: np.ndarray, intercept: np.ndarray, pool: Pool, exact: bool = False) -> np.ndarray:
    """Return coef·x + intercept for all rows x, float64 of shape (n_rows, n_scores); `exact` as in `block_scores`."""
    found = np.empty((len(source), len(intercept)))

    def piece(block: Block, start: int) -> None:
        found[start : start + block.shape[0]] = block_scores(block, coef, intercept, exact)

    each_piece(source, piece, pool)
    return found


def each_piece(source: Source, function: Callable[[Block, int], None], pool: Pool) -> None:
    """Call `function(piece, start)` for pieces of all blocks, each with the number of its first row."""

    def call(block: Block, start: int, a: int, b: int) -> None:
        function(block.slice(a, b), start + a)

    for start, block in source.blocks():
        pool.run(call, [(block, start, a, b) for a, b in spans(block.shape[0], _ROWS)])
