"""Square blocks of the kernel matrix, copied from its rows so that they fit the processor's cache."""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, scratch_array, spans
from fastsvm.kernel_matrix.interface import KernelRows
from fastsvm.kernel_matrix.pairwise import SPAN

__all__ = ["WorkingBlock", "reordered"]


class WorkingBlock:
    """The kernel among the rows of a working set. Values of rows that the next set retains are moved."""

    def __init__(self, rows: KernelRows, pool: Pool) -> None:
        self._rows, self._pool = rows, pool
        self._block = np.empty((0, 0), rows.store.dtype)  # of the last working set, whose rows are `_inside`
        self._inside = np.empty(0, np.int64)
        self._memory = self._spare = np.empty(0, rows.store.dtype)  # of `_block`, and what takes turns with it
        self._square = np.empty(0)  # of the last Newton step

    def reuse(self, rows: KernelRows) -> None:
        """Use the memory for other rows."""
        self._rows, self._inside = rows, np.empty(0, np.int64)

    def of(self, chosen: np.ndarray, slots: np.ndarray | None) -> np.ndarray:
        """Return the kernel among the rows `chosen`; the newer half of the last ones may be in front.

        `slots` are those of the rows, None if the values are to be computed. The block is valid until the next call.
        """
        q, store = len(chosen), self._rows.store
        order = np.arange(q)
        if slots is not None and store.shape == (q, q) and (chosen == order).all() and (slots == order).all():
            return store
        first = len(self._inside) // 2
        old = self._inside[first:][:q]
        same = chosen[: len(old)] == old
        count = len(old) if same.all() else int(np.argmin(same))
        if len(self._spare) < q * q:  # else used again, as in `square`
            self._spare = np.empty(0, store.dtype)
            self._spare = np.empty(q * q, store.dtype)
        block = self._spare[: q * q].reshape(q, q)
        self._inside = np.empty(0, np.int64)  # until it is whole again
        self.gather(chosen, slots, count, block)
        self._pool.run(_complete, [(self._block, first, block, count, a, b) for a, b in _parts(0, count)])
        self._block, self._inside = block, chosen
        self._memory, self._spare = self._spare, self._memory
        return block

    def gather(self, rows: np.ndarray, slots: np.ndarray | None, first: int, block: np.ndarray) -> None:
        """Write the kernel between `rows[first:]` and all `rows` to `block[first:]`; `slots` as for `of`."""
        if slots is None or self._rows.cheap_among:
            self._rows.among(rows, first, block)
            return
        store, columns = self._rows.store, self._rows.columns(rows)
        order = np.argsort(columns)
        self._pool.run(_gather, [(store, slots, columns, order, block, a, b) for a, b in _parts(first, len(rows))])

    def square(self, m: int) -> np.ndarray:
        """Return memory for a matrix of order m, of float64.

        It is what served before if it can be: the first touch of new memory is expensive.
        """
        if len(self._square) < m * m:
            self._square = np.empty(m * m)
        return self._square[: m * m].reshape(m, m)


def reordered(block: np.ndarray, order: np.ndarray, pool: Pool) -> np.ndarray:
    """Return a block with its rows and columns in another order; valid until the thread calls this again."""
    q = len(order)
    out, places = scratch_array("reordered", (q, q), block.dtype), np.arange(q)
    pool.run(_gather, [(block, order, order, places, out, a, b) for a, b in _parts(0, q)])
    return out


def _parts(start: int, stop: int) -> list[tuple[int, int]]:
    return [(start + a, start + b) for a, b in spans(stop - start, SPAN)]


@jit
def _gather(store, slots, columns, order, block, start, stop):
    """Copy rows `start` to `stop` of the kernel among `columns`; `order` sorts the columns.

    Row s of the kernel is in slot `slots[s]`.
    """
    for s in range(start, stop):
        source, target = store[slots[s]], block[s]
        for t in order:
            target[t] = source[columns[t]]


@jit
def _complete(old, first, block, count, start, stop):
    """Complete rows `start` to `stop`, of the `count` first ones, of a block.

    Their values among each other are those of the old block from row and column `first` on, the others are those of
    the rows below.
    """
    for s in range(start, stop):
        source, target = old[first + s, first : first + count], block[s, :count]
        for t in range(count):
            target[t] = source[t]
    values = np.empty((16, 16), block.dtype)  # a buffer, as lines of a column evict each other from the cache
    for top in range(start, stop, 16):
        height = min(16, stop - top)
        for left in range(count, block.shape[0], 16):
            width = min(16, block.shape[0] - left)
            for t in range(width):
                source, target = block[left + t, top : top + height], values[t]
                for s in range(height):
                    target[s] = source[s]
            for s in range(height):
                target = block[top + s, left : left + width]
                for t in range(width):
                    target[t] = values[t, s]
