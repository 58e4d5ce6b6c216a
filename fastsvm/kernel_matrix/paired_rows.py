"""Kernel rows of problems in which each sample has two multipliers, as in regression.

The multipliers of a sample have the same kernel row. So each kernel value is computed, stored and summed once for both.
"""

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.pairwise import PairwiseKernel
from fastsvm.kernel_matrix.recomputed_rows import RecomputedRows, SampleRows
from fastsvm.kernel_matrix.row_cache import CacheContents, CacheCounts, RowCache
from fastsvm.sources import Block

__all__ = ["PairedRows", "ProblemRows"]


class PairedRows:
    """A view of the kernel rows of n samples as those of 2 n multipliers.

    It implements `KernelRows`. Multiplier k belongs to sample k modulo n. The store has a column a sample.
    """

    def __init__(self, rows: SampleRows) -> None:
        self.rows, self.store = rows, rows.store
        self._n = rows.store.shape[1]

    @property
    def n_slots(self) -> int:
        """Number of multipliers that may be asked for at once, whichever they are."""
        return 2 * self._n if self.rows.n_slots >= self._n else self.rows.n_slots

    @property
    def n_computed(self) -> int:
        """Number of rows computed so far."""
        return self.rows.n_computed

    @property
    def counts(self) -> CacheCounts:
        """Hits, misses and rows computed so far."""
        return self.rows.counts

    @property
    def passes(self) -> int:
        """Passes over the rows of the source so far."""
        return self.rows.passes

    @property
    def resident(self) -> bool:
        """Whether all rows of the data are in memory."""
        return self.rows.resident

    @property
    def cheap(self) -> bool:
        """Whether recomputing all rows in float64 is cheap."""
        return self.rows.cheap

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows is cheaper to compute than to gather from the store."""
        return self.rows.cheap_among

    @property
    def worth_filling(self) -> float:
        """If this share of the samples is needed, computing all rows at once is cheaper."""
        return self.rows.worth_filling

    def fill(self) -> None:
        """Compute all missing rows."""
        self.rows.fill()

    def contents(self) -> CacheContents:
        """Return which rows are and were cached."""
        return self.rows.contents()

    def refill(self, contents: CacheContents) -> None:
        """Restore the checkpoint of a cache."""
        self.rows.refill(contents)

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Return the samples of multipliers."""
        return rows % self._n

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of multipliers, the same for both of a sample; missing rows are computed."""
        samples, places = np.unique(self.columns(rows), return_inverse=True)
        return self.rows.fetch(samples)[places]

    def cached(self, rows: np.ndarray) -> np.ndarray:
        """Return a mask of the multipliers whose rows are cached."""
        return self.rows.cached(self.columns(rows))

    def slots_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of multipliers, -1 for those that are not cached."""
        return self.rows.slots_of(self.columns(rows))

    def computed(self, rows: np.ndarray) -> np.ndarray:
        """Return newly computed rows, a column a sample."""
        return self.rows.computed(self.columns(rows))

    def among(self, rows: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `out[first:]`."""
        self.rows.among(self.columns(rows), first, out)

    @property
    def cheap_restricted(self) -> bool:
        """Whether the kernel among some thousand rows is computed again more cheaply than it is read."""
        return isinstance(self.rows, RecomputedRows) and self.rows.cheap_restricted

    def restricted(self, rows: np.ndarray) -> RecomputedRows | None:
        """Return the kernel rows among multipliers, where no row is cached; None if a block of them is cheaper."""
        assert isinstance(self.rows, RecomputedRows)
        return self.rows.restricted(self.columns(rows))

    def weighted_sum(self, rows: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows, for the multipliers `at` or for all, from values in float64."""
        samples, coef = _merged(self.columns(rows), coef)
        if at is None:
            return np.tile(self.rows.weighted_sum(samples, coef), 2)
        wanted, places = np.unique(self.columns(at), return_inverse=True)
        return self.rows.weighted_sum(samples, coef, wanted)[places]

    def samples(self, columns: np.ndarray) -> tuple[PairwiseKernel, Block]:
        """Return the kernel in float64, and some samples."""
        return self.rows.samples(columns)

    def value_bounds(self) -> ValueBounds:
        """Return bounds on the sizes and the errors of values in float64, a size a sample."""
        return self.rows.value_bounds()

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums, for rows in slots that `fetch` returned."""
        change = np.zeros(self._n)
        self.rows.add(change, *_merged(slots, coef), pool)
        sums[: self._n] += change
        sums[self._n :] += change


def _merged(numbers: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct numbers and the sums of their coefficients."""
    distinct, places = np.unique(numbers, return_inverse=True)
    return distinct, np.bincount(places, coef, len(distinct)) if len(distinct) else coef


ProblemRows = RowCache | RecomputedRows | PairedRows
"""Kernel rows of a problem, one a multiplier."""
