"""Data sets: rows with their labels and weights, which stay where they are stored."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import h5py
import numpy as np
from numpy.typing import DTypeLike

from fastsvm.sources.base import Origin, Source
from fastsvm.sources.csr_groups import Node, group_attribute, hdf5_source
from fastsvm.sources.hdf5 import (
    CLOSED,
    MATLAB,
    HDF5DenseSource,
    HDF5Source,
    attribute,
    check_storage,
    member,
    open_file,
    place_of,
    reading,
)
from fastsvm.tuning import current_tuning

_CATEGORIES = "categories"  # the attribute that refers to the names of codes
_DEEPEST = 4  # Messages list parts in so many groups within each other.


class Columns(NamedTuple):
    """What comes with rows in a file; None for what does not, as with other rows."""

    y: np.ndarray | None = None
    sample_weight: np.ndarray | None = None
    class_names: list[str] | None = None
    path: Path | None = None


class Data:
    """Samples that stay where they are stored, with their labels and weights, to pass as X to `fit` and `predict`.

    `fastsvm.open` returns one. Rows can be taken by numbers, a mask or a slice, as scikit-learn's `cross_val_score` and
    `GridSearchCV` do; they stay where they are.

    Parameters
    ----------
    path : str or Path
        The file or folder, or what stands for it in messages.
    X : Source
        The rows.
    y : ndarray of shape (n_samples,) or None, default=None
        Labels, in memory; strings are str. None if there are none.
    sample_weight : ndarray of shape (n_samples,) or None, default=None
        Sample weights, in memory. None if there are none.
    feature_names : ndarray of str objects, shape (n_features,), or None, default=None
        Names of the features; None if there are none.
    ids : ndarray of shape (n_samples,) or None, default=None
        Values that identify the rows. None if there are none.

    Attributes
    ----------
    class_names : list of str or None
        Names of the classes 0, 1, ...; None if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> import fastsvm
    >>> data = fastsvm.open(np.eye(3), y=["ant", "bee", "cat"])
    >>> data.shape, data[1:].y.tolist()
    ((3, 3), ['bee', 'cat'])
    """

    class_names: list[str] | None = None

    def __init__(
        self,
        path: str | Path,
        X: Source,
        y: np.ndarray | None = None,
        sample_weight: np.ndarray | None = None,
        feature_names: np.ndarray | None = None,
        ids: np.ndarray | None = None,
    ) -> None:
        self.path, self.X, self.y, self.sample_weight, self._ids = Path(path), X, y, sample_weight, ids
        self.X.feature_names = self.feature_names = feature_names

    @property
    def source_row(self) -> np.ndarray | None:
        """Number of each row in the file that was converted, None if the rows are in its order."""
        return None

    @property
    def ids(self) -> np.ndarray | None:
        """Values that identify the rows; None if there are none."""
        return self._ids

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

    def __getitem__(self, rows: Any) -> Self:
        """Return some rows, by numbers, a mask or a slice, with their labels and weights. An Ellipsis may follow."""
        if isinstance(rows, tuple):
            if len(rows) != 2 or rows[1] is not Ellipsis:
                raise TypeError(f"Only rows of {self.path} can be taken, not columns. Use data.X to read values.")
            rows = rows[0]
        return self._some(np.atleast_1d(np.arange(len(self))[rows]))

    def _some(self, numbers: np.ndarray) -> Self:
        some = object.__new__(type(self))  # a copy by pickle's rules would open the file again
        vars(some).update(vars(self))
        some.X = self.X.take(numbers)
        for name in ("y", "sample_weight", "_ids"):
            values = getattr(self, name)
            setattr(some, name, None if values is None else values[numbers])
        return some

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Raise TypeError: rows are never read into memory without being asked."""
        raise TypeError(
            f"The rows of {self.path} stay in the file, but this function needs an array in memory. To scale features, "
            "pass standardize=True to the estimator of fastsvm instead of StandardScaler in a Pipeline. If the rows "
            "fit in memory, pass data.X.in_memory().block.user_array()."
        )

    def close(self) -> None:
        """Close the files. Their rows cannot be read afterwards."""

    def __enter__(self) -> Self:
        """Return the data set itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the files."""
        self.close()


