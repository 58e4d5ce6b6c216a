"""What all readers share: files that may be compressed, their lines, blocks of rows, options and what they return."""

import io
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Generic, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from fastsvm.tuning import StorageTuning, current_tuning

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MODULES = {"gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "compression.zstd"}  # a Python may lack some of them

Text = TypeVar("Text", bytes, str)


def compressed(path: Path) -> str | None:
    """Return "gz", "bz2", "xz" or "zst" if the first bytes of a file say so, else None."""
    with open(path, "rb") as stream:
        start = stream.read(10)
    starts = {"gz": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00", "zst": b"\x28\xb5\x2f\xfd"}
    if start.startswith(b"BZh") and start[4:] == b"1AY&SY":
        return "bz2"
    return next((kind for kind, begin in starts.items() if start.startswith(begin)), None)


class _Decompressed(io.RawIOBase):
    """The content of a compressed file. Damaged data raise a ValueError that names the file."""

    def __init__(self, stream: io.BufferedIOBase, path: Path, errors: tuple[type[Exception], ...]) -> None:
        self._stream, self._path, self._errors = stream, path, errors

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        return self._tried(self._stream.readinto, buffer)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._tried(self._stream.seek, offset, whence)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _tried(self, method: Callable[..., int], *arguments: Any) -> int:
        try:
            return method(*arguments)
        except self._errors as error:
            if isinstance(error, OSError) and error.errno is not None:  # an error of the disk, not of the content
                raise
            raise ValueError(
                f"{self._path} is truncated or damaged, its compressed data cannot be read to the end ({error}); "
                "get the file again."
            ) from error


def opened(path: Path) -> BinaryIO:
    """Open a file for reading; decompress gzip, bzip2, xz and, from Python 3.14 on, Zstandard."""
    kind = compressed(path)
    buffered = current_tuning().storage.piece_bytes
    if kind is None:
        return open(path, "rb", buffering=buffered)
    try:
        module = import_module(_MODULES[kind])
    except ImportError as error:
        raise ValueError(f"{path} is compressed as .{kind}, which this Python does not read. Decompress it.") from error
    of_module = (getattr(module, name, zlib.error) for name in ("LZMAError", "ZstdError"))
    errors = (EOFError, OSError, zlib.error, *of_module)
    return io.BufferedReader(_Decompressed(module.open(path, "rb"), path, errors), buffered)


def head(path: Path, n_bytes: int) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with opened(path) as stream:
        return stream.read(n_bytes)


class Lines(Generic[Text]):
    """The lines of a stream. `most` bytes or characters, at least a million, are read until `taken` is set to 0."""

    def __init__(self, stream: IO[Text], most: int, path: Path) -> None:
        self._stream: IO[Text] = stream
        self._most, self._path = max(most, current_tuning().storage.piece_bytes), path
        self.taken = 0

    def __iter__(self) -> "Lines[Text]":
        return self

    def __next__(self) -> Text:
        line = self._stream.readline(self._most + 1)
        if not line:
            raise StopIteration
        self.taken += len(line)
        if self.taken > self._most:
            raise ValueError(
                f"{self._path} has a line of more than {self._most} bytes: raise memory if it is a row of a table, or "
                "check whether it is one."
            )
        return line


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of X, their labels, and other columns of shape (n_rows,) by the names of their datasets."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray | None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.X.shape[0]

    @property
    def stored(self) -> np.ndarray:
        """Values as they are stored: all, or those that are not zero."""
        return self.X if isinstance(self.X, np.ndarray) else self.X.data

    def with_stored(self, values: np.ndarray) -> "Rows":
        """Return the rows with other values at the same places."""
        if isinstance(self.X, np.ndarray):
            return replace(self, X=values)
        return replace(self, X=sparse.csr_array((values, self.X.indices, self.X.indptr), shape=self.X.shape))

    def with_column(self, name: str, values: np.ndarray) -> "Rows":
        """Return the rows with another column."""
        return replace(self, columns={**self.columns, name: values})

    @property
    def nbytes(self) -> int:
        """Memory taken by values, indices, labels and other columns."""
        parts = [self.X] if isinstance(self.X, np.ndarray) else [self.X.data, self.X.indices, self.X.indptr]
        parts += [*self.columns.values(), *([] if self.y is None else [self.y])]
        return sum(part.nbytes for part in parts)

    def take(self, index: np.ndarray) -> "Rows":
        """Return a copy of the rows `index`, in that order."""
        columns = {name: values[index] for name, values in self.columns.items()}
        return Rows(self.X[index], None if self.y is None else self.y[index], columns)


def stack(blocks: Sequence[Rows]) -> Rows:
    """Return the rows of several blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    parts = [block.X for block in blocks]
    X = sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    return Rows(X, None if blocks[0].y is None else np.concatenate([block.y for block in blocks]), columns)


def check_finite(X: np.ndarray, source: object, first_row: int) -> None:
    """Raise ValueError if a dense block holds NaN or infinity. The message names row and column."""
    if X.dtype.kind != "f" or np.isfinite(X).all():
        return
    row, column = np.argwhere(~np.isfinite(X))[0]
    raise ValueError(
        f"{source}: the value in row {first_row + row}, column {column} is {X[row, column]} (both counted "
        "from 0); impute or remove values that are not finite first."
    )


class Header(NamedTuple):
    """Properties of a data set that are known before its rows are read; None for what is not known."""

    n_features: int
    dtype: np.dtype
    y_dtype: np.dtype | None  # It is int64, float64 or str, and None without labels.
    sparse: bool = False  # The blocks are CSR.
    class_names: tuple[str, ...] | None = None  # The classes 0, 1, ... have these names.
    n_samples: int | None = None
    n_values: int | None = None  # So many values are stored, if the data are sparse.
    feature_names: tuple[str, ...] | None = None
    label_name: str | None = None  # It names the column of the labels.
    id_name: str | None = None  # It names the column that identifies the rows.
    first_index: int | None = None  # It is the index of the first feature in the source, 0 or 1.
    first_index_sure: bool = False  # It says whether the source itself or an option says so.
    label: str = ""  # It tells the user where the labels were found and why, if there was a choice.
    notes: tuple[str, ...] = ()  # They tell the user about the choices of the reader.


class Stream(NamedTuple):
    """A data set being read. Its blocks are in the order of the source, and can be read once."""

    header: Header
    blocks: Iterator[Rows]


class Options(NamedTuple):
    """Options of readers, as `convert` describes them. None leaves the choice to the format."""

    split: str | None = None
    dense: bool | None = None
    label: str | int | Path | None = None
    last_label: bool | None = None
    array: str | None = None
    n_features: int | None = None
    model_features: int | None = None
    model_label: str | None = None
    model_id: str | None = None
    strict: bool | None = None
    model_first_index: int | None = None
    least_features: int | None = None
    dtype: np.dtype | None = None  # Values parsed from text have this type.
    id: str | int | None = None
    sample_weight: str | int | None = None
    first_index: int | None = None
    feature_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None  # They apply to all formats.
    block_bytes: int = StorageTuning().block_bytes  # It is the rough size of a block.
    memory: int = 256 << 20  # So many bytes of memory may be used.
    scratch: Path = Path()  # Readers may write files to this folder, which is removed later.

    def rows(self, row_bytes: int) -> int:
        """Return how many rows of `row_bytes` make a block."""
        return max(1, self.block_bytes // max(1, row_bytes))


# --- arrays whose rows are read in turn ------------------------------------------------------------------


class Matrix(NamedTuple):
    """An array that is in memory, or mapped into it. The axes after the first are the features."""

    where: str  # It names the file and the array in messages.
    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the array."""
        return self.array.dtype


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
        X = np.array(matrix.array[first:stop]).reshape(stop - first, -1).astype(dtype, copy=False)
        check_finite(X, matrix.where, first)
        more = {} if weight is None else {"sample_weight": weight.array[first:stop].astype(np.float64)}
        if weight is not None:
            check_weights(more["sample_weight"], weight.where, first)
        yield Rows(np.ascontiguousarray(X), None if column is None else labels_of(column, first, stop), more)


def check_weights(weights: np.ndarray, where: str, start: int) -> None:
    """Raise ValueError if a weight of rows from `start` on is negative or not finite."""
    is_weight = np.isfinite(weights) & (weights >= 0)
    if not is_weight.all():
        place = int(np.argmin(is_weight))
        what = f"{weights[place]} in row {start + place} is not a weight"
        raise ValueError(f"{where}: {what}; a weight is a finite number of at least 0.")


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
    y = np.array(column.array[first:stop]).reshape(-1)
    if y.dtype.kind == "S":
        return np.char.decode(y, "utf-8")
    if y.dtype.kind == "U":
        return y
    check_finite(y[:, None], column.where, first)
    return y.astype(np.float64 if y.dtype.kind == "f" else np.int64)
