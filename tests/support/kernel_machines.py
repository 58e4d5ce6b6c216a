"""Kernels and comparisons that tests of kernel machines share."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.1, "coef0": 1.0, "degree": 3},
    "rbf": {"gamma": 0.05},
    "sigmoid": {"gamma": 0.01, "coef0": 0.0},
}


def kernel_matrix(kernel, X, Z=None):
    return pairwise_kernels(X, Z, metric=kernel, **KERNELS[kernel])


def same(a, b, X, tolerance=1e-6):
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-8)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=tolerance)
