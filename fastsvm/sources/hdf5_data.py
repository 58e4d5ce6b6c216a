"""A data set in one HDF5 file: rows, labels and sample weights."""

from pathlib import Path

import h5py
import numpy as np

from fastsvm.sources.hdf5 import HDF5Source, hdf5_source, open_file
from fastsvm.sources.hdf5_checks import attribute, check_storage, kind_of, member, place_of, reading

__all__ = ["HDF5Data", "open_hdf5", "read_column"]


class HDF5Data:
    """The data set of an HDF5 file, to pass as X to `fit`, `predict` and `score`. `open_hdf5` returns one.

    Parameters
    ----------
    file : h5py.File
        An open file with `X`, and optionally `y` and `sample_weight`; see `open_hdf5`.

    Attributes
    ----------
    X : HDF5Source
        The rows, on disk.
    y : ndarray of shape (n_samples,) or None
        Labels, in memory; strings are str. None if the file has no labels.
    sample_weight : ndarray of shape (n_samples,) or None
        Sample weights, in memory. None if the file has no weights.
    class_names : list of str or None
        Names of the classes 0, 1, ...; None if the file has no names.
    path : Path
        The file.

    Examples
    --------
    >>> import h5py, numpy as np, os, tempfile
    >>> from fastsvm import open_hdf5
    >>> path = os.path.join(tempfile.mkdtemp(), "data.h5")
    >>> with h5py.File(path, "w") as file:
    ...     file["X"] = np.eye(3)
    ...     file["y"] = np.array(["ant", "bee", "cat"], dtype=h5py.string_dtype())
    >>> with open_hdf5(path) as data:
    ...     data.shape, data.y.tolist()
    ((3, 3), ['ant', 'bee', 'cat'])
    """

    def __init__(self, file: h5py.File) -> None:
        self.path = Path(file.filename)
        self._file = file
        with reading(self.path):
            self.X: HDF5Source = hdf5_source(self._rows())
            self.y = self._column("y")
            self.sample_weight = self._column("sample_weight")
            names = attribute(member(file, "y"), "class_names") if "y" in file else None
            self.class_names = None if names is None else [_text(name) for name in names]

    def _rows(self) -> h5py.Dataset | h5py.Group:
        if "X" not in self._file:
            held = ", ".join(sorted(self._file)) or "nothing"
            raise ValueError(f"{self.path} has no dataset or CSR group 'X'; it holds {held}.")
        node = member(self._file, "X")
        for part in [member(node, name) for name in node] if isinstance(node, h5py.Group) else [node]:
            if isinstance(part, h5py.Dataset):
                check_storage(part)
        return node

    def _column(self, name: str) -> np.ndarray | None:
        if name not in self._file:
            return None
        column = member(self._file, name)
        if not isinstance(column, h5py.Dataset) or column.shape != (len(self.X),):
            found = f"has shape {column.shape}" if isinstance(column, h5py.Dataset) else f"is {kind_of(column)}"
            raise ValueError(
                f"{place_of(column)} must have shape ({len(self.X)},), one entry for each row of X; it {found}."
            )
        check_storage(column)
        return read_column(column)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.X.shape

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    def close(self) -> None:
        """Close the file. Its rows cannot be read afterwards."""
        self._file.close()

    def __enter__(self) -> "HDF5Data":
        """Return the data set itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def read_column(dataset: h5py.Dataset) -> np.ndarray:
    """Return a one-dimensional dataset of numbers or strings as an array. Strings become str."""
    with reading(dataset.file.filename):
        if h5py.check_string_dtype(dataset.dtype):
            return np.asarray(dataset.asstr()[:], dtype=str)
        if dataset.dtype.kind not in "biufc":
            raise ValueError(f"it holds {dataset.dtype}, not numbers or strings")
        return dataset[:]


def open_hdf5(path: str | Path) -> HDF5Data:
    """Open a data set in an HDF5 file, without reading its rows.

    Parameters
    ----------
    path : str or Path
        A file with `X`, a dataset `(n_samples, n_features)` of numbers or a group in AnnData's CSR layout
        (`data`, `indices`, `indptr`, attribute `shape`); optionally `y` and `sample_weight`, each
        `(n_samples,)`.

    Returns
    -------
    HDF5Data
        The data set, to pass as X. Its labels are used if no y is passed. As a context manager, it closes the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not HDF5, is truncated, lacks `X`, or its parts do not fit each other.

    Examples
    --------
    >>> import h5py, numpy as np, os, tempfile
    >>> from fastsvm import SVC, open_hdf5
    >>> path = os.path.join(tempfile.mkdtemp(), "data.h5")
    >>> with h5py.File(path, "w") as file:
    ...     file["X"] = np.array([[0.0], [1.0], [2.0], [3.0]])
    ...     file["y"] = np.array([0, 0, 1, 1])
    >>> with open_hdf5(path) as data:
    ...     SVC().fit(data).score(data)
    1.0
    """
    file = open_file(path)
    try:
        return HDF5Data(file)
    except BaseException:
        file.close()
        raise