# --- parts of files of HDF5 and of Zarr ------------------------------------------------------------------


def is_group(node: Node) -> bool:
    """Return whether a node of HDF5 or Zarr is a group."""
    return hasattr(node, "keys") and not hasattr(node, "shape")


def node_in(root: Node, name: str) -> Node:
    """Return the node with a name in a file of HDF5, or in a group of Zarr."""
    return member(root, name) if isinstance(root, h5py.Group) else root[name]


def listed_parts(root: Node, path: object) -> str:
    """Return names, shapes and types of the arrays in a file, for messages."""
    most = current_tuning().limits.shown

    def walk(group: Node, prefix: str) -> Iterator[str]:
        for name in group:
            try:
                node = node_in(group, name)
            except (ValueError, KeyError, RuntimeError):  # a link that is not followed
                continue
            if is_group(node):
                if prefix.count("/") < _DEEPEST:  # a group may contain itself
                    yield from walk(node, f"{prefix}{name}/")
            elif hasattr(node, "dtype") and hasattr(node, "shape"):
                yield f"{prefix}{name} {node.shape} {node.dtype}"

    found = list(islice(walk(root, ""), most + 1))
    more = ", ..." if len(found) > most else ""
    return f"{path} holds {', '.join(found[:most]) or 'nothing'}{more}"


def locate(root: Node, name: str, folder: str) -> Node:
    """Return the node with a name in a file, or in a folder of it as AnnData has them; None if there is none."""
    for path in (name, f"{folder}/{name}"):
        try:
            if path in root:
                return node_in(root, path)
        except (TypeError, KeyError, RuntimeError):  # an array on the way, or a link that leads nowhere
            continue
    return None


def part_of(root: Node, name: str, folder: str, path: str | Path) -> Node:
    """Return the node that `locate` finds; ValueError lists what there is if it finds none."""
    node = locate(root, name, folder)
    if node is None:
        raise ValueError(f"{path} has no part {name!r}; {listed_parts(root, 'it')}.")
    return node


def column_values(node: Node, where: str, n: int, of: str) -> np.ndarray:
    """Return the n values of a column: a dataset of one dimension, a matrix of one column, or AnnData's categories."""
    if is_group(node):
        return _encoded(node, where, n, of)
    shape = getattr(node, "shape", None)
    if shape is None or shape not in ((n,), (n, 1), (1, n)):
        problem = "is a named type" if shape is None else f"has shape {shape}"
        raise ValueError(f"{where} must have shape ({n},), one entry for each {of} of X; it {problem}.")
    if isinstance(node, h5py.Dataset):
        check_storage(node)
        values = read_column(node).reshape(-1)
        if _CATEGORIES in node.attrs:  # as AnnData wrote them before its version 0.8
            values = _named(values, read_column(node.file[node.attrs[_CATEGORIES]]), values < 0, where)
        return values
    values = np.asarray(node[:]).reshape(-1)
    return values.astype(object).astype(str) if values.dtype.kind in "OT" else values


def _encoded(group: Node, where: str, n: int, of: str) -> np.ndarray:
    """Return the values of a group of AnnData: categories and their codes, or values and which of them are missing."""
    if "codes" in group and "categories" in group:
        codes = column_values(node_in(group, "codes"), f"codes of {where}", n, of)
        names = node_in(group, "categories")
        values = column_values(names, f"categories of {where}", names.shape[0], "category")
        missing = codes < 0
    elif "values" in group and "mask" in group:
        values = column_values(node_in(group, "values"), f"values of {where}", n, of)
        missing = column_values(node_in(group, "mask"), f"mask of {where}", n, of).astype(bool)
        codes = np.arange(n)
    else:
        raise ValueError(f"{where} must have shape ({n},), one entry for each {of} of X; it is a group.")
    return _named(codes, values, missing, where)


