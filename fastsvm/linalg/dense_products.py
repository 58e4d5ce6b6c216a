"""Products of dense rows, compiled for the type in which the rows are stored.

A few rows and scores at a time stay in registers, so that a block is read once for several scores, and bytes are
widened in registers. One thread computes each sum, in the same order for any part of a block.
"""

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.processor import HAS_WIDE_VECTORS
from fastsvm._compiled.vectors import add_tile_1, add_tile_2, add_tile_5
from fastsvm.linalg.row_products import FEATURES, add_rows

_ROWS = 8  # So many rows are widened at a time, so that weights are read once for all of them.


@outlined
def add_products(
    values: np.ndarray, places: np.ndarray, factors: np.ndarray, bounds: tuple[int, int], out: np.ndarray
) -> None:
    """Add to out[c] the rows `places` of `values` times factors[c, place], for c within `bounds`."""
    _add_all(values, places, factors, bounds, out)


# --- by vectors ------------------------------------------------------------------------------------------


def _wide_add(values, places, factors, bounds, out):
    """Add rows, four at a time."""
    low, high = bounds
    base, step, n, stride = values.ctypes.data, values.strides[0], values.shape[1], out.strides[0]
    tile = np.empty(20, out.dtype)
    r, of = tile[0], tile.ctypes.data
    for t in range(0, places.size, 4):
        m = min(4, places.size - t)
        p0, p1 = places[t], places[t + min(1, m - 1)]
        p2, p3 = places[t + min(2, m - 1)], places[t + min(3, m - 1)]
        a, b, e, f, x = base + p0 * step, base + p1 * step, base + p2 * step, base + p3 * step, values[p0, 0]
        c = low
        while c < high:
            count = 5 if high - c >= 5 else 2 if high - c >= 2 else 1
            for k in range(count):
                for i in range(4):
                    tile[4 * k + i] = factors[c + k, places[t + i]] if i < m else tile.dtype.type(0)
            to = out.ctypes.data + c * stride
            if count == 5:
                add_tile_5(x, r, (a, b, e, f), of, stride, n, to)
            elif count == 2:
                add_tile_2(x, r, (a, b, e, f), of, stride, n, to)
            else:
                add_tile_1(x, r, (a, b, e, f), of, stride, n, to)
            c += count


# --- by loops, on processors without wide vectors --------------------------------------------------------


def _plain_add(values, places, factors, bounds, out):
    """Add rows, eight at a time; some columns at a time are widened first."""
    d, real = values.shape[1], out.dtype.type
    wide, some = np.zeros((_ROWS, FEATURES), out.dtype), np.zeros(_ROWS, out.dtype)
    for left in range(0, d, FEATURES):
        right = min(left + FEATURES, d)
        for first in range(0, places.size, _ROWS):
            n = min(_ROWS, places.size - first)
            for i in range(n):
                source, target = values[places[first + i], left:right], wide[i]
                for j in range(source.size):
                    target[j] = real(source[j])
            for c in range(bounds[0], bounds[1]):
                for i in range(_ROWS):
                    some[i] = factors[c, places[first + i]] if i < n else real(0)
                add_rows(wide, some, out[c, left:right])


_add_all = jit(_wide_add if HAS_WIDE_VECTORS else _plain_add)


# --- copies ----------------------------------------------------------------------------------------------


@jit
def mirror(square: np.ndarray, n: int) -> None:
    """Copy the lower triangle of a matrix of `n` rows to the upper triangle."""
    for i in range(n):
        for j in range(i):
            square[j, i] = square[i, j]


@jit
def scale_rows(values: np.ndarray, shift: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """Write (x - shift) scale for all rows x in the type of `out`; x itself if `scale` is empty."""
    real = out.dtype.type
    for i in range(values.shape[0]):
        if scale.size:
            for j in range(values.shape[1]):
                out[i, j] = (real(values[i, j]) - shift[j]) * scale[j]
        else:
            for j in range(values.shape[1]):
                out[i, j] = real(values[i, j])
