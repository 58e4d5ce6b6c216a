"""Kernels on rows of floats, dense or sparse, by products of matrices."""

from typing import NamedTuple

import numpy as np

from fastsvm._jit import jit
from fastsvm._threads import spans
from fastsvm.evaluators.base import Rows
from fastsvm.kernels import Kernel, in_precision, map_tile
from fastsvm.sources import Block, CSRBlock, DenseBlock

__all__ = ["VectorEvaluator"]

_COLUMNS = 512  # of a tile
_COST_OF_BYTE, _COST_OF_SPARSE = 1 / 400, 4.0  # nanoseconds


class Operand(NamedTuple):
    """Rows made ready to be paired with many others."""

    rows: np.ndarray
    sq_norms: np.ndarray
    by_feature: np.ndarray | None

    @property
    def size(self) -> int:
        """Number of values."""
        return self.rows.size


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
        self.dtype = self.terms_dtype = np.dtype(dtype)
        self.feature_bytes = self.dtype.itemsize
        self.kernel = in_precision(kernel, self.dtype)
        use_centre = kernel.translation_invariant and centre is not None and not sparse
        self.centre = centre.astype(self.dtype) if use_centre else None
        self.by_feature = sparse and kernel.pairing == "dot"
        self.manhattan = self.dense_only = kernel.pairing == "manhattan"
        self.sparse = sparse
        self._given = kernel, centre

    def widened(self) -> "VectorEvaluator":
        """Return an evaluator of the same kernel in float64."""
        kernel, centre = self._given
        return VectorEvaluator(kernel, np.float64, centre, self.sparse)

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

    def terms(self, block: Block) -> np.ndarray:
        """Return the squared norms."""
        if isinstance(block, CSRBlock) and self.by_feature:
            sq_norms = np.empty(block.shape[0], self.dtype)
            _csr_sq_norms(block.data.astype(self.dtype), block.indptr.astype(np.int64, copy=False), sq_norms)
            return sq_norms
        rows = self._dense(block)
        return np.einsum("ij,ij->i", rows, rows)

    def tile(self, operand: Operand, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block)."""
        for a, b in spans(block.shape[0], _COLUMNS):
            pairings = self._pairings(operand, block.slice(a, b))
            map_tile(self.kernel, pairings, operand.sq_norms, terms[a:b], out.store, out.slots, out.start + a)

    def _pairings(self, operand: Operand, block: Block) -> np.ndarray:
        pairings = np.empty((len(operand.rows), block.shape[0]), self.dtype)
        if operand.by_feature is not None and isinstance(block, CSRBlock):
            data = block.data.astype(self.dtype)
            indices = block.indices.astype(np.int32, copy=False)
            indptr = block.indptr.astype(np.int64, copy=False)
            _csr_products(data, indices, indptr, operand.by_feature, pairings)
        elif self.manhattan:
            _manhattan(operand.rows, self._dense(block), pairings)
        else:
            np.matmul(operand.rows, self._dense(block).T, out=pairings)
        return pairings

    def cost(self, n_features: int) -> float:
        """Return the nanoseconds of a value, roughly."""
        return _COST_OF_SPARSE if self.sparse else n_features * self.dtype.itemsize * _COST_OF_BYTE


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
