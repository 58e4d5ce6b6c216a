"""Rows of the kernel matrix under a byte budget: the least recently used row goes first."""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.interface import KernelMatrix
from fastsvm.kernel_matrix.pairwise import Rows

__all__ = ["CacheContents", "CacheCounts", "RowCache"]


_FRUGAL_BYTES = 384 << 20
_AGAIN_PER_SLOT = 6


class CacheCounts(NamedTuple):
    """How a cache was used: rows asked for and found, asked for and not found, and computed."""

    hits: int
    misses: int
    rows_computed: int


@storable("row cache")
class CacheContents(NamedTuple):
    """Which rows a cache holds and has held, without the rows: they can be computed again.

    Attributes
    ----------
    row_in, used_at : ndarray of int64, shape (n_filled,)
        The row in each slot that was ever filled, -1 for none, and when it was used last.
    known : ndarray of bool, shape (n,)
        Which rows were computed before.
    again, clock, hits, misses : int
        How often one of them was computed again; calls; and how the cache was used.
    """

    row_in: np.ndarray
    used_at: np.ndarray
    known: np.ndarray
    again: int
    clock: int
    hits: int
    misses: int


class RowCache:
    """Keeps the rows of a kernel matrix that were used last.

    Rows live in slots that fill from the first to the last, so memory is touched only as it is needed, and
    when every row fits none is ever dropped.

    Parameters
    ----------
    gram : KernelMatrix
        Computes rows.
    arena : ndarray of uint8
        The memory to use. It may serve one cache after another.
    frugal : bool
        Whether rows cost less to compute again than memory costs to be touched for the first time. Then little of the
        arena is used, until as many rows were computed again as would have been worth more.

    Attributes
    ----------
    store : ndarray of shape (n_slots, n)
        The slots; rows are valid until the next call of `fetch`.
    """

    def __init__(self, gram: KernelMatrix, arena: np.ndarray, frugal: bool = False) -> None:
        n = len(gram)
        row_bytes = n * gram.dtype.itemsize
        n_slots = min(n, len(arena) // row_bytes)
        self.store = arena[: n_slots * row_bytes].view(gram.dtype).reshape(n_slots, n)
        self._gram = gram
        self._slot_of = np.full(n, -1, np.int64)
        self._row_in = np.full(n_slots, -1, np.int64)
        self._used_at = np.zeros(n_slots, np.int64)
        self._n_filled = 0
        self._most_filled = min(n_slots, max(1, _FRUGAL_BYTES // row_bytes)) if frugal else n_slots
        self._known = np.zeros(n, bool)  # rows computed before
        self._again = 0  # how often one of them was computed again
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
    def expensive(self) -> bool:
        """Whether rows cost so much to compute that none should be in vain."""
        return self._gram.expensive

    @property
    def resident(self) -> bool:
        """Whether all rows of the data are in memory."""
        return self._gram.resident

    @property
    def cheap(self) -> bool:
        """Whether computing all rows once more, in float64, costs little."""
        return self._gram.cheap

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows costs less to compute than to gather from theirs."""
        return self._gram.cheap_among

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows`, computed and not kept, to `out[first:]`."""
        self._gram.among(rows, first, out)

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over `rows`, in the columns `at` or in all, by values in float64 that are not kept."""
        return self._gram.weighted_sum(rows, coef, at)

    def contents(self) -> CacheContents:
        """Return which rows are and were here."""
        filled = slice(self._n_filled)
        return CacheContents(
            self._row_in[filled].copy(), self._used_at[filled].copy(), self._known.copy(), self._again, self._clock,
            self._hits, self._misses,
        )  # fmt: skip

    def refill(self, contents: CacheContents) -> None:
        """Compute the rows that a cache of the same matrix and size had, to go on as it would have."""
        self._n_filled = len(contents.row_in)
        self._row_in[: self._n_filled], self._used_at[: self._n_filled] = contents.row_in, contents.used_at
        self._known[:] = contents.known
        self._again, self._clock, self._hits, self._misses = contents[3:]
        slots = np.flatnonzero(self._row_in >= 0)
        rows = self._row_in[slots]
        self._gram.rows_beside(rows, Rows(self.store, slots, 0), self._slot_of)
        self._slot_of[rows] = slots

    def computed(self, rows: np.ndarray) -> np.ndarray:
        """Return rows that are computed for this and not kept."""
        out, nowhere = np.empty((len(rows), len(self._slot_of)), self.store.dtype), np.full(len(self._slot_of), -1)
        self._gram.rows_beside(rows, Rows(out, np.arange(len(rows)), 0), nowhere)
        return out

    def cached(self, rows: np.ndarray) -> np.ndarray:
        """Return which of `rows` are in a slot now."""
        return self.slots_of(rows) >= 0

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of `rows`, -1 for those that are in none; that is no use of them."""
        return self._slot_of[rows]

    @property
    def worth_filling(self) -> float:
        """Share of the rows needed from which on it is cheaper to compute all at once; more than 1 if impossible."""
        fits = self.n_slots == len(self._slot_of) and self._gram.resident
        return self._gram.worth_filling if fits else 2.0

    def fill(self) -> None:
        """Compute all rows that are missing; only if `worth_filling` is at most 1."""
        self.fetch(np.flatnonzero(self._slot_of < 0))

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of `rows`, which are distinct, computing those that are missing in one go.

        Raises
        ------
        ValueError
            If more rows are wanted at once than there are slots.
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
            except BaseException:  # the slots hold neither the old rows nor the new
                self._used_at[free] = 0
                raise
            self._row_in[free] = missing
            self._slot_of[missing] = free
            self._used_at[free] = self._clock
        return self._slot_of[rows]

    def _free(self, count: int) -> np.ndarray:
        """Return `count` slots that hold nothing: unused ones first, then the least recently used."""
        in_use = int(np.count_nonzero(self._used_at[: self._n_filled] == self._clock))
        most = min(max(self._most_filled + self._again // _AGAIN_PER_SLOT, in_use + count), self.n_slots)
        fresh = np.arange(self._n_filled, max(self._n_filled, min(self._n_filled + count, most)))
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
