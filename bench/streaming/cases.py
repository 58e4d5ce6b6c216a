"""Cases of fits from files: the images of which a file is made, and its size."""

import numpy as np
from sklearn.datasets import load_digits

from bench import recipes
from bench.harness.data import Data
from bench.harness.suite import Case
from bench.streaming.parameters import StreamingParameters

__all__ = ["STREAMING_CASES"]


def _cifar() -> Data:
    return recipes.cifar10(50_000)


def _digits() -> Data:
    """Return digits as bytes; their pixels are from 0 to 16."""
    images, labels = load_digits(return_X_y=True)
    X, y = (15 * images).astype(np.uint8), labels.astype(np.int64)
    return Data(X, y, X[:0], y[:0])


_SUITE = ("streaming",)

STREAMING_CASES = [
    Case("digits-4MB", _SUITE, _digits, StreamingParameters(0.1, 60_000, 256, "2MB", 2, 1_000), quick=True),
    Case("cifar-10-8GB", _SUITE, _cifar, StreamingParameters(1e-4, 2_650_000, 1000, "512MB", 400, 10_000, tol=2e-3)),
]
