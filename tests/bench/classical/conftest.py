"""A small problem of two classes."""

import numpy as np
import pytest

from bench.classical.parameters import ClassicalParameters
from bench.harness.data import Data


@pytest.fixture(scope="session")
def small():
    """Return parameters and data."""

    def make(group="coordinate", n=40):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n + 10, 3)), np.where(rng.random(n + 10) < 0.4, 1, -1)
        X[:, 0] += y
        return ClassicalParameters(group, C=0.7, gamma=0.5), Data(X[:n], y[:n], X[n:], y[n:])

    return make
