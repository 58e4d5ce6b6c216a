"""Kernel matrices that share their values: those of pairs of classes, and those of the fits of a cross-validation.

Pairs of classes share the kernel within each class. A kernel row of class a in the problem of classes a and b has two
segments. Every problem with a needs the one over the rows of a, which is computed once and cached in a `ClassTile`.
Only this problem needs the one over the rows of b.

The training sets of the folds of a cross-validation overlap. A kernel value is needed in all folds but one, for every
C, and again for the predictions on the left-out rows. Rows of the whole matrix are computed once and cached as far as
memory allows. Each problem copies its columns from them.
"""

import functools
import threading

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import SPAN, PairwiseKernel, Rows
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.sources import Block, Source
from fastsvm.tuning import KernelTuning

__all__ = ["ClassTile", "PairGram", "SharedKernel", "SharedPart"]


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


class SharedKernel:
    """The kernel matrix of all rows, from which fits on subsets copy. Threads may share it.

    `arena` is memory for at least one row. `place` is the position of each row in `gram`. Rows that are requested
    together should be adjacent there, so that they are copied together.
    """

    def __init__(self, gram: Gram, arena: np.ndarray, place: np.ndarray) -> None:
        self.gram, self.source, self.pool, self.dtype = gram, gram.source, gram.pool, gram.dtype
        self.tuning = gram.tuning
        self._rows, self._place = RowCache(gram, arena), place
        self._slot_of: np.ndarray | None = None  # of all rows, once all are cached permanently
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.gram)

    def part(self, indices: np.ndarray, in_memory: bool = True) -> "SharedPart":
        """Return the kernel matrix of the rows `indices`."""
        return SharedPart(self, self._place[indices])

    def values(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the kernel between the distinct `rows` and `columns`."""
        out = np.empty((len(rows), len(columns)), self.dtype)
        self.copy(self._place[rows], self._place[columns], out, np.arange(len(rows)))
        return out

    def fill(self) -> None:
        """Compute all missing rows if the whole matrix fits."""
        if self._rows.n_slots == len(self):
            self._slot_of = self._rows.fetch(np.arange(len(self)))

    def copy(self, rows: np.ndarray, columns: np.ndarray, out: np.ndarray, slots: np.ndarray) -> None:
        """Write the distinct `rows` in `columns`, both positions in `gram`, to the rows `slots` of `out`."""
        for a, b in spans(len(rows), self._rows.n_slots):
            if self._slot_of is None:
                with self._lock:  # no other thread may drop them until they are copied
                    self._copy(self._fetch(rows[a:b]), columns, out, slots[a:b])
            else:
                self._copy(self._slot_of[rows[a:b]], columns, out, slots[a:b])

    def _fetch(self, rows: np.ndarray) -> np.ndarray:
        if self._slot_of is None and self._rows.n_computed > self.tuning.singly_share * len(self):
            self.fill()
        return self._rows.fetch(rows) if self._slot_of is None else self._slot_of[rows]

    def _copy(self, found: np.ndarray, columns: np.ndarray, out: np.ndarray, slots: np.ndarray) -> None:
        ends = np.flatnonzero(np.diff(columns) != 1) + 1
        starts = np.concatenate([[0], ends, [len(columns)]])
        for a, b in spans(len(found), SPAN):
            _copy_runs(self._rows.store, found[a:b], (columns, starts), out, slots[a:b])


class SharedPart:
    """The kernel matrix of a subset of distinct rows: a `KernelMatrix` that copies from a `SharedKernel`."""

    resident = True
    cheap_among = False  # values are cached, except those that do not fit
    passes = 0

    def __init__(self, kernel: SharedKernel, rows: np.ndarray) -> None:
        self._kernel, self._rows = kernel, rows
        self.dtype, self.worth_filling = kernel.dtype, kernel.gram.worth_filling

    def __len__(self) -> int:
        """Return the number of rows and columns."""
        return len(self._rows)

    @property
    def cheap(self) -> bool:
        """Whether values are cheap to recompute."""
        return self._kernel.gram.cheap

    def rows_beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `out.slots` of `out.store`."""
        self._kernel.copy(self._rows[indices], self._rows, out.store, out.slots)

    def among(self, indices: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows `indices[first:]` and all `indices` to `out[first:]`."""
        slots = np.arange(first, len(indices))
        self._kernel.copy(self._rows[indices[first:]], self._rows[indices], out, slots)

    def weighted_sum(self, indices: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows `indices`, for the columns `at` or for all, from values in float64."""
        return self._own.weighted_sum(indices, coef, at)

    def samples(self, indices: np.ndarray) -> tuple[PairwiseKernel, Block]:
        """Return the kernel in float64, and the samples of some rows."""
        return self._own.samples(indices)

    def value_bounds(self) -> ValueBounds:
        """Return bounds on the sizes and the errors of values in float64."""
        return self._own.value_bounds()

    @functools.cached_property
    def _own(self) -> Gram:
        gram = self._kernel.gram
        return gram.take(self._rows, gram.source.take(self._rows))


@jit
def _copy_runs(store, places, runs, out, slots):
    """Copy some columns of the rows `places` of a store to the rows `slots` of `out`.

    `runs` holds the columns and the index at which each run of consecutive columns starts.
    """
    columns, starts = runs
    for k in range(places.size):
        row, target = store[places[k]], out[slots[k]]
        for r in range(starts.size - 1):
            a, b = starts[r], starts[r + 1]
            part, source = target[a:b], row[columns[a] : columns[a] + b - a]
            for t in range(part.size):
                part[t] = source[t]