def _named(codes: np.ndarray, values: np.ndarray, missing: np.ndarray, where: str) -> np.ndarray:
    """Return the values of codes; raise ValueError if some are missing."""
    if missing.any():
        raise ValueError(
            f"{where} has no value in {missing.sum():,} of {len(codes):,} rows, first in row {int(np.argmax(missing))} "
            "(counted from 0): open the rows without this column, and pass y and data[rows] of those that have one."
        )
    if len(codes) and codes.max() >= len(values):
        raise ValueError(f"{where} is damaged: its codes go up to {codes.max()}, there are {len(values)} categories.")
    return values[codes]


# --- HDF5 ------------------------------------------------------------------------------------------------


class HDF5Data(Data):
    """The data set of an HDF5 file, to pass as X to `fit`, `predict` and `score`. `open_hdf5` returns one.

    It has the attributes of `Data`.

    Parameters
    ----------
    file : h5py.File
        An open file with `X`, and optionally other datasets; see `open_hdf5`.
    X, y, sample_weight : str or None, default=None
        Names of the parts in the file; see `open_hdf5`.

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

    def __init__(
        self, file: h5py.File, X: str | None = None, y: str | None = None, sample_weight: str | None = None
    ) -> None:
        if not file:
            raise ValueError(CLOSED)
        path = Path(file.filename)
        self._file, self.path = file, path
        self._taken: np.ndarray | None = None
        with reading(path):
            source = self._source(X)
            self._n_stored, self._width = source.shape
            label = self._node("y", y, "obs")
            names = None if label is None else attribute(label, "class_names")
            weight = self._values(self._node("sample_weight", sample_weight, "obs"))
            super().__init__(path, source, self._values(label), weight, self._feature_names(source))
            self.class_names = None if names is None else [_text(name) for name in names]
            self.X.origin = self._origin(label)

    def _source(self, name: str | None) -> HDF5Source:
        if name is None and locate(self._file, "X", "layers") is None:
            raise ValueError(
                f"{self.path} has no dataset or CSR group 'X'; {listed_parts(self._file, 'it')}. Name the rows and the "
                f"labels, for example by fastsvm.open({str(self.path)!r}, X='images', y='labels')."
            )
        node = part_of(self._file, "X" if name is None else name, "layers", self.path)
        for part in [member(node, one) for one in node] if isinstance(node, h5py.Group) else [node]:
            if isinstance(part, h5py.Dataset):
                check_storage(part)
        if isinstance(node, h5py.Dataset) and (name is not None or MATLAB in node.attrs):
            return HDF5DenseSource(node, flat=True)
        return hdf5_source(node)

    def _node(self, default: str, name: str | None, folder: str) -> Node:
        """Return the node of a column: the one with a name, or the default, which may be absent."""
        if name is None:
            return member(self._file, default) if default in self._file else None
        return part_of(self._file, name, folder, self.path)

    def _values(self, node: Node, axis: int = 0) -> np.ndarray | None:
        """Return the values of a column with an entry for each row (axis 0) or feature (axis 1), None for None."""
        if node is None:
            return None
        n, of = (self._n_stored, "row") if axis == 0 else (self._width, "column")
        values = column_values(node, place_of(node), n, of)
        return values if self._taken is None or axis == 1 else values[self._taken]

    def _feature_names(self, source: HDF5Source) -> np.ndarray | None:
        node = self._node("feature_names", None, "")
        if node is None:
            return names_of(self._file, source.node, source.shape)[0]
        names = self._values(node, axis=1)
        if names is not None and names.dtype.kind != "U":
            raise ValueError(f"feature_names in {self.path} must be strings, they are {names.dtype}.")
        return None if names is None else names.astype(object)

    def _origin(self, label: Node) -> Origin:
        rows = self.X.node if hasattr(self.X, "node") else {}
        first, sure = (attribute(rows, name) for name in ("first_index", "first_index_sure"))
        if first not in (None, 0, 1):
            raise ValueError(f"The attribute first_index of X in {self.path} must be 0 or 1, it is {first!r}.")
        names = (None if node is None else attribute(node, "name") for node in (label, self._node("id", None, "")))
        of_label, of_id = (None if name is None else _text(name) for name in names)
        return Origin(None if first is None else int(first), bool(sure), of_label, of_id)

    @property
    def source_row(self) -> np.ndarray | None:
        """Number of each row in the file that was converted, read anew; None if the rows are in its order."""
        with reading(self.path):
            rows = self._values(self._node("source_row", None, ""))
        if rows is not None and rows.dtype.kind not in "iu":
            raise ValueError(f"source_row in {self.path} must hold whole numbers, it holds {rows.dtype}.")
        return rows

    @property
    def ids(self) -> np.ndarray | None:
        """Values that identify the rows, from the dataset `id` or the index of AnnData, read anew, or None."""
        with reading(self.path):
            node = self._node("id", None, "")
            if node is not None:
                return self._values(node)
            values = names_of(self._file, None, (self._n_stored, self._width))[1]
            return values if values is None or self._taken is None else values[self._taken]

    def _some(self, numbers: np.ndarray) -> Self:
        some = super()._some(numbers)
        some._taken = numbers if self._taken is None else self._taken[numbers]
        return some

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


def names_of(root: Node, rows: Node, shape: tuple[int, int]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the names of the features, and those of the rows, that AnnData stores in a file, None for none.

    Features have names if `rows` are AnnData's X or one of its layers.
    """
    path = "" if rows is None else rows.name.strip("/")
    names = _index_of(root, "var", shape[1]) if path == "X" or path.startswith("layers/") else None
    return None if names is None else names.astype(object), _index_of(root, "obs", shape[0])


