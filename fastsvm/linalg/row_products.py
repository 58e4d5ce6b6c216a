"""Products of rows with a fixed order of sums: the products of a row have the same bits, whatever rows are beside it.

BLAS does not guarantee that, because it chooses kernels by the shapes of its arguments.

A few vectors, such as the weights of a linear model, are multiplied with rows as they are stored. Many vectors are
packed into panels first: a panel holds some rows feature by feature, so that a register holds the sums of several rows.
"""

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.processor import HAS_WIDE_VECTORS, PLAIN
from fastsvm._compiled.scalars import HAS_HALF_FLOATS, half_as_single
from fastsvm._compiled.threads import scratch_array
from fastsvm._compiled.vectors import (
    PANEL_BYTES,
    PANEL_ROWS,
    PANEL_VECTORS,
    pack_tile,
    panel_tile,
    product_tile_1,
    product_tile_2,
    product_tile_5,
)

FEATURES = 256
"""Number of features that are summed before they are added to the sum of those before them."""
_READABLE = np.uint8, np.float32, np.float64
_CACHED_ROWS = 48  # A tile has so many rows, which stay in the cache for all panels.
_PACKED = 16  # So many features of a panel are written while they are in the cache.


def product_type(dtype: np.dtype) -> np.dtype:
    """Return the type in which rows of `dtype` are multiplied: float32 if it is exact, else float64."""
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32, "safe") else np.float64)


def is_readable(values: np.ndarray) -> bool:
    """Return whether dense rows are C-contiguous and in a type that compiled functions take."""
    return values.dtype in _READABLE and values.flags.c_contiguous


def readable_rows(values: np.ndarray) -> np.ndarray:
    """Return dense rows, C-contiguous and in a type that compiled functions take."""
    if values.dtype == np.float16:
        return as_float32(values)
    if values.dtype not in _READABLE:
        values = values.astype(product_type(values.dtype))
    return np.ascontiguousarray(values)


# --- values in float16 as float32: NumPy takes longer for them than for a product with a few weights -----


@jit
def _widen(halves, values):
    """Write numbers, given by their bits in float16."""
    for i in range(halves.size):
        values[i] = half_as_single(halves[i])


def as_float32(values: np.ndarray) -> np.ndarray:
    """Return an array of float16 as a C-contiguous one of float32."""
    if not HAS_HALF_FLOATS:
        return np.ascontiguousarray(values, np.float32)
    converted = np.empty(values.shape, np.float32)
    _widen(np.ascontiguousarray(values).ravel().view(np.uint16), converted.ravel())
    return converted


# --- by rows as they are stored --------------------------------------------------------------------------


@outlined
def write_products(values: np.ndarray, places: np.ndarray, weights: np.ndarray, bounds: tuple, out: np.ndarray) -> None:
    """Write to out[c, p] the products of rows p of `values` and rows c of `weights`; further columns are ignored.

    `bounds` are start and stop within the `places` p, and of the scores c. Weights have contiguous rows of `out`'s
    type.
    """
    start, stop, low, high = bounds
    tile = np.empty(20, out.dtype)
    for t in range(start, stop, 4):
        four = places[t], places[min(t + 1, stop - 1)], places[min(t + 2, stop - 1)], places[min(t + 3, stop - 1)]
        c = low
        while c < high:
            count = 5 if high - c >= 5 else 2 if high - c >= 2 else 1
            _tile_products(values, four, weights, (c, count), tile, out)
            c += count


def _wide_products(values, places, weights, span, tile, out):
    """Write the products of four rows, not necessarily distinct, with one, two or five vectors."""
    c, count = span
    p0, p1, p2, p3 = places
    base, step, n = values.ctypes.data, values.strides[0], values.shape[1]
    a, b, e, f = base + p0 * step, base + p1 * step, base + p2 * step, base + p3 * step
    w, stride = weights.ctypes.data + c * weights.strides[0], weights.strides[0]
    x, r, to = values[p0, 0], tile[0], tile.ctypes.data
    if count == 5:
        product_tile_5(x, r, (a, b, e, f), w, stride, n, to)
    elif count == 2:
        product_tile_2(x, r, (a, b, e, f), w, stride, n, to)
    else:
        product_tile_1(x, r, (a, b, e, f), w, stride, n, to)
    for i in range(4):
        for k in range(count):
            out[c + k, places[i]] = tile[i * count + k]


def _plain_products(values, places, weights, span, tile, out):
    """Write the products of four rows, not necessarily distinct, with some vectors."""
    p0, p1, p2, p3 = places
    real = out.dtype.type
    for c in range(span[0], span[0] + span[1]):
        a = b = e = f = real(0)
        for j in range(values.shape[1]):
            w = weights[c, j]
            a += real(values[p0, j]) * w
            b += real(values[p1, j]) * w
            e += real(values[p2, j]) * w
            f += real(values[p3, j]) * w
        out[c, p0], out[c, p1], out[c, p2], out[c, p3] = a, b, e, f


_tile_products = jit(_wide_products if HAS_WIDE_VECTORS else _plain_products)


# --- by panels -------------------------------------------------------------------------------------------


