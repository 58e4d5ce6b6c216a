"""NumPy arrays in a .npz archive, streamed from it."""

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from fastsvm.formats.npy import Matrix, rows_of
from fastsvm.formats.stream import Options, Stream

__all__ = ["read", "recognises"]

_READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


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
    except zipfile.BadZipFile:
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


class _Entry(NamedTuple):
    """What the header of an array in the archive says."""

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
            rows = _choose_rows(entries, options.array, path)
            labels = _choose_labels(entries, rows, options.label, path)
            column = None if labels is None else _matrix(archive, files, labels, path)
            yield rows_of(_matrix(archive, files, rows, path), column, options)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); get the file again.") from error


def _entry(archive: zipfile.ZipFile, name: str, path: Path) -> _Entry:
    with archive.open(name) as stream:
        try:
            version = npy_format.read_magic(stream)
            shape, fortran, dtype = _READERS[version](stream)
        except (ValueError, KeyError) as error:
            raise ValueError(f"The array {name} in {path} has no header that can be read: {error}") from error
    return _Entry(name.removesuffix(".npy"), shape, dtype, fortran)


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
        raise ValueError(f"Which array of {path} holds the rows? Say array=; it holds {listed}.")
    return found


def _choose_labels(entries: list[_Entry], rows: _Entry, label: object, path: Path) -> _Entry | None:
    """Return the array named, else `y`, else the only one with one entry for each row."""
    if label is False:
        return None
    listed = "; ".join(map(str, entries))
    found = _named(entries, "y" if label is None else str(label))
    if label is not None and found is None:
        raise ValueError(f"{path} has no array {label!r}; it holds {listed}.")
    fitting = [entry for entry in entries if entry.shape == rows.shape[:1]]
    if found is None and len(fitting) > 1:
        raise ValueError(
            f"Which array of {path} holds the labels? Say label=, or label=False for none; it holds {listed}."
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
    _READERS[npy_format.read_magic(stream)](stream)
    row_shape = entry.shape[1:]
    row_bytes = math.prod(row_shape) * entry.dtype.itemsize

    def take(first: int, stop: int) -> np.ndarray:
        raw = stream.read((stop - first) * row_bytes)
        if len(raw) < (stop - first) * row_bytes:
            row = first + len(raw) // row_bytes
            raise ValueError(f"{where} ends in row {row}; the file is damaged.")
        # The checksum is compared once the end has been read.
        if stop == entry.shape[0] and stream.read(1):
            raise ValueError(f"{where} goes on after its last row; the file is damaged.")
        return np.frombuffer(raw, entry.dtype).reshape(-1, *row_shape)

    return Matrix(where, entry.shape, entry.dtype, take)
