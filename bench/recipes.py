"""Which data sets are there, and how are they read?

A recipe is a function that returns a `Data`. Real data are read from the folder that the environment variable
FASTSVM_DATA names:

    a9a, a9a.t
    mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz
    cifar-10-batches-bin/{data_batch_1,...,data_batch_5,test_batch}.bin
    cod-rna, cod-rna.t
    kddcup99/{kddcup.data_10_percent,corrected}.csv
    drive/drive-training.npz
    covtype5000/{train,test}.npz
"""

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_svmlight_file, make_classification

from bench.harness.data import Data, DataMissing, standardised

_ANIMALS = (2, 3, 4, 5, 6, 7)  # bird cat deer dog frog horse
_CIFAR_PIXELS = 3 * 32 * 32


# --- bundled with scikit-learn ------------------------------------------------------------------------------


def iris() -> Data:
    return _split(*load_iris(return_X_y=True))


def breast_cancer() -> Data:
    return standardised(_split(*load_breast_cancer(return_X_y=True)))


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return _split(X / 16, y)


def digits_odd_even() -> Data:
    X, y, X_test, y_test = digits()
    return Data(X, y % 2, X_test, y_test % 2)


def synthetic(n: int) -> Data:
    """Return the first n of 8,000 fixed samples of two overlapping classes, and 1,000 test samples."""
    X, y = make_classification(
        9000, n_features=64, n_informative=16, n_clusters_per_class=8, class_sep=1.5, flip_y=0.05, random_state=0
    )
    return Data(X[:n], y[:n], X[8000:], y[8000:])


def _split(X: np.ndarray, y: np.ndarray) -> Data:
    """Split off a quarter as test set, drawn with a fixed seed."""
    order = np.random.default_rng(0).permutation(len(y))
    cut = len(y) * 3 // 4
    return Data(X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]])


# --- real data ----------------------------------------------------------------------------------------------


def a9a(n: int | None = None) -> Data:
    X, y = load_svmlight_file(real_file("a9a"))
    X_test, y_test = load_svmlight_file(real_file("a9a.t"), n_features=X.shape[1])
    return Data(_narrow(X[:n]), y[:n], _narrow(X_test), y_test)


def mnist() -> Data:
    """Return bytes, and the digits as classes."""
    names = "train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"
    X, y, X_test, y_test = map(_idx, names)
    return Data(X, y.astype(np.int64), X_test, y_test.astype(np.int64))


def mnist_pixels() -> Data:
    """Return pixels from 0 to 1 in float32, and the digits as classes."""
    data = mnist()
    return _float32(data._replace(X=data.X / 255, X_test=data.X_test / 255))


def mnist_odd_even(n: int) -> Data:
    """Return pixels from 0 to 1."""
    X, y, X_test, y_test = mnist()
    return Data(X[:n] / 255, y[:n] % 2, X_test / 255, y_test % 2)


def cifar10(n: int) -> Data:
    """Return bytes, and the ten classes."""
    X, y = _cifar([f"data_batch_{k}" for k in range(1, 6)])
    X_test, y_test = _cifar(["test_batch"])
    return Data(X[:n].copy(), y[:n], X_test, y_test)


def cifar_bytes(n: int) -> Data:
    """Return bytes, and animals against vehicles."""
    data = cifar10(n)
    animal, animal_test = (np.isin(labels, _ANIMALS).astype(np.int64) for labels in (data.y, data.y_test))
    return data._replace(y=animal, y_test=animal_test)


def cifar_pixels(n: int) -> Data:
    """Return pixels from 0 to 1, and animals against vehicles."""
    data = cifar_bytes(n)
    return data._replace(X=data.X / 255, X_test=data.X_test / 255)


def cifar_standardised(n: int) -> Data:
    """Return standardised samples in float32, and animals against vehicles."""
    return _float32(standardised(cifar_pixels(n)))


def cifar10_standardised() -> Data:
    """Return all samples, standardised, in float32, and the ten classes."""
    return _float32(standardised(cifar10(50_000)))


def cifar10_centred(n: int) -> Data:
    """Return pixels from 0 to 1 minus the mean of the training samples, in float32, and the ten classes."""
    data = cifar10(n)
    mean = data.X.mean(axis=0, dtype=np.float64) / 255
    return _float32(data._replace(X=data.X / 255 - mean, X_test=data.X_test / 255 - mean))


def cod_rna(n: int | None = None, scaled: bool = True) -> Data:
    """Return the first n samples of a fixed order and 50,000 test samples, standardised or as they are in the file."""
    (X, y), (X_test, y_test) = (load_svmlight_file(real_file(name)) for name in ("cod-rna", "cod-rna.t"))
    order = np.random.default_rng(0).permutation(len(y))[:n]
    data = Data(X.toarray()[order], y[order], X_test[:50_000].toarray(), y_test[:50_000])
    return standardised(data) if scaled else data


