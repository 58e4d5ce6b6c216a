"""Kernel rows of pairs of classes, which share what they have in common.

A row of class a in the problem of classes a and b is two segments: over the rows of a, which every problem with a
needs, and over those of b, which this problem alone needs. The first is computed once and kept in a `ClassTile`.
"""

import threading

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, Rows
from fastsvm.sources import Source

__all__ = ["ClassTile", "PairGram"]

_MOST_SINGLY = 0.4  # of a class's rows; if more are needed, all are soon, and at once they cost less


class ClassTile:
    """The kernel among the rows of one class, computed row by row or at once as it is asked for.

    Rows are kept in the order in which they are first needed, so that no more memory is touched than they take.
    Threads may share a tile.

    Parameters
    ----------
    pairwise : PairwiseKernel
        The kernel.
    source : Source
        The rows of the class.
    pool : Pool
        Threads.
    keep : bool
        Whether there is memory to keep what was computed.
    """

    def __init__(self, pairwise: PairwiseKernel, source: Source, pool: Pool, keep: bool) -> None:
        n = len(source)
        self.gram = Gram(pairwise, source, pool)
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
        """Compute the rows `missing`, or all that are."""
        n = len(self)
        if self._n_filled + len(missing) > _MOST_SINGLY * n:
            missing = np.flatnonzero(self._slot_of < 0)
        if len(missing):
            free = np.arange(self._n_filled, self._n_filled + len(missing))
            self.gram.rows_beside(missing, Rows(values, free, 0), self._slot_of)
            self._slot_of[missing] = free
            self._n_filled += len(missing)


class PairGram:
    """The kernel matrix of two classes, the rows of the first before those of the second.

    Parameters
    ----------
    first, second : ClassTile
        The classes.
    pool : Pool
        Threads.
    """

    resident = True
    cheap_among = False  # rows of both classes would have to be put in order
    worth_filling = 0.8  # because what is within the classes is shared

    def __init__(self, first: ClassTile, second: ClassTile, pool: Pool) -> None:
        pairwise = first.gram.pairwise
        self._tiles = first, second
        self._pool = pool
        a, b = first.gram.source, second.gram.source
        self._across = Gram(pairwise, b, pool, left=a), Gram(pairwise, a, pool, left=b)
        self.dtype = pairwise.dtype

    @property
    def expensive(self) -> bool:
        """Whether few values should be computed in vain."""
        return self._across[0].expensive

    @property
    def cheap(self) -> bool:
        """Whether values cost little to compute once more."""
        return self._across[0].cheap

    def among(self, indices: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows `indices[first:]` and all `indices` to `out[first:]`."""
        rows = np.empty((len(indices) - first, len(self)), self.dtype)
        self.rows_beside(indices[first:], Rows(rows, np.arange(len(rows)), 0), np.full(len(self), -1))
        out[first:] = rows[:, indices]

    def weighted_sum(self, indices: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows `indices`, by values in float64, in the columns `at` or in all."""
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

    @property
    def passes(self) -> int:
        """Passes over the rows of both classes."""
        return max(gram.passes for gram in self._across)

    def __len__(self) -> int:
        """Return the number of rows and columns."""
        return sum(map(len, self._tiles))

    def rows_beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `out.slots` of `out.store`, where others are already."""
        cut, known = len(self._tiles[0]), slot_of.copy()
        parts, in_second = np.split(known, [cut]), indices >= cut
        for k, mine in enumerate((~in_second, in_second)):
            if mine.any():
                places, slots, column = indices[mine] - k * cut, out.slots[mine], k * cut
                self._tiles[k].rows(places, out.store, slots, column)
                self._across[k].rows_beside(places, Rows(out.store, slots, cut - column), parts[1 - k], column)
                parts[k][places] = slots  # to the second, those of the first are known


@jit
def _copy_rows(source, indices, out, slots, start):
    """Copy the rows `indices` of a square to the rows `slots` of `out`, from column `start` on."""
    n = source.shape[1]
    for k in range(indices.size):
        row, target = source[indices[k]], out[slots[k]]
        for t in range(n):
            target[start + t] = row[t]
