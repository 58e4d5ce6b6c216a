"""`open`: samples that are anywhere, as data that estimators take.

HDF5, Zarr, .npy, and arrays that can be sliced are read in parts where they are. Text, tables, archives and batches
that a program makes are passed through once into a scratch file of HDF5.
"""

import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
from scipy import sparse

from fastsvm.files.atomic_file import check_input, remove_left, scratch_folder
from fastsvm.formats.conversion import convert
from fastsvm.formats.readers import FORMATS, recognise
from fastsvm.formats.readers.numpy_arrays import is_npy
from fastsvm.formats.readers.stream import Header, Matrix, Rows, check_finite, check_weights, label_type, labels_of
from fastsvm.formats.readers.table_columns import LABELS
from fastsvm.formats.writer import write
from fastsvm.memory import parse_memory
from fastsvm.sources import Data, HDF5Data, SlicedSource, as_source, is_stored, open_hdf5
from fastsvm.sources.csr_groups import Node, ZarrCSRSource, rows_of_columns
from fastsvm.sources.data import column_values, is_group, locate, names_of, part_of
from fastsvm.sources.hdf5 import open_file
from fastsvm.sources.tiled import stored_type

Given = Any
"""What a user passes: samples, batches or a column in whatever type, or their name, or an option."""
_PARTS = "X", "y", "sample_weight"
_OF_OTHERS: list[ExitStack] = []
_TABLE = {"X": "feature_names", "y": "label", "sample_weight": "sample_weight"}  # options of `convert` for tables
_ZARR = "zarr.json", ".zgroup", ".zarray"  # A folder or store of Zarr has one of these.


def open(
    where: Given,
    X: Given = None,
    y: Given = None,
    sample_weight: Given = None,
    *,
    memory: str | int = "256MB",
    scratch: str | Path | None = None,
    **options: Given,
) -> Data:
    """Open samples that are in a file, in a folder or in another library, for all estimators.

    Samples of HDF5, AnnData, Zarr and .npy files are read where they are, in parts, whenever a fit needs them. So are
    arrays of Dask, xarray and others that can be sliced by rows. Tables, text, archives and batches are passed through
    once, within `memory`, into a scratch file, which is removed when the data are closed, or no longer used.

    Parameters
    ----------
    where : path, open file, table, array, iterable or callable
        - a file or folder: HDF5 and .h5ad, Zarr, Parquet, Feather, Arrow, CSV, svmlight, .npy, .npz, IDX, CIFAR-10;
        - an open `h5py.File`, group of Zarr, memory map, or array that can be sliced by rows;
        - a data frame of pandas or polars, also a lazy one, or a table of pyarrow;
        - an iterable of batches, or a function that returns one: `(X, y)` or `(X, y, sample_weight)`, X alone, data
          frames, or dicts of columns. A DataLoader of PyTorch and `dataset.iter(...)` of Hugging Face are such.
    X : str, sequence of str, or None, default=None
        The samples in `where`: a path in HDF5 or Zarr, such as "train/images" or one of AnnData's layers; the array of
        an archive; the columns of a table that are features, by default all others. None is "X" where there are names.
    y : str, array-like of shape (n_samples,), or None, default=None
        The labels or targets, or where they are: a path in HDF5 or Zarr, or a column of AnnData's `obs`; a column of a
        table; a .npy file beside `where`. None is "y" where there are names, and a column of a table that is named
        label, labels, target, class or y.
    sample_weight : str, array-like of shape (n_samples,), or None, default=None
        The weights, or where they are, as for y.
    memory : str or int, default="256MB"
        Bytes that passing rows through may take.
    scratch : str, Path or None, default=None
        Folder for the scratch file. None is that of temporary files. It must have room for the samples.
    **options
        Options of `fastsvm.formats.convert` for text and tables, such as `format`, `id`, `first_index` and `shuffle`,
        which is False here.

    Returns
    -------
    Data
        The data set, to pass as X to `fit`, `predict` and `score`. As a context manager, it closes the files.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, has no such part, or its parts do not fit each other. Messages list what there is.
    TypeError
        If `where` is nothing that holds samples.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> import fastsvm
    >>> folder = tempfile.mkdtemp()
    >>> np.save(os.path.join(folder, "images.npy"), np.array([[[0.0, 1.0]], [[1.0, 0.0]], [[3.0, 2.0]]]))
    >>> with fastsvm.open(os.path.join(folder, "images.npy"), y=["left", "right", "right"]) as data:
    ...     data.shape, data.y.tolist()
    ((3, 2), ['left', 'right', 'right'])

    Batches, which need not fit in memory together:

    >>> def batches():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(4):
    ...         rows = rng.normal(size=(100, 3))
    ...         yield rows, rows[:, 0] > 0
    >>> with fastsvm.open(batches) as data:
    ...     fastsvm.LinearSVC().fit(data).score(data) > 0.95
    True
    """
    if isinstance(where, Data):
        if X is not None or y is not None or sample_weight is not None or options:
            raise TypeError("These samples are open already: pass their file, or set their y and sample_weight.")
        return where
    asked = _Asked((X, y, sample_weight), parse_memory(memory), scratch, options)
    if isinstance(where, (str, os.PathLike)):
        return asked.of_path(Path(where))
    if isinstance(where, h5py.File):
        return asked.of_path(Path(where.filename))
    asked.no_options()
    if is_group(where) and hasattr(where, "store"):
        return asked.of_zarr(where, getattr(where, "path", "") or "a group of Zarr")
    if hasattr(where, "sink_parquet"):  # a lazy frame of polars
        return asked.of_lazy_frame(where)
    if is_stored(where) or isinstance(where, np.ndarray) or sparse.issparse(where):
        return asked.of_array(where)
    if hasattr(where, "columns") or hasattr(where, "column_names"):
        return asked.of_frame(where)
    if hasattr(where, "__array__") or _is_rows(where):
        return asked.of_array(np.asarray(where))
    if callable(where):
        where = where()
    if not isinstance(where, Iterable):
        raise TypeError(f"fastsvm.open takes a path, an array, a table or batches; found {type(where).__name__}.")
    return asked.of_batches(where)


