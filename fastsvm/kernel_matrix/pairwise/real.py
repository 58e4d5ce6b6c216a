"""Kernels on rows of floats, dense or sparse.

The bits of a value do not depend on the rows computed with it, on the division into tiles, or on the order of its two
rows. Therefore a resumed fit ends with the same model, whatever the cache dropped, and the prediction for a row does
not depend on other rows. BLAS does not guarantee this: its rounding depends on the shapes of both matrices and, on some
processors, on the positions of the rows in them. Padding does not help everywhere. So products are computed by
`row_products`, and every other sum is symmetric in the two rows.
"""

import copy
import sys
from bisect import bisect_left
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import scratch_array, spans
from fastsvm.kernel_matrix.pairwise.base import COST_OF_UNKNOWN, TILED_ROWS, Rows, add_tile
from fastsvm.kernel_matrix.pairwise.float_tiles import (
    TILE_ROWS,
    FloatRows,
    add_values,
    float_rows,
    map_pairings,
    write_values,
)
from fastsvm.kernel_matrix.pairwise.kernel_maps import in_precision
from fastsvm.kernels import Kernel
from fastsvm.linalg.inverted_index import InvertedIndex, invert, write_indexed_products
from fastsvm.linalg.row_products import empty_panels
from fastsvm.sources import Block, CSRBlock, DenseBlock, MemorySource, Source

__all__ = ["RealPairwise"]

_COLUMNS = 512  # A tile has so many columns, which are packed for products at once.
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


class Operand(NamedTuple):
    """Rows, converted to the kernel's type and centred, prepared to be paired with many others.

    `near` is for each row the squared distance up to which it is computed from differences; negative if never. `shares`
    are the squared norm from which on rounding affects the kernel, and the shares of it that are near from there on and
    below. `by_feature` is None for dense rows.
    """

    rows: np.ndarray | CSRBlock
    sq_norms: np.ndarray
    near: np.ndarray
    shares: tuple[np.floating, np.floating, np.floating]
    by_feature: InvertedIndex | None


class RealPairwise:
    """A kernel of `fastsvm.kernels` on rows of features.

    Products and values have the type `dtype`, float32 or float64. `centre` is subtracted from all rows if the kernel is
    translation invariant, because squared distances computed from squared norms lose digits where the norms are larger.
    It is None for sparse rows. If rows of operands or others are `sparse`, only values other than zero are multiplied.

    With `all_near`, squared distances in float32 are computed from differences wherever rounding affects them, as in
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
        self._by_panels = not (self.compressed or self.manhattan)  # pairings are products of dense rows
        self.distance = kernel.translation_invariant and not self.manhattan
        self.sparse, self.all_near = sparse, all_near or self.dtype == np.float64
        self._given = kernel, centre

    @property
    def of_floats(self) -> Kernel:
        """The kernel with its parameters as they were given, in float64."""
        return self._given[0]

    def widened(self) -> "RealPairwise":
        """Return the pairwise kernel that computes the same kernel in float64."""
        kernel, centre = self._given
        return RealPairwise(kernel, np.float64, centre, self.sparse)

    def converts(self, source: Source) -> bool:
        """Return whether rows are dense and in memory, and in another type or with another centre than in products."""
        is_dense = self._by_panels and source.resident and not source.sparse
        return is_dense and (source.dtype != self.dtype or self.centre is not None)

    def converted(self, source: Source) -> tuple["RealPairwise", MemorySource] | None:
        """Return rows in memory as they are multiplied, and the kernel on those; None if they are so already.

        The bits of its values are the same. Otherwise rows are converted anew for each tile.
        """
        if not (isinstance(source, MemorySource) and self.converts(source)):
            return None
        found = copy.copy(self)
        found.centre = None
        return found, MemorySource(DenseBlock(np.ascontiguousarray(self._dense(source.block))))

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
            return _INDEX_BYTES * min(rows.nbytes // max(1, n), _SPARSE_VALUE.itemsize * d) + 1
        return rows.shape[1] * self.dtype.itemsize

    def prepare(self, block: Block) -> Operand:
        """Return the rows, converted and centred, with their squared norms."""
        shares = self._shares(block.shape[1])
        if self.compressed:
            few = block.compressed(self.dtype)
            norms = csr_sq_norms(few)
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

    def _shares(self, n_features: int) -> tuple[np.floating, np.floating, np.floating]:
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
        return csr_sq_norms(block.compressed(self.dtype)) if self.compressed else sq_norms(self._dense(block))

    @property
    def summed_rows(self) -> int:
        """Rows of an operand for `add_sums`: without a tile of them in memory, any number."""
        return sys.maxsize if self._by_panels else TILED_ROWS

    def tile(self, operand: Operand, block: Block, terms: np.ndarray, out: Rows) -> None:
        """Write k(operand, block) to `out`."""
        for a, b in spans(block.shape[0], _COLUMNS):
            place = out._replace(start=out.start + a)
            if self._by_panels:
                right, panels = self._right(block.slice(a, b), terms[a:b])
                pairings = scratch_array("pairings", (TILE_ROWS, panels.shape[0] * panels.shape[2]), self.dtype)
                write_values(self.kernel, _left(operand), right, (panels, pairings), place)
            else:
                others, pairings = self._pairings(operand, block.slice(a, b))
                map_pairings(self.kernel, pairings, _left(operand), (float_rows(others), terms[a:b]), place)

    def add_sums(self, operand: Operand, coef: np.ndarray, block: Block, terms: np.ndarray, sums: np.ndarray) -> None:
        """Add Σ_s coef_s k(x_s, x) over the rows of the operand to the sums of the block's rows x."""
        if not self._by_panels:
            add_tile(self, operand, coef, block, terms, sums)
            return
        right, panels = self._right(block, terms)
        shape = TILE_ROWS, panels.shape[0] * panels.shape[2]
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
