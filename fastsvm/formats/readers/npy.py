"""One NumPy array in a .npy file, mapped into memory, with labels in a second one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import NamedTuple

import numpy as np

from fastsvm.formats.readers.rows import Rows, check_finite
from fastsvm.formats.readers.stream import Header, Options, Stream
from fastsvm.tuning import current_tuning

__all__ = ["Matrix", "label_type", "labels_of", "mapped", "read", "recognises", "rows_of"]

# NumPy raises any of these for headers that are truncated, impossible, or not Python literals.
_NO_ARRAY = (
    ValueError, TypeError, OverflowError, EOFError, OSError, SyntaxError, MemoryError, RecursionError, TokenError
)  # fmt: skip


class Matrix(NamedTuple):
    """An array in a file that is read in successive rows: `take(first, stop)` returns rows, and calls are in order."""

    where: str  # It names the file and the array in messages.
    shape: tuple[int, ...]  # The axes after the first are the features.
    dtype: np.dtype
    take: Callable[[int, int], np.ndarray]


def recognises(path: Path) -> bool:
    """Return whether a path is a .npy file."""
    if not path.is_file():
        return False
    with open(path, "rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


@contextmanager
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Open an array and, if `label` names a file, its labels."""
    label = options.label
    unlabelled = label is None or label is False
    yield rows_of(mapped(path), None if unlabelled else mapped(Path(str(label))), options)


def mapped(path: Path) -> Matrix:
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
    return Matrix(str(path), array.shape, array.dtype, lambda first, stop: np.array(array[first:stop]))


def rows_of(matrix: Matrix, column: Matrix | None, options: Options, weight: Matrix | None = None) -> Stream:
    """Return the stream of a matrix, its labels and its sample weights; raise ValueError if they do not fit."""
    if len(matrix.shape) < 2 or matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        raise ValueError(
            f"{matrix.where} has shape {matrix.shape} and type {matrix.dtype}; rows of features need two "
            "dimensions or more and numbers of at most 64 bits."
        )
    if 0 in matrix.shape:
        raise ValueError(f"{matrix.where} is empty: its shape is {matrix.shape}.")
    n_features = int(np.prod(matrix.shape[1:], dtype=object))
    dtype = np.dtype(np.uint8) if matrix.dtype.kind == "b" else matrix.dtype.newbyteorder("=")
    y_dtype = None if column is None else label_type(column, matrix)
    if weight is not None and (weight.shape != matrix.shape[:1] or weight.dtype.kind not in "biuf"):
        raise ValueError(
            f"{weight.where} has shape {weight.shape} and type {weight.dtype}; the weights of the rows in "
            f"{matrix.where} must be numbers of shape ({matrix.shape[0]},)."
        )
    header = Header(n_features, dtype, y_dtype, n_samples=matrix.shape[0])
    row_bytes = n_features * dtype.itemsize + (0 if column is None else column.dtype.itemsize)
    return Stream(header, _blocks(matrix, (column, weight), header, options.rows(row_bytes)))


def label_type(column: Matrix, matrix: Matrix) -> np.dtype:
    """Return the type in which the labels of the rows of a matrix are stored."""
    if column.shape not in (matrix.shape[:1], (matrix.shape[0], 1)):
        raise ValueError(
            f"{column.where} has shape {column.shape}; the labels of the {matrix.shape[0]} rows in "
            f"{matrix.where} must have shape ({matrix.shape[0]},)."
        )
    most = current_tuning().limits.labels
    if column.dtype.itemsize > most:
        raise ValueError(f"{column.where} has type {column.dtype}; a label takes at most {most} bytes.")
    kinds = {"b": np.int64, "i": np.int64, "u": np.int64, "f": np.float64, "U": np.str_, "S": np.str_}
    if column.dtype.kind not in kinds:
        raise ValueError(f"{column.where} has type {column.dtype}; labels are numbers or strings.")
    return np.dtype(kinds[column.dtype.kind])


def _blocks(matrix: Matrix, beside: tuple[Matrix | None, Matrix | None], header: Header, step: int) -> Iterator[Rows]:
    """Yield the rows with what is `beside` them: labels and weights."""
    n_samples, (column, weight) = matrix.shape[0], beside
    for first in range(0, n_samples, step):
        stop = min(first + step, n_samples)
        X = matrix.take(first, stop).reshape(stop - first, -1).astype(header.dtype, copy=False)
        check_finite(X, matrix.where, first)
        more = {} if weight is None else {"sample_weight": weight.take(first, stop).astype(np.float64)}
        yield Rows(np.ascontiguousarray(X), None if column is None else labels_of(column, first, stop), more)


def labels_of(column: Matrix, first: int, stop: int) -> np.ndarray:
    """Return the labels of some rows."""
    y = column.take(first, stop).reshape(-1)
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    check_finite(y[:, None], column.where, first)
    return y.astype(np.float64 if y.dtype.kind == "f" else np.int64)