def empty_panels(n: int, d: int, dtype: np.dtype) -> np.ndarray:
    """Return memory for n rows of d features in panels; valid until the thread calls this again."""
    width = PANEL_BYTES // dtype.itemsize
    return scratch_array("panels", (-(-n // width), d, width), dtype)


def panels_of(rows: np.ndarray) -> np.ndarray:
    """Return rows of floats packed into panels, padded with zeros; valid until the thread packs others."""
    n, d = rows.shape
    panels = empty_panels(n, d, rows.dtype)
    pack(np.ascontiguousarray(rows), panels)
    return panels


def panels_of_columns(values: np.ndarray) -> np.ndarray:
    """Return the columns of an array packed into panels of float64; valid until the thread packs others."""
    panels = empty_panels(values.shape[1], values.shape[0], np.dtype(np.float64))
    _pack_columns(values, panels)
    return panels


@jit
def _pack_part(rows, panels, first, stop, done):
    """Write rows `first` to `stop` of one panel from feature `done` on; zeros beyond the last row."""
    n, d = rows.shape
    panel, place = panels[first // panels.shape[2]], first % panels.shape[2]
    count = max(0, min(stop, n) - first)
    for start in range(done, d, _PACKED):
        end = min(start + _PACKED, d)
        for i in range(count):
            row = rows[first + i]
            for k in range(start, end):
                panel[k, place + i] = row[k]
        for k in range(start, end):
            for i in range(count, stop - first):
                panel[k, place + i] = 0


def _vector_pack(rows, panels):
    n, d = rows.shape
    size, step, base = rows.itemsize, rows.strides[0], rows.ctypes.data
    together, width = 16 // size, panels.shape[2]
    count = width // PANEL_VECTORS
    for first in range(0, panels.shape[0] * width, count):
        done = d // together * together if first + count <= n else 0
        row, to = base + first * step, panels[first // width].ctypes.data + first % width * size
        for k in range(0, done, together):
            pack_tile(panels[0, 0, 0], row + k * size, step, to + k * PANEL_BYTES)
        if done < d:
            _pack_part(rows, panels, first, first + count, done)


def _plain_pack(rows, panels):
    width = panels.shape[2]
    for first in range(0, panels.shape[0] * width, width):
        _pack_part(rows, panels, first, first + width, 0)


pack = jit(_plain_pack) if PLAIN else outlined(_vector_pack)
"""`pack(rows, panels)` writes C-contiguous rows to panels, padded with zeros, for compiled callers."""


@jit
def _pack_columns(values, panels):
    d, n = values.shape
    width = panels.shape[2]
    for p in range(panels.shape[0]):
        first = p * width
        count = min(width, n - first)
        for k in range(d):
            for i in range(count):
                panels[p, k, i] = values[k, first + i]
            for i in range(count, width):
                panels[p, k, i] = 0


def _tiled_products(rows, panels, out, resume):
    q, d = rows.shape
    real, size = out[0, 0], out.itemsize
    base, step, to, stride = rows.ctypes.data, rows.strides[0], out.ctypes.data, out.strides[0]
    first_panel, panel_stride, width = panels.ctypes.data, panels.strides[0], panels.shape[2]
    for start in range(0, max(d, 1), FEATURES):
        stop = min(start + FEATURES, d)
        add = int(resume or start > 0)
        for group in range(0, q, _CACHED_ROWS):
            for p in range(panels.shape[0]):
                panel, column = first_panel + p * panel_stride, to + p * width * size
                for s in range(group, min(group + _CACHED_ROWS, q), PANEL_ROWS):
                    last, x, y = min(PANEL_ROWS, q - s) - 1, base + s * step, column + s * stride
                    panel_tile(real, (x, step, last), panel, (start, stop, add), (y, stride))


def _plain_panel_products(rows, panels, out, resume):
    if not resume:
        out[:] = 0
    d, width = rows.shape[1], panels.shape[2]
    sums = np.empty(width, out.dtype)
    for start in range(0, d, FEATURES):
        for p in range(panels.shape[0]):
            for i in range(rows.shape[0]):
                sums[:] = 0
                for k in range(start, min(start + FEATURES, d)):
                    sums += rows[i, k] * panels[p, k]
                out[i, p * width : (p + 1) * width] += sums


add_products = jit(_plain_panel_products) if PLAIN else outlined(_tiled_products)
"""`add_panel_products` for compiled callers."""


def add_panel_products(rows: np.ndarray, panels: np.ndarray, out: np.ndarray, resume: bool = False) -> None:
    """Write the products of rows, shape (q, d), and panels to `out`, shape (q, n_panels * width), in one type.

    If `resume`, they are added to the sums over earlier features in `out`. Sums in parts of multiples of 256 features
    have the same bits as sums at once.
    """
    add_products(rows, panels, out, resume)


@outlined
def add_rows(rows, coef, sums):
    """Add Σ_s coef_s rows[s] to the sums, in their type. Columns beyond the sums are ignored."""
    s = 0
    while s + 8 <= coef.size:
        a, b, c, d = rows[s], rows[s + 1], rows[s + 2], rows[s + 3]
        e, f, g, h = rows[s + 4], rows[s + 5], rows[s + 6], rows[s + 7]
        ca, cb, cc, cd = coef[s], coef[s + 1], coef[s + 2], coef[s + 3]
        ce, cf, cg, ch = coef[s + 4], coef[s + 5], coef[s + 6], coef[s + 7]
        for i in range(sums.size):
            sums[i] += ca * a[i] + cb * b[i] + cc * c[i] + cd * d[i] + ce * e[i] + cf * f[i] + cg * g[i] + ch * h[i]
        s += 8
    while s < coef.size:
        row, weight = rows[s], coef[s]
        for i in range(sums.size):
            sums[i] += weight * row[i]
        s += 1
