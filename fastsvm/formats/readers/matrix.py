"""Arrays that are read in successive rows, from any file, and the stream of rows, labels and weights that they make."""

import math
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import numpy as np

from fastsvm.formats.readers.stream import Header, Options, Rows, Stream, check_finite
from fastsvm.tuning import current_tuning


class Matrix(NamedTuple):
    """An array in a file that is read in successive rows: `take(first, stop)` returns rows, and calls are in order."""

    where: str  # It names the file and the array in messages.
    shape: tuple[int, ...]  # The axes after the first are the features.
    dtype: np.dtype
    take: Callable[[int, int], np.ndarray]

    @classmethod
    def of(cls, where: str, array: np.ndarray) -> "Matrix":
        """Return an array that is in memory, or mapped into it; rows are copied when they are taken."""
        return cls(where, array.shape, array.dtype, lambda first, stop: np.array(array[first:stop]))


def matrix_in(
    stream: IO[bytes],
    where: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    ended: Callable[[int], str],
    continued: str,
) -> Matrix:
    """Return the array whose rows are the rest of a stream.

    `ended` returns the message for a stream that ends in a row, `continued` is that for one with more rows.
    """
    row_bytes = math.prod(shape[1:]) * dtype.itemsize

    def take(first: int, stop: int) -> np.ndarray:
        raw = stream.read((stop - first) * row_bytes)
        if len(raw) < (stop - first) * row_bytes:
            raise ValueError(ended(first + len(raw) // row_bytes))
        # Reading to the end compares the checksum of an archive.
        if stop == shape[0] and stream.read(1):
            raise ValueError(continued)
        return np.frombuffer(raw, dtype).reshape(-1, *shape[1:])

    return Matrix(where, shape, dtype, take)


def rows_of(matrix: Matrix, column: Matrix | None, options: Options, weight: Matrix | None = None) -> Stream:
    """Return the stream of a matrix, its labels and its sample weights; raise ValueError if they do not fit."""
    if len(matrix.shape) < 2 or matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        raise ValueError(
            f"{matrix.where} has shape {matrix.shape} and type {matrix.dtype}; rows of features need two "
            "dimensions or more and numbers of at most 64 bits."
        )
    if 0 in matrix.shape:
        raise ValueError(f"{matrix.where} is empty: its shape is {matrix.shape}.")
    dtype = np.dtype(np.uint8) if matrix.dtype.kind == "b" else matrix.dtype.newbyteorder("=")
    y_dtype = None if column is None else label_type(column, matrix.where, matrix.shape[0])
    if weight is not None and (weight.shape != matrix.shape[:1] or weight.dtype.kind not in "biuf"):
        raise ValueError(
            f"{weight.where} has shape {weight.shape} and type {weight.dtype}; the weights of the rows in "
            f"{matrix.where} must be numbers of shape ({matrix.shape[0]},)."
        )
    header = Header(math.prod(matrix.shape[1:]), dtype, y_dtype, n_samples=matrix.shape[0])
    row_bytes = header.n_features * dtype.itemsize + (0 if column is None else column.dtype.itemsize)
    return Stream(header, _blocks(matrix, column, weight, dtype, options.rows(row_bytes)))


def _blocks(matrix: Matrix, column: Matrix | None, weight: Matrix | None, dtype: np.dtype, step: int) -> Iterator[Rows]:
    n_samples = matrix.shape[0]
    for first in range(0, n_samples, step):
        stop = min(first + step, n_samples)
        X = matrix.take(first, stop).reshape(stop - first, -1).astype(dtype, copy=False)
        check_finite(X, matrix.where, first)
        more = {} if weight is None else {"sample_weight": weight.take(first, stop).astype(np.float64)}
        yield Rows(np.ascontiguousarray(X), None if column is None else labels_of(column, first, stop), more)


def label_type(column: Matrix, where: str, n_rows: int) -> np.dtype:
    """Return the type in which the labels of so many rows are stored; `where` says in messages what has the rows."""
    if column.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"{column.where} has shape {column.shape}; the labels of the {n_rows} rows in "
            f"{where} must have shape ({n_rows},)."
        )
    most = current_tuning().limits.labels
    if column.dtype.itemsize > most:
        raise ValueError(f"{column.where} has type {column.dtype}; a label takes at most {most} bytes.")
    kinds = {"b": np.int64, "i": np.int64, "u": np.int64, "f": np.float64, "U": np.str_, "S": np.str_}
    if column.dtype.kind not in kinds:
        raise ValueError(f"{column.where} has type {column.dtype}; labels are numbers or strings.")
    return np.dtype(kinds[column.dtype.kind])


def labels_of(column: Matrix, first: int, stop: int) -> np.ndarray:
    """Return the labels of some rows."""
    y = column.take(first, stop).reshape(-1)
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    check_finite(y[:, None], column.where, first)
    return y.astype(np.float64 if y.dtype.kind == "f" else np.int64)
