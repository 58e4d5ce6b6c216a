"""NumPy arrays in a .npz archive, streamed from it."""

import errno
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from fastsvm.formats.readers.npy import Matrix, rows_of
from fastsvm.formats.readers.sparse_npz import is_sparse, read_sparse
from fastsvm.formats.readers.stream import Options, Stream
from fastsvm.tuning import current_tuning

__all__ = ["read", "recognises"]

_WEIGHTS = "sample_weight"
_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_MOST_RATIO = 1_032  # Deflate makes at most so many bytes of one.


def recognises(path: Path) -> bool:
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
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Open the array of the rows and that of the labels."""
    try:
        with ExitStack() as files:
            archive = files.enter_context(zipfile.ZipFile(path))
            entries = [_entry(archive, name, path) for name in archive.namelist() if name.endswith(".npy")]
            if is_sparse({entry.name for entry in entries}):
                yield _sparse(archive, files, {entry.name: entry for entry in entries}, options, path)
                return
            rows = _choose_rows(entries, options.array, path)
            labels, weights = _choose_labels(entries, rows, options.label, path), _named(entries, _WEIGHTS)
            column, weight = (
                None if each is None else _matrix(archive, files, each, path) for each in (labels, weights)
            )
            stream = rows_of(_matrix(archive, files, rows, path), column, options, weight)
            used = {entry.name for entry in (rows, labels, weights) if entry is not None}
            unused = [entry.name for entry in entries if entry.name not in used and entry.shape[:1] == rows.shape[:1]]
            notes = (f"Not used, though as long as the rows: {', '.join(unused)}.",) if unused else ()
            yield stream._replace(header=stream.header._replace(notes=notes))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); get the file again.") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a negative position
            raise
        raise ValueError(
            f"{path} is truncated or damaged (it refers to bytes outside of itself); get the file again."
        ) from error


def _sparse(
    archive: zipfile.ZipFile, files: ExitStack, entries: dict[str, _Entry], options: Options, path: Path
) -> Stream:
    """Return the rows of a sparse matrix in the archive."""

    def entry(name: str) -> _Entry:
        if name not in entries:
            raise ValueError(f"{path} is damaged, or its sparse matrix has another form: it has no array {name}.")
        return entries[name]

    def small(name: str) -> np.ndarray:  # one number, or the two of a shape
        if math.prod(entry(name).shape) > 2 or entry(name).dtype.hasobject:
            raise ValueError(f"The array {entry(name)} in {path} does not describe a sparse matrix.")
        with archive.open(f"{name}.npy") as stream:
            return npy_format.read_array(stream, allow_pickle=False)

    return read_sparse(path, small, lambda name: _matrix(archive, files, entry(name), path), options)


def _entry(archive: zipfile.ZipFile, name: str, path: Path) -> _Entry:
    """Return shape and type of an array; raise ValueError if the archive does not hold as many bytes."""
    info = archive.getinfo(name)
    known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if not known or info.file_size > _MOST_RATIO * (info.compress_size + 1):
        raise ValueError(
            f"The array {name} in {path} claims {info.file_size} bytes from {info.compress_size} that are stored, by "
            f"method {info.compress_type}: the file is damaged, or was not written by NumPy."
        )
    with archive.open(name) as stream:
        try:
            shape, fortran, dtype = _header(stream)
        except Exception as error:  # NumPy may raise any error for a header that is not a Python literal
            raise ValueError(f"The array {name} in {path} has no header that can be read: {error}") from error
        expected = stream.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and expected != info.file_size:
        raise ValueError(
            f"The array {name} in {path} has the shape {shape} and type {dtype}, which take {expected} bytes, and the "
            f"archive holds {info.file_size}: the file is damaged."
        )
    return _Entry(name.removesuffix(".npy"), shape, dtype, fortran)


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


def _named(entries: list[_Entry], name: str) -> _Entry | None:
    return next((entry for entry in entries if entry.name == name), None)


def _choose_rows(entries: list[_Entry], name: str | None, path: Path) -> _Entry:
    listed = "; ".join(map(str, entries)) or "nothing"
    if name is not None:
        found = _named(entries, name)
        if found is None:
            raise ValueError(f"{path} has no array {name!r}; it holds {listed}.")
        return found
    wide = [entry for entry in entries if len(entry.shape) >= 2]
    found = _named(entries, "X") or (wide[0] if len(wide) == 1 else None)
    if found is None:
        raise ValueError(f"Which array of {path} holds the rows? Name it by array= of convert; it holds {listed}.")
    return found


def _choose_labels(entries: list[_Entry], rows: _Entry, label: object, path: Path) -> _Entry | None:
    """Return the array named, else `y`, else the only one with an entry for each row."""
    if label is False:
        return None
    listed = "; ".join(map(str, entries))
    found = _named(entries, "y" if label is None else str(label))
    if label is not None and found is None:
        raise ValueError(f"{path} has no array {label!r}; it holds {listed}.")
    fitting = [entry for entry in entries if entry.shape == rows.shape[:1] and entry.name != _WEIGHTS]
    if found is None and len(fitting) > 1:
        raise ValueError(
            f"Which array of {path} holds the labels? Set label=, or label=False for none; it holds {listed}."
        )
    return found or (fitting[0] if fitting else None)


def _matrix(archive: zipfile.ZipFile, files: ExitStack, entry: _Entry, path: Path) -> Matrix:
    where = f"The array {entry.name} in {path}"
    if entry.dtype.hasobject:
        raise ValueError(f"{where} holds Python objects, which are not read; save numbers or strings.")
    if entry.fortran and len(entry.shape) > 1:
        raise ValueError(
            f"{where} is stored by columns, so its rows cannot be streamed; save what "
            "numpy.ascontiguousarray makes of it."
        )
    stream = files.enter_context(archive.open(f"{entry.name}.npy"))
    _header(stream)
    row_shape = entry.shape[1:]
    row_bytes = math.prod(row_shape) * entry.dtype.itemsize

    def take(first: int, stop: int) -> np.ndarray:
        raw = stream.read((stop - first) * row_bytes)
        if len(raw) < (stop - first) * row_bytes:
            row = first + len(raw) // row_bytes
            raise ValueError(f"{where} ends in row {row}; the file is damaged.")
        # Reading to the end compares the checksum.
        if stop == entry.shape[0] and stream.read(1):
            raise ValueError(f"{where} continues after its last row; the file is damaged.")
        return np.frombuffer(raw, entry.dtype).reshape(-1, *row_shape)

    return Matrix(where, entry.shape, entry.dtype, take)
