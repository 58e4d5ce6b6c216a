"""Products of dense rows, compiled for the type in which the rows are stored.

A few rows and scores at a time stay in registers, so that a block is read once for several scores, and bytes are
widened in registers. One thread computes each sum, in the same order for any part of a block.
"""

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.processor import HAS_WIDE_VECTORS
from fastsvm._compiled.vectors import add_tile_1, add_tile_2, add_tile_5
from fastsvm.linalg.row_products import FEATURES

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
    d = values.shape[1]
    wide = np.empty(_ROWS * FEATURES, out.dtype)
    for left in range(0, d, FEATURES):
        right = min(left + FEATURES, d)
        for first in range(0, places.size, _ROWS):
            n = min(_ROWS, places.size - first)
            for i in range(_ROWS):
                place = places[first + min(i, n - 1)]
                _widen(values[place, left:right], wide[i * FEATURES : i * FEATURES + right - left])
            for c in range(bounds[0], bounds[1]):
                _add_rows(_eight(factors, c, places, first), wide, out[c, left:right])


@jit
def _widen(values, out):
    real = out.dtype.type
    for j in range(values.size):
        out[j] = real(values[j])


@jit
def _eight(factors, c, places, first):
    """Return the factors of eight places, 0 beyond the last."""
    n, none = places.size - first, factors.dtype.type(0)
    return (
        factors[c, places[first]],
        factors[c, places[first + 1]] if n > 1 else none,
        factors[c, places[first + 2]] if n > 2 else none,
        factors[c, places[first + 3]] if n > 3 else none,
        factors[c, places[first + 4]] if n > 4 else none,
        factors[c, places[first + 5]] if n > 5 else none,
        factors[c, places[first + 6]] if n > 6 else none,
        factors[c, places[first + 7]] if n > 7 else none,
    )


@jit
def _add_rows(factors, wide, out):
    """Add eight rows times factors."""
    f0, f1, f2, f3, f4, f5, f6, f7 = factors
    for j in range(out.size):
        x0, x1, x2, x3 = wide[j], wide[j + FEATURES], wide[j + 2 * FEATURES], wide[j + 3 * FEATURES]
        x4, x5 = wide[j + 4 * FEATURES], wide[j + 5 * FEATURES]
        x6, x7 = wide[j + 6 * FEATURES], wide[j + 7 * FEATURES]
        out[j] += f0 * x0 + f1 * x1 + f2 * x2 + f3 * x3 + f4 * x4 + f5 * x5 + f6 * x6 + f7 * x7


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