def _index_of(root: Node, frame: str, n: int) -> np.ndarray | None:
    """Return the index of one of AnnData's tables, `obs` or `var`, if it has n entries; else None."""
    table = node_in(root, frame) if frame in root else None
    if table is None or not is_group(table):
        return None
    name = _text(group_attribute(table, "_index") or "")
    node = node_in(table, name) if name and name in table else None
    return column_values(node, f"the index of {frame}", n, "row") if getattr(node, "shape", None) == (n,) else None


def columns_of(X: object) -> Columns:
    """Return the labels, the weights, the names of the classes and the file that come with samples."""
    X = of_open_file(X)
    return Columns(X.y, X.sample_weight, X.class_names, X.path) if isinstance(X, Data) else Columns()


def of_open_file(X: Any) -> Any:
    """Return the data set of an open `h5py.File`, and anything else as it is."""
    return HDF5Data(X) if isinstance(X, h5py.File) else X


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def read_column(dataset: h5py.Dataset) -> np.ndarray:
    """Return a dataset of numbers or strings as an array. Strings become str."""
    with reading(dataset.file.filename):
        if h5py.check_string_dtype(dataset.dtype):
            return np.asarray(dataset.asstr()[:], dtype=str)
        if dataset.dtype.kind not in "biufc":
            raise ValueError(f"it holds {dataset.dtype}, not numbers or strings")
        return dataset[:]


def open_hdf5(
    path: str | Path, X: str | None = None, y: str | None = None, sample_weight: str | None = None
) -> HDF5Data:
    """Open a data set in an HDF5 file, without reading its rows.

    `fastsvm.open` does so for files of other kinds as well.

    Parameters
    ----------
    path : str or Path
        A file with `X`, a dataset `(n_samples, n_features)` of numbers or a group in AnnData's CSR layout
        (`data`, `indices`, `indptr`, attribute `shape`); optionally `y`, `sample_weight`, `id` and `source_row`, each
        `(n_samples,)`, and `feature_names`, `(n_features,)`.
    X : str, default=None
        Where the rows are in the file, if not in `X`: a path such as "train/images", or the name of one of AnnData's
        layers. A dataset with more than two dimensions is read as one of rows. Datasets that MATLAB wrote have their
        axes in reverse order, and are read as MATLAB shows them.
    y : str, default=None
        Where the labels are, if not in `y`: a path, or the name of a column of AnnData's `obs`. Categories are read as
        their names.
    sample_weight : str, default=None
        Where the weights are, if not in `sample_weight`, in the same way.

    Returns
    -------
    HDF5Data
        The data set, to pass as X. Its labels are used if no y is passed. As a context manager, it closes the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not HDF5, is truncated, lacks a part, or its parts do not fit each other.

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
        return HDF5Data(file, X, y, sample_weight)
    except BaseException:
        file.close()
        raise
