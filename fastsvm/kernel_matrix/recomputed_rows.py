"""Kernel rows that are not stored: where computing a value is no slower than reading it from memory.

With few features a kernel value costs less than a nanosecond. Writing it to memory that the process never touched
before costs several, and reading it again a quarter of one. So values are computed tile by tile where they are needed,
and a tile never leaves the processor's cache.
"""

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PairwiseKernel
from fastsvm.kernel_matrix.row_cache import CacheContents, CacheCounts, RowCache
from fastsvm.sources import Block, MemorySource

__all__ = ["RecomputedRows", "SampleRows"]


class RecomputedRows:
    """Kernel rows of a matrix of which none is cached, of rows in memory.

    It implements `KernelRows` with an empty store. The slot of a row is its number.
    """

    resident = cheap = cheap_among = True
    worth_filling = np.inf  # All rows are never computed at once.
    n_computed = 0

    def __init__(self, gram: Gram) -> None:
        self.store = np.empty((0, len(gram)), gram.dtype)
        self._gram, self._computed = gram, 0

    @property
    def n_slots(self) -> int:
        """Number of rows that may be asked for at once."""
        return len(self._gram)

    @property
    def passes(self) -> int:
        """Passes over the rows of the source so far."""
        return self._gram.passes

    @property
    def counts(self) -> CacheCounts:
        """No hits, and as many misses as rows were computed."""
        return CacheCounts(0, self._computed, self._computed)

    @property
    def cheap_restricted(self) -> bool:
        """Whether the kernel among some thousand rows is computed again more cheaply than it is read."""
        return self._gram.pairwise.cost(self._gram.source.shape[1]) <= self._gram.tuning.nested_ns

    def fill(self) -> None:
        """Do nothing: no row is cached."""

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows: their columns."""
        return rows

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows: their slots."""
        return rows

    def cached(self, rows: np.ndarray) -> np.ndarray:
        """Return false for all rows."""
        return np.zeros(len(rows), bool)

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return -1 for all rows: none is cached."""
        return np.full(len(rows), -1)

    def computed(self, rows: np.ndarray) -> np.ndarray:
        """Return newly computed rows."""
        out = np.empty((len(rows), len(self._gram)), self.store.dtype)
        self._gram.rows(rows, out, np.arange(len(rows)))
        self._computed += len(rows)
        return out

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `out[first:]`."""
        self._gram.among(rows, first, out)

    def restricted(self, rows: np.ndarray) -> "RecomputedRows | None":
        """Return the kernel rows among `rows`, which may repeat; None if they are read more cheaply than computed."""
        if not self.cheap_restricted:
            return None
        return RecomputedRows(self._gram.take(rows, MemorySource(self._gram.source.rows(rows))))

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over `rows`, for the columns `at` or for all, from values in float64."""
        return self._gram.weighted_sum(rows, coef, at)

    def samples(self, rows: np.ndarray) -> tuple[PairwiseKernel, Block]:
        """Return the kernel in float64, and the samples of `rows`."""
        return self._gram.samples(rows)

    def value_bounds(self) -> ValueBounds:
        """Return bounds on the sizes and the errors of values in float64."""
        return self._gram.value_bounds()

    def add(self, sums: np.ndarray, rows: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s over `rows` to the sums."""
        self._computed += len(rows)
        self._gram.add_rows(sums, rows, coef)

    def contents(self) -> CacheContents:
        """Return that nothing is cached."""
        nothing = np.empty(0, np.int64)
        return CacheContents(nothing, nothing, np.empty(0, bool), 0, 0, 0, self._computed)

    def refill(self, contents: CacheContents) -> None:
        """Continue to count where a checkpoint ended."""
        self._computed = contents.misses


SampleRows = RowCache | RecomputedRows
"""Kernel rows of the samples of a problem."""
