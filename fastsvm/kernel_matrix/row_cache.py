"""Least-recently-used cache of kernel rows within a memory budget."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.interface import KernelMatrix
from fastsvm.kernel_matrix.pairwise import PairwiseKernel, Rows
from fastsvm.kernel_matrix.stored_rows import add_stored_rows
from fastsvm.sources import Block

__all__ = ["CacheContents", "CacheCounts", "RowCache"]


class CacheCounts(NamedTuple):
    """Statistics of a cache: rows requested and found, requested and missing, and computed."""

    hits: int
    misses: int
    rows_computed: int


@storable("row cache")
class CacheContents(NamedTuple):
    """Which rows are or were cached, for a checkpoint. The rows themselves are recomputed.

    `row_in` is the row in each slot ever filled, -1 for none, and `used_at` the time of its last use. `known` says
    which rows were ever computed. `again` counts recomputed rows, and `clock` calls of `fetch`.
    """

    row_in: np.ndarray
    used_at: np.ndarray
    known: np.ndarray
    again: int
    clock: int
    hits: int
    misses: int


class RowCache:
    """Caches the most recently used rows of a kernel matrix.

    Slots, the rows of `store`, are filled from the first to the last, so that memory is accessed only when needed. If
    every row fits, none is ever dropped. Several caches may use the memory `arena` one after another.
    """

    def __init__(self, gram: KernelMatrix, arena: np.ndarray) -> None:
        n = len(gram)
        row_bytes = n * gram.dtype.itemsize
        n_slots = min(n, len(arena) // row_bytes)
        self.store = arena[: n_slots * row_bytes].view(gram.dtype).reshape(n_slots, n)
        self._gram = gram
        self._slot_of = np.full(n, -1, np.int64)
        self._row_in = np.full(n_slots, -1, np.int64)
        self._used_at = np.zeros(n_slots, np.int64)
        self._n_filled = 0
        self._known = np.zeros(n, bool)  # rows that were ever computed
        self._again = 0  # number of recomputed rows
        self._clock = 0
        self._hits = self._misses = 0

    @property
    def n_slots(self) -> int:
        """Number of rows that fit."""
        return len(self._row_in)

    @property
    def n_computed(self) -> int:
        """Number of rows computed so far."""
        return self._misses

    @property
    def counts(self) -> CacheCounts:
        """Hits, misses and rows computed so far."""
        return CacheCounts(self._hits, self._misses, self._misses)

    @property
    def passes(self) -> int:
        """Passes over the rows of the source so far."""
        return self._gram.passes

    @property
    def resident(self) -> bool:
        """Whether all rows of the data are in memory."""
        return self._gram.resident

    @property
    def cheap(self) -> bool:
        """Whether recomputing all rows in float64 is cheap."""
        return self._gram.cheap

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows is cheaper to compute than to gather from cached rows."""
        return self._gram.cheap_among

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Compute the kernel between `rows[first:]` and all `rows` into `out[first:]`, without caching."""
        self._gram.among(rows, first, out)

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over `rows`, for the columns `at` or for all, from uncached float64 values."""
        return self._gram.weighted_sum(rows, coef, at)

    def samples(self, rows: np.ndarray) -> tuple[PairwiseKernel, Block]:
        """Return the kernel in float64, and the samples of `rows`."""
        return self._gram.samples(rows)

    def value_bounds(self) -> ValueBounds:
        """Return bounds on the sizes and the errors of values in float64."""
        return self._gram.value_bounds()

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums, for rows in slots that `fetch` returned."""
        add_stored_rows(self.store, slots, coef, sums, pool)

    def contents(self) -> CacheContents:
        """Return which rows are and were cached."""
        filled = slice(self._n_filled)
        return CacheContents(
            self._row_in[filled].copy(), self._used_at[filled].copy(), self._known.copy(), self._again, self._clock,
            self._hits, self._misses,
        )  # fmt: skip

    def refill(self, contents: CacheContents) -> None:
        """Restore the checkpoint of a cache of the same matrix and size. Its rows are recomputed."""
        self._n_filled = len(contents.row_in)
        self._row_in[: self._n_filled], self._used_at[: self._n_filled] = contents.row_in, contents.used_at
        self._known[:] = contents.known
        self._again, self._clock, self._hits, self._misses = contents[3:]
        slots = np.flatnonzero(self._row_in >= 0)
        rows = self._row_in[slots]
        self._gram.rows_beside(rows, Rows(self.store, slots, 0), self._slot_of)
        self._slot_of[rows] = slots

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of `rows` in the store: the rows themselves."""
        return rows

    def computed(self, rows: np.ndarray) -> np.ndarray:
        """Return newly computed rows, without caching them."""
        out, nowhere = np.empty((len(rows), len(self._slot_of)), self.store.dtype), np.full(len(self._slot_of), -1)
        self._gram.rows_beside(rows, Rows(out, np.arange(len(rows)), 0), nowhere)
        return out

    def cached(self, rows: np.ndarray) -> np.ndarray:
        """Return a mask of the `rows` that are cached."""
        return self.slots_of(rows) >= 0

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of `rows`, -1 for rows that are not cached. This does not count as a use."""
        return self._slot_of[rows]

    @property
    def worth_filling(self) -> float:
        """If this share of the rows is needed, computing all at once is cheaper; infinite if not all rows fit."""
        fits = self.n_slots == len(self._slot_of) and self._gram.resident
        return self._gram.worth_filling if fits else np.inf

    def fill(self) -> None:
        """Compute all missing rows. Requires `worth_filling` of at most 1."""
        self.fetch(np.flatnonzero(self._slot_of < 0))

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of the distinct `rows`; missing rows are computed together.

        The rows are valid until the next call. More rows than there are slots raise ValueError.
        """
        if len(rows) > self.n_slots:
            raise ValueError(f"{len(rows)} kernel rows are needed at once, {self.n_slots} fit the cache.")
        self._clock += 1
        slots = self._slot_of[rows]
        found = slots >= 0
        self._used_at[slots[found]] = self._clock
        missing = rows[~found]
        self._hits += len(rows) - len(missing)
        self._misses += len(missing)
        if len(missing):
            self._again += int(np.count_nonzero(self._known[missing]))
            self._known[missing] = True
            free = self._free(len(missing))
            try:
                self._gram.rows_beside(missing, Rows(self.store, free, 0), self._slot_of)
            except BaseException:  # the slots contain neither the old rows nor the new
                self._used_at[free] = 0
                raise
            self._row_in[free] = missing
            self._slot_of[missing] = free
            self._used_at[free] = self._clock
        return self._slot_of[rows]

    def _free(self, count: int) -> np.ndarray:
        """Return `count` free slots: unused ones first, then those of the least recently used rows."""
        fresh = np.arange(self._n_filled, min(self._n_filled + count, self.n_slots))
        self._n_filled += len(fresh)
        dropped = count - len(fresh)
        if dropped == 0:
            return fresh
        age = self._used_at[: self._n_filled].copy()
        age[fresh] = self._clock
        oldest = np.sort(np.argpartition(age, dropped - 1)[:dropped])
        rows = self._row_in[oldest]
        self._slot_of[rows[rows >= 0]] = -1
        self._row_in[oldest] = -1
        return np.concatenate([fresh, oldest])
