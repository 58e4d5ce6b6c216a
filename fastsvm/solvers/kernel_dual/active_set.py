"""Active set: a few thousand rows on which a solver works for a while, with the kernel matrix among them.

This is the reverse of shrinking (Joachims 1999, section 11.4). Shrinking removes rows from the problem. Here, violating
rows are added to a small set, where they replace rows that are at a bound and cannot move. SMO steps within the set
access no kernel row of full length.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.interface import KernelRows
from fastsvm.kernel_matrix.stored_rows import SquareRows

__all__ = ["ActiveContents", "ActiveSet"]

_GATHERED_ROWS = 256


@storable("active set")
class ActiveContents(NamedTuple):
    """The row in each place of an active set, when each entered, and the number of admissions."""

    rows: np.ndarray
    entered: np.ndarray
    clock: int


class ActiveSet(SquareRows):
    """Some rows of a problem, each in a place, and the kernel matrix among them.

    Parameters
    ----------
    capacity : int
        Largest number of rows.
    kernel : KernelRows
        Kernel rows of the whole problem.
    pool : Pool
        Threads.

    Attributes
    ----------
    store : ndarray of shape (capacity, capacity)
        Kernel values, indexed by places.
    rows : ndarray of int64
        The row in each place.
    """

    def __init__(self, capacity: int, kernel: KernelRows, pool: Pool) -> None:
        self.capacity, self._kernel = capacity, kernel
        super().__init__(np.empty((capacity, capacity), kernel.store.dtype))
        self.rows = np.empty(0, np.int64)
        self._pool = pool
        self._entered = np.empty(0, np.int64)
        self._clock = 0

    def contents(self) -> ActiveContents:
        """Return which rows are in the set, for a checkpoint."""
        return ActiveContents(self.rows.copy(), self._entered.copy(), self._clock)

    def refill(self, contents: ActiveContents) -> None:
        """Restore the rows of a checkpoint and compute the kernel among them."""
        self.rows, self._entered, self._clock = contents.rows.copy(), contents.entered.copy(), contents.clock
        columns = self._kernel.columns(self.rows)
        order = np.argsort(columns)
        for start, stop in _parts(self.rows):
            store, places = self._kernel.computed(self.rows[start:stop]), np.arange(start, stop)
            _gather_places(store, np.arange(stop - start), columns, order, self.store, places, 0)

    @property
    def n_slots(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def cheap(self) -> bool:
        """Whether computing all rows once more, in float64, costs little."""
        return self._kernel.cheap

    @property
    def cheap_among(self) -> bool:
        """Whether the kernel among a few rows costs less to compute than to gather from the store."""
        return self._kernel.cheap_among

    def among(self, places: np.ndarray, first: int, out: np.ndarray) -> None:
        """Write the kernel between the rows in `places[first:]` and those in `places` to `out[first:]`."""
        self._kernel.among(self.rows[places], first, out)

    def weighted_sum(self, places: np.ndarray, coef: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return Σ_s coef_s K_s over the rows in `places`, for the places `at` or for all, from values in float64."""
        return self._kernel.weighted_sum(self.rows[places], coef, self.rows if at is None else self.rows[at])

    def keep(self, places: list[int]) -> None:
        """Make the movable rows in these places the last to be replaced in the next admission."""
        self._entered[places] = self._clock + 1

    def admit(self, entering: np.ndarray, slots: np.ndarray, store: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Add rows, replacing others if the set is full, and return their places.

        Parameters
        ----------
        entering : ndarray of int64
            Rows that are not in the set, at most `capacity`.
        slots : ndarray of int64
            Slots of their kernel rows in `store`.
        store : ndarray
            Kernel rows.
        slack : ndarray of float64
            For each row in the set, how far it is from forming a violating pair; −inf for a row that can move. Rows
            with the largest slack are replaced first, and movable ones in the order of their admission.
        """
        self._clock += 1
        fresh = np.arange(len(self.rows), min(len(self.rows) + len(entering), self.capacity))
        n_leaving = len(entering) - len(fresh)
        leaving = np.lexsort((self._entered, -slack))[:n_leaving] if n_leaving else np.empty(0, np.int64)
        places = np.concatenate([np.sort(leaving), fresh])
        self.rows = np.concatenate([self.rows, np.empty(len(fresh), np.int64)])
        self._entered = np.concatenate([self._entered, np.empty(len(fresh), np.int64)])
        self.rows[places], self._entered[places] = entering, self._clock
        columns = self._kernel.columns(self.rows)
        order = np.argsort(columns)
        self._pool.run(
            _gather_places, [(store, slots, columns, order, self.store, places[a:b], a) for a, b in _parts(places)]
        )
        is_new = np.zeros(len(self.rows), bool)
        is_new[places] = True
        self._pool.run(_mirror_places, [(self.store, places, is_new, a, b) for a, b in _parts(self.rows)])
        return places


def _parts(values: np.ndarray) -> list[tuple[int, int]]:
    return list(spans(len(values), _GATHERED_ROWS))


@jit
def _gather_places(store, slots, columns, order, square, places, first):
    """Write the rows `places` of the square; `places[0]` is entering row `first`. Columns are read in rising order."""
    for k in range(places.size):
        source, target = store[slots[first + k]], square[places[k]]
        for t in order:
            target[t] = source[columns[t]]


@jit
def _mirror_places(square, places, is_new, start, stop):
    """Copy the new rows to the columns `places` of the old rows between `start` and `stop`."""
    values = np.empty((16, 16), square.dtype)  # a buffer, as lines of a column evict each other from the cache
    for top in range(start, stop, 16):
        height = min(16, stop - top)
        for left in range(0, places.size, 16):
            part = places[left : left + 16]
            for t in range(part.size):
                source, target = square[part[t], top : top + height], values[t]
                for s in range(height):
                    target[s] = source[s]
            for s in range(height):
                if not is_new[top + s]:
                    target = square[top + s]
                    for t in range(part.size):
                        target[part[t]] = values[t, s]
