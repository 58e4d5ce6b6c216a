"""Kernels on rows of bytes, by exact integer products."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.byte_tile import BYTE_TILE, HAS_BYTE_PRODUCTS, byte_tile
from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.pairwise.base import Rows
from fastsvm.kernel_matrix.pairwise.kernel_maps import in_precision, map_rest, rounds_and_rest
from fastsvm.kernels import Kernel, kernel_value
from fastsvm.sources import Block, DenseBlock

__all__ = ["Uint8Pairwise", "multiplies_bytes"]

_COLUMNS = 128  # of a tile: its products and the rows stay in the cache beside the operand
_CACHED_BYTES = 192 << 10  # of an operand at a time
_ROWS, _WIDTH = BYTE_TILE  # of the operand, and of the others
_COST_OF_BYTE = 1 / 200  # nanoseconds
_LEAST, _MOST = 4, 16_000  # features that are multiplied at once, and of which twice the sum of products fits int32


def multiplies_bytes(n_features: int) -> bool:
    """Return whether the processor can multiply rows of so many bytes, exactly."""
    return HAS_BYTE_PRODUCTS and _LEAST <= n_features <= _MOST


class ByteOperand(NamedTuple):
    """Rows x of bytes as x - 128, sixteen beside each other and four features at a time, and their terms."""

    rows: np.ndarray
    terms: np.ndarray

    @property
    def size(self) -> int:
        """Number of values, in multiplications as fast as those of floats."""
        return self.rows.size // 8


class Uint8Pairwise:
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

    parallel, dense_only = True, False
    terms_dtype = np.dtype(np.int32)
    feature_bytes = 1

    def __init__(self, kernel: Kernel, dtype: np.dtype | type, scale: float = 1.0) -> None:
        self.dtype = np.dtype(dtype)
        self.scale = scale
        self.kernel = in_precision(kernel, self.dtype)
        self.distance = kernel.translation_invariant
        self._given = kernel

    def widened(self) -> "Uint8Pairwise":
        """Return a pairwise kernel of the same kernel in float64."""
        return Uint8Pairwise(self._given, np.float64, self.scale)

    def prepare(self, block: Block) -> ByteOperand:
        """Return the rows shifted to int8 and padded; where fours overlap at the end of a row, with zeros."""
        n, d = block.shape
        shifted = (_bytes(block) ^ np.uint8(128)).view(np.int8)
        whole = d // 4 * 4
        rows = np.zeros((-(-n // _ROWS) * _ROWS, -(-d // 4) * 4), np.int8)
        rows[:n, :whole] = shifted[:, :whole]
        if whole < d:
            rows[:n, whole - d :] = shifted[:, whole:]
        fours = rows.view(np.int32).reshape(len(rows) // _ROWS, _ROWS, -1)
        rows = np.ascontiguousarray(fours.transpose(0, 2, 1)).view(np.int8)
        terms = np.zeros(n, np.int32)
        if self.distance:
            terms -= np.einsum("ij,ij->i", _bytes(block), _bytes(block), dtype=np.int32, casting="unsafe")
        return ByteOperand(rows, terms)

    def terms(self, block: Block) -> np.ndarray:
        """Return 256 Σu, less ‖u‖² if the kernel is one of distances."""
        terms = np.empty(block.shape[0], np.int32)
        _byte_terms(np.ascontiguousarray(_bytes(block)), self.distance, terms)
        return terms

    def tile(self, operand: ByteOperand, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block)."""
        n, d = block.shape
        rows = np.ascontiguousarray(_bytes(block))
        if n < _WIDTH:
            rows = np.concatenate([rows, np.zeros((_WIDTH - n, d), np.uint8)])
        unit = self.dtype.type(self.scale**2 / 2)
        _byte_values(self.kernel, operand.rows, rows, (operand.terms, terms, unit), out.store, out.slots, out.start)

    def cost(self, n_features: int) -> float:
        """Return the nanoseconds of a value, roughly."""
        return n_features * _COST_OF_BYTE


def _bytes(block: Block) -> np.ndarray:
    assert isinstance(block, DenseBlock)
    return block.values


@jit
def _byte_values(kernel, operand, rows, terms, out, slots, start):
    """Write k of prepared rows of int8 with rows of uint8, a tile at a time that stays in the cache.

    `terms` are those of the operand, of the rows, and half a squared unit.
    """
    of_operand, of_rows, unit = terms
    n, d = rows.shape
    width = min(n, _COLUMNS)
    groups = max(_CACHED_BYTES // (_ROWS * d), 1)
    height = _ROWS * groups
    products = np.empty((_ROWS * min(groups, operand.shape[0]), width), np.int32)
    for first in range(0, of_rows.size, width):
        t = min(first, n - width)  # the last tile may repeat a few rows
        count = min(width, of_rows.size - t)
        for group in range(0, operand.shape[0], groups):
            _byte_products(operand[group : group + groups], rows[t : t + width], products)
            a, b = _ROWS * group, min(_ROWS * group + height, of_operand.size)
            part = of_operand[a:b], of_rows[t : t + count], unit
            _map_bytes(kernel, products, part, out, slots[a:b], start + t)


@jit
def _byte_products(operand, rows, out):
    """Write the products of prepared rows of int8 with at least eight rows of uint8 to `out`, 16 x 8 at a time."""
    a, b, c = operand.ctypes.data, rows.ctypes.data, out.ctypes.data
    a_step, b_step, c_step = operand.strides[0], rows.strides[0], out.strides[0]
    n, d = rows.shape
    for first in range(0, n, _WIDTH):
        t = min(first, n - _WIDTH)  # the last tile may repeat a few rows
        for s in range(operand.shape[0]):
            byte_tile(a + s * a_step, b + t * b_step, b_step, d, c + s * _ROWS * c_step + 4 * t, c_step)


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
    real, n = out.dtype.type, of_rows.size
    zero, (many, padded) = unit - unit, rounds_and_rest(n)
    pairings, zeros, values = np.zeros(padded, out.dtype), np.zeros(padded, out.dtype), np.empty(padded, out.dtype)
    for s in range(of_operand.size):
        source, own = products[s], of_operand[s]
        target = out[slots[s], start : start + n]
        for i in range(many):
            twice = np.int32(source[i] + source[i] + own + of_rows[i])
            target[i] = kernel_value(kernel, unit * real(twice), zero, zero)
        if many < n:
            for i in range(many, n):
                pairings[i - many] = unit * real(np.int32(source[i] + source[i] + own + of_rows[i]))
            map_rest(kernel, pairings, zero, zeros, values, target[many:])