def _is_rows(where: Given) -> bool:
    """Return whether a list is one of rows of numbers, not of batches."""
    is_list = isinstance(where, list) and len(where) > 0 and isinstance(where[0], (list, tuple))
    return is_list and all(isinstance(value, Real) for value in where[0])


def is_zarr(path: str | Path) -> bool:
    """Return whether a folder is an array or a group of Zarr."""
    return any(Path(path, name).is_file() for name in _ZARR)


class _Asked:
    """What the user asked for: which parts, how much memory, and the options of text and tables."""

    def __init__(
        self, parts: tuple[Given, Given, Given], memory: int, scratch: str | Path | None, options: dict
    ) -> None:
        (self.X, self.y, self.weight), self.memory, self.options = parts, memory, options
        self._folder = Path(tempfile.gettempdir() if scratch is None else scratch)
        if not self._folder.is_dir():
            raise FileNotFoundError(f"There is no folder {self._folder} for the scratch file.")

    def no_options(self) -> None:
        """Raise TypeError for options that this kind of samples does not take."""
        if self.options:
            raise TypeError(f"The options {', '.join(sorted(self.options))} apply to text and tables only.")

    def of_path(self, path: Path) -> Data:
        """Open a file or a folder."""
        check_input(path)
        if is_zarr(path):
            self.no_options()
            return self.of_zarr(_zarr(path), path)
        if path.is_file() and h5py.is_hdf5(path):
            self.no_options()
            return self._of_hdf5(path)
        if path.is_file() and is_npy(path) and self.options.get("format", "npy") == "npy":
            self.no_options()
            return self._of_npy(path)
        return self._converted(path)

    # --- samples that stay where they are ------------------------------------------------------------------

    def _of_hdf5(self, path: Path) -> Data:
        if not isinstance(self.X, str | None):
            raise TypeError(f"X must be the name of a part of {path}, it is a {type(self.X).__name__}.")
        names = [part if isinstance(part, str) else None for part in (self.X, self.y, self.weight)]
        with open_file(path) as file:
            data = self._by_columns(locate(file, names[0] or "X", "layers"), file, path)
        return self._with_arrays(open_hdf5(path, *names) if data is None else data)

    def _by_columns(self, node: Node, root: Node, path: str | Path) -> Data | None:
        """Pass samples through that are stored by columns; None if they are stored otherwise."""
        found = rows_of_columns(node, self.memory) if is_group(node) else None
        if found is None:
            return None
        (n, n_features), dtype, blocks = found
        y, weight = self._columns(root, path, n)
        more = {} if weight is None else {"sample_weight": weight.astype(np.float64)}
        names, ids = names_of(root, node, (n, n_features))
        more |= {} if ids is None else {"id": ids}
        y_dtype = None if y is None else label_type(Matrix("y", y), str(path), n)

        def rows() -> Iterator[Rows]:
            place = 0
            for block in blocks:
                some = slice(place, place + block.shape[0])
                place = some.stop
                labels = None if y is None else y[some].astype(y_dtype, copy=False)
                yield Rows(block, labels, {name: values[some] for name, values in more.items()})

        header = Header(n_features, dtype, y_dtype, sparse=True, n_samples=n)
        header = header._replace(feature_names=None if names is None else tuple(map(str, names)))
        return self._scratch(path, header, rows())

    def of_zarr(self, group: Node, path: str | Path) -> Data:
        """Open an array or a group of Zarr, such as AnnData's."""
        if not is_group(group):
            return self.of_array(group)
        node = part_of(group, self.X or "X", "layers", path)
        data = self._by_columns(node, group, path)
        if data is None:
            source = ZarrCSRSource(node, path) if is_group(node) else SlicedSource(node, flat=True)
            names, ids = names_of(group, node, source.shape)
            y, weight = self._columns(group, path, len(source))
            data = Data(path, source, y, weight, names, ids)
        return self._with_arrays(data)

    def _columns(self, root: Node, path: str | Path, n: int) -> list[np.ndarray | None]:
        """Return the labels and the weights of n samples that have names in a file, None for those that have none."""
        found: list[np.ndarray | None] = []
        for name, part in (("y", self.y), ("sample_weight", self.weight)):
            asked = part if isinstance(part, str) else name
            node = part_of(root, part, "obs", path) if isinstance(part, str) else locate(root, name, "obs")
            found.append(None if node is None else column_values(node, f"{asked} in {path}", n, "row"))
        return found

    def _of_npy(self, path: Path) -> Data:
        try:
            rows = np.load(path, mmap_mode="r")
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path} is damaged, or holds objects: {error}.") from error
        return self.of_array(rows, path)

    def of_array(self, rows: Given, path: str | Path | None = None) -> Data:
        """Take an array, or what can be sliced as one. Axes after the first are features."""
        path = f"the {type(rows).__name__}" if path is None else path
        if self.X is not None:
            raise ValueError(f"{path} has no names; X is {self.X!r}.")
        if isinstance(rows, np.ndarray):
            if rows.ndim < 2 or rows.dtype.kind not in "biuf":
                raise ValueError(
                    f"{path} has shape {rows.shape} and type {rows.dtype}; samples need two dimensions or more, and "
                    "numbers."
                )
            is_mapped = isinstance(rows, np.memmap)
            source = SlicedSource(rows, flat=True) if is_mapped else as_source(_flat(rows, str(path)))
        elif len(getattr(rows, "shape", ())) > 2:
            source = SlicedSource(rows, flat=True)
        else:
            source = as_source(rows.tocsr() if sparse.issparse(rows) else rows)
        y, weight = (self._beside(part, path) for part in (self.y, self.weight))
        return self._with_arrays(Data(path, source), y, weight)

    def _beside(self, part: Given, path: str | Path) -> Given:
        """Return a column of samples without names: an array, or the content of a .npy file."""
        if not isinstance(part, (str, os.PathLike)):
            return part
        beside = Path(path).parent / part
        file = beside if isinstance(path, Path) and beside.is_file() else Path(part)
        check_input(file)
        return np.load(file, allow_pickle=False)

    def _with_arrays(self, data: Data, y: Given = None, weight: Given = None) -> Data:
        """Return a data set with the labels and weights that were passed as arrays."""
        for name, passed, part in (("y", y, self.y), ("sample_weight", weight, self.weight)):
            values = part if passed is None else passed
            if values is None or isinstance(values, str):
                continue
            values = _labels(values)
            if values.shape not in ((len(data),), (len(data), 1)):
                raise ValueError(f"{name} has shape {values.shape}; {data.path} has {len(data)} samples.")
            rows = data.source_row  # of samples that were shuffled on the way
            setattr(data, name, values.reshape(-1) if rows is None else values.reshape(-1)[rows])
        return data

    # --- samples that are passed through a scratch file ----------------------------------------------------

    def _converted(self, path: Path) -> Data:
        """Pass text, a table or an archive through."""
        options = dict(self.options)
        kind = options.setdefault("format", recognise(path))
        known = FORMATS[kind].options if kind in FORMATS else frozenset()
        columns = {"X": "array", "y": "label"} if "array" in known else _TABLE
        for name, part in zip(_PARTS, (self.X, self.y, self.weight), strict=True):
            if part is None or not (isinstance(part, (str, int, os.PathLike)) or name == "X"):
                continue
            if columns.get(name) not in known:
                raise ValueError(f"{path} is in the format {kind}, which has no names for {name}: pass an array.")
            options[columns[name]] = part
        if self.y is not None and "label" in known and "label" not in options:
            options["label"] = False  # the labels are passed as an array
        if "last_label" in known:
            options.setdefault("last_label", False)  # the last column is a feature unless y names it

        def converted(file: Path) -> None:
            convert(path, file, memory=self.memory, **cast(dict[str, Given], {"shuffle": False} | options))

        changed = path.stat().st_mtime_ns
        return self._with_arrays(self._in_scratch(path, converted, changed))

    def of_lazy_frame(self, frame: Given) -> Data:
        """Let polars compute a lazy frame into a Parquet file, and pass that through."""
        with scratch_folder(self._folder / "fastsvm-open") as folder:
            frame.sink_parquet(folder / "frame.parquet")
            data = self._converted(folder / "frame.parquet")
        data.path = Path(f"the {type(frame).__name__}")
        return data

    def of_frame(self, frame: Given) -> Data:
        """Take a table that is in memory."""
        rows, y, weight, names = _parted(frame, self)
        data = Data(f"the {type(frame).__name__}", as_source(_matrix(rows, "the table")), feature_names=names)
        return self._with_arrays(data, y, weight)

    def of_batches(self, batches: Iterable) -> Data:
        """Pass batches through once."""
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            raise ValueError(f"The {type(batches).__name__} has no batches.")
        begin, y, weight, names = _parted(first, self)
        X = _matrix(begin, "batch 0")
        y_dtype = None if y is None else label_type(Matrix("y of batch 0", _labels(y)), "batch 0", X.shape[0])
        features = None if names is None else tuple(map(str, names))
        header = Header(X.shape[1], stored_type(X.dtype), y_dtype, sparse=sparse.issparse(X), feature_names=features)
        rows = self._rows(chain([first], iterator), header, weight is not None)
        return self._with_arrays(self._scratch(f"the {type(batches).__name__}", header, rows))

    def _rows(self, batches: Iterable, header: Header, has_weights: bool) -> Iterator[Rows]:
        """Yield the rows of batches, which must be like the first."""
        place = 0
        for number, batch in enumerate(batches):
            where = f"batch {number}"
            X, y, weight, names = _parted(batch, self)
            X, order = _matrix(X, where), None if names is None else tuple(map(str, names))
            if X.shape[1] != header.n_features or sparse.issparse(X) != header.sparse:
                kind = "sparse" if sparse.issparse(X) else "dense"
                raise ValueError(
                    f"{where} is {kind} with {X.shape[1]} features; batch 0 is "
                    f"{'sparse' if header.sparse else 'dense'} with {header.n_features}."
                )
            if order != header.feature_names:
                if order is None or header.feature_names is None or set(order) != set(header.feature_names):
                    raise ValueError(f"{where} has the columns {order}; batch 0 has {header.feature_names}.")
                X = X[:, [order.index(name) for name in header.feature_names]]
            for name, value, is_there in (("labels", y, header.y_dtype is not None), ("weights", weight, has_weights)):
                if (value is not None) != is_there:
                    raise ValueError(f"{where} has {'no ' if is_there else ''}{name}, unlike batch 0.")
            X = _of_type(X, header.dtype, where)
            values = X if isinstance(X, np.ndarray) else X.data
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                check_finite(X if isinstance(X, np.ndarray) else X.toarray(), where, place)
            if y is not None:
                column = Matrix(f"y of {where}", _labels(y))
                if label_type(column, where, X.shape[0]).kind != np.dtype(header.y_dtype).kind:
                    raise ValueError(f"y of {where} holds {column.dtype}; that of batch 0 is of another kind.")
                y = labels_of(column, 0, X.shape[0])
            more = {}
            if weight is not None:
                more["sample_weight"] = np.asarray(weight, np.float64)
                if more["sample_weight"].shape != (X.shape[0],):
                    raise ValueError(f"{where} has {X.shape[0]} rows, and weights of shape {np.shape(weight)}.")
                check_weights(more["sample_weight"], where, place)
            yield Rows(X, y, more)
            place += X.shape[0]

    def _scratch(self, name: str | Path, header: Header, rows: Iterable[Rows]) -> Data:
        return self._in_scratch(name, lambda file: write(file, header, rows), 0)

    def _in_scratch(self, name: str | Path, fill: Callable[[Path], object], changed_ns: int) -> Data:
        """Return the data set of a scratch file that `fill` writes. It is as old as what it was made from."""
        stack = ExitStack()
        with suppress(OSError):
            remove_left(self._folder / "fastsvm-open")
        try:
            file = stack.enter_context(scratch_folder(self._folder / "fastsvm-open")) / "data.h5"
            try:
                fill(file)
            except ValueError as error:
                words = [one.replace(str(file), str(name)) if isinstance(one, str) else one for one in error.args]
                error.args = tuple(words)
                raise
            os.utime(file, ns=(changed_ns, changed_ns))  # a fit that is resumed compares times
            data = ScratchData(h5py.File(file, "r"))
            data.scratch = file
        except BaseException:
            stack.close()
            raise
        data.path, data.removal = Path(name), weakref.finalize(data.X, _close, stack, os.getpid())
        return data


