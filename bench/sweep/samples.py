"""How are the samples of a draw made up, and stored? From its seed and number alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np
from scipy import sparse

import fastsvm
from bench.harness.data import Data
from bench.sweep.draws import OF_TARGETS, Draw

__all__ = ["as_stored", "samples"]

_N_TEST = 1_000
_INFORMATIVE = 10  # features by which classes differ, at most
_LARGEST = 16  # of the integers
_HUGE, _OF_HUGE = 3e7, 1e6
_CHUNK = 1 << 20  # bytes


def samples(draw: Draw) -> Data:
    """Return samples to learn from and 1,000 to predict, as scikit-learn is given them."""
    rng = np.random.default_rng([draw.seed, draw.number, 1])
    n = draw.n + _N_TEST
    codes = np.concatenate([_codes(rng, draw, draw.n, 2), _codes(rng, draw, _N_TEST, 0)])
    X = _MAKERS[draw.data](rng, draw, codes)
    y = codes
    if draw.estimator in OF_TARGETS:
        y = _targets(rng, X, n)
    elif draw.data == "linear" and draw.classes:
        score = _score(rng, X) + 0.3 * rng.normal(size=n)
        cut = 0.85 if draw.skewed else 0.5
        y = (score > np.quantile(score[: draw.n], cut)).astype(np.int64)
    elif draw.classes:
        _mix(rng, y[: draw.n])
    X = _scaled(rng, draw, X)
    if sparse.issparse(X):
        X.sort_indices()  # as scikit-learn's scalers leave them, and products of matrices do not
    X = X.astype(np.float32 if draw.storage == "float32" else np.float64, copy=False)
    return Data(X[: draw.n], y[: draw.n], X[draw.n :], y[draw.n :])


@contextmanager
def as_stored(draw: Draw, data: Data) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """Yield the samples to learn from as fastsvm is given them, and a function that returns those for scikit-learn.

    fastsvm is given the same, or a file that is open. Of a file, the function reads all samples with h5py.
    """
    if draw.storage != "hdf5":
        yield data.X, lambda: data.X
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.h5"
        _write(path, data.X)
        with fastsvm.open_hdf5(path) as opened, h5py.File(path) as file:
            yield opened, lambda: _read(file["X"])


def _read(stored: Any) -> Any:
    if isinstance(stored, h5py.Dataset):
        return stored[:]
    parts = (stored[name][:] for name in ("data", "indices", "indptr"))
    return sparse.csr_matrix(tuple(parts), stored.attrs["shape"])


def _write(path: Path, X: Any) -> None:
    with h5py.File(path, "w") as file:
        if not sparse.issparse(X):
            rows = max(1, min(len(X), _CHUNK // (X.shape[1] * X.itemsize)))
            file.create_dataset("X", data=X, chunks=(rows, X.shape[1]))
            return
        group = file.create_group("X")  # in AnnData's layout
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X, name)


def _codes(rng: np.random.Generator, draw: Draw, n: int, least: int) -> np.ndarray:
    """Return the numbers of the samples' classes, in random order. All classes are as frequent unless skewed."""
    k = max(1, draw.classes)
    if not draw.skewed:
        return rng.permutation(np.arange(n) % k)
    frequency = 1 / np.arange(1, k + 1) ** (2.5 if k == 2 else 1)
    drawn = rng.choice(k, size=n, p=frequency / frequency.sum())
    drawn[: least * k] = np.arange(least * k) % k
    return rng.permutation(drawn)


def _mix(rng: np.random.Generator, y: np.ndarray) -> None:
    """Exchange the labels of some samples among them: a fifth at most."""
    rows = np.flatnonzero(rng.random(len(y)) < rng.choice([0.0, 0.05, 0.2]))
    y[rows] = y[rng.permutation(rows)]


def _centres(rng: np.random.Generator, draw: Draw, n_informative: int) -> np.ndarray:
    """Return where the classes are: some units apart, in so many features."""
    apart = rng.uniform(0.5, 3)
    return apart * rng.normal(size=(max(1, draw.classes), n_informative)) / np.sqrt(min(n_informative, 3))


def _blobs(rng: np.random.Generator, draw: Draw, codes: np.ndarray) -> Any:
    """Return classes that overlap, and for one class a cloud away from the origin."""
    if draw.density < 1:
        return _sparse(rng, draw, codes, lambda values, mine: values + 0.5 + mine)
    X = rng.normal(size=(len(codes), draw.d))
    informative = min(draw.d, _INFORMATIVE)
    X[:, :informative] += _centres(rng, draw, informative)[codes] + (0 if draw.classes else 2)
    return X


