"""Blocks of rows, which sources return: dense, or in compressed sparse row form."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from fastsvm._compiled.compiler import jit, writeable


def to_dense(X: Any) -> np.ndarray:
    """Return a matrix, sparse or not, as an array."""
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def stacked(parts: Sequence[np.ndarray] | Sequence[sparse.csr_matrix]) -> np.ndarray | sparse.csr_matrix:
    """Return the rows of several matrices of one form, one after another."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def check_compressed(matrix: sparse.spmatrix | sparse.sparray, n_major: int, n_minor: int) -> bool:
    """Return whether indices increase in each row (CSR) or column (CSC) of a sparse matrix, whose arrays must fit."""
    data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
    name = f"The {matrix.format.upper()} matrix is damaged:"
    for word, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        if array.ndim != 1 or (word != "data" and array.dtype not in (np.int32, np.int64)):
            needed = "numbers" if word == "data" else "int32 or int64"
            raise ValueError(f"{name} {word} must be {needed} in one dimension, found {array.dtype} {array.shape}.")
    if len(indptr) != n_major + 1:
        raise ValueError(f"{name} indptr has {len(indptr)} entries, {n_major + 1} are needed.")
    if len(data) != len(indices):
        raise ValueError(f"{name} data has {len(data)} entries, indices has {len(indices)}.")
    # SciPy checks arrays when it creates the matrix. If they change later, it reads and writes outside of them.
    place, rising, inside = look_through(writeable(indices), writeable(indptr), n_minor)
    if place >= 0:
        problem = f"indptr[{place}] is {indptr[place]}" + (f" after {indptr[place - 1]}" if place > 0 else "")
        raise ValueError(f"{name} {problem}; indptr must increase from 0 to at most {len(data)}, the number of values.")
    if not inside:
        used = indices[: indptr[-1]]
        low, high = used.min(), used.max()
        if low < 0 or high >= n_minor:
            raise ValueError(f"{name} it has indices from {low} to {high}; they must be between 0 and {n_minor - 1}.")
    return bool(rising)


@jit
def look_through(indices, indptr, n_minor):
    """Return where `indptr` is wrong, or -1; whether indices increase in rows; whether they are in bounds too."""
    if indptr[0] != 0:
        return 0, False, False
    for row in range(1, indptr.size):
        if not indptr[row - 1] <= indptr[row] <= indices.size:
            return row, False, False
    rising = inside = True
    for row in range(indptr.size - 1):
        first, end = indptr[row], indptr[row + 1]
        for place in range(first + 1, end):
            rising &= indices[place - 1] < indices[place]
        if first < end:
            inside &= indices[first] >= 0 and indices[end - 1] < n_minor
    return -1, rising, rising and inside


