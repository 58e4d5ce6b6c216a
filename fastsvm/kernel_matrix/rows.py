"""Kernel rows as solvers use them: cached, recomputed, for two multipliers of a sample, or those of a square block.

The slots are the rows of a store, shape (n_slots, n), which is empty if no row is stored. A row stays in its slot until
the next call of `fetch`.

Rows are not stored where computing a value is no slower than reading it from memory. With few features a kernel value
costs less than a nanosecond. Writing it to memory that the process never touched before costs several, and reading it
again a quarter of one. So values are computed tile by tile where they are needed, and a tile never leaves the
processor's cache.
"""

import functools
import threading
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import MOST_COLUMNS, SPAN, Rows
from fastsvm.sources import MemorySource


class CacheCounts(NamedTuple):
    """Statistics of a cache: rows requested and found, and computed because they were missing."""

    hits: int
    rows_computed: int


@storable("row cache")
class CacheContents(NamedTuple):
    """Which rows are cached, for a checkpoint; the rows themselves are recomputed.

    `row_in` is the row in each slot, -1 for none, `used_at` the time of its last use, and `clock` the number of
    fetches.
    """

    row_in: np.ndarray
    used_at: np.ndarray
    clock: int
    hits: int
    misses: int


class _SampleRows:
    """What kernel rows of the samples of a problem take from their matrix, of which they themselves cache none."""

    def __init__(self, gram: "KernelMatrix", store: np.ndarray) -> None:
        self.store, self.gram, self._computed = store, gram, 0

    @property
    def worth_filling(self) -> float:
        """If this share of the rows is needed, computing all at once is cheaper; infinite for never."""
        return np.inf

    @property
    def counts(self) -> CacheCounts:
        """No hits, and the rows that were computed."""
        return CacheCounts(0, self._computed)

    def contents(self) -> CacheContents:
        """Return that nothing is cached."""
        nothing = np.empty(0, np.int64)
        return CacheContents(nothing, nothing, 0, 0, self._computed)

    def refill(self, contents: CacheContents) -> None:
        """Continue to count where a checkpoint ended."""
        self._computed = contents.misses

    def fill(self) -> None:
        """Do nothing: no row is cached."""

    @property
    def cheap(self) -> bool:
        """Whether recomputing all rows in float64 is cheap."""
        return self.gram.cheap

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows is cheaper to compute than to gather from the store."""
        return isinstance(self.gram, Gram) and self.gram.cheap  # others are copied from values in memory

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of the store in which the values of `rows` are: the rows themselves."""
        return rows

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `out[first:]`."""
        self.gram.among(rows, first, out)

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over `rows`, for the columns `at` or for all, from values in float64."""
        return self.gram.weighted_sum(rows, coef, at)