def _close(stack: ExitStack, process: int) -> None:
    """Remove a scratch file, if this is the process that made it, and no fork of it."""
    if os.getpid() == process:
        stack.close()
    else:
        _OF_OTHERS.append(stack)  # which would close what is in it when nothing refers to it


class ScratchData(HDF5Data):
    """A data set in a scratch file, which goes when it is closed or its rows are no longer used."""

    scratch: Path
    removal: Callable | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return the state without what only the process that made the file may do: remove it."""
        return {name: value for name, value in super().__getstate__().items() if name != "removal"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state and open the scratch file again, which is there while that of the first process is."""
        vars(self).update(state)
        self._file = open_file(self.scratch)

    def close(self) -> None:
        """Close and remove the file. Its rows cannot be read afterwards."""
        super().close()
        if self.removal is not None:
            self.removal()


def _zarr(path: Path) -> Node:
    try:
        import zarr
    except ImportError as error:
        raise ValueError(f"Reading {path} needs zarr. Install it with: pip install 'fastsvm[zarr]'") from error
    try:
        return zarr.open(path, mode="r")
    except Exception as error:  # of any kind, as for JSON that is damaged
        raise ValueError(f"{path} cannot be read by zarr: {type(error).__name__}: {error}") from error


def _labels(values: Given) -> np.ndarray:
    """Return labels as an array, words as str."""
    if np.ma.is_masked(values):
        raise ValueError("The labels contain masked values; fill or remove them.")
    array = np.asarray(values)
    if array.dtype.kind == "T" or (array.dtype == object and all(isinstance(one, str) for one in array.flat)):
        return array.astype(object).astype(str)
    return array


