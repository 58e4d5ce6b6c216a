"""What is a data set, and how does every process read the same one?"""

from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from scipy import sparse

__all__ = ["FILE", "Data", "DataMissing", "load", "save", "standardised"]

FILE = "samples.h5"
"""Name of the link to a file of samples, in the folder that `save` writes."""


class Data(NamedTuple):
    """Samples and labels of the training set and of the test set.

    Samples are an ndarray, a CSR matrix or, where they are larger than memory, a dataset in an HDF5 file.
    """

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


class DataMissing(Exception):
    """The files of a data set are missing; the message says which."""


def standardised(data: Data) -> Data:
    """Return features with mean 0 and variance 1 over the training samples."""
    mean, deviation = data.X.mean(axis=0), data.X.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1)
    return data._replace(X=(data.X - mean) / deviation, X_test=(data.X_test - mean) / deviation)


def save(data: Data, folder: Path) -> None:
    """Write data to a folder, so that every worker reads the same without preparing it again."""
    for name, values in data._asdict().items():
        if isinstance(values, h5py.Dataset):
            (folder / FILE).symlink_to(Path(values.file.filename).resolve())
        elif sparse.issparse(values):
            sparse.save_npz(folder / f"{name}.npz", values, compressed=False)
        else:
            np.save(folder / f"{name}.npy", values)


def load(folder: Path) -> Data:
    """Read what `save` wrote. A linked file is opened."""

    def read(name: str) -> Any:
        path = folder / f"{name}.npy"
        if name == "X" and (folder / FILE).exists():
            return h5py.File(folder / FILE)["X"]
        return np.load(path) if path.exists() else sparse.load_npz(path.with_suffix(".npz"))

    return Data(*map(read, Data._fields))
