"""Kernel rows of pairs of classes, which share what they have in common.

A row of class a in the problem of classes a and b is two segments: over the rows of a, which every problem with a
needs, and over those of b, which this problem alone needs. The first is computed once and kept in a `ClassTile`.
"""

import threading

import numpy as np

from fastsvm._jit import jit
from fastsvm._threads import Pool, spans
from fastsvm.evaluators import Evaluator
from fastsvm.gram import Gram, transpose
from fastsvm.sources import Source

__all__ = ["ClassTile", "PairGram"]

_SPAN = 512


class ClassTile:
    """The kernel among the rows of one class, computed row by row or at once as it is asked for.

    Rows are kept in the order in which they are first needed, so that no more memory is touched than they take.
    Threads may share a tile.

    Parameters
    ----------
    evaluator : Evaluator
        The kernel.
    source : Source
        The rows of the class.
    pool : Pool
        Threads.
    keep : bool
        Whether there is memory to keep what was computed.
    """

    def __init__(self, evaluator: Evaluator, source: Source, pool: Pool, keep: bool) -> None:
        n = len(source)
        self.gram = Gram(evaluator, source, pool)
        self._values = np.empty((n, n), evaluator.dtype) if keep else None
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
            missing = indices[self._slot_of[indices] < 0]
            if len(missing):
                free = np.arange(self._n_filled, self._n_filled + len(missing))
                self.gram.rows(missing, self._values, free)
                self._slot_of[missing] = free
                self._n_filled += len(missing)
            _copy_rows(self._values, self._slot_of[indices], out, slots, start)

    def fill(self, out: np.ndarray, start: int) -> None:
        """Write all rows to those of `out` from `start` on, and to the columns from there on."""
        n = len(self)
        if self._values is None:
            self.gram.rows(np.arange(n), out, np.arange(start, start + n), start)
            return
        with self._lock:
            if self._n_filled < n:
                self._slot_of[:], self._n_filled = -1, 0
                self.gram.fill(self._values)
                self._slot_of[:], self._n_filled = np.arange(n), n
            _copy_rows(self._values, self._slot_of, out, np.arange(start, start + n), start)


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
    worth_filling = 0.45  # because what is within the classes is shared

    def __init__(self, first: ClassTile, second: ClassTile, pool: Pool) -> None:
        evaluator = first.gram.evaluator
        self._tiles = first, second
        self._pool = pool
        a, b = first.gram.source, second.gram.source
        self._across = Gram(evaluator, b, pool, left=a), Gram(evaluator, a, pool, left=b)
        self.dtype = evaluator.dtype

    @property
    def passes(self) -> int:
        """Passes over the rows of both classes."""
        return max(gram.passes for gram in self._across)

    def __len__(self) -> int:
        """Return the number of rows and columns."""
        return sum(map(len, self._tiles))

    def rows_beside(self, indices: np.ndarray, out: np.ndarray, slots: np.ndarray, slot_of: np.ndarray) -> None:
        """Write the matrix's rows `indices` to the rows `slots` of `out`."""
        cut = len(self._tiles[0])
        in_second = indices >= cut
        for k, mine in enumerate((~in_second, in_second)):
            if mine.any():
                places = indices[mine] - k * cut
                self._tiles[k].rows(places, out, slots[mine], k * cut)
                self._across[k].rows(places, out, slots[mine], (1 - k) * cut)

    def fill(self, out: np.ndarray) -> None:
        """Write the whole matrix, computing what is between the classes once."""
        cut, n = len(self._tiles[0]), len(self)
        for k in (0, 1):
            self._tiles[k].fill(out, k * cut)
        self._across[0].rows(np.arange(cut), out, np.arange(cut), cut)
        pieces = [(out, (0, cut), (cut + a, cut + b), out) for a, b in spans(n - cut, _SPAN)]
        self._pool.run(transpose, pieces)


@jit
def _copy_rows(source, indices, out, slots, start):
    """Copy the rows `indices` of a square to the rows `slots` of `out`, from column `start` on."""
    n = source.shape[1]
    for k in range(indices.size):
        row, target = source[indices[k]], out[slots[k]]
        for t in range(n):
            target[start + t] = row[t]
