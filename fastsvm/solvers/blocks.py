"""Square blocks of the kernel, copied from its rows, and products with rows."""

from fastsvm._jit import jit

__all__ = ["add_rows", "gather", "mirror", "retain"]


@jit
def gather(store, slots, columns, order, block, start, stop):
    """Copy rows `start` to `stop` of the kernel among `columns`, as far as the diagonal; `order` sorts the columns.

    Row s of the kernel is in slot `slots[s]`.
    """
    for s in range(start, stop):
        source, target = store[slots[s]], block[s]
        for t in order:
            if t <= s:
                target[t] = source[columns[t]]


@jit
def mirror(block, start, stop, first):
    """Complete rows `start` to `stop` of a block, right of the diagonal and of column `first`, from those below."""
    q = block.shape[0]
    for left in range(max(start + 1, first), q, 16):  # so that few rows are read at a time
        right = min(left + 16, q)
        for s in range(start, stop):
            for t in range(max(left, s + 1), right):
                block[s, t] = block[t, s]


@jit
def retain(old, first, count, block):
    """Copy the square of `count` rows and columns at `first` of the old block to the corner of the new one."""
    for s in range(count):
        for t in range(count):
            block[s, t] = old[first + s, first + t]


@jit
def add_rows(store, slots, delta, gradient, start, stop):
    """Add Σ_s delta_s store[slots_s] to columns `start` to `stop` of the gradient, in float64."""
    for first in range(start, stop, 1024):
        last = min(first + 1024, stop)
        target = gradient[first:last]
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
