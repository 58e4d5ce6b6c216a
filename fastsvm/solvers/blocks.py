"""Square blocks of the kernel, copied from its rows, and products with rows."""

import numpy as np

from fastsvm._jit import jit

__all__ = ["add_rows", "complete", "gather"]


@jit
def gather(store, slots, columns, order, block, start, stop):
    """Copy rows `start` to `stop` of the kernel among `columns`; `order` sorts the columns.

    Row s of the kernel is in slot `slots[s]`.
    """
    for s in range(start, stop):
        source, target = store[slots[s]], block[s]
        for t in order:
            target[t] = source[columns[t]]


@jit
def complete(old, first, block, count, start, stop):
    """Complete rows `start` to `stop`, of the `count` first ones, of a block.

    Their values among each other are those of the old block from row and column `first` on, the others are those of
    the rows below.
    """
    for s in range(start, stop):
        source, target = old[first + s, first : first + count], block[s, :count]
        for t in range(count):
            target[t] = source[t]
    values = np.empty((16, 16), block.dtype)  # because the lines of a column would drive each other out of the cache
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


@jit
def add_rows(store, slots, delta, gradient, start, stop):
    """Add Σ_s delta_s store[slots_s] to columns `start` to `stop` of the gradient, in float64."""
    target = gradient[start:stop]
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
