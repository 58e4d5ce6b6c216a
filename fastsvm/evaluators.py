"""Evaluators: kernel values between a few rows made ready, the operand, and a block of others.

The only file that multiplies rows with rows. A tile of products is mapped to kernel values while it is in the
processor's cache, and written where it is wanted.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm._jit import HAS_BYTE_PRODUCTS, byte_tile, jit
from fastsvm._threads import spans
from fastsvm.kernels import Kernel, in_precision, kernel_value, map_diagonal, map_tile
from fastsvm.sources import Block, CSRBlock, DenseBlock

__all__ = [
    "DEAR",
    "ByteEvaluator",
    "CallableEvaluator",
    "Evaluator",
    "PrecomputedEvaluator",
    "VectorEvaluator",
    "multiplies_bytes",
]

DEAR = 20.0
"""Nanoseconds of a kernel value from which on few should be computed in vain, and many at once."""

_BYTE_COLUMNS = 128  # of a tile: its products and the rows stay in the cache beside the operand
_CACHED_BYTES = 192 << 10  # of an operand at a time
_FLOAT_COLUMNS = 512
_COST_OF_FLOAT_BYTE, _COST_OF_BYTE, _COST_OF_SPARSE, _COST_OF_UNKNOWN = 1 / 400, 1 / 200, 4.0, 4.0  # nanoseconds
_LEAST_BYTES, _MOST_BYTES = 64, 16_000  # features of which one load, and in int32 twice the sum of products, fit


class Operand(NamedTuple):
    """Rows made ready to be paired with many others."""

    rows: np.ndarray
    sq_norms: np.ndarray
    by_feature: np.ndarray | None

    @property
    def size(self) -> int:
        """Number of values."""
        return self.rows.size


class Rows(NamedTuple):
    """Where a tile is written: columns `start`... of the rows `slots` of `store`."""

    store: np.ndarray
    slots: np.ndarray
    start: int


class Evaluator(Protocol):
    """Kernel values between a prepared operand and a block.

    Attributes
    ----------
    dtype, terms_dtype : numpy.dtype
        Of values, and of terms.
    feature_bytes : int
        Bytes of a feature of an operand.
    parallel : bool
        Whether tiles may be computed by several threads.
    """

    dtype: np.dtype
    terms_dtype: np.dtype
    feature_bytes: int
    parallel: bool

    def prepare(self, block: Block) -> Any:
        """Return the operand of the rows of a block."""

    def terms(self, block: Block) -> np.ndarray:
        """Return what a tile needs to know of each row beside its products; it may be kept."""

    def tile(self, operand: Any, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block)."""

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return k(x, x) for the rows of a block that begins with row `first` of its source."""

    def cost(self, n_features: int) -> float:
        """Return the nanoseconds of a value, roughly."""


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
        self.manhattan = kernel.pairing == "manhattan"
        self.sparse = sparse

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
        for a, b in spans(block.shape[0], _FLOAT_COLUMNS):
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

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return k(x, x)."""
        sq_norms = self.terms(block)
        out = np.empty(len(sq_norms), self.dtype)
        map_diagonal(self.kernel, np.zeros_like(out) if self.manhattan else sq_norms, sq_norms, out)
        return out

    def cost(self, n_features: int) -> float:
        """Return the nanoseconds of a value, roughly."""
        return _COST_OF_SPARSE if self.sparse else n_features * self.dtype.itemsize * _COST_OF_FLOAT_BYTE


def multiplies_bytes(n_features: int) -> bool:
    """Return whether the processor can multiply rows of so many bytes, exactly."""
    return HAS_BYTE_PRODUCTS and _LEAST_BYTES <= n_features <= _MOST_BYTES


class ByteOperand(NamedTuple):
    """Rows x of bytes as x - 128, padded with zeros to whole tiles, and their terms."""

    rows: np.ndarray
    terms: np.ndarray

    @property
    def size(self) -> int:
        """Number of values, in multiplications as fast as those of floats."""
        return self.rows.size // 8


