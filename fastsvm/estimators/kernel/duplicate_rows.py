"""Rows that occur more than once, solved as one row with the sum of their bounds.

Equal rows of one class have equal columns in the kernel matrix, so only the sum of their multipliers matters, and the
problem with one row in place of all is the same problem. Data of categories have many such rows.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.sources import MemorySource, Source

__all__ = ["Repeats"]

_WORTH = 0.01  # of the rows, less is not worth a copy of the others


class Repeats(NamedTuple):
    """Which rows are repeated, and how a sum of multipliers is divided among them.

    Attributes
    ----------
    first : ndarray of int64
        For each row the first one that is equal to it, itself if there is none before.
    order : ndarray of int64
        Rows, equal ones together.
    before : ndarray of float64
        In that order, the sum of bounds of the equal rows before each.
    upper : ndarray of float64
        Bound of each row.
    """

    first: np.ndarray
    order: np.ndarray
    before: np.ndarray
    upper: np.ndarray

    @classmethod
    def find(cls, source: Source, labels: np.ndarray, upper: np.ndarray) -> "Repeats | None":
        """Return the repeated rows of each class, None if there are few or the rows are not bytes in memory."""
        if not isinstance(source, MemorySource) or source.sparse or source.dtype != np.uint8:
            return None
        values = np.ascontiguousarray(source.block.values)
        key = np.empty(len(values), np.uint32)
        _hash(values, np.random.default_rng(0).integers(1, 2**32, values.shape[1], np.uint32) | np.uint32(1), key)
        order = np.lexsort((key, labels))
        first = np.arange(len(values))
        _link(values, labels, key, order, first)
        if np.count_nonzero(first != np.arange(len(first))) < _WORTH * len(first):
            return None
        order = np.argsort(first, kind="stable")
        before = np.empty(len(upper))
        _sums_before(upper, first, order, before)
        return cls(first, order, before, upper)

    def labels(self, labels: np.ndarray) -> np.ndarray:
        """Return the labels with -1 for all rows but the first of equal ones."""
        return np.where(self.first == np.arange(len(labels)), labels, -1)

    def bounds(self) -> np.ndarray:
        """Return the sums of bounds at the first of equal rows, and 0 elsewhere."""
        return np.bincount(self.first, self.upper, len(self.first))

    def spread(self, alpha: np.ndarray) -> np.ndarray:
        """Return multipliers of all rows for sums at the first of equal ones: as many at 0 or the bound as can be."""
        result = np.empty_like(alpha)
        sums, upper = alpha[self.first][self.order], self.upper[self.order]
        full = sums >= self.bounds()[self.first][self.order]
        result[self.order] = np.where(full, upper, np.clip(sums - self.before, 0, upper))
        return result


@jit
def _hash(rows, factors, key):
    """Write a sum of the bytes of each row, each times a factor, modulo 2**32."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total = np.uint32(0)
        for k in range(row.size):
            total = np.uint32(total + np.uint32(np.uint32(row[k]) * factors[k]))
        key[i] = total


@jit
def _sums_before(upper, first, order, before):
    """Write, in that order, the sum of bounds of the equal rows before each: added up as a sum of some of them is."""
    total, head = 0.0, -1
    for t in range(order.size):
        i = order[t]
        if first[i] != head:
            total, head = 0.0, first[i]
        before[t] = total
        total += upper[i]


@jit
def _link(rows, labels, key, order, first):
    """Write for each row the first of those equal to it; `order` puts rows of one label and key together."""
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
