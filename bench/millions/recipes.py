"""Which data are there by the million, and how are they read block by block?

The test samples come from another file, or from other images.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, load_svmlight_file

from bench import recipes
from bench.harness.data import Data, standardised
from fastsvm.jobs.demo import deformed

__all__ = ["Blocks", "cod_rna", "deformed_digits", "deformed_mnist", "kdd", "vessels"]

_BLOCK = 32_768  # samples
_TEST_IMAGES = 4


class Blocks(NamedTuple):
    """Samples and labels for training in blocks, and those for test.

    Attributes
    ----------
    blocks : iterator of tuple
        Samples and labels of each block.
    X_test, y_test : ndarray
        Samples and labels for test.
    """

    blocks: Iterator[tuple[np.ndarray, np.ndarray]]
    X_test: np.ndarray
    y_test: np.ndarray


def cod_rna() -> Blocks:
    """Return the 271,617 samples that are elsewhere for test, in a random order; the others are for test."""
    X, y = load_svmlight_file(recipes.real_file("cod-rna.t"))
    X_test, y_test = load_svmlight_file(recipes.real_file("cod-rna"))
    order = np.random.default_rng(0).permutation(len(y))
    return _of_arrays(standardised(Data(X.toarray()[order], y[order], X_test.toarray(), y_test)))


def kdd() -> Blocks:
    """Return all 494,021 connections of a tenth, attack or normal; the 311,029 of another time are for test."""
    return _of_arrays(recipes.kdd(False, distinct=False))


def vessels(n: int, side: int) -> Blocks:
    """Return n squares of pixels from sixteen images, and whether the middle is part of a vessel.

    A tenth as many, at most 200,000, from the four other images are for test.
    """
    images = recipes.VesselImages.read()
    inner = images.corners(side)
    rng, last = np.random.default_rng(0), len(images.images) - _TEST_IMAGES
    places, others = (rng.permutation(inner[of]) for of in (inner[:, 0] < last, inner[:, 0] >= last))
    blocks = (images.patches(places[a : min(a + _BLOCK, n)], side) for a in range(0, n, _BLOCK))
    return Blocks(blocks, *images.patches(others[: min(n // 10, 200_000)], side))


def deformed_mnist(n: int) -> Blocks:
    """Return n deformed images, as many of each of the 60,000; the usual images are for test."""
    data = recipes.mnist()
    return Blocks(_deformed(data.X.reshape(-1, 28, 28) / 255, data.y, n), data.X_test, data.y_test)


def deformed_digits(n: int) -> Blocks:
    """Return n deformed images of three quarters of the digits that come with scikit-learn."""
    images, y = load_digits(return_X_y=True)
    images, cut = images.reshape(-1, 8, 8) / 16, len(y) * 3 // 4
    X_test = (images[cut:] * 255).astype(np.uint8).reshape(len(y) - cut, -1)
    return Blocks(_deformed(images[:cut], y[:cut].astype(np.int64), n), X_test, y[cut:].astype(np.int64))


def _deformed(images: np.ndarray, y: np.ndarray, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for a in range(0, n, _BLOCK):
        some = np.arange(a, min(a + _BLOCK, n)) % len(images)
        yield deformed(images[some], len(some), images.shape[1], seed=a)[0], y[some]


def _of_arrays(data: Data) -> Blocks:
    def narrow(X: Any) -> np.ndarray:
        return np.asarray(X, np.float32)

    blocks = ((narrow(data.X[a : a + _BLOCK]), data.y[a : a + _BLOCK]) for a in range(0, len(data.y), _BLOCK))
    return Blocks(blocks, narrow(data.X_test), data.y_test)
