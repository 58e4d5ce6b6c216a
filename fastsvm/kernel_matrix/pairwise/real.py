"""Kernels on rows of floats, dense or sparse.

The bits of a value do not depend on the rows computed with it, on the division into tiles, or on the order of its two
rows. Therefore a resumed fit ends with the same model, whatever the cache dropped, and the prediction for a row does
not depend on other rows. BLAS does not guarantee this: its rounding depends on the shapes of both matrices and, on some
processors, on the positions of the rows in them. Padding does not help everywhere. So products are computed by
`row_products`, and every other sum is symmetric in the two rows.
"""

from bisect import bisect_left
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.scalars import maximum, minimum, multiply_add
from fastsvm._compiled.scratch import scratch_array
from fastsvm._compiled.threads import spans
from fastsvm.kernel_matrix.pairwise.base import Rows
from fastsvm.kernel_matrix.pairwise.kernel_maps import in_precision, map_tile
from fastsvm.kernels import Kernel, kernel_value
from fastsvm.linalg.inverted_index import InvertedIndex, invert, write_indexed_products
from fastsvm.linalg.row_products import add_panel_products, panels_of
from fastsvm.sources import Block, CSRBlock, DenseBlock, Source

__all__ = ["RealPairwise"]

_COLUMNS = 512  # of a tile
_CACHED_ROWS = 64  # of a tile that stay in the cache until its near pairs are searched
_COST_OF_BYTE, _COST_OF_SPARSE = 1 / 400, 4.0  # nanoseconds
_ADDITION = 64  # multiplications of dense rows that take as long as an addition to the sums of sparse ones
_INDEX_BYTES = 6  # of an index while it is made, per byte of its rows
_VALUE_BYTES = 16  # of a value in sparse rows, with its index

# A squared distance computed from squared norms and a product has their rounding errors. Where it is not larger than
# those errors, it is computed from the differences of the features. For rows with norms so large that the kernel value
# is affected, this is done where it is not larger than the share `_NEAR` of the squared norms.
_MOST_ROUNDING = {
    np.dtype(np.float32): 1e-3,
    np.dtype(np.float64): 1e-12,
}  # largest rounding error of a kernel value, by type
_NEAR = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-4}


class Operand(NamedTuple):
    """Rows prepared to be paired with many others.

    Attributes
    ----------
    rows : ndarray or CSRBlock
        The rows, converted to the kernel's type and centred.
    sq_norms : ndarray
        Their squared norms.
    near : ndarray
        For each row, the squared distance up to which it is computed from differences; negative if never. Empty if the
        kernel is not a function of distances.
    shares : tuple of float
        Squared norm from which on rounding affects the kernel, and the share of it that is near from there and below.
    by_feature : InvertedIndex or None
        The rows by feature, if they are sparse.
    size : int
        Multiplications for a row that is paired with all of them.
    """

    rows: np.ndarray | CSRBlock
    sq_norms: np.ndarray
    near: np.ndarray
    shares: tuple[np.floating, np.floating, np.floating]
    by_feature: InvertedIndex | None
    size: int


