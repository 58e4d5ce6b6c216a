"""Features that occur in one row only, as most words do, merged to one feature a row.

In the span of the private features of a row, weights only matter in the direction of the row, and the least L2 penalty
has none in other directions. So the problem with one feature of the same length in their place has the same minimum,
with steps of the same kind. Features that never occur have weights of zero and are left out.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

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
    X = sparse.csr_array((block.data, block.indices, block.indptr), shape=(n, d))
    if X.nnz == 0:
        return None
    counts = np.bincount(X.indices, minlength=d)
    shared = np.flatnonzero(counts > 1)
    if d - len(shared) - n < least_share * d:
        return None
    # Those that many rows have lie side by side, where they stay in the processor's cache.
    shared = shared[np.argsort(-np.minimum(counts[shared], _MANY).astype(np.int16), kind="stable")]
    places = np.flatnonzero(counts[X.indices] == 1)
    rows, values = np.searchsorted(X.indptr, places, side="right") - 1, X.data[places].astype(np.float64)
    owners, sizes = np.unique(rows, return_counts=True)
    with np.errstate(over="ignore"):
        lengths = np.sqrt(np.bincount(rows, np.square(values), n)[owners])
        merged_values = lengths.astype(X.dtype)
    if not np.isfinite(merged_values).all():
        return None
    own = sparse.csr_array((merged_values, (owners, np.arange(len(owners)))), shape=(n, len(owners)))
    merged = sparse.hstack([X[:, shared], own], format="csr")
    starts, divisors = np.append(0, np.cumsum(sizes)), np.where(lengths > 0, lengths, 1.0)
    private = PrivateFeatures(d, shared, starts, X.indices[places], values / np.repeat(divisors, sizes))
    indices = merged.indices.astype(block.indices.dtype, copy=False)  # SciPy takes wider ones, which are slower
    return MemorySource(CSRBlock(merged.data, indices, merged.indptr.astype(np.int64), merged.shape[1])), private
