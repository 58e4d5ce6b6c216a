"""Data that tests of this room share."""

import numpy as np
import pytest

from fastsvm.tuning import changed, tuned


@pytest.fixture(scope="module")
def two():
    """Return 120 rows of two classes that overlap."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 5))
    return X, (X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=120) > 0).astype(int)


@pytest.fixture(scope="module")
def three():
    """Return 120 rows of three classes that overlap."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 120)
    return rng.normal(size=(120, 5)) + 1.2 * np.eye(5)[y], y


@pytest.fixture(scope="module")
def line():
    """Return 120 rows with real targets."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 5))
    return X, X @ [1.0, -2.0, 0.5, 0.0, 0.3] + 0.7 + 0.3 * rng.normal(size=120)


@pytest.fixture(scope="module")
def two_300():
    """Return 300 rows of two classes that overlap."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 5))
    return X, (X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=300) > 0).astype(int)


@pytest.fixture(scope="module")
def three_300():
    """Return 300 rows of three classes that overlap."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 300)
    return rng.normal(size=(300, 5)) + 1.5 * np.eye(5)[y], y


@pytest.fixture(scope="module")
def line_300():
    """Return 300 rows with real targets."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 5))
    return X, X @ [1.0, -2.0, 0.5, 0.0, 0.3] + 0.7 + 0.3 * rng.normal(size=300)


@pytest.fixture
def unmerged():
    """Let equal rows stay apart, of which dual ascent learns."""
    with tuned(changed({"linear": {"small_values": 0, "newton": False}})):
        yield
