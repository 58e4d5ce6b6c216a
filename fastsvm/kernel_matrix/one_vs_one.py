"""Kernel matrices of pairs of classes that share the kernel within each class.

A kernel row of class a in the problem of classes a and b has two segments. Every problem with a needs the one over the
rows of a, which is computed once and cached in a `ClassTile`. Only this problem needs the one over the rows of b.
"""

import threading

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, Rows
from fastsvm.sources import Block, Source
from fastsvm.tuning import KernelTuning

__all__ = ["ClassTile", "PairGram"]


class ClassTile:
    """The kernel among the rows of one class, computed when needed. Threads may share a tile.

    If there is memory to cache computed rows (`keep`), they are stored in the order of their first use, so that only
    the memory that they need is accessed.
    """

    def __init__(
        self, pairwise: PairwiseKernel, source: Source, pool: Pool, keep: bool, tuning: KernelTuning | None = None
    ) -> None:
        n = len(source)
        self.gram = Gram(pairwise, source, pool, tuning=tuning)
        self._values = np.empty((n, n), pairwise.dtype) if keep else None
        self._slot_of = np.full(n, -1, np.int64)
        self._n_filled = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.gram)

    def rows(self, indices: np.ndarray, out: np.ndarray, slots: np.ndarray, start: int) -> None:
        """Write rows `indices` to the rows `slots` of `out`, from column `start` on."""
        if self._values is None:
            self.gram.rows(indices, out, slots, start)
            return
        with self._lock:
            self._compute(indices[self._slot_of[indices] < 0], self._values)
            _copy_rows(self._values, self._slot_of[indices], out, slots, start)

    def _compute(self, missing: np.ndarray, values: np.ndarray) -> None:
        """Compute the rows `missing`, or all missing rows."""
        n = len(self)
        if self._n_filled + len(missing) > self.gram.tuning.singly_share * n:
            missing = np.flatnonzero(self._slot_of < 0)
        if len(missing):
            free = np.arange(self._n_filled, self._n_filled + len(missing))
            self.gram.rows_beside(missing, Rows(values, free, 0), self._slot_of)
            self._slot_of[missing] = free
            self._n_filled += len(missing)


class PairGram:
    """The kernel matrix of two classes, the rows of the first before those of the second."""

    resident = True
    cheap_among = False  # rows of both classes would have to be reordered

    def __init__(self, first: ClassTile, second: ClassTile, pool: Pool) -> None:
        pairwise = first.gram.pairwise
        self._tiles = first, second
        self._pool = pool
        a, b = first.gram.source, second.gram.source
        self._across = tuple(Gram(pairwise, y, pool, x, first.gram.tuning) for x, y in ((a, b), (b, a)))
        self.dtype, self.worth_filling = pairwise.dtype, first.gram.worth_filling

    @property
    def cheap(self) -> bool:
        """Whether values are cheap to recompute."""
        return self._across[0].cheap

    def among(self, indices: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows `indices[first:]` and all `indices` to `out[first:]`."""
        rows = np.empty((len(indices) - first, len(self)), self.dtype)
        self.rows_beside(indices[first:], Rows(rows, np.arange(len(rows)), 0), np.full(len(self), -1))
        out[first:] = rows[:, indices]

    def weighted_sum(self, indices: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows `indices`, for the columns `at` or for all, from values in float64."""
        cut = len(self._tiles[0])
        columns = np.arange(len(self)) if at is None else at
        sums, in_second = np.zeros(len(columns)), columns >= cut
        for k, mine in enumerate((indices < cut, indices >= cut)):
            places, weights = indices[mine] - k * cut, coef[mine]
            for gram, there in ((self._tiles[k].gram, in_second == k), (self._across[k], in_second != k)):
                if mine.any() and there.any():
                    local = columns[there] - cut * in_second[there]
                    sums[there] += gram.weighted_sum(places, weights, None if at is None else local)
        return sums

    def samples(self, indices: np.ndarray) -> tuple[PairwiseKernel, Block]:
        """Return the kernel in float64, and the samples of some rows."""
        cut = len(self._tiles[0])
        parts = [np.flatnonzero(indices < cut), np.flatnonzero(indices >= cut)]
        found = [self._tiles[k].gram.samples(indices[part] - k * cut) for k, part in enumerate(parts)]
        blocks = [block for _, block in found]
        return found[0][0], type(blocks[0]).gather(zip(parts, blocks, strict=True), len(indices))

    def value_bounds(self) -> ValueBounds:
        """Return bounds on the sizes and the errors of values in float64."""
        return ValueBounds.together([tile.gram.value_bounds() for tile in self._tiles])

    @property
    def passes(self) -> int:
        """Passes over the rows of both classes."""
        return max(gram.passes for gram in self._across)

    def __len__(self) -> int:
        """Return the number of rows and columns."""
        return sum(map(len, self._tiles))

    def rows_beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `out.slots` of `out.store`, which already has others."""
        cut, known = len(self._tiles[0]), slot_of.copy()
        parts, in_second = np.split(known, [cut]), indices >= cut
        for k, mine in enumerate((~in_second, in_second)):
            if mine.any():
                places, slots, column = indices[mine] - k * cut, out.slots[mine], k * cut
                self._tiles[k].rows(places, out.store, slots, column)
                self._across[k].rows_beside(places, Rows(out.store, slots, cut - column), parts[1 - k], column)
                parts[k][places] = slots  # the second class copies from the first


@jit
def _copy_rows(source, indices, out, slots, start):
    """Copy the rows `indices` of a square to the rows `slots` of `out`, from column `start` on."""
    n = source.shape[1]
    for k in range(indices.size):
        row, target = source[indices[k]], out[slots[k]]
        for t in range(n):
            target[start + t] = row[t]
