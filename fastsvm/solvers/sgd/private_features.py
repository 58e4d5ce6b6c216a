"""Features that occur in one row only, as most words do, merged to one feature a row.

In the span of the private features of a row, weights only matter in the direction of the row, and the least L2 penalty
has none in other directions. So the problem with one feature of the same length in their place has the same minimum,
with steps of the same kind. Features that never occur have weights of zero and are left out.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.sparse_products import readable
from fastsvm.solvers.sgd.learning_rates import FeatureRates
from fastsvm.solvers.sgd.problem import LinearFunction
from fastsvm.sources import CSRBlock, MemorySource, Source

_MANY = np.iinfo(np.int16).max  # Rows are counted up to this number, because sorting integers of 16 bits is fast.


class PrivateFeatures(NamedTuple):
    """How weights of merged features become weights of all.

    `shared` are the features that occur in several rows, in the order of the merged ones: the most frequent ones first.
    `columns` are those that occur in one row, row by row, and `shares` their weights in multiples of that of the
    feature that stands for them. `starts` says where in `columns` those begin for which each further feature stands.
    """

    n_features: int
    shared: np.ndarray
    starts: np.ndarray
    columns: np.ndarray
    shares: np.ndarray

    def whole(self, linear: LinearFunction) -> LinearFunction:
        """Return the weights of all features."""
        coef, n_shared, sizes = np.zeros((len(linear.coef), self.n_features)), len(self.shared), np.diff(self.starts)
        for whole, own in zip(coef, linear.coef, strict=True):
            whole[self.shared] = own[:n_shared]
            whole[self.columns] = np.repeat(own[n_shared:], sizes) * self.shares
        return LinearFunction(coef, linear.intercept)

    def rates(self, rates: FeatureRates) -> FeatureRates:
        """Return rates with which a merged feature moves a score as far as those for which it stands."""
        sizes = np.concatenate([np.ones(len(self.shared)), np.diff(self.starts)])
        return rates._replace(unit=rates.unit * sizes, floor=rates.floor / sizes)


def merged_features(source: Source, least_share: float) -> tuple[Source, PrivateFeatures] | None:
    """Return sparse rows in memory with merged features and what restores the weights.

    Returns None for other rows, and if fewer than `least_share` of the features would be spared.
    """
    n, d = source.shape
    if not isinstance(source.block, CSRBlock):
        return None
    block, _ = readable(source.block, np.arange(n))
    counts = np.zeros(d, np.int32)
    _count(block, counts)
    shared = np.flatnonzero(counts > 1)
    if d - len(shared) - n < least_share * d:
        return None
    # Those that many rows have lie side by side, where they stay in the processor's cache.
    shared = shared[np.argsort(-np.minimum(counts[shared], _MANY).astype(np.int16), kind="stable")]
    columns_of = np.full(d, -1, block.indices.dtype)
    columns_of[shared] = np.arange(len(shared))
    n_private, starts = int(np.count_nonzero(counts == 1)), np.zeros(n + 1, np.int64)
    private = PrivateFeatures(d, shared, starts, np.empty(n_private, np.int64), np.empty(n_private))
    most = len(block.data) - n_private + n
    merged = CSRBlock(
        np.empty(most, block.data.dtype),
        np.empty(most, block.indices.dtype),
        np.zeros(n + 1, np.int64),
        len(shared) + n,
    )
    n_values, n_merged = _merge(block, columns_of, merged, private)
    if n_values <= 0:
        return None
    block = CSRBlock(merged.data[:n_values], merged.indices[:n_values], merged.indptr, len(shared) + n_merged)
    return MemorySource(block), private._replace(starts=starts[: n_merged + 1])


@jit
def _count(block, counts):
    """Count the values of each feature."""
    indices = block.indices
    for p in range(block.indptr[block.indptr.size - 1]):
        counts[indices[p]] += 1


@jit
def _merge(block, columns_of, merged, private):
    """Write the merged rows and what belongs to their private features.

    Returns the numbers of values and of further features; -1 if the length of a row's private features is not finite.
    """
    data, indices, indptr = block.data, block.indices, block.indptr
    new_data, new_indices, new_indptr = merged.data, merged.indices, merged.indptr
    starts, columns, shares = private.starts, private.columns, private.shares
    count, owner, at, n_shared = 0, 0, 0, private.shared.size
    for i in range(indptr.size - 1):
        first, squares = at, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j, x = indices[p], data[p]
            if columns_of[j] >= 0:
                new_data[count], new_indices[count] = x, columns_of[j]
                count += 1
            else:
                columns[at], shares[at] = j, x
                squares += np.float64(x) * np.float64(x)
                at += 1
        length = np.sqrt(squares)
        if not length < np.inf:
            return -1, 0
        if at > first:
            for q in range(first, at):
                shares[q] = shares[q] / length if length > 0 else 0.0
            new_data[count], new_indices[count] = length, n_shared + owner
            count, owner = count + 1, owner + 1
            starts[owner] = at
        new_indptr[i + 1] = count
    return count, owner