class DenseBlock(NamedTuple):
    """Rows as a two-dimensional array, in the type in which they are stored."""

    values: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.values.shape

    @property
    def stored(self) -> np.ndarray:
        """Values as they are stored: all of them."""
        return self.values

    @property
    def nbytes(self) -> int:
        """Bytes of the stored values."""
        return self.values.nbytes

    def slice(self, start: int, stop: int) -> "DenseBlock":
        """Return rows `start` to `stop`, without a copy."""
        return DenseBlock(self.values[start:stop])

    def take(self, rows: np.ndarray) -> "DenseBlock":
        """Return a copy of the given rows."""
        return DenseBlock(self.values[rows])

    def dense(self, dtype: DTypeLike, out: np.ndarray | None = None) -> np.ndarray:
        """Return the rows as a C-contiguous array of `dtype`, written to `out` if given."""
        if out is None:
            return np.ascontiguousarray(self.values, dtype=dtype)
        np.copyto(out, self.values, casting="unsafe")
        return out

    def converted(self, dtype: DTypeLike) -> "DenseBlock":
        """Return the rows in their form as compiled code takes them, with values of `dtype`."""
        return DenseBlock(self.dense(dtype))

    def sq_norms(self) -> np.ndarray:
        """Return the squared norms of the rows, in float64."""
        values = self.dense(np.float32) if self.values.dtype == np.uint8 else self.dense(self.values.dtype)
        return np.einsum("ij,ij->i", values, values, dtype=np.float64)

    def with_stored(self, values: np.ndarray) -> "DenseBlock":
        """Return the rows with other values at the same places."""
        return DenseBlock(values)

    def compressed(self, dtype: DTypeLike) -> "CSRBlock":
        """Return the values other than zero as an array of `dtype`, in compressed sparse row form."""
        there = self.values != 0
        rows, columns = np.divmod(np.flatnonzero(there), max(1, self.shape[1]))  # faster than two-dimensional searches
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(there)), dtype=np.int64)])
        data = self.values[rows, columns].astype(dtype)
        return CSRBlock(data, columns.astype(index_type(self.shape[1])), indptr, self.shape[1])

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All arrays in which the rows are stored."""
        return (self.values,)

    @property
    def ends(self) -> np.ndarray:
        """Where the stored values of each row begin, and where those of the last one end, in int64."""
        n, d = self.values.shape
        return d * np.arange(n + 1)

    def position(self, *place: int) -> tuple[int, int]:
        """Return row and column of a stored value, given by its place in `stored`."""
        row, column = place
        return int(row), int(column)

    def user_array(self) -> np.ndarray:
        """Return the rows as the array that a user would pass."""
        return self.values

    @staticmethod
    def gather(parts: Iterable[tuple[np.ndarray, "Block"]], n_rows: int) -> "DenseBlock":
        """Return the rows of all parts at their positions. Only one part is in memory at a time."""
        values = np.empty((0, 0))
        for number, (places, block) in enumerate(parts):
            if number == 0:
                values = np.empty((n_rows, block.shape[1]), block.stored.dtype)
            values[places] = block.stored
        return DenseBlock(values)


class CSRBlock(NamedTuple):
    """Rows in compressed sparse row form. Columns are sorted within a row, and each occurs once."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return len(self.indptr) - 1, self.n_features

    @property
    def stored(self) -> np.ndarray:
        """Values as they are stored: only those that are not zero."""
        return self.data

    @property
    def nbytes(self) -> int:
        """Bytes of the stored values and their indices."""
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes

    def slice(self, start: int, stop: int) -> "CSRBlock":
        """Return rows `start` to `stop`; values and indices are not copied."""
        first, last = self.indptr[start], self.indptr[stop]
        if last - first == len(self.data) and stop - start == self.shape[0] and self.indptr.dtype == np.int64:
            return self
        indptr = np.asarray(self.indptr[start : stop + 1], dtype=np.int64) - first
        return CSRBlock(self.data[first:last], self.indices[first:last], indptr, self.n_features)

    def take(self, rows: np.ndarray) -> "CSRBlock":
        """Return a copy of the given rows."""
        rows = np.arange(self.shape[0])[rows]  # counted from the start
        length = self.indptr[1:][rows] - self.indptr[:-1][rows]
        indptr = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
        data, indices = np.empty(indptr[-1], self.data.dtype), np.empty(indptr[-1], self.indices.dtype)
        if self.data.dtype == np.float16:  # compiled code does not know other types
            _copy_rows(self.data.view(np.uint16), self.indices, self.indptr, rows, data.view(np.uint16), indices)
        else:
            _copy_rows(self.data, self.indices, self.indptr, rows, data, indices)
        return CSRBlock(data, indices, indptr, self.n_features)

    def dense(self, dtype: DTypeLike, out: np.ndarray | None = None) -> np.ndarray:
        """Return the rows as a C-contiguous array of `dtype`, written to `out` if given."""
        if out is None:
            out = np.empty(self.shape, dtype)
        out[:] = 0
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        out[rows, self.indices] = self.data
        return out

    def compressed(self, dtype: DTypeLike) -> "CSRBlock":
        """Return the rows with data of `dtype` and indices for which code is compiled; copied only if they differ."""
        return CSRBlock(
            self.data.astype(dtype, copy=False),
            self.indices.astype(index_type(self.n_features), copy=False),
            self.indptr.astype(np.int64, copy=False),
            self.n_features,
        )

    def converted(self, dtype: DTypeLike) -> "CSRBlock":
        """Return the rows in their form as compiled code takes them, with values of `dtype`."""
        return self.compressed(dtype)

    def sq_norms(self) -> np.ndarray:
        """Return the squared norms of the rows, in float64."""
        sums, used = np.zeros(self.shape[0]), np.flatnonzero(np.diff(self.indptr))
        sums[used] = np.add.reduceat(np.square(self.data, dtype=np.float64), self.indptr[used])
        return sums

    def with_stored(self, values: np.ndarray) -> "CSRBlock":
        """Return the rows with other values at the same places."""
        return self._replace(data=values)

    def keys(self) -> list[tuple[bytes, bytes]]:
        """Return a key for each row; those of equal rows are equal."""
        there = self.data != 0  # zeros may be stored, or not
        ends = np.append(0, np.cumsum(there))[self.indptr]
        columns, values = self.indices[there], self.data[there]
        return [(columns[a:b].tobytes(), values[a:b].tobytes()) for a, b in pairwise(ends)]

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All arrays in which the rows are stored."""
        return self.data, self.indices, self.indptr

    @property
    def ends(self) -> np.ndarray:
        """Where the stored values of each row begin, and where those of the last one end, in int64."""
        return np.asarray(self.indptr, np.int64)

    def position(self, *place: int) -> tuple[int, int]:
        """Return row and column of a stored value, given by its place in `stored`."""
        return int(np.searchsorted(self.indptr, place[0], side="right")) - 1, int(self.indices[place[0]])

    def user_array(self) -> sparse.csr_matrix:
        """Return the rows as the matrix that a user would pass."""
        data = self.data if self.data.dtype != np.float16 else self.data.astype(np.float32)
        return sparse.csr_matrix((data, self.indices, self.indptr), shape=self.shape)

    @staticmethod
    def gather(parts: Iterable[tuple[np.ndarray, "Block"]], n_rows: int) -> "CSRBlock":
        """Return the rows of all parts at their positions."""
        places, found = zip(*parts, strict=True)
        blocks = cast("tuple[CSRBlock, ...]", found)
        lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
        stacked = CSRBlock(
            np.concatenate([block.data for block in blocks]),
            np.concatenate([block.indices for block in blocks]),
            np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
            blocks[0].n_features,
        )
        rows = np.empty(n_rows, np.int64)
        rows[np.concatenate(places)] = np.arange(n_rows)
        return stacked.take(rows)

    @classmethod
    def of(cls, matrix: sparse.csr_matrix | sparse.csr_array) -> "CSRBlock":
        """Return the rows of a SciPy matrix, whose arrays must fit, copied only if indices are unsorted or repeated."""
        if len(matrix.shape) != 2:
            raise ValueError(f"The CSR array has shape {matrix.shape}; rows of features have two dimensions.")
        if not check_compressed(matrix, *matrix.shape):
            # Sums of small integers may overflow, and SciPy has no sums in float16.
            wide = {"i": np.int64, "u": np.int64}.get(matrix.dtype.kind, np.promote_types(matrix.dtype, np.float32))
            parts = matrix.data.astype(wide), matrix.indices, matrix.indptr
            # A new matrix, because SciPy caches whether indices are sorted.
            matrix = sparse.csr_matrix(parts, shape=matrix.shape, copy=True)
            matrix.sum_duplicates()
        n_values, kind = matrix.indptr[-1], index_type(matrix.shape[1])
        indices = matrix.indices[:n_values].astype(kind, copy=False)  # once, not in each pass
        return cls(matrix.data[:n_values], indices, matrix.indptr, matrix.shape[1])


def index_type(n_features: int) -> type:
    """Return the type of the column numbers of sparse rows."""
    return np.int32 if n_features < 2**31 else np.int64


@jit
def _copy_rows(data, indices, indptr, rows, out, out_indices):
    """Copy the values and columns of some rows, one row after another."""
    place = 0
    for row in rows:
        for p in range(indptr[row], indptr[row + 1]):
            out[place], out_indices[place] = data[p], indices[p]
            place += 1


Block = DenseBlock | CSRBlock
