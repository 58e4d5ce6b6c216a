"""Kernel values between rows: the only file that multiplies rows with rows.

An evaluator turns one block of rows into an operand, and fills a tile of kernel values between an operand
and another block. Products are computed tile by tile, mapped to kernel values while the tile is in the
processor's cache, and written where they are wanted.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm._jit import jit
from fastsvm._threads import Pool, spans
from fastsvm.kernels import Kernel, in_precision, map_diagonal, map_tile
from fastsvm.sources import Block, CSRBlock, DenseBlock, Source

__all__ = ["CallableEvaluator", "Evaluator", "Gram", "PrecomputedEvaluator", "VectorEvaluator", "expand"]

TILE_COLUMNS = 256
_OPERAND_BYTES = 64 << 20
_EXPAND_ROWS = 2048


class Operand(NamedTuple):
    """Rows made ready to be paired with many others."""

    rows: np.ndarray
    sq_norms: np.ndarray
    by_feature: np.ndarray | None


class Evaluator(Protocol):
    """Kernel values between a prepared operand and a block."""

    dtype: np.dtype
    parallel: bool

    def prepare(self, block: Block) -> Any:
        """Return the operand of the rows of a block."""

    def tile(self, operand: Any, block: Block, out: np.ndarray, slots: np.ndarray, start: int) -> None:
        """Write k(operand, block) to columns `start`... of the rows `slots` of `out`."""

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return k(x, x) for the rows of a block that begins with row `first` of its source."""


