"""Kernels on rows of floats, dense or sparse.

The bits of a value do not depend on the rows computed with it, on the division into tiles, or on the order of its two
rows. Therefore a resumed fit ends with the same model, whatever the cache dropped, and the prediction for a row does
not depend on other rows. BLAS does not guarantee this: its rounding depends on the shapes of both matrices and, on some
processors, on the positions of the rows in them. Padding does not help everywhere. So products are computed by
`row_products`, and every other sum is symmetric in the two rows.

A tile of kernel values has so few rows that it stays in the processor's cache from its products to its last use.
"""

import copy
import sys
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.scalars import maximum, minimum, multiply_add
from fastsvm._compiled.threads import scratch_array, spans
from fastsvm.kernel_matrix.pairwise.base import COST_OF_UNKNOWN, TILED_ROWS, Rows, add_tile, map_tile
from fastsvm.kernels import Kernel, in_precision, kernel_value
from fastsvm.linalg.inverted_index import InvertedIndex, invert, write_indexed_products
from fastsvm.linalg.row_products import add_products, add_rows, empty_panels, pack, panels_of
from fastsvm.sources import Block, CSRBlock, DenseBlock, MemorySource, Source

_COLUMNS = 512  # A tile has so many columns, which are packed for products at once.
_TILE_ROWS = 48  # And so many rows.
_SQUARE_ROWS = 16  # Of values that are computed once it has fewer, which leaves out more of the others.
_PANELS_BYTES = 1 << 20  # Rows that are paired with a few others are packed at once up to so many bytes.
_COST_OF_BYTE = 1 / 400  # A product of two features takes so many nanoseconds for each byte of one.
_SPARSE_VALUE = np.dtype([("value", np.float64), ("index", np.int64)])  # This is what a value takes at most.
_INDEX_BYTES = 6  # An index takes so many bytes while it is made, per byte of its rows.

# A squared distance computed from squared norms and a product has their rounding errors. Where it is not larger than
# those errors, it is computed from the differences of the features. For rows with norms so large that the kernel value
# is affected, this is done where it is not larger than the share `_NEAR` of the squared norms.
_MOST_ROUNDING = {
    np.dtype(np.float32): 1e-3,
    np.dtype(np.float64): 1e-12,
}  # largest rounding error of a kernel value, by type
_NEAR = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-4}


class FloatRows(NamedTuple):
    """Rows of floats, dense (`values`) or compressed: one type, so that a kernel is compiled once."""

    values: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


def float_rows(rows: np.ndarray | CSRBlock) -> FloatRows:
    """Return rows as compiled code takes them."""
    if isinstance(rows, CSRBlock):
        return FloatRows(np.empty((0, 0), rows.data.dtype), rows.data, rows.indices, rows.indptr)
    return FloatRows(rows, np.empty(0, rows.dtype), np.empty(0, np.int32), np.empty(0, np.int64))


class Operand(NamedTuple):
    """Rows, converted to the kernel's type and centred, prepared to be paired with many others.

    Up to the squared distance `near`, negative for none, differences are taken. `shares` are the squared norm from
    which on rounding affects the kernel, and the shares that are near from there on and below. Dense rows that are
    kept for many predictions have `panels` of them.
    """

    rows: np.ndarray | CSRBlock
    sq_norms: np.ndarray
    near: np.ndarray
    shares: tuple[np.floating, np.floating, np.floating]
    by_feature: InvertedIndex | None
    panels: np.ndarray | None = None