def _matrix(rows: Given, where: str) -> np.ndarray | sparse.csr_array:
    """Return rows as an array of two dimensions, or in CSR form; raise ValueError unless they are numbers."""
    if sparse.issparse(rows):
        return rows.tocsr()
    values = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
    if values.dtype.kind not in "biuf" or values.ndim < 2:
        raise ValueError(
            f"{where} has shape {values.shape} and type {values.dtype}; samples need two dimensions or more, and "
            "numbers. Name the columns of labels and weights by y and sample_weight, and encode words as numbers."
        )
    return _flat(values, where)


def _flat(values: np.ndarray, where: str) -> np.ndarray:
    if np.ma.is_masked(values):
        raise ValueError(f"{where} contains masked values; fill or remove them.")
    return values.reshape(len(values), math.prod(values.shape[1:]))


def _of_type(X: Given, dtype: np.dtype, where: str) -> np.ndarray | sparse.csr_array:
    """Return rows in the type of the first batch; raise ValueError if that changes a value."""
    cast = X.astype(dtype)
    ours, theirs = (one if isinstance(one, np.ndarray) else one.data for one in (cast, X))
    if not np.can_cast(X.dtype, dtype) and not np.array_equal(ours, theirs, equal_nan=theirs.dtype.kind == "f"):
        raise ValueError(
            f"{where} holds {X.dtype}, batch 0 holds {dtype}, in which values would change. Convert them to one type."
        )
    return cast


