"""Sparse matrices that `scipy.sparse.save_npz` wrote: arrays of an archive, which name the form of the matrix."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from fastsvm.formats.readers.npy import Matrix, label_type, labels_of, mapped
from fastsvm.formats.readers.rows import Rows
from fastsvm.formats.readers.stream import Header, Options, Stream
from fastsvm.tuning import current_tuning

__all__ = ["is_sparse", "read_sparse"]


def is_sparse(names: set[str]) -> bool:
    """Return whether arrays with these names are those of a sparse matrix."""
    return {"format", "shape", "data"} <= names


def read_sparse(
    path: Path, small: Callable[[str], np.ndarray], large: Callable[[str], Matrix], options: Options
) -> Stream:
    """Return the rows of a matrix. CSR is streamed, CSC is read into memory. The option `label` may be a .npy file.

    `small` and `large` return an array of the archive by its name, read or to be read in order. ValueError says that
    the matrix has another form, is damaged or has complex values, or that `memory` does not hold CSC.
    """
    name = small("format")
    form = bytes(name).decode("ascii", "replace") if name.dtype.kind == "S" else str(name)
    if form not in ("csr", "csc"):
        raise ValueError(f"{path} holds a sparse matrix in the form {form!r}. Save X.tocsr() by scipy.sparse.save_npz.")
    shape = small("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
        raise ValueError(f"{path} holds a sparse matrix of shape {shape.tolist()}. It needs rows and columns.")
    n, d = map(int, shape)
    parts = tuple(large(name) for name in ("indptr", "indices", "data"))
    data = parts[2]
    if data.dtype.kind not in "biuf" or data.dtype.itemsize > 8:
        raise ValueError(f"{data.where} holds {data.dtype}; features are real numbers of at most 64 bits.")
    n_major = n if form == "csr" else d
    if parts[0].shape != (n_major + 1,) or parts[1].shape != data.shape or len(data.shape) != 1:
        found = ", ".join(str(part.shape) for part in parts)
        raise ValueError(f"{path} is damaged: indptr, indices and data have the shapes {found}, X has {(n, d)}.")
    if form == "csc":
        parts = _by_rows(path, parts, (n, d), options.memory)
    dtype = np.dtype({"b": np.uint8}.get(data.dtype.kind, data.dtype)).newbyteorder("=")
    dtype = np.dtype(np.float32) if dtype == np.float16 else dtype  # of which SciPy makes no matrices
    column = None if options.label in (None, False) else mapped(Path(str(options.label)))
    y_dtype = None if column is None else label_type(column, Matrix(str(path), (n, d), dtype, data.take))
    header = Header(d, dtype, y_dtype, True, n_samples=n, n_values=parts[2].shape[0])
    return Stream(header, _blocks(path, parts, column, header, options))


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
    return tuple(Matrix(part.where, array.shape, array.dtype, _slices_of(array)) for part, array in arrays)


def _slices_of(array: np.ndarray) -> Callable[[int, int], np.ndarray]:
    return lambda first, stop: array[first:stop]


def _check(path: Path, ends: np.ndarray, indices: np.ndarray | None, width: int, n_values: int) -> None:
    """Raise ValueError unless row ends rise from 0 to at most `n_values`, and indices are within the width."""
    if (np.diff(ends) < 0).any() or ends[0] < 0 or ends[-1] > n_values:
        raise ValueError(f"{path} is damaged: indptr does not rise from 0 to {n_values}, the number of its values.")
    if indices is not None and len(indices) and not 0 <= indices.min() <= indices.max() < width:
        found = f"{indices.min()} to {indices.max()}"
        raise ValueError(f"{path} is damaged: it has indices from {found}; they must be from 0 to {width - 1}.")


def _blocks(
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
