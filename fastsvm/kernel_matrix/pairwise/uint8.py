"""Kernels on uint8 rows, with exact integer dot products."""

import sys
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.byte_tile import INSTRUCTIONS, PRODUCTS, byte_tile
from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.threads import scratch_array
from fastsvm.kernel_matrix.pairwise.base import ROUND, Rows, map_rest, rounds_and_rest
from fastsvm.kernels import Kernel, in_precision, kernel_value
from fastsvm.linalg.row_products import add_rows
from fastsvm.sources import Block, Source

_CACHED_BYTES = 192 << 10  # So many bytes of an operand are multiplied at a time, which fit the cache beside a tile.
_TILE = PRODUCTS or INSTRUCTIONS["madd"]
_ROWS, _WIDTH = _TILE.rows, _TILE.columns  # tile size: rows of the operand, rows of the block
_TOGETHER, _SIZE, _SHIFT = _TILE.together, np.dtype(_TILE.dtype).itemsize, _TILE.shift


def multiplies_bytes(n_features: int) -> bool:
    """Return whether the processor can compute exact dot products of rows of `n_features` bytes."""
    byte, lane = np.iinfo(np.uint8), np.iinfo(np.int32)  # Twice the sum of products is to fit a lane.
    fits = n_features >= lane.dtype.itemsize and 2 * n_features * byte.max**2 <= lane.max
    return PRODUCTS is not None and fits


class ByteOperand(NamedTuple):
    """Rows x of bytes stored as x - `shift` of the processor's instruction, interleaved, and their terms."""

    rows: np.ndarray
    terms: np.ndarray