class ByteEvaluator:
    """A kernel of `fastsvm.kernels` on dense rows of uint8 or an affine image of them, multiplied exactly.

    With u the bytes of a row and s = x - 128 those of the operand, u·x = u·s + 128 Σu, and
    -‖u - x‖² = 2 u·s + (256 Σu - ‖u‖²) - ‖x‖²: twice a product of uint8 with int8 and a term for each row.

    Parameters
    ----------
    kernel : Kernel
        Scalar map of the rows' dot product.
    dtype : numpy.dtype
        float32 or float64, for the values.
    scale : float, default=1.0
        What a byte is multiplied by to give a feature. That something is added to it as well does not matter
        if the kernel is one of distances.
    """

    parallel = True
    terms_dtype = np.dtype(np.int32)
    feature_bytes = 1

    def __init__(self, kernel: Kernel, dtype: np.dtype | type, scale: float = 1.0) -> None:
        self.dtype = np.dtype(dtype)
        self.scale = scale
        self.kernel = in_precision(kernel, self.dtype)
        self.distance = kernel.translation_invariant

    def prepare(self, block: Block) -> ByteOperand:
        """Return the rows shifted to int8 and padded; where 64s overlap at the end of a row, with zeros."""
        n, d = block.shape
        shifted = (block.values ^ np.uint8(128)).view(np.int8)
        whole = d // 64 * 64
        rows = np.zeros((-(-n // 4) * 4, -(-d // 64) * 64), np.int8)
        rows[:n, :whole] = shifted[:, :whole]
        if whole < d:
            rows[:n, whole - d :] = shifted[:, whole:]
        terms = np.zeros(n, np.int32)
        if self.distance:
            terms -= np.einsum("ij,ij->i", block.values, block.values, dtype=np.int32, casting="unsafe")
        return ByteOperand(rows, terms)

    def terms(self, block: Block) -> np.ndarray:
        """Return 256 Σu, less ‖u‖² if the kernel is one of distances."""
        terms = np.empty(block.shape[0], np.int32)
        _byte_terms(np.ascontiguousarray(block.values), self.distance, terms)
        return terms

    def tile(self, operand: ByteOperand, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block)."""
        n, d = block.shape
        rows = np.ascontiguousarray(block.values)
        if n < 4:  # a tile is four rows wide
            rows = np.concatenate([rows, np.zeros((4 - n, d), np.uint8)])
        unit = self.dtype.type(self.scale**2 / 2)
        _byte_values(self.kernel, operand.rows, rows, (operand.terms, terms, unit), out.store, out.slots, out.start)

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return k(x, x)."""
        out = np.empty(block.shape[0], self.dtype)
        sq_norms = np.einsum("ij,ij->i", block.values, block.values, dtype=np.float64, casting="unsafe")
        sq_norms = (self.scale**2 * sq_norms).astype(self.dtype)
        map_diagonal(self.kernel, sq_norms, sq_norms, out)
        return out

    def cost(self, n_features: int) -> float:
        """Return the nanoseconds of a value, roughly."""
        return n_features * _COST_OF_BYTE


class CallableEvaluator:
    """A user's function of two blocks of rows, which returns the matrix of their kernel values.

    Parameters
    ----------
    function : callable
        `function(X, Z)` with arrays (CSR matrices for sparse rows) of shapes (a, d) and (b, d) returns
        an array of shape (a, b).
    """

    parallel = False
    dtype = terms_dtype = np.dtype(np.float64)
    feature_bytes = 8

    def __init__(self, function: Callable) -> None:
        self.function = function

    def prepare(self, block: Block) -> Block:
        """Return the block itself."""
        return block

    def terms(self, block: Block) -> np.ndarray:
        """Return zeros: the function sees the rows themselves."""
        return np.zeros(block.shape[0])

    def tile(self, operand: Block, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write the function's values."""
        out.store[out.slots, out.start : out.start + block.shape[0]] = self._values(operand, block)

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

    def cost(self, n_features: int) -> float:
        """Return what makes no difference: the function is not known."""
        return _COST_OF_UNKNOWN


class PrecomputedEvaluator:
    """Rows that are kernel values themselves, as for `kernel="precomputed"`.

    Parameters
    ----------
    columns : ndarray of int64
        Numbers of the training rows in question, among all the columns.
    """

    parallel = False
    dtype = np.dtype(np.float64)
    feature_bytes = 8

    def __init__(self, columns: np.ndarray) -> None:
        self.columns = columns

    def diagonal(self, block: Block, first: int) -> np.ndarray:
        """Return the entries on the diagonal of the matrix."""
        rows = np.arange(block.shape[0])
        return block.dense(self.dtype)[rows, self.columns[first + rows]]

    def cost(self, n_features: int) -> float:
        """Return zero: values are there."""
        return 0.0


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


@jit
def _byte_values(kernel, operand, rows, terms, out, slots, start):
    """Write k of prepared rows of int8 with rows of uint8, a tile at a time that stays in the cache.

    `terms` are those of the operand, of the rows, and half a squared unit.
    """
    of_operand, of_rows, unit = terms
    n, d = rows.shape
    width = min(n, _BYTE_COLUMNS)
    height = max(_CACHED_BYTES // d // 4 * 4, 4)
    products = np.empty((min(height, operand.shape[0]), width), np.int32)
    for first in range(0, of_rows.size, width):
        t = min(first, n - width)  # the last tile may repeat a few rows
        count = min(width, of_rows.size - t)
        for s in range(0, of_operand.size, height):
            part = of_operand[s : s + height]
            _byte_products(operand[s : s + height], rows[t : t + width], products)
            _map_bytes(kernel, products, (part, of_rows[t : t + count], unit), out, slots[s : s + height], start + t)


@jit
def _byte_products(operand, rows, out):
    """Write the products of prepared rows of int8 with at least four rows of uint8 to `out`, 4 x 4 at a time."""
    a, b, c = operand.ctypes.data, rows.ctypes.data, out.ctypes.data
    a_step, b_step, c_step = operand.strides[0], rows.strides[0], out.strides[0]
    n = rows.shape[0]
    for first in range(0, n, 4):
        t = min(first, n - 4)  # the last tile may repeat a few rows
        for s in range(0, operand.shape[0], 4):
            byte_tile(
                a + s * a_step, a_step, b + t * b_step, b_step, rows.shape[1], c + s * c_step + 4 * t, c_step
            )


@jit
def _byte_terms(rows, distance, out):
    """Write 256 Σu, less ‖u‖² if `distance`, for each row u of uint8."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total, squares = np.int32(0), np.int32(0)
        for k in range(row.size):
            value = np.int32(row[k])
            total = np.int32(total + value)
            squares = np.int32(squares + value * value)
        out[i] = 256 * total - squares if distance else 256 * total


@jit
def _map_bytes(kernel, products, terms, out, slots, start):
    """Write k from integer products; `terms` are those of the operand, of the rows, and half a squared unit."""
    of_operand, of_rows, unit = terms
    real, zero = out.dtype.type, unit - unit
    for s in range(of_operand.size):
        source, own = products[s], of_operand[s]
        target = out[slots[s], start : start + of_rows.size]
        for i in range(of_rows.size):
            twice = np.int32(source[i] + source[i] + own + of_rows[i])
            target[i] = kernel_value(kernel, unit * real(twice), zero, zero)