class RowCache(_SampleRows):
    """Caches the most recently used rows of a kernel matrix in `arena`, which caches may share one after another.

    Slots are filled from the first to the last, so that memory is accessed only when needed.
    """

    def __init__(self, gram: "KernelMatrix", arena: np.ndarray) -> None:
        n = len(gram)
        row_bytes = n * gram.dtype.itemsize
        n_slots = min(n, len(arena) // row_bytes)
        super().__init__(gram, arena[: n_slots * row_bytes].view(gram.dtype).reshape(n_slots, n))
        self._slot_of = np.full(n, -1, np.int64)
        self._row_in = np.full(n_slots, -1, np.int64)
        self._used_at = np.zeros(n_slots, np.int64)
        self._n_filled = 0
        self._clock = 0
        self._hits = self._misses = 0

    @property
    def n_slots(self) -> int:
        """Number of rows that fit."""
        return len(self._row_in)

    @property
    def counts(self) -> CacheCounts:
        """Hits and rows computed so far."""
        return CacheCounts(self._hits, self._misses)

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums, for rows in slots that `fetch` returned."""
        _add_stored(self.store, slots, coef, sums, pool)

    def contents(self) -> CacheContents:
        """Return which rows are cached."""
        filled = slice(self._n_filled)
        rows, times = self._row_in[filled].copy(), self._used_at[filled].copy()
        return CacheContents(rows, times, self._clock, self._hits, self._misses)

    def refill(self, contents: CacheContents) -> None:
        """Restore the checkpoint of a cache of the same matrix and size. Its rows are recomputed."""
        self._n_filled = len(contents.row_in)
        self._row_in[: self._n_filled], self._used_at[: self._n_filled] = contents.row_in, contents.used_at
        self._clock, self._hits, self._misses = contents[2:]
        slots = np.flatnonzero(self._row_in >= 0)
        rows = self._row_in[slots]
        self.gram.rows_beside(rows, Rows(self.store, slots, 0), self._slot_of)
        self._slot_of[rows] = slots

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of `rows`, -1 for rows that are not cached. This does not count as a use."""
        return self._slot_of[rows]

    @property
    def worth_filling(self) -> float:
        """If this share of the rows is needed, computing all at once is cheaper; infinite if not all rows fit."""
        fits = self.n_slots == len(self._slot_of) and self.gram.resident
        return self.gram.worth_filling if fits else np.inf

    def fill(self) -> None:
        """Compute all missing rows. Requires `worth_filling` of at most 1."""
        self.fetch(np.flatnonzero(self._slot_of < 0))

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of the distinct `rows`, valid until the next call; missing rows are computed together."""
        if len(rows) > self.n_slots:
            raise ValueError(f"{len(rows)} kernel rows are needed at once, {self.n_slots} fit the cache.")
        self._clock += 1
        slots = self._slot_of[rows]
        is_cached = slots >= 0
        self._used_at[slots[is_cached]] = self._clock
        missing = rows[~is_cached]
        self._hits += len(rows) - len(missing)
        self._misses += len(missing)
        if len(missing):
            free = self._free(len(missing))
            try:
                self.gram.rows_beside(missing, Rows(self.store, free, 0), self._slot_of)
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


class RecomputedRows(_SampleRows):
    """Kernel rows of a matrix of which none is cached, of rows in memory. The slot of a row is its number."""

    gram: Gram

    def __init__(self, gram: Gram) -> None:
        super().__init__(gram, np.empty((0, len(gram)), gram.dtype))

    @property
    def n_slots(self) -> int:
        """Number of rows that may be asked for at once."""
        return len(self.gram)

    @property
    def cheap_restricted(self) -> bool:
        """Whether the kernel among some thousand rows is computed again more cheaply than it is read."""
        return self.gram.pairwise.cost(self.gram.source.shape[1]) <= self.gram.tuning.nested_ns

    def restricted(self, rows: np.ndarray) -> "RecomputedRows | None":
        """Return the kernel rows among `rows`, which may repeat; None if they are read more cheaply than computed."""
        if not self.cheap_restricted:
            return None
        return RecomputedRows(self.gram.take(rows, MemorySource(self.gram.source.rows(rows))))

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows: their slots."""
        return rows

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return -1 for all rows: none is cached."""
        return np.full(len(rows), -1)

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums."""
        self._computed += len(slots)
        self.gram.add_rows(sums, slots, coef)


class PairedRows:
    """The kernel rows of n samples as those of 2 n multipliers, as in regression: multiplier k is of sample k modulo n.

    The store has a column a sample. What does not depend on multipliers is that of the rows of the samples.
    """

    def __init__(self, rows: "RowCache | RecomputedRows | SharedRows") -> None:
        self.rows, self.store, self.gram = rows, rows.store, rows.gram
        self._n = len(rows.gram)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rows, name)

    @property
    def n_slots(self) -> int:
        """Number of multipliers that may be asked for at once, whichever they are."""
        return 2 * self._n if self.rows.n_slots >= self._n else self.rows.n_slots

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of the store in which the values of multipliers are."""
        return self.rows.columns(rows % self._n)

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of multipliers, the same for both of a sample; missing rows are computed."""
        samples, inverse = np.unique(rows % self._n, return_inverse=True)
        return self.rows.fetch(samples)[inverse]

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of multipliers, -1 for those that are not cached."""
        return self.rows.slots_of(rows % self._n)

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `out[first:]`."""
        self.rows.among(rows % self._n, first, out)

    @property
    def cheap_restricted(self) -> bool:
        """Whether the kernel among some thousand rows is computed again more cheaply than it is read."""
        return isinstance(self.rows, RecomputedRows) and self.rows.cheap_restricted

    def restricted(self, rows: np.ndarray) -> RecomputedRows | None:
        """Return the kernel rows among multipliers, where no row is cached; None if a block of them is cheaper."""
        assert isinstance(self.rows, RecomputedRows)
        return self.rows.restricted(rows % self._n)

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows, for the multipliers `at` or for all, from values in float64."""
        samples, coef = _merged(rows % self._n, coef)
        if at is None:
            return np.tile(self.rows.weighted_sum(samples, coef), 2)
        wanted, inverse = np.unique(at % self._n, return_inverse=True)
        return self.rows.weighted_sum(samples, coef, wanted)[inverse]

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums, for rows in slots that `fetch` returned."""
        change = np.zeros(self._n)
        self.rows.add(change, *_merged(slots, coef), pool)
        sums[: self._n] += change
        sums[self._n :] += change


