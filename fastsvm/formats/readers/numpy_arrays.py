"""NumPy arrays in .npy files and .npz archives, and sparse matrices that SciPy saved.

Files are mapped into memory, so that rows are read as they are needed. Arrays of an archive are extracted first.
"""

import errno
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from scipy import sparse

from fastsvm.formats.readers.stream import Header, Matrix, Options, Rows, Stream, label_type, labels_of, rows_of
from fastsvm.tuning import current_tuning

# NumPy raises any of these for headers that are truncated, impossible, or not Python literals.
_NO_ARRAY = (
    ValueError, TypeError, OverflowError, EOFError, OSError, SyntaxError, MemoryError, RecursionError, TokenError
)  # fmt: skip
_DAMAGED = zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error  # of archives
_WEIGHTS = "sample_weight"
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
    yield rows_of(Matrix(str(path), _mapped(path)), _labels_in(options.label), options)


def _labels_in(label: object) -> Matrix | None:
    """Return the labels in a .npy file, None if the option names none."""
    return None if label is None or label is False else Matrix(str(label), _mapped(Path(str(label))))


def _mapped(path: Path, where: str | None = None) -> np.ndarray:
    """Return the array in a .npy file; `where` names it in messages."""
    where = str(path) if where is None else where
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with np.errstate(all="ignore"):  # impossible lengths may overflow
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _NO_ARRAY as error:
        raise ValueError(f"{where} cannot be read as one array of numbers or strings: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"{where} is an archive of arrays, not one array.")
    return array


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

    def __str__(self) -> str:
        return f"{self.name} {self.shape} {self.dtype}"


@contextmanager
def read_npz(path: Path, options: Options) -> Iterator[Stream]:
    """Open the array of the rows and that of the labels, or a sparse matrix."""
    try:
        with zipfile.ZipFile(path) as opened:
            archive = _Archive(path, opened, options.scratch)
            is_sparse = {"format", "shape", "data"} <= archive.entries.keys()
            yield _sparse_rows(archive, options) if is_sparse else _dense_rows(archive, options)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which a negative position raises
            raise
        raise ValueError(f"{path} is truncated or damaged ({error}); get the file again.") from error


class _Archive:
    """The headers of the arrays in an archive, and a folder to which those that are read are extracted."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, folder: Path) -> None:
        self.path, self._zip, self._folder = path, archive, folder
        names = [name for name in archive.namelist() if name.endswith(".npy")]
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
                if (version := npy_format.read_magic(stream)) != (1, 0):
                    raise ValueError(f"it is of version {version} of the format")
                shape, _, dtype = npy_format.read_array_header_1_0(stream)
            except Exception as error:  # NumPy may raise any error for a header that is not a Python literal
                raise ValueError(f"{where} has no header that can be read: {error}") from error
            expected = stream.tell() + math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and expected != info.file_size:
            raise ValueError(
                f"{where} has the shape {shape} and type {dtype}, which take {expected} bytes, and the "
                f"archive holds {info.file_size}: the file is damaged."
            )
        return _Entry(name.removesuffix(".npy"), shape, dtype)

    def array(self, name: str) -> np.ndarray:
        """Return an array, whose rows are read from a file when they are needed."""
        if name not in self.entries:
            raise ValueError(f"{self.path} is damaged, or its sparse matrix has another form: it has no array {name}.")
        file = Path(self._zip.extract(f"{name}.npy", self._folder))
        return _mapped(file, f"The array {name} in {self.path}")

    def matrix(self, entry: _Entry) -> Matrix:
        """Return an array as rows."""
        return Matrix(f"The array {entry.name} in {self.path}", self.array(entry.name))


def _dense_rows(archive: _Archive, options: Options) -> Stream:
    """Return the rows, labels and weights in arrays of an archive. The notes name the arrays that are not used."""
    entries = archive.entries
    rows = _choose_rows(entries, options.array, archive.path)
    labels, weights = _choose_labels(entries, rows, options.label, archive.path), entries.get(_WEIGHTS)
    column, weight = (None if each is None else archive.matrix(each) for each in (labels, weights))
    stream = rows_of(archive.matrix(rows), column, options, weight)
    others = [each for each in entries.values() if each not in (rows, labels, weights)]
    unused = [each.name for each in others if each.shape[:1] == rows.shape[:1]]
    notes = (f"Not used, though as long as the rows: {', '.join(unused)}.",) if unused else ()
    return stream._replace(header=stream.header._replace(notes=notes))


def _choose_rows(entries: dict[str, _Entry], name: str | None, path: Path) -> _Entry:
    """Return the array named, else `X`, else the only one with two dimensions or more."""
    listed = "; ".join(map(str, entries.values())) or "nothing"
    if name is not None and name not in entries:
        raise ValueError(f"{path} has no array {name!r}; it holds {listed}.")
    name = "X" if name is None else name
    wide = [entry for entry in entries.values() if len(entry.shape) >= 2]
    if name not in entries and len(wide) != 1:
        raise ValueError(f"Which array of {path} holds the rows? Name it by array= of convert; it holds {listed}.")
    return entries.get(name) or wide[0]


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
    path, entries = archive.path, archive.entries
    if entries["format"].shape != () or entries["shape"].shape != (2,) or entries["shape"].dtype.kind not in "iu":
        raise ValueError(f"{path}: {entries['format']} and {entries['shape']} do not describe a sparse matrix.")
    form = str(archive.array("format").astype(str))
    if form not in ("csr", "csc"):
        raise ValueError(f"{path} holds a sparse matrix in the form {form!r}. Save X.tocsr() by scipy.sparse.save_npz.")
    n, d = archive.array("shape").tolist()
    if min(n, d) < 1:
        raise ValueError(f"{path} holds a sparse matrix of shape {(n, d)}. It needs rows and columns.")
    indptr, indices, data = (archive.array(name) for name in ("indptr", "indices", "data"))
    if data.dtype.kind not in "biuf" or data.dtype.itemsize > 8:
        raise ValueError(f"{path} holds values of type {data.dtype}; features are real numbers of at most 64 bits.")
    dtype = np.dtype({"b": np.uint8}.get(data.dtype.kind, data.dtype)).newbyteorder("=")
    dtype = np.dtype(np.float32) if dtype == np.float16 else dtype  # of which SciPy makes no matrices
    try:
        kind = sparse.csr_array if form == "csr" else sparse.csc_array
        X = kind((data.astype(dtype, copy=False), indices, indptr), shape=(n, d))
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if X.indptr[-1] != len(data):
        raise ValueError(f"{path} is damaged: its rows have {X.indptr[-1]} values, {len(data)} are stored.")
    if form == "csc":
        needed = current_tuning().storage.loaded_share * (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
        if needed > options.memory:
            raise ValueError(
                f"{path} is stored by columns, and its rows take {needed} bytes of memory; memory={options.memory}. "
                "Save X.tocsr() by scipy.sparse.save_npz, or raise memory."
            )
        X = X.tocsr()
    column = _labels_in(options.label)
    y_dtype = None if column is None else label_type(column, str(path), n)
    header = Header(d, dtype, y_dtype, True, n_samples=n, n_values=len(data))
    return Stream(header, _sparse_blocks(path, X, column, options))


def _sparse_blocks(path: Path, X: sparse.csr_array, column: Matrix | None, options: Options) -> Iterator[Rows]:
    n, first = X.shape[0], 0
    most = options.rows(X.dtype.itemsize + X.indices.dtype.itemsize)
    while first < n:  # a few rows may hold most of the values
        stop = int(np.searchsorted(X.indptr, X.indptr[first] + most, side="right")) - 1
        stop = max(first + 1, min(stop, first + most))
        rows = X[first:stop]
        if rows.dtype.kind == "f" and not np.isfinite(rows.data).all():
            place = int(np.flatnonzero(~np.isfinite(rows.data))[0])
            row = first + int(np.searchsorted(rows.indptr, place, side="right")) - 1
            raise ValueError(f"{path}: row {row}, counted from 0, has a value that is not finite. Impute it first.")
        rows.sum_duplicates()
        yield Rows(rows, None if column is None else labels_of(column, first, stop))
        first = stop
