"""Tables that are made up: a few real features, separated well or badly, with many free or many bounded multipliers.

Each recipe returns samples, standardised but for `long_features`, of which the last fifth is the test set.
"""

import numpy as np

from bench.harness.data import Data, standardised

__all__ = [
    "arcs", "board", "centres", "districts", "friedman", "houses", "long_features", "mixture", "one_hot", "sums",
    "walks",
]  # fmt: skip


def board(n: int = 50_000) -> Data:
    """Return two features: the squares of a board with 4 × 4 of them, and 2 % wrong labels."""
    rng = np.random.default_rng(3)
    X = 4 * rng.random((n, 2))
    return _split(X, X.astype(int).sum(axis=1) % 2 ^ (rng.random(n) < 0.02))


def mixture(n: int = 15_000) -> Data:
    """Return ten features: heavy tails within a wider cloud of the other class, which overlap."""
    rng = np.random.default_rng(2)
    y = (rng.random(n) < 0.35).astype(int)
    mixing = [np.eye(10) + rng.normal(size=(10, 10)) / 3 for _ in range(2)]
    tails, cloud = rng.standard_t(3, (n, 10)) @ mixing[0], 1.5 * rng.normal(size=(n, 10)) @ mixing[1] + 0.7
    return _split(np.where(y[:, None] == 1, tails, cloud), y)


def centres(n: int, n_features: int) -> Data:
    """Return samples around five centres of each of two classes, which overlap, for searches of C.

    The centres differ in half of the features each. TorchKM (2026) was measured on such tables.
    """
    rng = np.random.default_rng(0)
    y, middle = rng.integers(0, 2, n), n_features // 2
    around = rng.standard_normal((2, 5, n_features))
    around[0, :, :middle] += 2
    around[1, :, n_features - middle :] += 2
    return _split(around[y, rng.integers(0, 5, n)] + 3 * rng.standard_normal((n, n_features)), y)


def districts(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return made-up districts as those of the Californian census, features of very different scales, and prices."""
    rng = np.random.default_rng(0)
    income, age, rooms = rng.lognormal(1.2, 0.45, n), rng.uniform(1, 52, n), rng.lognormal(1.65, 0.3, n)
    people, crowd, north = rng.lognormal(7, 0.7, n), rng.lognormal(1.05, 0.3, n), rng.uniform(32, 42, n)
    west = -114 - 0.8 * (north - 32) + rng.normal(0, 1.5, n)
    coast = np.exp(-((north - 34) ** 2 + (west + 118) ** 2) / 2)
    price = 0.42 * income + 0.01 * age - 0.05 * rooms - 0.1 * crowd + 1.2 * coast + rng.normal(0, 0.35, n)
    return np.column_stack([income, age, rooms, people, crowd, north, west]), np.clip(price, 0.15, 5)


def houses(n: int) -> Data:
    """Return districts with bedrooms, as an eighth feature, and prices."""
    X, price = districts(n)
    bedrooms = X[:, 2] * np.random.default_rng(10).normal(0.2, 0.02, n)
    return _split(np.column_stack([X, bedrooms]), price)


def friedman(n: int = 30_000, real: bool = False) -> Data:
    """Return twenty features of which five decide (Friedman 1991), without noise.

    Labels say whether the target is large. It may be returned instead, standardised.
    """
    X = np.random.default_rng(4).random((n, 20))
    target = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return _split(X, _standard(target) if real else target > np.median(target))


def sums(n: int = 30_000) -> Data:
    """Return 28 features and a smooth score with more noise than signal, so that most multipliers are bounded."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 28))
    score = np.tanh(X @ rng.normal(size=(28, 60)) / 5) @ rng.normal(size=60) / 4
    X[:, 7:14] = np.abs(X[:, 7:14])
    return _split(X, score + 1.2 * rng.normal(size=n) > 0)


def one_hot(n: int = 40_000, real: bool = False) -> Data:
    """Return ten numbers and two categories of 4 and 40 values, one feature each value: 54 features.

    Labels are the signs of a score. It may be returned instead, standardised.
    """
    rng = np.random.default_rng(1)
    soil, area, Z = rng.integers(0, 40, n), rng.integers(0, 4, n), rng.normal(size=(n, 10))
    Z = Z @ (np.eye(10) + 0.3 * rng.normal(size=(10, 10)))
    Z[:, 3:5] = np.exp(0.5 * Z[:, 3:5])
    score = np.sin(2 * Z[:, 0]) + 0.7 * Z[:, 1] * Z[:, 2] + np.cos(3 * Z[:, 5] + soil)
    score += 0.8 * np.sin(Z[:, 6] * Z[:, 7]) + 0.4 * (area == 1) * Z[:, 8] + 0.5 * rng.normal(size=n)
    y = _standard(score) if real else score > 0
    return _split(np.concatenate([Z, np.eye(4)[area], np.eye(40)[soil]], axis=1), y)


def walks(n: int = 20_000) -> Data:
    """Return 60 features that follow each other: walks around one of eight paths of their class."""
    rng = np.random.default_rng(6)
    y, paths = rng.integers(0, 2, n), rng.normal(size=(2, 8, 60)).cumsum(axis=2) / 4
    X = paths[y, rng.integers(0, 8, n)] + rng.normal(size=(n, 60)).cumsum(axis=1) / 4 + 0.3 * rng.normal(size=(n, 60))
    return _split(X, y)


def arcs(n: int = 25_000) -> Data:
    """Return three features: five arms of a spiral that rises, in five classes."""
    rng = np.random.default_rng(7)
    y, t = rng.integers(0, 5, n), 3 * rng.random(n)
    angle = 2 * t + 0.4 * np.pi * y
    X = np.stack([t * np.cos(angle), t * np.sin(angle), t], axis=1) + 0.08 * rng.normal(size=(n, 3))
    return _split(X, y)


def long_features(n: int = 20_000) -> Data:
    """Return 50 features, ten of which are a thousand times longer, and real targets that are linear but for noise."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(n, 50))
    y, cut = X @ rng.normal(size=50) + 0.1 * rng.normal(size=n), n * 4 // 5
    X[:, :10] *= 1000
    return Data(X[:cut], y[:cut], X[cut:], y[cut:])


def _standard(target: np.ndarray) -> np.ndarray:
    return (target - target.mean()) / target.std()


def _split(X: np.ndarray, y: np.ndarray) -> Data:
    cut, y = len(y) * 4 // 5, y if y.dtype.kind == "f" else y.astype(np.int64)
    return standardised(Data(X[:cut], y[:cut], X[cut:], y[cut:]))