def _n_axes(values: Given) -> int:
    return len(values.shape) if hasattr(values, "shape") else np.ndim(values)


def _parted(batch: Given, asked: _Asked) -> tuple[Given, Given, Given, np.ndarray | None]:
    """Return X, y, the weights and the names of the features of a batch."""
    if hasattr(batch, "column_names") and hasattr(batch, "to_pydict"):  # of pyarrow
        batch = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}
    columns = list(batch) if isinstance(batch, Mapping) else list(getattr(batch, "columns", ()))
    if not columns or sparse.issparse(batch):
        if asked.X is not None or isinstance(asked.y, str) or isinstance(asked.weight, str):
            raise ValueError("Batches of arrays have no columns, so that X, y and sample_weight cannot name any.")
        if isinstance(batch, (tuple, list)) and len(batch) in (2, 3) and _n_axes(batch[0]) > 1:
            return batch[0], batch[1], batch[2] if len(batch) == 3 else None, None
        return batch, None, None, None
    label, weight = (part if isinstance(part, str) else None for part in (asked.y, asked.weight))
    if asked.y is None:
        usual = [name for name in columns if str(name).lower() in LABELS]
        label = usual[0] if len(usual) == 1 else None
    if asked.weight is None:
        weight = "sample_weight" if "sample_weight" in columns else None
    features = [name for name in columns if name not in (label, weight)]
    if asked.X is not None:
        features = [asked.X] if isinstance(asked.X, str) else list(asked.X)
    if missing := [name for name in (*features, label, weight) if name is not None and name not in columns]:
        raise ValueError(f"There is no column {missing[0]!r}; there are {', '.join(map(str, columns[:20]))}.")
    parts = [np.asarray(batch[name]) for name in features]
    parts = [
        np.stack(list(part)) if part.dtype == object and len(part) and np.ndim(part[0]) else part for part in parts
    ]
    y, weights = (None if name is None else np.asarray(batch[name]) for name in (label, weight))
    if len(parts) == 1 and parts[0].ndim > 1:  # embeddings
        return parts[0], y, weights, None
    for name, part in zip(features, parts, strict=True):
        if part.dtype.kind not in "biuf" or part.ndim != 1:
            raise ValueError(
                f"The column {name!r} holds {part.dtype}, not numbers: encode it, or name the features by X."
            )
    return np.column_stack(parts), y, weights, np.array([str(name) for name in features], object)
