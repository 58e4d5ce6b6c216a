"""Duplicate rows, merged into one row whose upper bound is the sum of their bounds.

Equal rows of one class, or with one target, have equal columns in the kernel matrix. The dual objective depends on the
sum of their multipliers only, so the problem in which one row represents them all has the same solution. Categorical
data have many duplicates.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order
from fastsvm.sources import DenseBlock, Source
from fastsvm.tuning import KernelTuning

_WORDS = {1: np.uint8, 4: np.uint32, 8: np.uint64}


class Repeats(NamedTuple):
    """Groups of duplicate rows, and the division of a group's multiplier among its rows.

    `first` is the first row of each row's group, `order` sorts rows by group, `before` has, in this order, the sum of
    the bounds of preceding rows of the group, and `upper` the bound of each row.
    """

    first: np.ndarray
    order: np.ndarray
    before: np.ndarray
    upper: np.ndarray

    @classmethod
    def find(
        cls, source: Source, kinds_of: Callable[[], np.ndarray | None], upper: np.ndarray, tuning: KernelTuning
    ) -> "Repeats | None":
        """Return the duplicates of each kind, a class or a target, -1 for none; None if there are few or none.

        Dense rows in memory are compared, of bytes or of words.
        """
        block = source.block
        if not (isinstance(block, DenseBlock) and block.values.dtype.itemsize in _WORDS):
            return None
        kinds = kinds_of()
        if kinds is None:
            return None
        words = np.ascontiguousarray(block.values).view(_WORDS[block.values.dtype.itemsize])
        key, rng = np.empty(len(words), np.uint32), np.random.default_rng(0)
        factors = rng.integers(1, 2**64, words.shape[1], np.uint64) | np.uint64(1)
        _hash(words, factors, np.uint64(4 * words.itemsize), key)
        order = np.lexsort((key, kinds))
        first = np.arange(len(words))
        _link(words.view(np.uint8), kinds, key, order, first)  # equal bits: 0 and -0 are different
        if np.count_nonzero(first != np.arange(len(first))) < tuning.repeated_share * len(first):
            return None
        order = np.argsort(first, kind="stable")
        before = np.empty(len(upper))
        _sums_before(upper, first, order, before)
        return cls(first, order, before, upper)

    def labels(self, labels: np.ndarray) -> np.ndarray:
        """Return the labels, with -1 for all rows of a group but the first."""
        return np.where(self.first == np.arange(len(labels)), labels, -1)

    def bounds(self) -> np.ndarray:
        """Return the sum of the bounds of a group for its first row, and 0 for other rows."""
        return np.bincount(self.first, self.upper, len(self.first))

    def spread(self, alpha: np.ndarray) -> np.ndarray:
        """Return the multipliers of all rows, given the sum of each group at its first row.

        Rows are filled one after the other, so that at most one of a group is strictly between 0 and its bound.
        """
        result = np.empty_like(alpha)
        sums, upper = alpha[self.first][self.order], self.upper[self.order]
        full = sums >= self.bounds()[self.first][self.order]
        result[self.order] = np.where(full, upper, np.clip(sums - self.before, 0, upper))
        return result

    def rounding(self, alpha: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Return by how much the sum of a group's multipliers, which are floats, is off, at its first row."""
        lacking = np.zeros_like(alpha)
        _differences(spread, alpha, self.first, self.order, lacking)
        return np.abs(lacking)


@jit
def _hash(words, factors, half, key):
    """Write the hash of each row: the upper half of the dot product of its words with factors, modulo 2**64.

    The upper half of a word is added to its lower half, where floats of few digits have no bits.
    """
    for i in range(words.shape[0]):
        row, total = words[i], np.uint64(0)
        for k in range(row.size):
            word = np.uint64(row[k])
            total += (word ^ (word >> half)) * factors[k]
        key[i] = total >> np.uint64(32)


@jit
def _sums_before(upper, first, order, before):
    """Write, in this order, the sum of the bounds of the preceding rows of the same group."""
    total, head = 0.0, -1
    for t in range(order.size):
        i = order[t]
        if first[i] != head:
            total, head = 0.0, first[i]
        before[t] = total
        total += upper[i]


@jit_in_order
def _differences(spread, alpha, first, order, out):
    """Write the sum of each group's multipliers less the given one, in twice the digits of a float."""
    high = low = 0.0
    for t in range(order.size):
        i = order[t]
        if first[i] == i:
            high, low = -alpha[i], 0.0
        total = high + spread[i]
        added = total - high
        low += (high - (total - added)) + (spread[i] - added)
        high = total
        out[first[i]] = high + low


@jit
def _link(rows, labels, key, order, first):
    """Write the first row of each row's group; `order` sorts rows by label and hash."""
    head = order[0]
    for t in range(1, order.size):
        i = order[t]
        same = labels[i] >= 0 and labels[i] == labels[head] and key[i] == key[head]
        if same:
            a, b = rows[i], rows[head]
            for k in range(a.size):
                if a[k] != b[k]:
                    same = False
                    break
        if same:
            first[i] = head
        else:
            head = i
