"""Sums of kernel rows in memory, and the rows of a square block of the kernel matrix."""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.kernel_matrix.pairwise import MOST_COLUMNS

__all__ = ["SquareRows", "add_stored_rows"]


class SquareRows:
    """The kernel matrix among some rows, in memory. The slot of a row is its place.

    It implements `KernelRows` for the problem restricted to these rows.
    """

    def __init__(self, store: np.ndarray) -> None:
        self.store = store

    @property
    def cheap(self) -> bool:
        """Whether computing all rows once more, in float64, costs little."""
        return False

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows costs less to compute than to gather from the store."""
        return False

    @property
    def n_slots(self) -> int:
        """Number of rows."""
        return len(self.store)

    def columns(self, places: np.ndarray) -> np.ndarray:
        """Return the columns of the rows in `places`: the places themselves."""
        return places

    def fetch(self, places: np.ndarray) -> np.ndarray:
        """Return the slots of the rows in `places`: the places themselves."""
        return places

    def cached(self, places: np.ndarray) -> np.ndarray:
        """Return true for all places."""
        return np.ones(len(places), bool)

    def computed(self, places: np.ndarray) -> np.ndarray:
        """Return a copy of the rows in `places`."""
        return self.store[places]

    def among(self, places: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows in `places[first:]` and those in `places` to `out[first:]`."""
        out[first:] = self.store[places[first:]][:, places]

    def weighted_sum(self, places: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows in `places`, for the places `at` or for all."""
        columns = slice(None) if at is None else at
        return coef @ self.store[places][:, columns].astype(np.float64)

    def add(self, sums: np.ndarray, slots: np.ndarray, coef: np.ndarray, pool: Pool) -> None:
        """Add Σ_s coef_s K_s to the sums."""
        add_stored_rows(self.store, slots, coef, sums, pool)


def add_stored_rows(store: np.ndarray, slots: np.ndarray, coef: np.ndarray, sums: np.ndarray, pool: Pool) -> None:
    """Add Σ_s coef_s store[slots_s] to the sums, in float64; each thread adds some columns."""
    pool.run(_add_rows, [(store, slots, coef, sums, a, b) for a, b in spans(len(sums), MOST_COLUMNS)])


@jit
def _add_rows(store, slots, delta, sums, start, stop):
    """Add Σ_s delta_s store[slots_s] to columns `start` to `stop` of the sums, in float64."""
    target = sums[start:stop]
    s = 0
    while s + 4 <= slots.size:
        a, b = store[slots[s], start:stop], store[slots[s + 1], start:stop]
        c, d = store[slots[s + 2], start:stop], store[slots[s + 3], start:stop]
        da, db, dc, dd = delta[s], delta[s + 1], delta[s + 2], delta[s + 3]
        for i in range(target.size):
            target[i] += da * a[i] + db * b[i] + dc * c[i] + dd * d[i]
        s += 4
    while s < slots.size:
        a, da = store[slots[s], start:stop], delta[s]
        for i in range(target.size):
            target[i] += da * a[i]
        s += 1
