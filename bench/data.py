"""What is a data set, and how does every process read the same one?"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Data", "DataMissing", "load", "save"]


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
