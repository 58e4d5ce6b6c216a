"""Which data sets are there, and how are they read?

A recipe is a function without arguments that returns a `Data`. Real data are read from the folder that the
environment variable FASTSVM_DATA names:

    a9a, a9a.t
    mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz
    cifar-10-batches-bin/{data_batch_1,...,data_batch_5,test_batch}.bin
"""

import gzip
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_svmlight_file

__all__ = ["Data", "DataMissing", "load", "save"]

_ANIMALS = (2, 3, 4, 5, 6, 7)  # bird cat deer dog frog horse
_CIFAR_PIXELS = 3 * 32 * 32


class Data(NamedTuple):
    """Rows and labels to fit, and those to test the fit with; rows are an ndarray or a CSR matrix."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


class DataMissing(Exception):
    """The files of a data set are not there; the message says which."""


def save(data: Data, folder: Path) -> None:
    """Write data to a folder, so that every worker reads the same without preparing it again."""
    for name, values in data._asdict().items():
        if sparse.issparse(values):
            sparse.save_npz(folder / f"{name}.npz", values, compressed=False)
        else:
            np.save(folder / f"{name}.npy", values)


def load(folder: Path) -> Data:
    """Read what `save` wrote."""

    def read(name: str) -> Any:
        path = folder / f"{name}.npy"
        return np.load(path) if path.exists() else sparse.load_npz(path.with_suffix(".npz"))

    return Data(*map(read, Data._fields))


# --- bundled with scikit-learn ------------------------------------------------------------------------------


def iris() -> Data:
    return _split(*load_iris(return_X_y=True))


def breast_cancer() -> Data:
    data = _split(*load_breast_cancer(return_X_y=True))
    mean, deviation = data.X.mean(axis=0), data.X.std(axis=0)
    return data._replace(X=(data.X - mean) / deviation, X_test=(data.X_test - mean) / deviation)


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return _split(X / 16, y)


def _split(X: np.ndarray, y: np.ndarray) -> Data:
    """Keep a quarter for testing, drawn with a fixed seed."""
    order = np.random.default_rng(0).permutation(len(y))
    cut = len(y) * 3 // 4
    return Data(X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]])


# --- real data ----------------------------------------------------------------------------------------------


def a9a() -> Data:
    X, y = load_svmlight_file(_real("a9a"))
    X_test, y_test = load_svmlight_file(_real("a9a.t"), n_features=X.shape[1])
    return Data(_narrow(X), y, _narrow(X_test), y_test)


def mnist_odd_even(n: int) -> Data:
    X, y = _idx("train-images-idx3"), _idx("train-labels-idx1")
    X_test, y_test = _idx("t10k-images-idx3"), _idx("t10k-labels-idx1")
    return Data(X[:n] / 255, y[:n].astype(np.int64) % 2, X_test / 255, y_test.astype(np.int64) % 2)


def cifar10(n: int) -> Data:
    X, y = _cifar([f"data_batch_{k}" for k in range(1, 6)])
    X_test, y_test = _cifar(["test_batch"])
    return Data(X[:n].copy(), y[:n], X_test, y_test)


def cifar_animal_vehicle(n: int) -> Data:
    X, y, X_test, y_test = cifar10(n)
    animal, animal_test = (np.isin(labels, _ANIMALS).astype(np.int64) for labels in (y, y_test))
    return Data(X / 255, animal, X_test / 255, animal_test)


def _real(name: str) -> Path:
    folder = os.environ.get("FASTSVM_DATA")
    if not folder:
        raise DataMissing("FASTSVM_DATA names no folder with real data")
    path = Path(folder, name)
    if not path.exists():
        raise DataMissing(f"{path} does not exist")
    return path


def _narrow(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the matrix with int32 indices, the only ones that scikit-learn's SVC takes."""
    X = sparse.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def _idx(name: str) -> np.ndarray:
    """Return the bytes of an IDX file, one row a record."""
    with gzip.open(_real(f"mnist/{name}-ubyte.gz")) as file:
        raw = file.read()
    n_dimensions = raw[3]
    shape = np.frombuffer(raw, ">u4", n_dimensions, offset=4).astype(int)
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dimensions)
    return values.reshape(shape[0], -1) if n_dimensions > 1 else values


def _cifar(batches: list[str]) -> tuple[np.ndarray, np.ndarray]:
    paths = [_real(f"cifar-10-batches-bin/{name}.bin") for name in batches]
    records = np.concatenate([np.fromfile(path, np.uint8) for path in paths]).reshape(-1, 1 + _CIFAR_PIXELS)
    return np.ascontiguousarray(records[:, 1:]), records[:, 0].astype(np.int64)