class SquareRows:
    """The kernel matrix among some rows, in memory. The slot of a row is its place."""

    cheap = cheap_among = False

    def __init__(self, store: np.ndarray) -> None:
        self.store, self.n_slots = store, len(store)

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of `rows`: the rows themselves."""
        return rows

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of `rows`: the rows themselves."""
        return rows

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows themselves."""
        return rows

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `out[first:]`."""
        out[first:] = self.store[rows[first:]][:, rows]

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over `rows`, for the columns `at` or for all."""
        columns = slice(None) if at is None else at
        return coef @ self.store[rows][:, columns].astype(np.float64)

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums."""
        _add_stored(self.store, slots, coef, sums, pool)


class SharedKernel:
    """The kernel matrix of all rows of a cross-validation, from which fits on subsets copy, also on several threads.

    Rows are computed once and cached in `arena`. `place` is the position of each row in `gram`, where rows that are
    requested together should be adjacent.
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

    @property
    def store(self) -> np.ndarray:
        """The cached rows."""
        return self._rows.store

    @property
    def holds_all(self) -> bool:
        """Whether all rows fit."""
        return self._rows.n_slots == len(self)

    def part(self, indices: np.ndarray, in_memory: bool = True, pool: Pool | None = None) -> "SharedPart":
        """Return the kernel matrix of the rows `indices`."""
        return SharedPart(self, self._place[indices])

    def values(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the kernel between the distinct `rows` and `columns`."""
        out = np.empty((len(rows), len(columns)), self.dtype)
        self.copy(self._place[rows], self._place[columns], out, np.arange(len(rows)))
        return out

    def fill(self) -> None:
        """Compute all missing rows if the whole matrix fits."""
        if self.holds_all:
            self._slot_of = self._rows.fetch(np.arange(len(self)))

    def copy(self, rows: np.ndarray, columns: np.ndarray, out: np.ndarray, slots: np.ndarray) -> None:
        """Write the distinct `rows` in `columns`, both positions in `gram`, to the rows `slots` of `out`."""
        for a, b in spans(len(rows), self._rows.n_slots):
            if self._slot_of is None:
                with self._lock:  # no other thread may drop them until they are copied
                    self._copy(self._fetch(rows[a:b]), columns, out, slots[a:b])
            else:
                self._copy(self._slot_of[rows[a:b]], columns, out, slots[a:b])

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of rows, positions in `gram`; they stay there if all fit."""
        if self._slot_of is not None:
            return self._slot_of[rows]
        with self._lock:
            return self._fetch(rows)

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of rows, positions in `gram`, -1 for rows that are not cached."""
        return self._rows.slots_of(rows)

    def _fetch(self, rows: np.ndarray) -> np.ndarray:
        if self._slot_of is None and self._rows.counts.rows_computed > self.tuning.singly_share * len(self):
            self.fill()
        return self._rows.fetch(rows) if self._slot_of is None else self._slot_of[rows]

    def _copy(self, sources: np.ndarray, columns: np.ndarray, out: np.ndarray, slots: np.ndarray) -> None:
        starts = _starts_of_runs(columns)
        for a, b in spans(len(sources), SPAN):
            _copy_runs(self._rows.store, sources[a:b], columns, starts, out, slots[a:b])


class SharedRows(_SampleRows):
    """Kernel rows of some samples in a `SharedKernel` that holds all rows, read where they are.

    Runs of successive columns begin at `starts`, whose last entry is their end.
    """

    def __init__(self, kernel: SharedKernel, gram: "SharedPart", starts: np.ndarray) -> None:
        super().__init__(gram, kernel.store)
        self._kernel, self._places, self.n_slots = kernel, gram.places, len(gram)
        self._runs = [
            (start + a, start + b, int(self._places[start]) - start)
            for start, stop in pairwise(starts.tolist())
            for a, b in spans(stop - start, MOST_COLUMNS)
        ]

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the columns of the store in which the values of `rows` are."""
        return self._places[rows]

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of `rows`, in which they stay; missing rows are computed."""
        return self._kernel.fetch(self._places[rows])

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of `rows`, -1 for rows that are not cached."""
        return self._kernel.slots_of(self._places[rows])

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums."""
        order = np.argsort(slots)
        slots, coef = slots[order], coef[order]
        pool.run(_add_rows, [(self.store, slots, coef, sums, *run) for run in self._runs])


