"""Kernel expansions Σ_s coef_s k(x_s, x), summed tile by tile, so that no kernel value is stored in memory.

`expand` is for predictions: the bits of a result do not depend on the other rows. `add_expansion` is for solvers. It
sums in an order that is faster.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scratch import scratch_array
from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.pairwise import TILED_ROWS, PairwiseKernel, PrecomputedPairwise, Rows
from fastsvm.linalg.row_products import add_panel_products, add_rows, panels_of, panels_of_columns
from fastsvm.sources import Block

__all__ = ["add_expansion", "expand", "expand_among", "operand_rows"]

_COLUMNS = 256  # of a tile in memory
_OPERAND_BYTES = 64 << 20
_EXPAND_ROWS = 2048
_PIECE_VALUES = 1 << 19  # of a task, a quarter of a millisecond
_LEAST_SUMMED, _MOST_SUMMED = 512, 8192  # columns of a task for sums


def operand_rows(row_bytes: int) -> int:
    """Return how many rows are prepared at once, so that the operand stays within its memory."""
    return max(16, _OPERAND_BYTES // row_bytes)


def add_expansion(
    sums: np.ndarray, pairwise: PairwiseKernel, expansion: tuple[Block, np.ndarray], rows: tuple[Block, np.ndarray],
    pool: Pool,
) -> None:  # fmt: skip
    """Add Σ_s coef_s k(x_s, x) to the sums of the rows x of a block. Values have the kernel's type, sums float64.

    Parameters
    ----------
    sums : ndarray of float64, shape (n_rows,)
        One for each row of the block.
    pairwise : PairwiseKernel
        The kernel; not a precomputed one.
    expansion : tuple of (Block, ndarray of float64)
        The rows x_s, and their coefficients.
    rows : tuple of (Block, ndarray)
        The rows x, and their terms.
    pool : Pool
        Threads for the tiles.
    """
    (support, coef), (block, terms) = expansion, rows
    most = min(pairwise.summed_rows, operand_rows(pairwise.row_bytes(support)))

    def add(operand: Any, weights: np.ndarray, a: int, b: int) -> None:
        pairwise.add_sums(operand, weights, block.slice(a, b), terms[a:b], sums[a:b])

    for first, last in spans(len(coef), most):
        operand = pairwise.prepare(support.slice(first, last))
        columns = _PIECE_VALUES // (last - first) // _LEAST_SUMMED * _LEAST_SUMMED
        columns = min(max(columns, _LEAST_SUMMED), _MOST_SUMMED)
        _run(pairwise, pool, add, [(operand, coef[first:last], a, b) for a, b in spans(len(sums), columns)])


def _run(pairwise: PairwiseKernel, pool: Pool, function: Callable[..., None], pieces: list[tuple]) -> None:
    """Call a function for every piece, on all threads if the kernel allows it."""
    if pairwise.parallel:
        pool.run(function, pieces)
        return
    for piece in pieces:
        function(*piece)


def expand_among(pairwise: PairwiseKernel, support: Block, coef: np.ndarray, pool: Pool) -> np.ndarray:
    """Return Σ_s coef_s k(x_s, x) at the rows x_s themselves, in float64. Each value is computed for both its rows.

    Parameters
    ----------
    pairwise : PairwiseKernel
        The kernel; not a precomputed one.
    support : Block
        The rows x_s.
    coef : ndarray of float64, shape (n_support,)
        Their coefficients.
    pool : Pool
        Threads for the tiles.
    """
    sums, terms = np.zeros(len(coef)), pairwise.terms(support)
    most = min(TILED_ROWS, operand_rows(pairwise.row_bytes(support)))

    def add(operand: Any, first: int, last: int, a: int, b: int, others: np.ndarray) -> None:
        """Add the columns from a to b of the rows from `first` to `last`; write what they add to the rows."""
        tile = scratch_array("tile", (last - first, b - a), pairwise.dtype)
        pairwise.tile(operand, support.slice(a, b), terms[a:b], Rows(tile, np.arange(last - first), 0))
        add_rows(tile, coef[first:last], sums[a:b])
        beyond = max(a, last)
        if beyond < b:
            _products_of_columns(tile[:, beyond - a :], coef[beyond:b], others)

    for first, last in spans(len(coef), most):
        operand = pairwise.prepare(support.slice(first, last))
        columns = list(spans(len(coef) - first, _COLUMNS))
        others = np.zeros((len(columns), last - first))
        pieces = [
            (operand, first, last, first + a, first + b, one) for (a, b), one in zip(columns, others, strict=True)
        ]
        _run(pairwise, pool, add, pieces)
        sums[first:last] += others.sum(axis=0)
    return sums


@jit
def _products_of_columns(tile, coef, out):
    """Write Σ_i coef_i tile[s, i] of each row s."""
    for s in range(tile.shape[0]):
        row, total = tile[s], 0.0
        for i in range(coef.size):
            total += coef[i] * row[i]
        out[s] = total


def expand(pairwise: PairwiseKernel, support: Block, coef: np.ndarray, block: Block, pool: Pool) -> np.ndarray:
    """Return Σ_s coef[s, c] k(support_s, x) for the rows x of a block, in float64, summed in the order of s.

    Parameters
    ----------
    pairwise : PairwiseKernel
        The kernel.
    support : Block
        The distinct rows of the expansion. A precomputed kernel ignores it.
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
    if isinstance(pairwise, PrecomputedPairwise):
        return _expand_precomputed(pairwise, coef, block)
    n = block.shape[0]
    scores = np.zeros((n, coef.shape[1]))
    terms: dict[int, np.ndarray] = {}
    sums: dict[int, np.ndarray] = {}

    def add(operand: Any, weights: np.ndarray, a: int, b: int) -> None:
        part = block.slice(a, b)
        if a not in terms:
            terms[a] = pairwise.terms(part)
        count = weights.shape[1]
        tile = scratch_array("tile", (count, b - a), pairwise.dtype)
        pairwise.tile(operand, part, terms[a], Rows(tile, np.arange(count), 0))
        sums[a] = _weighted(weights, panels_of_columns(tile), sums.get(a))

    most = min(_EXPAND_ROWS, operand_rows(pairwise.row_bytes(support)))
    for first, last in spans(len(coef), most):
        operand, weights = pairwise.prepare(support.slice(first, last)), np.ascontiguousarray(coef[first:last].T)
        pieces = [(operand, weights, a, b) for a, b in spans(n, _COLUMNS)]
        _run(pairwise, pool, add, pieces)
    for a, found in sums.items():
        scores[a : a + _COLUMNS] = found[:, : n - a].T[:_COLUMNS]
    return scores


def _expand_precomputed(pairwise: PrecomputedPairwise, coef: np.ndarray, block: Block) -> np.ndarray:
    weights, scores = np.ascontiguousarray(coef.T), np.zeros((block.shape[0], coef.shape[1]))
    for a, b in spans(len(scores), _COLUMNS):
        values = block.slice(a, b).dense(pairwise.dtype)[:, pairwise.columns]
        scores[a:b] = _weighted(weights, panels_of(values), None)[:, : b - a].T
    return scores


def _weighted(weights: np.ndarray, panels: np.ndarray, sums: np.ndarray | None) -> np.ndarray:
    """Return the products of weights with panels, added to `sums` unless it is None."""
    out = np.empty((len(weights), panels.shape[0] * panels.shape[2])) if sums is None else sums
    add_panel_products(weights, panels, out, sums is not None)
    return out
