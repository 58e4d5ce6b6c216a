"""Kernel expansions Σ_s coef_s k(x_s, x), summed tile by tile, so that no kernel value is stored in memory.

`expand` is for predictions: the bits of a result do not depend on the other rows. `add_expansion` is for solvers. It
sums in an order that is faster.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order
from fastsvm._compiled.panels import PANEL_BYTES, PANEL_ROWS, panel_tile
from fastsvm._compiled.processor import JIT_DISABLED
from fastsvm._compiled.scalars import multiply_add
from fastsvm._compiled.scratch import scratch_array
from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.pairwise import TILED_ROWS, PairwiseKernel, PrecomputedPairwise, Rows
from fastsvm.linalg.row_products import FEATURES, add_panel_products, add_rows, panels_of_columns
from fastsvm.sources import Block

__all__ = ["PairCoefficients", "add_expansion", "expand", "expand_among", "operand_rows"]

_COLUMNS = 256  # of a tile in memory
_PIECE_COLUMNS = PANEL_BYTES // 8  # a panel of sums in float64
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


class PairCoefficients(NamedTuple):
    """Coefficients of the decision functions of all pairs of classes, as LIBSVM arranges them.

    A pair has support vectors of its two classes only. A row of coefficients for every class but one takes the place
    of a column for every pair.

    Attributes
    ----------
    dual_coef : ndarray of float64, shape (n_classes - 1, n_support)
        For a support vector of class c, row r has its coefficient in the pair of c and the r-th other class.
    ends : ndarray of int64, shape (n_classes,)
        Where the support vectors of each class end. They are ordered by class.
    """

    dual_coef: np.ndarray
    ends: np.ndarray

    @property
    def n_outputs(self) -> int:
        """Number of pairs."""
        return len(self.ends) * (len(self.ends) - 1) // 2

    def largest_norms(self) -> tuple[float, float]:
        """Return the largest sum of absolute values of a pair's coefficients, and the largest Euclidean norm."""
        return _largest_norms(self.dual_coef, self.ends)

    def part(self, first: int, last: int) -> "PairCoefficients":
        """Return the coefficients of the support vectors from `first` to `last`."""
        some = np.ascontiguousarray(self.dual_coef[:, first:last])
        return PairCoefficients(some, np.clip(self.ends - first, 0, last - first))

    def added(self, values: np.ndarray, sums: np.ndarray | None) -> np.ndarray:
        """Return Σ_s coef_s values[s] of each pair and column of `values`, added to `sums` unless it is None.

        The pair of a and b > a has the place (a, b) in a square. Few columns are summed one by one, in the same order.
        """
        n, width, k = values.shape[1], _PIECE_COLUMNS, len(self.ends)
        singly = JIT_DISABLED or n <= width // 4
        if sums is None:
            sums = np.zeros((k, k, n if singly else -(-n // width) * width))
        if singly:
            _add_columns(self.dual_coef, self.ends, values, sums)
        else:
            _add_panels(self.dual_coef, self.ends, panels_of_columns(values), sums)
        return sums

    @staticmethod
    def write(sums: np.ndarray, out: np.ndarray) -> None:
        """Write the sums of the pairs to the rows of `out`, a column for each pair."""
        _write_pairs(sums, out)


@jit
def _largest_norms(dual_coef, ends):
    k = ends.size
    absolute, squares = np.zeros((k, k)), np.zeros((k, k))
    for c in range(k):
        for r in range(k - 1):
            a, b = (c, r + 1) if r >= c else (r, c)
            for s in range(ends[c - 1] if c else 0, ends[c]):
                absolute[a, b] += abs(dual_coef[r, s])
                squares[a, b] += dual_coef[r, s] ** 2
    return absolute.max(), np.sqrt(squares.max())


@jit_in_order
def _add_columns(dual_coef, ends, values, sums):
    """Add the sums of each pair, class after class, those of `FEATURES` support vectors before they are added."""
    k = ends.size
    for c in range(k):
        low = ends[c - 1] if c else 0
        for start in range(low, ends[c], FEATURES):
            stop = min(start + FEATURES, ends[c])
            for r in range(k - 1):
                a, b = (c, r + 1) if r >= c else (r, c)
                for i in range(values.shape[1]):
                    total = 0.0
                    for s in range(start, stop):
                        total = multiply_add(dual_coef[r, s], np.float64(values[s, i]), total)
                    sums[a, b, i] += total


@jit
def _add_panels(dual_coef, ends, panels, sums):
    """Do what `_add_columns` does with the same bits, for columns that are packed into panels."""
    k, size, real = ends.size, dual_coef.itemsize, sums[0, 0, 0]
    base, step, panel_stride = dual_coef.ctypes.data, dual_coef.strides[0], panels.strides[0]
    to, down, across = sums.ctypes.data, sums.strides[0], sums.strides[1]
    for c in range(k):
        low = ends[c - 1] if c else 0
        for start in range(low, ends[c], FEATURES):
            features = start, min(start + FEATURES, ends[c]), 1
            for p in range(panels.shape[0]):
                panel, column = panels.ctypes.data + p * panel_stride, to + p * panels.shape[2] * size
                for r in range(0, c, PANEL_ROWS):
                    rows, out = (base + r * step, step, min(PANEL_ROWS, c - r) - 1), column + r * down + c * across
                    panel_tile(real, rows, panel, features, (out, down))
                for r in range(c, k - 1, PANEL_ROWS):
                    rows, out = (base + r * step, step, min(PANEL_ROWS, k - 1 - r) - 1), column + c * down
                    panel_tile(real, rows, panel, features, (out + (r + 1) * across, across))


@jit
def _write_pairs(sums, out):
    k, column = sums.shape[0], 0
    for a in range(k):
        for b in range(a + 1, k):
            for i in range(out.shape[0]):
                out[i, column] = sums[a, b, i]
            column += 1


class _Columns(NamedTuple):
    """Coefficients of any decision functions, shape (n_outputs, n_support), with the methods of `PairCoefficients`."""

    weights: np.ndarray

    @property
    def n_outputs(self) -> int:
        return len(self.weights)

    def part(self, first: int, last: int) -> "_Columns":
        return _Columns(np.ascontiguousarray(self.weights[:, first:last]))

    def added(self, values: np.ndarray, sums: np.ndarray | None) -> np.ndarray:
        panels = panels_of_columns(values)
        out = np.empty((self.n_outputs, panels.shape[0] * panels.shape[2])) if sums is None else sums
        add_panel_products(self.weights, panels, out, sums is not None)
        return out

    @staticmethod
    def write(sums: np.ndarray, out: np.ndarray) -> None:
        out[:] = sums[:, : len(out)].T


def expand(
    pairwise: PairwiseKernel, support: Block, coef: np.ndarray | PairCoefficients, block: Block, pool: Pool
) -> np.ndarray:
    """Return Σ_s coef[s, c] k(support_s, x) for the rows x of a block, in float64, summed in the order of s.

    Parameters
    ----------
    pairwise : PairwiseKernel
        The kernel.
    support : Block
        The distinct rows of the expansion. A precomputed kernel ignores it.
    coef : ndarray of float64, shape (n_support, n_outputs), or PairCoefficients
        Coefficients.
    block : Block
        Rows to evaluate.
    pool : Pool
        Threads for the tiles.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
    """
    weights: Any = coef if isinstance(coef, PairCoefficients) else _Columns(coef.T)
    n, columns = block.shape[0], _COLUMNS
    if weights is coef:  # squares of sums are long enough for a thread
        columns = min(columns, -(-n // (_PIECE_COLUMNS * pool.n_threads)) * _PIECE_COLUMNS)
    sums: dict[int, np.ndarray] = {}
    if isinstance(pairwise, PrecomputedPairwise):
        for a, b in spans(n, columns):
            values = block.slice(a, b).dense(pairwise.dtype)[:, pairwise.columns]
            sums[a] = weights.part(0, values.shape[1]).added(np.ascontiguousarray(values.T), None)
    else:
        _sum_tiles(pairwise, support, weights, (block, columns), pool, sums)
    scores = np.zeros((n, weights.n_outputs))
    for a, found in sums.items():
        weights.write(found, scores[a : a + columns])
    return scores


def _sum_tiles(
    pairwise: PairwiseKernel, support: Block, coef: Any, pieces: tuple[Block, int], pool: Pool,
    sums: dict[int, np.ndarray],
) -> None:  # fmt: skip
    """Sum over the support vectors for pieces of the rows, each by its first row in `sums`."""
    block, columns = pieces
    terms: dict[int, np.ndarray] = {}

    def add(operand: Any, weights: Any, count: int, a: int, b: int) -> None:
        part = block.slice(a, b)
        if a not in terms:
            terms[a] = pairwise.terms(part)
        tile = scratch_array("tile", (count, b - a), pairwise.dtype)
        pairwise.tile(operand, part, terms[a], Rows(tile, np.arange(count), 0))
        sums[a] = weights.added(tile, sums.get(a))

    most = min(_EXPAND_ROWS, operand_rows(pairwise.row_bytes(support)))
    for first, last in spans(support.shape[0], most):
        operand, weights = pairwise.prepare(support.slice(first, last)), coef.part(first, last)
        _run(pairwise, pool, add, [(operand, weights, last - first, a, b) for a, b in spans(block.shape[0], columns)])