class RealPairwise:
    """A kernel of `fastsvm.kernels` on rows of features, in the type `dtype`, float32 or float64.

    `centre` is subtracted for kernels of distances, which lose digits where norms are large, but not from sparse rows.
    With `all_near`, distances come from differences wherever rounding affects them, as in predictions.
    """

    parallel = True

    def __init__(
        self,
        kernel: Kernel,
        dtype: np.dtype | type,
        centre: np.ndarray | None,
        sparse: bool,
        all_near: bool = False,
    ) -> None:
        self.dtype = self.terms_dtype = np.dtype(dtype)
        self.kernel = in_precision(kernel, self.dtype)
        use_centre = kernel.translation_invariant and not sparse
        self.centre = centre.astype(self.dtype) if use_centre and centre is not None else None
        self.manhattan = kernel.pairing == "manhattan"
        self.compressed = sparse and not self.manhattan
        self.is_dense = not (self.compressed or self.manhattan)  # pairings are products of dense rows
        self.distance = kernel.translation_invariant and not self.manhattan
        self.sparse, self.all_near = sparse, all_near or self.dtype == np.float64
        self._in_floats = kernel, centre

    @property
    def of_floats(self) -> Kernel:
        """The kernel with its parameters as they were given, in float64."""
        return self._in_floats[0]

    def widened(self) -> "RealPairwise":
        """Return the pairwise kernel that computes the same kernel in float64."""
        kernel, centre = self._in_floats
        return RealPairwise(kernel, np.float64, centre, self.sparse)

    def converts(self, source: Source) -> bool:
        """Return whether rows are dense and in memory, and in another type or with another centre than in products."""
        is_dense = self.is_dense and isinstance(source.block, DenseBlock)
        return is_dense and (source.dtype != self.dtype or self.centre is not None)

    def converted(self, source: Source) -> tuple["RealPairwise", MemorySource] | None:
        """Return rows in memory as they are multiplied, and the kernel on those; None if they are so already."""
        if not self.converts(source):
            return None
        kernel = copy.copy(self)
        kernel.centre = None
        return kernel, MemorySource(DenseBlock(np.ascontiguousarray(self._dense(cast(DenseBlock, source.block)))))

    def _dense(self, block: Block) -> np.ndarray:
        if self.centre is None:
            return block.dense(self.dtype)
        out = np.empty(block.shape, self.dtype)
        if block.stored.dtype.itemsize <= self.dtype.itemsize:
            return np.subtract(block.stored, self.centre, out=out, casting="unsafe")
        return np.subtract(block.dense(np.dtype(np.float64)), self.centre, out=out, casting="same_kind")

    def row_bytes(self, rows: Block | Source) -> int:
        """Return the bytes of a prepared row."""
        if self.compressed:
            n, d = rows.shape
            return _INDEX_BYTES * min(rows.nbytes // max(1, n), _SPARSE_VALUE.itemsize * d) + 1
        return rows.shape[1] * self.dtype.itemsize

    def prepare(self, block: Block) -> Operand:
        """Return the rows, converted and centred, with their squared norms."""
        shares = self.shares(block.shape[1])
        if self.compressed:
            few = block.compressed(self.dtype)
            norms = csr_sq_norms(few.data, few.indptr)
            return Operand(few, norms, self._near(norms, shares), shares, invert(few))
        rows = self._dense(block)
        norms = sq_norms(rows)
        return Operand(rows, norms, self._near(norms, shares), shares, None)

    def _near(self, norms: np.ndarray, shares: tuple[np.floating, np.floating, np.floating]) -> np.ndarray:
        """Return the squared distance up to which a row of each squared norm is near to shorter rows."""
        least_seen, seen, usual = shares
        if not self.distance:
            return np.full(len(norms), -1, self.dtype)
        with np.errstate(over="ignore"):
            return np.where(norms >= least_seen, 2 * seen * norms, 2 * usual * norms - (usual == 0)).astype(self.dtype)

    def shares(self, n_features: int) -> tuple[np.floating, np.floating, np.floating]:
        """Return the `shares` of an operand."""
        real, least_share = self.dtype.type, _NEAR[self.dtype]
        if not self.distance:
            return real(0), real(0), real(0)
        rounding = (2 * n_features + 8) * float(np.finfo(real).eps)
        usual = min(rounding, max(least_share, 1e-3))  # a bound on the sum of so many rounding errors
        return (
            _least_seen(self.of_floats, self.dtype),  # type: ignore[arg-type]  # kernels are tuples
            real(max(least_share, usual)),
            real(usual if self.all_near else 0),
        )

    def terms(self, block: Block) -> np.ndarray:
        """Return the squared norms."""
        if self.compressed:
            few = block.compressed(self.dtype)
            return csr_sq_norms(few.data, few.indptr)
        return sq_norms(self._dense(block))

    @property
    def summed_rows(self) -> int:
        """Rows of an operand for `add_sums`: without a tile of them in memory, any number."""
        return sys.maxsize if self.is_dense else TILED_ROWS

    def tile(self, operand: Operand, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block) to `out`."""
        for a, b in spans(block.shape[0], _COLUMNS):
            place = out._replace(start=out.start + a)
            if self.is_dense:
                right, panels = self._right(block.slice(a, b), terms[a:b])
                pairings = scratch_array("pairings", (_TILE_ROWS, panels.shape[0] * panels.shape[2]), self.dtype)
                write_values(self.kernel, _left(operand), right, (panels, pairings, True), place)
            else:
                others, pairings = self._pairings(operand, block.slice(a, b))
                map_pairings(self.kernel, pairings, _left(operand), (float_rows(others), terms[a:b]), place)

    def between(self, few: Operand, operand: Operand, out: np.ndarray) -> None:
        """Write k(few, operand) of dense rows to `out`, where panels of the few rows would be mostly empty."""
        rows, slots = cast(np.ndarray, operand.rows), np.arange(len(few.sq_norms))
        kept, columns = operand.panels, max(_COLUMNS, _PANELS_BYTES // max(1, rows[:1].nbytes))
        for a, b in spans(len(rows), columns if kept is None else max(1, len(rows))):
            panels = empty_panels(b - a, rows.shape[1], self.dtype) if kept is None else kept
            pairings = scratch_array("pairings", (len(slots), panels.shape[0] * panels.shape[2]), self.dtype)
            right = float_rows(rows[a:b]), operand.sq_norms[a:b]
            write_values(self.kernel, _left(few), right, (panels, pairings, kept is None), Rows(out, slots, a))

    def square(self, operand: Operand, out: np.ndarray) -> None:
        """Write the values among few dense rows to `out`, each once: the others have the same bits."""
        n, panels = len(operand.sq_norms), panels_of(cast(np.ndarray, operand.rows))
        pairings = scratch_array("pairings", (_TILE_ROWS, panels.shape[0] * panels.shape[2]), self.dtype)
        write_square(self.kernel, _left(operand), (panels, pairings), Rows(out, np.arange(n), 0))

    def add_sums(self, operand: Operand, coef: np.ndarray, block: Block, terms: np.ndarray, sums: np.ndarray) -> None:
        """Add Σ_s coef_s k(x_s, x) over the rows of the operand to the sums of the block's rows x."""
        if not self.is_dense:
            add_tile(self, operand, coef, block, terms, sums)
            return
        right, panels = self._right(block, terms)
        shape = _TILE_ROWS, panels.shape[0] * panels.shape[2]
        memory = panels, scratch_array("pairings", shape, self.dtype), scratch_array("tile", shape, self.dtype)
        add_values(self.kernel, _left(operand), coef, right, memory, sums)

    def _right(self, block: Block, terms: np.ndarray) -> tuple[tuple[FloatRows, np.ndarray], np.ndarray]:
        """Return dense rows of a block with their terms, and memory for panels of them."""
        rows = np.ascontiguousarray(self._dense(block))
        return (float_rows(rows), terms), empty_panels(rows.shape[0], rows.shape[1], self.dtype)

    def _pairings(self, operand: Operand, block: Block) -> tuple[np.ndarray | CSRBlock, np.ndarray]:
        """Return the converted rows of a block and their pairings, where these are not products of dense rows."""
        n = len(operand.sq_norms)
        pairings = scratch_array("pairings", (n, block.shape[0]), self.dtype)
        if operand.by_feature is not None:
            others = block.compressed(self.dtype)
            write_indexed_products(others, operand.by_feature, pairings)
            return others, pairings
        rows = self._dense(block)
        _manhattan(operand.rows, rows, pairings)
        return rows, pairings

    def cost(self, n_features: int) -> float:
        """Return the approximate nanoseconds per value."""
        return COST_OF_UNKNOWN if self.sparse else n_features * self.dtype.itemsize * _COST_OF_BYTE


def _left(operand: Operand) -> tuple:
    """Return an operand as compiled code takes it."""
    return float_rows(operand.rows), operand.sq_norms, operand.near, operand.shares


@lru_cache(256)
def _least_seen(kernel: Kernel, dtype: np.dtype) -> np.floating:
    """Return the least squared norm, in float32, from which on rounding affects the kernel."""
    eps, most = float(np.finfo(dtype).eps), _MOST_ROUNDING[dtype]
    norms, infinity = np.dtype(np.float32), int(np.float32(np.inf).view(np.int32))

    def seen(bits: int) -> bool:
        return not kernel.rounding(eps, float(np.int32(bits).view(norms))) <= most

    return dtype.type(np.int32(bisect_left(range(infinity), True, key=seen)).view(norms))


@jit
def sq_norms(rows: np.ndarray) -> np.ndarray:
    """Return the squared norms of rows of floats."""
    out = np.empty(rows.shape[0], rows.dtype)
    for i in range(out.size):
        row = rows[i]
        total = out.dtype.type(0)
        for k in range(row.size):
            total += row[k] * row[k]
        out[i] = total
    return out


@jit
def csr_sq_norms(data: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the squared norms of sparse rows of floats."""
    out = np.empty(indptr.size - 1, data.dtype)
    for i in range(out.size):
        total = out.dtype.type(0)
        for t in range(indptr[i], indptr[i + 1]):
            total += data[t] * data[t]
        out[i] = total
    return out


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


@outlined
def map_pairings(kernel, tile, operand, block, place):
    """As `map_tile`, but compute the distances of near pairs, below the rounding error, from differences of rows.

    `operand` has rows, squared norms, up to which distance each is near, and shares; `block` rows and squared norms.
    """
    rows, sq_x, near, shares = operand
    others, sq_z = block
    out, slots, start = place
    for first in range(0, sq_x.size, _TILE_ROWS):  # they stay in the cache until near pairs are searched
        last = min(first + _TILE_ROWS, sq_x.size)
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
    """Write k of dense rows to `place`; the rest is as for `map_pairings`.

    `memory` is panels and pairings, and whether the rows are to be packed into the panels.
    """
    (panels, pairings, packs), (out, slots, start) = memory, place
    if packs:
        pack(block[0].values, panels)
    for first in range(0, slots.size, _TILE_ROWS):
        _write_tile(kernel, operand, first, block, (panels, pairings), (out, slots[first:], start))


@jit
def write_square(kernel, operand, memory, place):
    """Write k among the rows of `operand` on and above the diagonal, tile by tile, and copy it to below."""
    (rows, sq_norms, near, shares), (panels, pairings), (out, slots, _) = operand, memory, place
    for first in range(0, slots.size, _SQUARE_ROWS):
        some = rows, sq_norms[: first + _SQUARE_ROWS], near, shares
        panel = first // panels.shape[2]
        start = panel * panels.shape[2]
        block = FloatRows(rows.values[start:], rows.data, rows.indices, rows.indptr), sq_norms[start:]
        _write_tile(kernel, some, first, block, (panels[panel:], pairings), (out, slots[first:], start))
    for i in range(slots.size):
        for j in range(i):
            out[i, j] = out[j, i]


@jit
def add_values(kernel, operand, coef, block, memory, sums):
    """Add Σ_s coef_s k(x_s, x) over the rows of `operand` to the sums of the rows of `block`; both are dense.

    No value leaves the processor's cache, and there is no return to Python, where threads wait for each other.
    """
    panels, pairings, tile = memory
    slots, start = np.arange(_TILE_ROWS), np.int64(0)  # a literal would be a type, for which all is compiled anew
    pack(block[0].values, panels)
    for first in range(0, coef.size, _TILE_ROWS):
        _write_tile(kernel, operand, first, block, (panels, pairings), (tile, slots, start))
        add_rows(tile, coef[first : first + _TILE_ROWS], sums)


@jit
def _write_tile(kernel, operand, first, block, memory, place):
    """Write k of the rows of a tile, of which `first` is the first, to the first slots of `place`."""
    (rows, sq_x, near, shares), (panels, pairings) = operand, memory
    last = min(first + _TILE_ROWS, sq_x.size)
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