class VectorEvaluator:
    """A kernel of `fastsvm.kernels` on rows of features.

    Parameters
    ----------
    kernel : Kernel
        Scalar map of the rows' pairing.
    dtype : numpy.dtype
        float32 or float64, for products and values.
    centre : ndarray of shape (n_features,) or None
        Subtracted from all rows before they are multiplied, if the kernel does not see the difference:
        squared distances by expansion lose as many digits as squared norms exceed them. None for rows that
        are sparse.
    sparse : bool
        Whether blocks will be sparse, so that operands keep a copy by features.
    """

    parallel = True

    def __init__(self, kernel: Kernel, dtype: np.dtype | type, centre: np.ndarray | None, sparse: bool) -> None:
        self.dtype = np.dtype(dtype)
        self.kernel = in_precision(kernel, self.dtype)
        use_centre = kernel.translation_invariant and centre is not None and not sparse
        self.centre = centre.astype(self.dtype) if use_centre else None
        self.by_feature = sparse and kernel.pairing == "dot"
        self.manhattan = kernel.pairing == "manhattan"

    def _dense(self, block: Block) -> np.ndarray:
        if self.centre is None:
            return block.dense(self.dtype)
        out = np.empty(block.shape, self.dtype)
        if isinstance(block, DenseBlock) and block.values.dtype.itemsize <= self.dtype.itemsize:
            return np.subtract(block.values, self.centre, out=out, casting="unsafe")
        return np.subtract(block.dense(np.float64), self.centre, out=out, casting="same_kind")

    def prepare(self, block: Block) -> Operand:
        """Return the rows widened and centred, with their squared norms."""
        rows = self._dense(block)
        by_feature = np.ascontiguousarray(rows.T) if self.by_feature else None
        return Operand(rows, np.einsum("ij,ij->i", rows, rows), by_feature)

    def tile(self, operand: Operand, block: Block, out: np.ndarray, slots: np.ndarray, start: int) -> None:
        """Write k(operand, block) to columns `start`... of the rows `slots` of `out`."""
        pairings = np.empty((len(operand.rows), block.shape[0]), self.dtype)
        if operand.by_feature is not None and isinstance(block, CSRBlock):
            data = block.data.astype(self.dtype)
            indices = block.indices.astype(np.int32, copy=False)
            indptr = block.indptr.astype(np.int64, copy=False)
            sq_norms = np.empty(block.shape[0], self.dtype)
            _csr_products(data, indices, indptr, operand.by_feature, pairings)
            _csr_sq_norms(data, indptr, sq_norms)
        else:
            rows = self._dense(block)
            sq_norms = np.einsum("ij,ij->i", rows, rows)
            if self.manhattan:
                _manhattan(operand.rows, rows, pairings)
            else:
                np.matmul(operand.rows, rows.T, out=pairings)
        map_tile(self.kernel, pairings, operand.sq_norms, sq_norms, out, slots, start)

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return k(x, x)."""
        rows = self._dense(block)
        sq_norms = np.einsum("ij,ij->i", rows, rows)
        out = np.empty(len(rows), self.dtype)
        map_diagonal(self.kernel, np.zeros_like(out) if self.manhattan else sq_norms, sq_norms, out)
        return out


class CallableEvaluator:
    """A user's function of two blocks of rows, which returns the matrix of their kernel values.

    Parameters
    ----------
    function : callable
        `function(X, Z)` with arrays (CSR matrices for sparse rows) of shapes (a, d) and (b, d) returns
        an array of shape (a, b).
    """

    parallel = False
    dtype = np.dtype(np.float64)

    def __init__(self, function: Callable) -> None:
        self.function = function

    def prepare(self, block: Block) -> Block:
        """Return the block itself."""
        return block

    def tile(self, operand: Block, block: Block, out: np.ndarray, slots: np.ndarray, start: int) -> None:
        """Write the function's values to columns `start`... of the rows `slots` of `out`."""
        out[slots, start : start + block.shape[0]] = self._values(operand, block)

    def _values(self, operand: Block, block: Block) -> np.ndarray:
        values = self.function(operand.user_array(), block.user_array())
        values = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
        wanted = (operand.shape[0], block.shape[0])
        if values.shape != wanted:
            raise ValueError(f"The kernel function must return shape {wanted} for such blocks, not {values.shape}.")
        if not np.isfinite(values).all():
            raise ValueError("The kernel function returned values that are NaN or infinite.")
        return values

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return k(x, x), computed in small squares."""
        squares = (block.slice(a, b) for a, b in spans(block.shape[0], 64))
        return np.concatenate([np.diagonal(self._values(square, square)) for square in squares])


class PrecomputedEvaluator:
    """Rows that are kernel values themselves, as for `kernel="precomputed"`.

    Parameters
    ----------
    columns : ndarray of int64
        Numbers of the training rows in question, among all the columns.
    """

    parallel = False
    dtype = np.dtype(np.float64)

    def __init__(self, columns: np.ndarray) -> None:
        self.columns = columns

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return the entries on the diagonal of the matrix."""
        rows = np.arange(block.shape[0])
        return block.dense(self.dtype)[rows, self.columns[first + rows]]


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
        most = max(16, _OPERAND_BYTES // (self.source.shape[1] * self.dtype.itemsize))
        for a, b in spans(len(indices), most):
            operand = self.evaluator.prepare(self.source.rows(indices[a:b]))
            self._sweep(operand, out, slots[a:b])

    def _sweep(self, operand: Any, out: np.ndarray, slots: np.ndarray) -> None:
        self.passes += 1
        pool, evaluator = self.pool, self.evaluator
        for start, block in self.source.blocks():
            pieces = [
                (operand, block.slice(a, b), out, slots, start + a)
                for a, b in spans(block.shape[0], TILE_COLUMNS)
            ]
            if not evaluator.parallel:
                for piece in pieces:
                    evaluator.tile(*piece)
                continue
            pool.start(evaluator.tile, pieces)
            pool.finish(most=2 * len(pieces))  # so that few blocks of a file are in memory at once
        pool.finish()

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

    def add(operand: Any, weights: np.ndarray, a: int, b: int) -> None:
        tile = np.empty((len(weights), b - a), evaluator.dtype)
        evaluator.tile(operand, block.slice(a, b), tile, np.arange(len(weights)), 0)
        scores[a:b] += tile.T.astype(np.float64) @ weights

    most = min(_EXPAND_ROWS, max(16, _OPERAND_BYTES // (block.shape[1] * evaluator.dtype.itemsize)))
    for first, last in spans(len(coef), most):
        operand = evaluator.prepare(support.slice(first, last))
        pieces = [(operand, coef[first:last], a, b) for a, b in spans(n, TILE_COLUMNS)]
        if evaluator.parallel:
            pool.run(add, pieces)
        else:
            for piece in pieces:
                add(*piece)
    return scores


@jit
def _csr_products(data, indices, indptr, by_feature, out):
    """Write the dot products of the operand (n_features, q) with CSR rows to `out` (q, b).

    Sixteen rows at a time, so that the transposed store writes whole cache lines; four values of a row at a
    time, so that sums are loaded and stored a quarter as often.
    """
    q, b = out.shape
    sums = np.empty((16, q), by_feature.dtype)
    for first in range(0, b, 16):
        count = min(16, b - first)
        for i in range(count):
            total = sums[i]
            total[:] = 0
            t, end = indptr[first + i] - indptr[0], indptr[first + i + 1] - indptr[0]
            while t + 4 <= end:
                v0, v1, v2, v3 = data[t], data[t + 1], data[t + 2], data[t + 3]
                f0, f1 = by_feature[indices[t]], by_feature[indices[t + 1]]
                f2, f3 = by_feature[indices[t + 2]], by_feature[indices[t + 3]]
                for s in range(q):
                    total[s] += v0 * f0[s] + v1 * f1[s] + v2 * f2[s] + v3 * f3[s]
                t += 4
            while t < end:
                value, feature = data[t], by_feature[indices[t]]
                for s in range(q):
                    total[s] += value * feature[s]
                t += 1
        for s in range(q):
            target = out[s, first : first + count]
            for i in range(count):
                target[i] = sums[i, s]


@jit
def _csr_sq_norms(data, indptr, out):
    """Write the squared norms of CSR rows."""
    for i in range(out.size):
        total = out.dtype.type(0)
        for t in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
            total += data[t] * data[t]
        out[i] = total


@jit
def _manhattan(rows, others, out):
    """Write the L1 distances between the rows of two arrays to `out`."""
    for s in range(rows.shape[0]):
        x = rows[s]
        for i in range(others.shape[0]):
            z = others[i]
            total = out.dtype.type(0)
            for k in range(x.size):
                total += abs(x[k] - z[k])
            out[s, i] = total