class SharedPart:
    """The kernel matrix of a subset of distinct rows, which copies from a `SharedKernel`."""

    resident = True
    passes = 0
    cheap = False
    is_kernel = True  # Its values are taken for the kernel: each of many fits would compute them anew in float64.

    def __init__(self, kernel: SharedKernel, rows: np.ndarray) -> None:
        self._kernel, self.places = kernel, rows
        self.dtype, self.worth_filling = kernel.dtype, kernel.gram.worth_filling

    def __len__(self) -> int:
        """Return the number of rows and columns."""
        return len(self.places)

    def rows_beside(self, indices: np.ndarray, out: Rows, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `out.slots` of `out.store`."""
        self._kernel.copy(self.places[indices], self.places, out.store, out.slots)

    def among(self, indices: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows `indices[first:]` and all `indices` to `out[first:]`."""
        slots = np.arange(first, len(indices))
        self._kernel.copy(self.places[indices[first:]], self.places[indices], out, slots)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gram, name)  # Σ_s coef_s K_s, samples and bounds: what is not copied

    def rows_in_place(self) -> SharedRows | None:
        """Return the kernel rows if they need no copies: all rows fit, and the columns are in long runs."""
        starts = _starts_of_runs(self.places)
        is_long = (len(starts) - 1) * SPAN <= len(self)
        return SharedRows(self._kernel, self, starts) if self._kernel.holds_all and is_long else None

    @functools.cached_property
    def _gram(self) -> Gram:
        gram = self._kernel.gram
        return gram.take(self.places, gram.source.take(self.places))


KernelMatrix = Gram | SharedPart
"""A kernel matrix that computes its rows or copies them."""

ProblemRows = RowCache | RecomputedRows | SharedRows | PairedRows
"""Kernel rows of a problem, one a multiplier."""

KernelRows = ProblemRows | SquareRows
"""Kernel rows of a problem, or of one that is restricted to some rows."""


class KernelProducts:
    """Products of the kernel matrix with sparse vectors.

    `drift` is Σ |coef| of all that was added since the solver recomputed the sums and set it to 0. Times `largest`, the
    largest diagonal value seen, it bounds what was added.
    """

    def __init__(self, rows: KernelRows, pool: Pool) -> None:
        self.places, self._pool = rows, pool
        self.drift, self.largest = np.inf, 1.0

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray) -> None:
        """Add Σ_s coef_s K_s to the sums, for rows in slots that `fetch` returned."""
        self.places.add(sums, slots, coef, self._pool)
        self.drift += float(np.abs(coef).sum())

    def add_rows(self, sums: np.ndarray, rows: np.ndarray, coef: np.ndarray) -> None:
        """Add Σ_i coef_i K_i over any number of rows. If not all fit the cache, cached rows come first."""
        most = self.places.n_slots
        first = self.places.slots_of(rows) >= 0 if len(rows) > most else np.ones(len(rows), bool)
        for group in (first, ~first):
            for a, b in spans(int(group.sum()), most):
                self.add(sums, self.places.fetch(rows[group][a:b]), coef[group][a:b])

    def times(self, coef: np.ndarray) -> np.ndarray:
        """Return the kernel matrix times a vector."""
        sums, some = np.zeros(len(coef)), np.flatnonzero(coef)
        self.add_rows(sums, some, coef[some])
        return sums


def _starts_of_runs(numbers: np.ndarray) -> np.ndarray:
    """Return where runs of successive numbers begin, and the end of the last."""
    return np.concatenate([[0], np.flatnonzero(np.diff(numbers) != 1) + 1, [len(numbers)]])


def _merged(numbers: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct numbers and the sums of their coefficients."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return distinct, np.bincount(inverse, coef, len(distinct)) if len(distinct) else coef


def _add_stored(store: np.ndarray, slots: np.ndarray, coef: np.ndarray, sums: np.ndarray, pool: Pool) -> None:
    """Add Σ_s coef_s store[slots_s] to the sums, in float64; each thread adds some columns."""
    pool.run(_add_rows, [(store, slots, coef, sums, a, b, 0) for a, b in spans(len(sums), MOST_COLUMNS)])


@jit
def _add_rows(store, slots, delta, sums, start, stop, shift):
    """Add Σ_s delta_s store[slots_s] to `start` to `stop` of the sums, in float64; their columns are `shift` later."""
    target = sums[start:stop]
    first, last = start + shift, stop + shift
    s = 0
    while s + 4 <= slots.size:
        a, b = store[slots[s], first:last], store[slots[s + 1], first:last]
        c, d = store[slots[s + 2], first:last], store[slots[s + 3], first:last]
        da, db, dc, dd = delta[s], delta[s + 1], delta[s + 2], delta[s + 3]
        for i in range(target.size):
            target[i] += da * a[i] + db * b[i] + dc * c[i] + dd * d[i]
        s += 4
    while s < slots.size:
        a, da = store[slots[s], first:last], delta[s]
        for i in range(target.size):
            target[i] += da * a[i]
        s += 1


@jit
def _copy_runs(store, rows, columns, starts, out, slots):
    """Copy columns of some `rows` of a store to the rows `slots` of `out`; runs of columns begin at `starts`."""
    for k in range(rows.size):
        row, target = store[rows[k]], out[slots[k]]
        for r in range(starts.size - 1):
            a, b = starts[r], starts[r + 1]
            part, source = target[a:b], row[columns[a] : columns[a] + b - a]
            for t in range(part.size):
                part[t] = source[t]
