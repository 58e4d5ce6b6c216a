"""A data set in one HDF5 file: rows, labels and sample weights."""

from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import DTypeLike

from fastsvm.sources.base import Origin, Source
from fastsvm.sources.hdf5 import (
    CLOSED,
    attribute,
    check_storage,
    hdf5_source,
    kind_of,
    member,
    open_file,
    place_of,
    reading,
)


class HDF5Data:
    """The data set of an HDF5 file, to pass as X to `fit`, `predict` and `score`. `open_hdf5` returns one.

    Parameters
    ----------
    file : h5py.File
        An open file with `X`, and optionally other datasets; see `open_hdf5`.

    Attributes
    ----------
    X : Source
        The rows, on disk.
    y : ndarray of shape (n_samples,) or None
        Labels, in memory; strings are str. None if the file has no labels.
    sample_weight : ndarray of shape (n_samples,) or None
        Sample weights, in memory. None if the file has no weights.
    class_names : list of str or None
        Names of the classes 0, 1, ...; None if the file has no names.
    feature_names : ndarray of str objects, shape (n_features,), or None
        Names of the features; None if the file has no names.
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
        if not file:
            raise ValueError(CLOSED)
        self.path = Path(file.filename)
        self._file = file
        self._taken: np.ndarray | None = None
        with reading(self.path):
            self.X: Source = hdf5_source(self._rows())
            self._n_stored = len(self.X)
            self.y = self._column("y")
            self.sample_weight = self._column("sample_weight")
            names = attribute(member(file, "y"), "class_names") if "y" in file else None
            self.class_names = None if names is None else [_text(name) for name in names]
            self.X.feature_names = self.feature_names = self._feature_names()
            self.X.origin = self._origin()

    def _rows(self) -> h5py.Dataset | h5py.Group:
        if "X" not in self._file:
            held = ", ".join(sorted(self._file)) or "nothing"
            raise ValueError(f"{self.path} has no dataset or CSR group 'X'; it holds {held}.")
        node = member(self._file, "X")
        for part in [member(node, name) for name in node] if isinstance(node, h5py.Group) else [node]:
            if isinstance(part, h5py.Dataset):
                check_storage(part)
        return node

    def _column(self, name: str, axis: int = 0) -> np.ndarray | None:
        """Return a dataset with an entry for each row (axis 0) or each feature (axis 1) of X; None if there is none."""
        if name not in self._file:
            return None
        column, n = member(self._file, name), self._n_stored if axis == 0 else self.X.shape[1]
        if not isinstance(column, h5py.Dataset) or column.shape != (n,):
            problem = f"has shape {column.shape}" if isinstance(column, h5py.Dataset) else f"is {kind_of(column)}"
            of = "row" if axis == 0 else "column"
            raise ValueError(f"{place_of(column)} must have shape ({n},), one entry for each {of} of X; it {problem}.")
        check_storage(column)
        values = read_column(column)
        return values if self._taken is None or axis == 1 else values[self._taken]

    def _feature_names(self) -> np.ndarray | None:
        names = self._column("feature_names", axis=1)
        if names is not None and names.dtype.kind != "U":
            raise ValueError(f"feature_names in {self.path} must be strings, they are {names.dtype}.")
        return None if names is None else names.astype(object)

    def _origin(self) -> Origin:
        rows = member(self._file, "X")
        first, sure = (attribute(rows, name) for name in ("first_index", "first_index_sure"))
        if first not in (None, 0, 1):
            raise ValueError(f"The attribute first_index of X in {self.path} must be 0 or 1, it is {first!r}.")
        label = attribute(member(self._file, "y"), "name") if "y" in self._file else None
        return Origin(None if first is None else int(first), bool(sure), None if label is None else _text(label))

    @property
    def source_row(self) -> np.ndarray | None:
        """Number of each row in the file that was converted, read anew; None if the rows are in its order."""
        with reading(self.path):
            rows = self._column("source_row")
        if rows is not None and rows.dtype.kind not in "iu":
            raise ValueError(f"source_row in {self.path} must hold whole numbers, it holds {rows.dtype}.")
        return rows

    @property
    def ids(self) -> np.ndarray | None:
        """Values that identify the rows, from the dataset `id`, read anew; None if the file has none."""
        with reading(self.path):
            return self._column("id")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.X.shape

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    @property
    def ndim(self) -> int:
        """Number of dimensions, 2."""
        return 2

    def __getitem__(self, rows: Any) -> "HDF5Data":
        """Return some rows, by numbers, a mask or a slice, with their labels and weights. The rows stay in the file.

        So scikit-learn's `cross_val_score` and `GridSearchCV` can split the data. An Ellipsis may follow the rows.
        """
        if isinstance(rows, tuple):
            if len(rows) != 2 or rows[1] is not Ellipsis:
                raise TypeError(f"Only rows of {self.path} can be taken, not columns. Use data.X to read values.")
            rows = rows[0]
        numbers = np.atleast_1d(np.arange(len(self))[rows])
        some = object.__new__(type(self))  # a copy by pickle's rules would open the file again
        some.__dict__.update(vars(self))
        some.X = self.X.take(numbers)
        some._taken = numbers if self._taken is None else self._taken[numbers]
        some.y = None if self.y is None else self.y[numbers]
        some.sample_weight = None if self.sample_weight is None else self.sample_weight[numbers]
        return some

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Raise TypeError: rows are never read into memory without being asked."""
        raise TypeError(
            f"The rows of {self.path} stay in the file, but this function needs an array in memory. To scale features, "
            "pass standardize=True to the estimator of fastsvm instead of StandardScaler in a Pipeline. If the rows "
            "fit in memory, pass data.X.in_memory().block.user_array()."
        )

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the open file, which another process opens again."""
        return {name: value for name, value in vars(self).items() if name != "_file"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state and open the file again."""
        vars(self).update(state)
        self._file = open_file(self.path)

    def close(self) -> None:
        """Close the file. Its rows cannot be read afterwards."""
        self._file.close()

    def __enter__(self) -> "HDF5Data":
        """Return the data set itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()


class Columns(NamedTuple):
    """What comes with rows in a file; None for what does not, as with other rows."""

    y: np.ndarray | None = None
    sample_weight: np.ndarray | None = None
    class_names: list[str] | None = None
    path: Path | None = None


def columns_of(X: object) -> Columns:
    """Return the labels, the weights, the names of the classes and the file that come with samples."""
    X = of_open_file(X)
    return Columns(X.y, X.sample_weight, X.class_names, X.path) if isinstance(X, HDF5Data) else Columns()


def of_open_file(X: Any) -> Any:
    """Return the data set of an open `h5py.File`, and anything else as it is."""
    return HDF5Data(X) if isinstance(X, h5py.File) else X


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
        (`data`, `indices`, `indptr`, attribute `shape`); optionally `y`, `sample_weight`, `id` and `source_row`, each
        `(n_samples,)`, and `feature_names`, `(n_features,)`.

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