def _linear(rng: np.random.Generator, draw: Draw, codes: np.ndarray) -> np.ndarray:
    """Return features that depend on each other, for a score that is linear."""
    X = rng.normal(size=(len(codes), draw.d))
    X[:, 1:] += 0.5 * X[:, :-1]
    return X


def _integers(rng: np.random.Generator, draw: Draw, codes: np.ndarray) -> Any:
    """Return integers from 0 to 16, as many zeros among them as the classes' features say."""
    if draw.density < 1:
        return _sparse(
            rng, draw, codes, lambda values, mine: np.clip(np.rint(np.abs(4 * (values + mine))) + 1, 1, _LARGEST)
        )
    share = rng.beta(0.5, 1, size=(max(1, draw.classes), draw.d))
    if draw.classes > 1:  # most features are the same in all classes
        same = rng.random(draw.d) < 0.7
        share[:, same] = share[0, same]
    return rng.binomial(_LARGEST, share[codes]).astype(np.float64)


def _words(rng: np.random.Generator, draw: Draw, codes: np.ndarray) -> sparse.csr_matrix:
    """Return counts of words by Zipf's law, of which some are those of the sample's class."""
    n, d, length = len(codes), draw.d, max(1, round(1.3 * draw.width))
    frequency = 1 / (np.arange(d) + 2.7)
    words = rng.choice(d, size=(n, length), p=frequency / frequency.sum())
    typical = rng.integers(0, d, size=(max(1, draw.classes), 30))
    own = rng.random((n, length)) < rng.choice([0.03, 0.1, 0.3])
    chosen = typical[codes[:, None], rng.integers(0, 30, size=(n, length))]
    words = np.where(own, chosen, words)
    rows = np.repeat(np.arange(n), length)
    X = sparse.coo_matrix((np.ones(words.size), (rows, words.ravel())), shape=(n, d)).tocsr()
    X.sum_duplicates()
    return X


def _sparse(rng: np.random.Generator, draw: Draw, codes: np.ndarray, value: Any) -> sparse.csr_matrix:
    """Return samples of features at random places. Their values depend on whether a feature is of the class."""
    n, each = len(codes), max(1, round(draw.width))
    places = rng.integers(0, draw.d, size=(n, each))
    k = max(1, draw.classes)
    mine = (places % k == codes[:, None]) if k > 1 else np.zeros(places.shape, bool)
    values = value(rng.normal(size=places.shape), mine)
    X = sparse.coo_matrix((values.ravel(), (np.repeat(np.arange(n), each), places.ravel())), shape=(n, draw.d)).tocsr()
    X.sum_duplicates()
    return X


_MAKERS = {"blobs": _blobs, "linear": _linear, "integers": _integers, "words": _words}


def _score(rng: np.random.Generator, X: Any) -> np.ndarray:
    """Return a linear score of mean 0 and deviation 1."""
    score = np.asarray(X @ (rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < 0.5) + 1e-3)).ravel()
    return (score - score.mean()) / max(score.std(), 1e-12)


def _targets(rng: np.random.Generator, X: Any, n: int) -> np.ndarray:
    """Return a score with a bend and noise, around 0, sometimes in another unit."""
    score = _score(rng, X)
    noise = rng.choice([0.05, 0.3, 1.0])
    unit = rng.choice([1.0, 1.0, 1.0, 100.0])
    return unit * (score + 0.3 * np.sin(3 * score) + noise * rng.normal(size=n))


def _scaled(rng: np.random.Generator, draw: Draw, X: Any) -> Any:
    if draw.scaling == "none":
        return X
    if sparse.issparse(X):
        if draw.scaling == "units":
            return sparse.csr_matrix(X @ sparse.diags(10 ** rng.uniform(-2, 3, draw.d)))
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sparse.csr_matrix(sparse.diags(1 / np.maximum(length, 1e-12)) @ X)
    known = X[: draw.n]
    X = (X - known.mean(axis=0)) / np.maximum(known.std(axis=0), 1e-12) if draw.scaling == "standardised" else X
    if draw.scaling == "units":
        X = (X + rng.uniform(0, 5, draw.d)) * 10 ** rng.uniform(-2, 3, draw.d)
    if draw.scaling == "huge":
        X[:, rng.integers(draw.d)] = _HUGE + _OF_HUGE * rng.normal(size=len(X))
    return X
