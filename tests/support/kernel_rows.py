"""Kernel matrices for tests, and caches of their rows."""

import numpy as np

from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PrecomputedPairwise
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.sources import MemorySource


def cache(K, pool, n_slots=None):
    """Return a cache of `n_slots` rows of a kernel matrix, or of all, in its type."""
    pairwise = PrecomputedPairwise(np.arange(len(K)))
    pairwise.dtype = K.dtype
    arena = np.empty((n_slots or len(K)) * len(K) * K.itemsize, np.uint8)
    return RowCache(Gram(pairwise, MemorySource.of(K), pool), arena)


def distinct_kernel(n, dtype=np.float64, seed=0):
    """Return a symmetric matrix of values that all differ."""
    K = np.random.default_rng(seed).permutation(n * n).reshape(n, n).astype(dtype)
    return np.maximum(K, K.T)
