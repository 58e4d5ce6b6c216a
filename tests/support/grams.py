"""Kernel matrices of made-up rows for tests."""

import numpy as np
import pytest
from scipy import sparse

from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise, Uint8Pairwise, multiplies_bytes
from fastsvm.kernels import KERNELS
from fastsvm.sources import as_source, feature_statistics

GAMMA = 0.05
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_matrix}


def squared_distances(X, Z):
    return ((X[:, None, :].astype(np.float64) - Z[None, :, :].astype(np.float64)) ** 2).sum(axis=2)


def float_rows(n):
    X = np.random.default_rng(n).normal(size=(n, 7))
    X[np.abs(X) < 0.5] = 0
    return X


def float_gram(X, pool, layout="dense", dtype=np.float64, left=None):
    source = as_source(LAYOUTS[layout](X))
    pairwise = RealPairwise(KERNELS["rbf"](gamma=GAMMA), dtype, feature_statistics(source).centre, source.sparse)
    return Gram(pairwise, source, pool, left=None if left is None else as_source(LAYOUTS[layout](left)))


def byte_gram(X, pool, name="rbf", dtype=np.float32):
    if not multiplies_bytes(X.shape[1]):
        pytest.skip("the processor does not multiply bytes")
    given = {"rbf": {"gamma": 1e-5}, "linear": {}}[name]
    return Gram(Uint8Pairwise(KERNELS[name](**given), dtype), as_source(X), pool)


def all_rows(gram):
    n = len(gram)
    out = np.full((n, n), np.nan, gram.dtype)
    gram.rows(np.arange(n), out, np.arange(n))
    return out