class Uint8Pairwise:
    """A kernel of `fastsvm.kernels` on dense uint8 rows, or rows quantized to uint8, with exact products.

    With u the bytes of a row and s = x - c those of the operand, where c is 128 if the processor multiplies unsigned
    with signed bytes, else 0, u·x = u·s + c Σu, and -‖u - x‖² = 2 u·s + (2c Σu - ‖u‖²) - ‖x‖²: twice a product of
    integers, plus one term per row. Features are `scale` times the bytes, plus a shift that distances do not see.
    """

    parallel = True
    terms_dtype = np.dtype(np.int32)
    summed_rows = sys.maxsize

    def __init__(self, kernel: Kernel, dtype: np.dtype | type, scale: float = 1.0) -> None:
        self.dtype = np.dtype(dtype)
        self.scale = scale
        self.kernel = in_precision(kernel, self.dtype)
        self.distance = kernel.translation_invariant
        self.of_floats = kernel

    def widened(self) -> "Uint8Pairwise":
        """Return the pairwise kernel that computes the same kernel in float64."""
        return Uint8Pairwise(self.of_floats, np.float64, self.scale)

    def row_bytes(self, rows: Block | Source) -> int:
        """Return the bytes of a prepared row."""
        return rows.shape[1]

    def prepare(self, block: Block) -> ByteOperand:
        """Return the rows shifted and padded to whole tiles with zeros, also where groups of features overlap."""
        n, d = block.shape
        values: np.ndarray = np.asarray(block.stored ^ np.uint8(_SHIFT), _TILE.dtype)  # by 128 less, as signed bytes
        whole = d // _TOGETHER * _TOGETHER
        rows: np.ndarray = np.zeros((-(-n // _ROWS) * _ROWS, -(-d // _TOGETHER) * _TOGETHER), _TILE.dtype)
        rows[:n, :whole] = values[:, :whole]
        if whole < d:
            rows[:n, whole - d :] = values[:, whole:]
        groups = rows.view(np.int32).reshape(len(rows) // _ROWS, _ROWS, -1)
        rows = np.ascontiguousarray(groups.transpose(0, 2, 1)).view(_TILE.dtype)
        terms = np.zeros(n, np.int32)
        if self.distance:
            terms -= np.einsum("ij,ij->i", block.stored, block.stored, dtype=np.int32, casting="unsafe")
        return ByteOperand(rows, terms)

    def terms(self, block: Block) -> np.ndarray:
        """Return 2c Σu, minus ‖u‖² if the kernel is a function of distances."""
        terms = np.empty(block.shape[0], np.int32)
        _byte_terms(np.ascontiguousarray(block.stored), self.distance, terms)
        return terms

    def tile(self, operand: ByteOperand, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block) to `out`."""
        both_terms = operand.terms, terms, self._unit
        _byte_values(self.kernel, operand.rows, _whole_tile(block), both_terms, out.store, out.slots, out.start)

    def add_sums(
        self, operand: ByteOperand, coef: np.ndarray, block: Block, terms: np.ndarray, sums: np.ndarray
    ) -> None:
        """Add Σ_s coef_s k(x_s, x) over the rows of the operand to the sums of the block's rows x."""
        both_terms = operand.terms, terms, self._unit
        tile = scratch_array("tile", _tile_shape(*block.shape), self.dtype)
        _add_byte_values(self.kernel, operand.rows, _whole_tile(block), both_terms, coef, tile, sums)

    @property
    def _unit(self) -> np.floating:
        return self.dtype.type(self.scale**2 / 2)

    def cost(self, n_features: int) -> float:
        """Return the approximate nanoseconds per value."""
        return n_features * _TILE.cost


def _whole_tile(block: Block) -> np.ndarray:
    """Return the rows of a block, with rows of zeros if there are fewer than a tile has."""
    n, d = block.shape
    rows = np.ascontiguousarray(block.stored)
    return rows if n >= _WIDTH else np.concatenate([rows, np.zeros((_WIDTH - n, d), np.uint8)])


def _tile_shape(n: int, d: int) -> tuple[int, int]:
    """Return the shape of a tile: so many rows of an operand, and n other rows or a part of them, fit the cache."""
    return _ROWS * max(_CACHED_BYTES // (_ROWS * d * _SIZE), 1), min(max(n, _WIDTH), ROUND)


_shape_of_tile = jit(_tile_shape)


@jit
def _byte_values(kernel, operand, rows, terms, out, slots, start):
    """Write k of prepared rows with uint8 rows, in tiles; `terms` ends with half the squared scale."""
    of_operand, of_rows, unit = terms
    n, d = rows.shape
    height, width = _shape_of_tile(n, d)
    groups = height // _ROWS
    products = np.empty((_ROWS * min(groups, operand.shape[0]), width), np.int32)
    for first in range(0, of_rows.size, width):
        t = min(first, n - width)  # the last tile may repeat a few rows
        count = min(width, of_rows.size - t)
        part = _as_multiplied(rows[t : t + width])
        for group in range(0, operand.shape[0], groups):
            _byte_products(operand[group : group + groups], part, products)
            a, b = _ROWS * group, min(_ROWS * group + height, of_operand.size)
            of_tile = of_operand[a:b], of_rows[t : t + count], unit
            _map_bytes(kernel, products, of_tile, out, slots[a:b], start + t)


@jit
def _add_byte_values(kernel, operand, rows, terms, coef, tile, sums):
    """Add Σ_s coef_s k(x_s, x) to the sums of uint8 rows x; see `_byte_values`. `tile` is memory for a tile."""
    of_operand, of_rows, unit = terms
    n, (height, width) = len(rows), tile.shape
    groups = height // _ROWS
    products = np.empty((_ROWS * min(groups, operand.shape[0]), width), np.int32)
    slots, start, added = np.arange(height), np.int64(0), np.empty(width)
    for first in range(0, of_rows.size, width):
        t = min(first, n - width)
        count = min(width, of_rows.size - t)
        part = _as_multiplied(rows[t : t + width])
        added[:] = 0
        for group in range(0, operand.shape[0], groups):
            _byte_products(operand[group : group + groups], part, products)
            a, b = _ROWS * group, min(_ROWS * group + height, of_operand.size)
            of_tile = of_operand[a:b], of_rows[t : t + count], unit
            _map_bytes(kernel, products, of_tile, tile, slots[: b - a], start)
            add_rows(tile, coef[a:b], added[:count])
        for i in range(first - t, count):  # the others have their sums
            sums[t + i] += added[i]


def _widened(rows):
    return rows.astype(np.int16)


def _unchanged(rows):
    return rows


_as_multiplied = jit(_widened if _TILE.dtype == np.int16 else _unchanged)


@outlined
def _byte_products(operand, rows, out):
    """Write the products of prepared rows with rows of bytes, at least as many as a tile has, to `out`."""
    a, b, c = operand.ctypes.data, rows.ctypes.data, out.ctypes.data
    a_step, b_step, c_step = operand.strides[0], rows.strides[0], out.strides[0]
    n, d = rows.shape
    for first in range(0, n, _WIDTH):
        t = min(first, n - _WIDTH)  # the last tile may repeat a few rows
        for s in range(operand.shape[0]):
            byte_tile(a + s * a_step, b + t * b_step, b_step, d, c + s * _ROWS * c_step + 4 * t, c_step)


@jit
def _byte_terms(rows, distance, out):
    """Write 2c Σu, minus ‖u‖² if `distance`, for each uint8 row u."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total, squares = np.int32(0), np.int32(0)
        for k in range(row.size):
            value = np.int32(row[k])
            total = np.int32(total + value)
            squares = np.int32(squares + value * value)
        out[i] = 2 * _SHIFT * total - squares if distance else 2 * _SHIFT * total


@outlined
def _map_bytes(kernel, products, terms, out, slots, start):
    """Write k from integer products; `terms` as in `_byte_values`."""
    of_operand, of_rows, unit = terms
    real, n = out.dtype.type, of_rows.size
    zero, (many, padded) = unit - unit, rounds_and_rest(n)
    pairings, zeros, values = np.zeros(padded, out.dtype), np.zeros(padded, out.dtype), np.empty(padded, out.dtype)
    for s in range(of_operand.size):
        source, of_row = products[s], of_operand[s]
        target = out[slots[s], start : start + n]
        for i in range(many):
            twice = np.int32(source[i] + source[i] + of_row + of_rows[i])
            target[i] = kernel_value(kernel, unit * real(twice), zero, zero)
        if many < n:
            for i in range(many, n):
                pairings[i - many] = unit * real(np.int32(source[i] + source[i] + of_row + of_rows[i]))
            map_rest(kernel, pairings, zero, zeros, values, target[many:])
