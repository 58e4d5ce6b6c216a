"""Dot products of sparse rows with sparse rows, by an inverted index (Zobel and Moffat 2006, section 2).

The index lists, for each feature, the rows that have it. Other rows are multiplied with all indexed rows, sixteen at a
time. For each feature that any of the sixteen has, its list is read once, and each row in the list adds to sixteen
sums, which are a vector. So a feature costs what its list is long, in vectors if many of the sixteen have it. No row is
written out with its zeros, and the cost is that of the features that two rows share, not of those that either has.

Features are found by hashing, so that memory does not depend on their number. If they are few, the table has a place
for each of them.

A product is summed in the order of the features, with one rounding each. Its bits do not depend on which other rows are
indexed or multiplied, on zeros that are stored, or on the order of the two rows.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import scratch_array
from fastsvm._compiled.vectors import LANES, add_to_lanes
from fastsvm.sources import CSRBlock

_HASH = 0x9E3779B1  # 2**32 divided by the golden ratio, a prime (Knuth, volume 3, section 6.4)
_LOW_31, _LOW_32 = np.iinfo(np.int32).max, np.iinfo(np.uint32).max


class InvertedIndex(NamedTuple):
    """Rows by their features, which are numbered in rising order; the number after them, for others, has no rows."""

    table: np.ndarray  # It has features, or -1, and numbers at the places of hashes, shape (a power of two, 2).
    hashing: tuple[int, int]  # They are the factor and the shift of a hash.
    starts: np.ndarray  # They bound the lists of rows and values, which are one after another.
    rows: np.ndarray
    values: np.ndarray


def invert(block: CSRBlock) -> InvertedIndex:
    """Return the index of sparse rows, whose indices are int32 or int64 and whose `indptr` is int64."""
    n_values = len(block.indices)
    n_bits = min(32, max(1, (min(block.n_features, 2 * n_values) - 1).bit_length()))
    few = 1 << n_bits >= block.n_features
    hashing = (1, 0) if few else (_HASH, 32 - n_bits)
    table = np.full((1 << n_bits, 2), -1, block.indices.dtype)
    numbers, counts = np.empty(n_values, np.int32), np.zeros(n_values, np.int32)
    features = np.empty(n_values, block.indices.dtype)
    n_found = _number(block.indices, table, hashing, numbers, (features, counts))
    order = np.argsort(features[:n_found])
    rising = np.empty(n_found, np.int32)
    rising[order] = np.arange(n_found, dtype=np.int32)
    starts = np.zeros(n_found + 2, np.int64)
    np.cumsum(counts[order], out=starts[1:-1])
    starts[-1] = n_values
    rows, values = np.empty(n_values, np.int32), np.empty(n_values, block.data.dtype)
    _fill(block, rising[numbers], starts.copy(), rows, values)
    table[:, 1] = np.append(rising, n_found)[table[:, 1]]  # free places have -1, which is the last
    return InvertedIndex(table, hashing, starts, rows, values)


@jit
def _place(feature, table, hashing):
    """Return where a feature is in the table, or the free place for it (linear probing)."""
    factor, shift = hashing
    low = np.int64(feature ^ (feature >> 31)) & _LOW_31  # so that the product does not overflow
    at = (low * factor & _LOW_32) >> shift
    while table[at, 0] != feature and table[at, 0] >= 0:
        at = (at + 1) & (table.shape[0] - 1)
    return at


@jit
def _number(indices, table, hashing, numbers, occurring):
    """Number the features in the order in which they occur, and count them; return how many there are."""
    features, counts = occurring
    n_found = 0
    for t in range(indices.size):
        at = _place(indices[t], table, hashing)
        if table[at, 0] < 0:
            table[at, 0], table[at, 1] = indices[t], n_found
            features[n_found] = indices[t]
            n_found += 1
        numbers[t] = table[at, 1]
        counts[numbers[t]] += 1
    return n_found


@jit
def _fill(block, numbers, ends, rows, values):
    """Write the lists. `ends` has the starts and becomes the ends."""
    data, indptr = block.data, block.indptr
    for i in range(indptr.size - 1):
        for t in range(indptr[i], indptr[i + 1]):
            end = ends[numbers[t]]
            rows[end], values[end] = i, data[t]
            ends[numbers[t]] = end + 1


def write_indexed_products(block: CSRBlock, index: InvertedIndex, out: np.ndarray) -> None:
    """Overwrite `out`, shape (n_indexed, n_rows), with the products of indexed rows and the rows of a block.

    The block has sorted rows in the type of the index, with `indptr` of int64.
    """
    indptr, dtype, n_found = block.indptr, out.dtype, len(index.starts) - 1
    ends = indptr[::LANES]  # and the last one, which np.append would take long to add
    most = min(n_found, int((ends[1:] - ends[:-1]).max(initial=indptr[-1] - ends[-1])))
    lanes = scratch_array("lanes", (max(1, most), LANES), dtype)
    sums = scratch_array("sums", (len(out), LANES), dtype)
    _write_products(block, index, out, lanes, sums)


@jit
def _write_products(block, index, out, lanes, sums):
    data, indices, indptr = block.data, block.indices, block.indptr
    n_found = index.starts.size - 1
    numbers, places = np.empty(indices.size, np.int32), np.empty(n_found, np.int32)
    there, active = np.zeros(n_found // 64 + 1, np.uint64), np.empty(lanes.shape[0], np.int32)
    for t in range(indices.size):
        numbers[t] = index.table[_place(indices[t], index.table, index.hashing), 1]
    for first in range(0, out.shape[1], LANES):
        count = min(LANES, out.shape[1] - first)
        n_active = _features_of(numbers[indptr[first] : indptr[first + count]], there, places, active)
        lanes[:n_active] = 0
        for i in range(count):
            for t in range(indptr[first + i], indptr[first + i + 1]):
                lanes[places[numbers[t]], i] = data[t]
        sums[:] = 0
        for u in range(n_active):
            span = index.starts[active[u]], index.starts[active[u] + 1]
            add_to_lanes(index.rows, index.values, span, lanes[u], sums)
        if count == LANES:
            for s in range(out.shape[0]):
                for i in range(LANES):
                    out[s, first + i] = sums[s, i]
        else:
            for s in range(out.shape[0]):
                for i in range(count):
                    out[s, first + i] = sums[s, i]


@jit
def _features_of(numbers, there, places, active):
    """Write the numbers that occur, in rising order, and the place of each; return how many there are.

    `there` is a set of bits, empty before and after.
    """
    one, n_active = np.uint64(1), 0
    for k in numbers:
        there[k >> 6] |= one << np.uint64(k & 63)
    for w in range(there.size):
        word = there[w]
        there[w] = 0
        while word != 0:
            lowest = word & (~word + one)
            word &= word - one
            k = 64 * w + (np.float64(lowest).view(np.int64) >> 52) - 1023  # its exponent
            places[k] = n_active
            active[n_active] = k
            n_active += 1
    return n_active
