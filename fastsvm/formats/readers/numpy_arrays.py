"""NumPy arrays in .npy files and .npz archives, and sparse matrices that SciPy saved, streamed from the file."""

import errno
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from scipy import sparse

from fastsvm.formats.readers.stream import (
    Header,
    Matrix,
    Options,
    Rows,
    Stream,
    label_type,
    labels_of,
    matrix_in,
    rows_of,
)
from fastsvm.tuning import current_tuning

# NumPy raises any of these for headers that are truncated, impossible, or not Python literals.
_NO_ARRAY = (
    ValueError, TypeError, OverflowError, EOFError, OSError, SyntaxError, MemoryError, RecursionError, TokenError
)  # fmt: skip
_DAMAGED = zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error  # of archives
_WEIGHTS = "sample_weight"
_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_MOST_RATIO = 1_032  # Deflate makes at most so many bytes of one.


# --- one array in a .npy file ----------------------------------------------------------------------------


def is_npy(path: Path) -> bool:
    """Return whether a path is a .npy file."""
    if not path.is_file():
        return False
    with open(path, "rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


@contextmanager
def read_npy(path: Path, options: Options) -> Iterator[Stream]:
    """Open an array and, if `label` names a file, its labels."""
    label = options.label
    unlabelled = label is None or label is False
    yield rows_of(_mapped(path), None if unlabelled else _mapped(Path(str(label))), options)


def _mapped(path: Path) -> Matrix:
    """Return the array in a .npy file."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with np.errstate(all="ignore"):  # impossible lengths may overflow
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _NO_ARRAY as error:
        raise ValueError(f"{path} cannot be read as one array of numbers or strings: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"{path} is an archive of arrays, not one array.")
    return Matrix.of(str(path), array)


# --- archives of arrays ----------------------------------------------------------------------------------


def is_npz(path: Path) -> bool:
    """Return whether a path is a .npz archive."""
    if path.is_dir():
        return False
    with open(path, "rb") as stream:
        return stream.read(4) == b"PK\x03\x04" and (path.suffix == ".npz" or _holds_arrays(path))


def _holds_arrays(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # a damaged archive may raise anything
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


class _Entry(NamedTuple):
    """The header of an array in the archive."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    def __str__(self) -> str:
        return f"{self.name} {self.shape} {self.dtype}"


@contextmanager
def read_npz(path: Path, options: Options) -> Iterator[Stream]:
    """Open the array of the rows and that of the labels, or a sparse matrix."""
    try:
        with ExitStack() as files:
            archive = _Archive(path, files)
            is_sparse = {"format", "shape", "data"} <= archive.entries.keys()
            yield _sparse_rows(archive, options) if is_sparse else _dense_rows(archive, options)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which a negative position raises
            raise
        raise ValueError(f"{path} is truncated or damaged ({error}); get the file again.") from error


class _Archive:
    """The arrays in an archive, which stays open as long as `files`."""

    def __init__(self, path: Path, files: ExitStack) -> None:
        self.path, self._files = path, files
        self._zip = files.enter_context(zipfile.ZipFile(path))
        names = [name for name in self._zip.namelist() if name.endswith(".npy")]
        self.entries = {name.removesuffix(".npy"): self._entry(name) for name in names}

    def _entry(self, name: str) -> _Entry:
        """Return shape and type of an array; raise ValueError if the archive does not hold as many bytes."""
        info, where = self._zip.getinfo(name), f"The array {name} in {self.path}"
        usual = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if not usual or info.file_size > _MOST_RATIO * (info.compress_size + 1):
            raise ValueError(
                f"{where} claims {info.file_size} bytes from {info.compress_size} that are stored, by "
                f"method {info.compress_type}: the file is damaged, or was not written by NumPy."
            )
        with self._zip.open(name) as stream:
            try:
                shape, fortran, dtype = _header(stream)
            except Exception as error:  # NumPy may raise any error for a header that is not a Python literal
                raise ValueError(f"{where} has no header that can be read: {error}") from error
            expected = stream.tell() + math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and expected != info.file_size:
            raise ValueError(
                f"{where} has the shape {shape} and type {dtype}, which take {expected} bytes, and the "
                f"archive holds {info.file_size}: the file is damaged."
            )
        return _Entry(name.removesuffix(".npy"), shape, dtype, fortran)

    def matrix(self, entry: _Entry) -> Matrix:
        """Return an array that is read row by row."""
        where = f"The array {entry.name} in {self.path}"
        if entry.dtype.hasobject:
            raise ValueError(f"{where} holds Python objects, which are not read; save numbers or strings.")
        if entry.fortran and len(entry.shape) > 1:
            raise ValueError(
                f"{where} is stored by columns, so its rows cannot be streamed; save what "
                "numpy.ascontiguousarray makes of it."
            )
        stream = self._files.enter_context(self._zip.open(f"{entry.name}.npy"))
        _header(stream)
        return matrix_in(stream, where, entry.shape, entry.dtype)

    def small(self, name: str) -> np.ndarray:
        """Return an array of one or two values that describes a sparse matrix."""
        entry = self.of_sparse(name)
        if math.prod(entry.shape) > 2 or entry.dtype.hasobject:
            raise ValueError(f"The array {entry} in {self.path} does not describe a sparse matrix.")
        with self._zip.open(f"{name}.npy") as stream:
            return npy_format.read_array(stream, allow_pickle=False)

    def of_sparse(self, name: str) -> _Entry:
        """Return an array that a sparse matrix has."""
        if name not in self.entries:
            raise ValueError(f"{self.path} is damaged, or its sparse matrix has another form: it has no array {name}.")
        return self.entries[name]


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, order and type of an array from its header, whose length is checked first."""
    version = npy_format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"it is of version {version} of the format")
    size = stream.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(size, "little")
    if length > current_tuning().limits.entries:
        raise ValueError(f"it would have {length} bytes")
    shape, fortran, dtype = _READERS[version](io.BytesIO(size + stream.read(length)))
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    return shape, fortran, dtype


def _dense_rows(archive: _Archive, options: Options) -> Stream:
    """Return the rows, labels and weights in arrays of an archive. The notes name the arrays that are not used."""
    entries = archive.entries
    rows = _choose_rows(entries, options.array, archive.path)
    labels, weights = _choose_labels(entries, rows, options.label, archive.path), entries.get(_WEIGHTS)
    column, weight = (None if each is None else archive.matrix(each) for each in (labels, weights))
    stream = rows_of(archive.matrix(rows), column, options, weight)
    unused = [
        each.name
        for each in entries.values()
        if each not in (rows, labels, weights) and each.shape[:1] == rows.shape[:1]
    ]
    notes = (f"Not used, though as long as the rows: {', '.join(unused)}.",) if unused else ()
    return stream._replace(header=stream.header._replace(notes=notes))


def _choose_rows(entries: dict[str, _Entry], name: str | None, path: Path) -> _Entry:
    """Return the array named, else `X`, else the only one with two dimensions or more."""
    listed = "; ".join(map(str, entries.values())) or "nothing"
    if name is not None:
        if name not in entries:
            raise ValueError(f"{path} has no array {name!r}; it holds {listed}.")
        return entries[name]
    wide = [entry for entry in entries.values() if len(entry.shape) >= 2]
    if "X" not in entries and len(wide) != 1:
        raise ValueError(f"Which array of {path} holds the rows? Name it by array= of convert; it holds {listed}.")
    return entries.get("X") or wide[0]


def _choose_labels(entries: dict[str, _Entry], rows: _Entry, label: object, path: Path) -> _Entry | None:
    """Return the array named, else `y`, else the only one with an entry for each row."""
    if label is False:
        return None
    listed = "; ".join(map(str, entries.values()))
    if label is not None and str(label) not in entries:
        raise ValueError(f"{path} has no array {label!r}; it holds {listed}.")
    name = "y" if label is None else str(label)
    fitting = [each for each in entries.values() if each.shape == rows.shape[:1] and each.name != _WEIGHTS]
    if name not in entries and len(fitting) > 1:
        raise ValueError(
            f"Which array of {path} holds the labels? Set label=, or label=False for none; it holds {listed}."
        )
    return entries.get(name) or next(iter(fitting), None)


# --- sparse matrices in archives -------------------------------------------------------------------------


def _sparse_rows(archive: _Archive, options: Options) -> Stream:
    """Return the rows of a matrix. CSR is streamed, CSC is read into memory. The option `label` may be a .npy file."""
    path, name = archive.path, archive.small("format")
    form = bytes(name).decode("ascii", "replace") if name.dtype.kind == "S" else str(name)
    if form not in ("csr", "csc"):
        raise ValueError(f"{path} holds a sparse matrix in the form {form!r}. Save X.tocsr() by scipy.sparse.save_npz.")
    shape = archive.small("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
        raise ValueError(f"{path} holds a sparse matrix of shape {shape.tolist()}. It needs rows and columns.")
    n, d = map(int, shape)
    parts = tuple(archive.matrix(archive.of_sparse(name)) for name in ("indptr", "indices", "data"))
    data = parts[2]
    if data.dtype.kind not in "biuf" or data.dtype.itemsize > 8:
        raise ValueError(f"{data.where} holds {data.dtype}; features are real numbers of at most 64 bits.")
    n_major = n if form == "csr" else d
    if parts[0].shape != (n_major + 1,) or parts[1].shape != data.shape or len(data.shape) != 1:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ValueError(f"{path} is damaged: indptr, indices and data have the shapes {shapes}, X has {(n, d)}.")
    if form == "csc":
        parts = _by_rows(path, parts, (n, d), options.memory)
    dtype = np.dtype({"b": np.uint8}.get(data.dtype.kind, data.dtype)).newbyteorder("=")
    dtype = np.dtype(np.float32) if dtype == np.float16 else dtype  # of which SciPy makes no matrices
    column = None if options.label in (None, False) else _mapped(Path(str(options.label)))
    y_dtype = None if column is None else label_type(column, str(path), n)
    header = Header(d, dtype, y_dtype, True, n_samples=n, n_values=parts[2].shape[0])
    return Stream(header, _sparse_blocks(path, parts, column, header, options))


def _by_rows(path: Path, parts: tuple[Matrix, ...], shape: tuple[int, int], memory: int) -> tuple[Matrix, ...]:
    """Return the arrays of a matrix by rows, which is stored by columns."""
    needed = current_tuning().storage.loaded_share * sum(part.shape[0] * part.dtype.itemsize for part in parts)
    if needed > memory:
        raise ValueError(
            f"{path} is stored by columns, and its rows take {needed} bytes of memory; memory={memory}. Save X.tocsr() "
            "by scipy.sparse.save_npz, or raise memory."
        )
    indptr, indices, data = (part.take(0, part.shape[0]) for part in parts)
    _check(path, np.asarray(indptr, np.int64), indices, shape[0], len(data))
    rows = sparse.csc_array((data, indices, indptr), shape=shape).tocsr()
    arrays = zip(parts, (rows.indptr, rows.indices, rows.data), strict=True)
    return tuple(Matrix.of(part.where, array) for part, array in arrays)


def _check(path: Path, ends: np.ndarray, indices: np.ndarray | None, width: int, n_values: int) -> None:
    """Raise ValueError unless row ends rise from 0 to at most `n_values`, and indices are within the width."""
    if (np.diff(ends) < 0).any() or ends[0] < 0 or ends[-1] > n_values:
        raise ValueError(f"{path} is damaged: indptr does not rise from 0 to {n_values}, the number of its values.")
    if indices is not None and len(indices) and not 0 <= indices.min() <= indices.max() < width:
        bounds = f"{indices.min()} to {indices.max()}"
        raise ValueError(f"{path} is damaged: it has indices from {bounds}; they must be from 0 to {width - 1}.")


def _sparse_blocks(
    path: Path, parts: tuple[Matrix, ...], column: Matrix | None, header: Header, options: Options
) -> Iterator[Rows]:
    indptr, indices, data = parts
    n, n_values = indptr.shape[0] - 1, data.shape[0]
    value_bytes = header.dtype.itemsize + indices.dtype.itemsize
    most = options.rows(value_bytes)
    done = int(indptr.take(0, 1)[0])
    _check(path, np.array([0, done]), None, 1, 0)
    step = options.rows(value_bytes * max(1, n_values // n))
    for first in range(0, n, step):
        stop = min(first + step, n)
        ends = np.concatenate([[done], indptr.take(first + 1, stop + 1).astype(np.int64)])
        _check(path, ends, None, 1, n_values)
        at = 0
        while at < stop - first:  # a few rows may hold most of the values
            to = max(at + 1, int(np.searchsorted(ends, ends[at] + most, side="right")) - 1)
            columns, values = (part.take(int(ends[at]), int(ends[to])) for part in (indices, data))
            _check(path, ends, columns, header.n_features, n_values)
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                place = ends[at] + np.flatnonzero(~np.isfinite(values))[0]
                row = first + int(np.searchsorted(ends, place, side="right")) - 1
                raise ValueError(f"{path}: row {row}, counted from 0, has a value that is not finite. Impute it first.")
            rows = (values.astype(header.dtype), columns.astype(np.int64), ends[at : to + 1] - ends[at])
            X = sparse.csr_array(rows, shape=(to - at, header.n_features))
            X.sum_duplicates()
            y = None if column is None else labels_of(column, first + at, first + to)
            yield Rows(X, y)
            at = to
        done = int(ends[-1])
    if done != n_values:
        raise ValueError(f"{path} is damaged: its rows have {done} values, {n_values} are stored.")
