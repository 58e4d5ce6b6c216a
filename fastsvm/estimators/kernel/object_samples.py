"""Samples that are not numbers, such as strings, lists or images, for kernels that are functions."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from fastsvm.kernels import is_kernel
from fastsvm.sources import Block, DenseBlock, MemorySource, is_stored

__all__ = ["ObjectSource", "samples_for"]


class ObjectSource(MemorySource):
    """Samples of any kind. In blocks, they are represented by their numbers.

    The numbers of `known` samples, such as the support vectors of a model, come before those of `samples`. The source
    consists of the samples with the given `numbers`; None for all of `samples`.
    """

    def __init__(self, samples: Any, known: Any = None, numbers: np.ndarray | None = None) -> None:
        self.samples, self.known = samples, known
        self._first = 0 if known is None else _num_samples(known)
        if numbers is None:
            numbers = np.arange(self._first, self._first + _num_samples(samples), dtype=np.int64)
        super().__init__(DenseBlock(numbers[:, None]))

    def take(self, indices: np.ndarray) -> "ObjectSource":
        """Return the source of the samples `indices` of this source."""
        return ObjectSource(self.samples, self.known, self.block.stored[indices, 0])

    def as_passed(self, block: Block) -> Any:
        """Return the samples of a block: a list, an array or a DataFrame."""
        numbers = block.stored[:, 0]
        if len(numbers) and numbers[0] < self._first:
            return _safe_indexing(self.known, numbers)
        return _safe_indexing(self.samples, numbers - self._first)


def samples_for(estimator: Any, X: Any, known: Any = None) -> Any:
    """Return X, or its source if the kernel is a function and X is no matrix of numbers.

    The support vectors of a fitted estimator, which are `known`, decide what X is: two lists to predict may happen to
    be of equal length. Other parameters of the estimator may be wrong.
    """
    kernel = estimator.kernel
    if not callable(kernel) or is_kernel(kernel) or isinstance(kernel, type) or is_stored(X):
        return X
    if _is_table(X) if known is None else not _are_objects(known):
        return X
    if not (hasattr(X, "__len__") or hasattr(X, "shape")) or isinstance(X, (str, bytes)):
        return X  # which is refused
    return ObjectSource(X, known)


def _are_objects(support_vectors: Any) -> bool:
    """Return whether a model was fitted to objects: a fit on numbers stores arrays."""
    return isinstance(support_vectors, (list, tuple)) or not _is_table(support_vectors)


def _is_table(X: Any) -> bool:
    """Return whether X is a matrix of numbers: an array, a sparse matrix, a DataFrame or lists of equal length."""
    if sparse.issparse(X):
        return True
    if hasattr(X, "dtypes") and hasattr(X, "columns"):  # a DataFrame
        return all(getattr(kind, "kind", "O") in "biufc" for kind in X.dtypes)
    try:
        found = np.asarray(X)
    except ValueError:  # lists of different lengths
        return False
    return found.ndim == 2 and found.dtype.kind in "biufc"