class RealPairwise:
    """A kernel of `fastsvm.kernels` on rows of features.

    Parameters
    ----------
    kernel : Kernel
        Scalar map of the pairing (dot product or distance) of two rows.
    dtype : numpy.dtype
        float32 or float64, for products and values.
    centre : ndarray of shape (n_features,) or None
        Subtracted from all rows if the kernel is translation invariant, because squared distances computed from
        squared norms lose digits where the norms are larger. None for sparse rows.
    sparse : bool
        Whether rows are sparse, those of operands or others, so that only values other than zero are multiplied.
    all_near : bool, default=False
        Whether squared distances in float32 are computed from differences wherever rounding affects them, as in
        predictions. Otherwise only where it affects the kernel, as in fits, which end with float64 values.
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
        self.distance = kernel.translation_invariant and not self.manhattan
        self.sparse, self.all_near = sparse, all_near or self.dtype == np.float64
        self._given = kernel, centre

    def widened(self) -> "RealPairwise":
        """Return the pairwise kernel that computes the same kernel in float64."""
        kernel, centre = self._given
        return RealPairwise(kernel, np.float64, centre, self.sparse)

    def _dense(self, block: Block) -> np.ndarray:
        if self.centre is None:
            return block.dense(self.dtype)
        out = np.empty(block.shape, self.dtype)
        if isinstance(block, DenseBlock) and block.values.dtype.itemsize <= self.dtype.itemsize:
            return np.subtract(block.values, self.centre, out=out, casting="unsafe")
        return np.subtract(block.dense(np.dtype(np.float64)), self.centre, out=out, casting="same_kind")

    def row_bytes(self, rows: Block | Source) -> int:
        """Return the bytes of a prepared row."""
        if self.compressed:
            n, d = rows.shape
            return _INDEX_BYTES * min(rows.nbytes // max(1, n), _VALUE_BYTES * d) + 1
        return rows.shape[1] * self.dtype.itemsize

    def prepare(self, block: Block) -> Operand:
        """Return the rows, converted and centred, with their squared norms."""
        shares = self._shares(block.shape[1])
        if self.compressed:
            few = block.compressed(self.dtype)
            index, norms = invert(few), csr_sq_norms(few)
            size = _ADDITION * index.additions(len(norms))
            return Operand(few, norms, self._near(norms, shares), shares, index, size)
        rows = self._dense(block)
        norms = sq_norms(rows)
        return Operand(rows, norms, self._near(norms, shares), shares, None, rows.size)

    def _near(self, norms: np.ndarray, shares: tuple[np.floating, np.floating, np.floating]) -> np.ndarray:
        """Return the squared distance up to which a row of each squared norm is near to shorter rows."""
        least_seen, seen, usual = shares
        if not self.distance:
            return np.empty(0, self.dtype)
        with np.errstate(over="ignore"):
            return np.where(norms >= least_seen, 2 * seen * norms, 2 * usual * norms - (usual == 0)).astype(self.dtype)

    def _shares(self, n_features: int) -> tuple[np.floating, np.floating, np.floating]:
        real, least_share = self.dtype.type, _NEAR[self.dtype]
        if not self.distance:
            return real(0), real(0), real(0)
        rounding = (2 * n_features + 8) * float(np.finfo(real).eps)
        usual = min(rounding, max(least_share, 1e-3))  # a bound on the sum of so many rounding errors
        return (
            _least_seen(self._given[0], self.dtype),  # type: ignore[arg-type]  # kernels are tuples
            real(max(least_share, usual)),
            real(usual if self.all_near else 0),
        )

    def terms(self, block: Block) -> np.ndarray:
        """Return the squared norms."""
        return csr_sq_norms(block.compressed(self.dtype)) if self.compressed else sq_norms(self._dense(block))

    def tile(self, operand: Operand, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block) to `out`."""
        for a, b in spans(block.shape[0], _COLUMNS):
            others, pairings = self._pairings(operand, block.slice(a, b))
            place = out._replace(start=out.start + a)
            if self.distance:  # even if no rows are near, since other code may round differently
                left = _differing(operand.rows), operand.sq_norms, operand.near, operand.shares
                _map_distances(self.kernel, pairings, left, (_differing(others), terms[a:b]), place)
            else:
                map_tile(self.kernel, pairings, operand.sq_norms, terms[a:b], *place)

    def _pairings(self, operand: Operand, block: Block) -> tuple[np.ndarray | CSRBlock, np.ndarray]:
        """Return the converted rows of a block and the pairings, possibly padded with columns."""
        n = len(operand.sq_norms)
        if operand.by_feature is not None:
            others = block.compressed(self.dtype)
            pairings = scratch_array("pairings", (n, block.shape[0]), self.dtype)
            write_indexed_products(others, operand.by_feature, pairings)
            return others, pairings
        rows = self._dense(block)
        if self.manhattan:
            pairings = scratch_array("pairings", (n, len(rows)), self.dtype)
            _manhattan(operand.rows, rows, pairings)
            return rows, pairings
        panels = panels_of(rows)
        pairings = scratch_array("pairings", (n, panels.shape[0] * panels.shape[2]), self.dtype)
        add_panel_products(cast(np.ndarray, operand.rows), panels, pairings)
        return rows, pairings

    def cost(self, n_features: int) -> float:
        """Return the approximate nanoseconds per value."""
        return _COST_OF_SPARSE if self.sparse else n_features * self.dtype.itemsize * _COST_OF_BYTE


@lru_cache(256)
def _least_seen(kernel: Any, dtype: np.dtype) -> np.floating:
    """Return the least squared norm, in float32, from which on rounding affects the kernel."""
    eps, most = float(np.finfo(dtype).eps), _MOST_ROUNDING[dtype]
    norms, infinity = np.dtype(np.float32), int(np.float32(np.inf).view(np.int32))

    def seen(bits: int) -> bool:
        return not kernel.rounding(eps, float(np.int32(bits).view(norms))) <= most

    return dtype.type(np.int32(bisect_left(range(infinity), True, key=seen)).view(norms))


@jit
def _sq_norms(rows, out):
    for i in range(out.size):
        row = rows[i]
        total = out.dtype.type(0)
        for k in range(row.size):
            total += row[k] * row[k]
        out[i] = total


def sq_norms(rows: np.ndarray) -> np.ndarray:
    """Return the squared norms of rows of floats."""
    out = np.empty(len(rows), rows.dtype)
    _sq_norms(rows, out)
    return out


# --- distances -------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Rows of which differences are computed, dense or sparse; the arrays of the other form are empty.

    Both forms are one type for compiled code, so that a kernel is compiled once for both.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        Dense rows.
    data, indices, indptr : ndarrays
        Compressed sparse rows.
    """

    values: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


def _differing(rows: np.ndarray | CSRBlock) -> _Rows:
    """Return rows of which differences are to be computed."""
    if isinstance(rows, CSRBlock):
        return _Rows(np.empty((0, 0), rows.data.dtype), rows.data, rows.indices, rows.indptr)
    return _Rows(rows, np.empty(0, rows.dtype), np.empty(0, np.int32), np.empty(0, np.int64))


@jit
def _map_distances(kernel, tile, operand, block, place):
    """As `map_tile`, but compute the distances of near pairs from the differences of their rows.

    The squared distance of a near pair is below the rounding error of the product. `block` holds the other rows and
    their squared norms.
    """
    rows, sq_x, near, shares = operand
    others, sq_z = block
    out, slots, start = place
    for first in range(0, sq_x.size, _CACHED_ROWS):
        last = min(first + _CACHED_ROWS, sq_x.size)
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


def csr_sq_norms(rows: CSRBlock) -> np.ndarray:
    """Return the squared norms of sparse rows of floats."""
    out = np.empty(rows.shape[0], rows.data.dtype)
    _csr_sq_norms(rows.data, rows.indptr, out)
    return out


@jit
def _csr_sq_norms(data, indptr, out):
    """Write the squared norms of CSR rows."""
    for i in range(out.size):
        total = out.dtype.type(0)
        for t in range(indptr[i], indptr[i + 1]):
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
