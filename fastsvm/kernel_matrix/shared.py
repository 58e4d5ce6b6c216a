"""One kernel matrix shared by the fits of a cross-validation.

The training sets of the folds overlap. A kernel value is needed in all folds but one, for every C, and again for the
predictions on the left-out rows. Rows of the whole matrix are computed once and cached as far as memory allows. Each
problem copies its columns from them.
"""

import functools
import threading

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import spans
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import SPAN, PairwiseKernel, Rows
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.sources import Block

__all__ = ["SharedKernel", "SharedPart"]


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