def covtype5000(scaled: bool = True) -> Data:
    """Return 5,000 samples of forest cover with 54 features, and 5,000 test samples, of two kinds.

    Features are standardised, or from 0 to 1 as they are in the file.
    """
    with np.load(real_file("covtype5000/train.npz")) as train, np.load(real_file("covtype5000/test.npz")) as test:
        found = [file[name] for file in (train, test) for name in ("X", "y")]
    X, y, X_test, y_test = found
    data = Data(X.astype(np.float64), y, X_test.astype(np.float64), y_test)
    return standardised(data) if scaled else data


def cod_rna_test(n: int) -> Data:
    """Return the first n samples of the file for tests, which is the larger one, and 50,000 others, standardised."""
    X, y = load_svmlight_file(real_file("cod-rna.t"))
    X = X[: n + 50_000].toarray()
    return standardised(Data(X[:n], y[:n], X[n:], y[n : len(X)]))


def kdd(kinds: bool, distinct: bool = True) -> Data:
    """Return the connections of the tenth that is for training, and those for test.

    Numbers are standardised, words one-hot. The labels are attack or normal, or with `kinds` the kinds of connections
    of which there are fifty or more. If they are to be distinct, 30,000 are for test, else all.
    """
    names = "kddcup.data_10_percent.csv", "corrected.csv"
    train, test = (real_file(f"kddcup99/{name}").read_text().split() for name in names)
    if distinct:
        train, test = sorted(set(train)), sorted(set(test))
    rng, cut = np.random.default_rng(0), len(train)
    n_test = 30_000 if distinct else len(test)
    lines = [train[k] for k in rng.permutation(cut)] + [test[k] for k in rng.permutation(len(test))[:n_test]]
    *columns, labels = (np.array(column) for column in zip(*(line.split(",") for line in lines), strict=True))
    numbers = np.stack([*columns[:1], *columns[4:]], axis=1).astype(float)
    words = np.concatenate([column[:, None] == np.unique(column) for column in columns[1:4]], axis=1)
    found = standardised(Data(numbers[:cut], labels[:cut], numbers[cut:], labels[cut:]))
    X, X_test = np.concatenate([found.X, words[:cut]], axis=1), np.concatenate([found.X_test, words[cut:]], axis=1)
    if not kinds:
        return Data(X, (found.y != "normal.").astype(np.int64), X_test, (found.y_test != "normal.").astype(np.int64))
    known, counts = np.unique(found.y, return_counts=True)
    many = known[counts >= 50]
    some, some_test = np.isin(found.y, many), np.isin(found.y_test, many)
    y, y_test = np.searchsorted(many, found.y[some]), np.searchsorted(many, found.y_test[some_test])
    return Data(X[some], y, X_test[some_test], y_test)


class VesselImages(NamedTuple):
    """Images of the retina, their fields of view, and which pixels are part of a vessel."""

    images: np.ndarray
    field: np.ndarray
    vessel: np.ndarray

    @classmethod
    def read(cls) -> "VesselImages":
        with np.load(real_file("drive/drive-training.npz")) as file:
            return cls(file["images"], *(np.unpackbits(file[name], axis=2) for name in ("mask", "vessel")))

    def corners(self, side: int) -> np.ndarray:
        """Return image, row and column of the upper left corner of each square whose middle is in the field of view."""
        edge = side // 2
        return np.argwhere(self.field[:, edge:-edge, edge : self.images.shape[2] - edge])

    def patches(self, corners: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
        """Return side × side pixels of three bytes, and whether the middle is part of a vessel."""
        image, row, column = corners.T
        pixels = [self.images[image, row + i, column + j] for i in range(side) for j in range(side)]
        y = self.vessel[image, row + side // 2, column + side // 2].astype(np.int64)
        return np.concatenate(pixels, axis=1), y


def vessels(n: int) -> Data:
    """Return 5 × 5 pixels of three bytes from images of the retina, and whether the middle is part of a vessel."""
    images = VesselImages.read()
    inner = images.corners(5)
    X, y = images.patches(inner[np.random.default_rng(0).permutation(len(inner))[: n + n // 5]], 5)
    return Data(X[:n], y[:n], X[n:], y[n:])


def _float32(data: Data) -> Data:
    return data._replace(X=data.X.astype(np.float32), X_test=data.X_test.astype(np.float32))


def real_file(name: str) -> Path:
    """Return the path of a file of real data. Raise `DataMissing` if it is missing."""
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
    """Return the bytes of an IDX file, one row per record."""
    with gzip.open(real_file(f"mnist/{name}-ubyte.gz")) as file:
        raw = file.read()
    n_dimensions = raw[3]
    shape = np.frombuffer(raw, ">u4", n_dimensions, offset=4).astype(int)
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dimensions)
    return values.reshape(shape[0], -1) if n_dimensions > 1 else values


def _cifar(batches: list[str]) -> tuple[np.ndarray, np.ndarray]:
    paths = [real_file(f"cifar-10-batches-bin/{name}.bin") for name in batches]
    records = np.concatenate([np.fromfile(path, np.uint8) for path in paths]).reshape(-1, 1 + _CIFAR_PIXELS)
    return np.ascontiguousarray(records[:, 1:]), records[:, 0].astype(np.int64)
