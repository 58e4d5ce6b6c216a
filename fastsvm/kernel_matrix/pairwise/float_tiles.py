"""Tiles of kernel values of rows of floats: products, distances, values and their sums in compiled code.

A tile has so few rows that it stays in the processor's cache from its products to its last use.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.scalars import maximum, minimum, multiply_add
from fastsvm.kernel_matrix.pairwise.kernel_maps import map_tile
from fastsvm.kernels import kernel_value
from fastsvm.linalg.row_products import add_products, add_rows, pack
from fastsvm.sources import CSRBlock

__all__ = ["TILE_ROWS", "FloatRows", "add_values", "float_rows", "map_pairings", "write_values"]

TILE_ROWS = 48
"""Rows of a tile."""


class FloatRows(NamedTuple):
    """Rows of floats, dense (`values`) or compressed sparse; the arrays of the other form are empty.

    Both forms are one type for compiled code, so that a kernel is compiled once for both.
    """

    values: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


def float_rows(rows: np.ndarray | CSRBlock) -> FloatRows:
    """Return rows as compiled code takes them."""
    if isinstance(rows, CSRBlock):
        return FloatRows(np.empty((0, 0), rows.data.dtype), rows.data, rows.indices, rows.indptr)
    return FloatRows(rows, np.empty(0, rows.dtype), np.empty(0, np.int32), np.empty(0, np.int64))


@outlined
def map_pairings(kernel, tile, operand, block, place):
    """As `map_tile`, but compute the distances of near pairs from the differences of their rows.

    The squared distance of a near pair is below the rounding error of the product. `operand` holds rows, their squared
    norms, up to which distance each is near, and shares; `block` holds the other rows and their squared norms.
    """
    rows, sq_x, near, shares = operand
    others, sq_z = block
    out, slots, start = place
    for first in range(0, sq_x.size, TILE_ROWS):  # they stay in the cache until near pairs are searched
        last = min(first + TILE_ROWS, sq_x.size)
        map_tile(kernel, tile[first:last], sq_x[first:last], sq_z, out, slots[first:last], start)
        for s in range(first, last):
            if near[s] < 0:
                continue
            source = tile[s]
            least = sq_z[0] - source[0] - source[0]
            for i in range(1, sq_z.size):
                least = minimum(least, sq_z[i] - source[i] - source[i])
            bound = near[s] + near[s] - sq_x[s]  # with a margin, as sums of a single pair may round differently
            if not least > bound:
                target = out[slots[s], start : start + sq_z.size]
                _map_near(kernel, source, (sq_x[s], sq_z), shares, (rows, s), others, target)


@jit
def write_values(kernel, operand, block, memory, place):
    """Write k of dense rows to `place`; `memory` holds panels and pairings, the rest is as for `map_pairings`."""
    (panels, pairings), (out, slots, start) = memory, place
    pack(block[0].values, panels)
    for first in range(0, slots.size, TILE_ROWS):
        _write_tile(kernel, operand, first, block, (panels, pairings), (out, slots[first:], start))


@jit
def add_values(kernel, operand, coef, block, memory, sums):
    """Add Σ_s coef_s k(x_s, x) over the rows of `operand` to the sums, one for each row of `block`; both are dense.

    No value leaves the processor's cache, and there is no return to Python, where threads wait for each other.
    """
    panels, pairings, tile = memory
    slots, start = np.arange(TILE_ROWS), np.int64(0)  # a literal would be a type, for which all is compiled anew
    pack(block[0].values, panels)
    for first in range(0, coef.size, TILE_ROWS):
        _write_tile(kernel, operand, first, block, (panels, pairings), (tile, slots, start))
        add_rows(tile, coef[first : first + TILE_ROWS], sums)


@jit
def _write_tile(kernel, operand, first, block, memory, place):
    """Write k of the rows of a tile, of which `first` is the first, to the first slots of `place`."""
    (rows, sq_x, near, shares), (panels, pairings) = operand, memory
    last = min(first + TILE_ROWS, sq_x.size)
    part = FloatRows(rows.values[first:last], rows.data, rows.indices, rows.indptr)
    add_products(part.values, panels, pairings, False)
    map_pairings(kernel, pairings, (part, sq_x[first:last], near[first:last], shares), block, place)


@jit
def _map_near(kernel, source, norms, shares, row, others, out):
    """Write k of a row and its near rows among others. Near is relative to the shorter of the two rows."""
    x, sq_z = norms
    least_seen, seen, usual = shares
    none = out.dtype.type(0)
    for i in range(sq_z.size):
        low, high = minimum(x, sq_z[i]), maximum(x, sq_z[i])
        share = seen if low >= least_seen else usual
        if share > 0 and not low + high - source[i] - source[i] > 2 * share * low:
            half = out.dtype.type(_sq_distance(row, (others, i)) / -2)
            out[i] = kernel_value(kernel, half, none, none)


@jit
def _sq_distance(one, other):
    """Return the squared distance of two rows, each given by all rows and its number, in float64."""
    (x, s), (z, i) = one, other
    if z.indptr.size > 0:
        return _sq_distance_of_sparse(one, other)
    total, row, values = 0.0, x.values[s], z.values[i]
    for k in range(row.size):
        difference = np.float64(row[k]) - np.float64(values[k])
        total += difference * difference
    return total


@jit
def _sq_distance_of_sparse(one, other):
    (x, s), (z, i) = one, other
    total, a, b = 0.0, x.indptr[s], z.indptr[i]
    end, stop = x.indptr[s + 1], z.indptr[i + 1]
    while a < end or b < stop:  # in the order of the features of both rows
        left = a < end and (b == stop or x.indices[a] <= z.indices[b])
        right = b < stop and (a == end or z.indices[b] <= x.indices[a])
        difference = 0.0
        if left:
            difference += np.float64(x.data[a])
            a += 1
        if right:
            difference -= np.float64(z.data[b])
            b += 1
        total = multiply_add(difference, difference, total)
    return total
