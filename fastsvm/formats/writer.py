"""Output of a stream of rows to one HDF5 file."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import h5py
import numpy as np
from scipy import sparse

from fastsvm.files.hdf5_output import hdf5_written
from fastsvm.formats.readers.stream import Header, Rows
from fastsvm.tuning import current_tuning


def write(path: Path, header: Header, blocks: Iterable[Rows]) -> tuple[int, "StoredLabels | None"]:
    """Write rows to a new HDF5 file; return their number, and the classes or range of labels, None if none."""
    header, blocks = _measured(header, iter(blocks))
    # The cache holds incomplete chunks, because blocks do not end where chunks end.
    with hdf5_written(path, rdcc_nbytes=8 * current_tuning().storage.block_bytes) as do:
        book: _Book = do(_Book, header)
        for block in blocks:
            do(book.append, block)
        do(book.end)
    return book.n_samples, book.labels


def _measured(header: Header, blocks: Iterator[Rows]) -> tuple[Header, Iterable[Rows]]:
    """Return the header and the blocks. The numbers of few rows are counted, because chunks are as large as they."""
    if header.n_samples is not None:
        return header, blocks
    held: list[Rows] = []
    most = current_tuning().storage.block_bytes
    for block in blocks:
        held.append(block)
        if sum(one.nbytes for one in held) > most:
            return header, chain(held, blocks)
    n_values = sum(block.X.nnz for block in held if not isinstance(block.X, np.ndarray))
    return header._replace(n_samples=sum(map(len, held)), n_values=n_values), held


class _Book:
    """The datasets of a file, and the number of rows written."""

    def __init__(self, file: h5py.File, header: Header) -> None:
        self._header, self.n_samples = header, 0
        self._append = (_sparse_rows if header.sparse else _dense_rows)(file, header)
        self.labels = None if header.y_dtype is None else StoredLabels(file, header, header.y_dtype)
        self._columns: dict[str, h5py.Dataset] = {}
        if header.feature_names is not None:
            file.create_dataset("feature_names", data=list(header.feature_names), dtype=h5py.string_dtype())

    def append(self, file: h5py.File, rows: Rows) -> None:
        self._append(rows.X)
        self.n_samples += len(rows)
        if self.labels is not None and rows.y is not None:
            self.labels.append(rows.y)
        for name, values in rows.columns.items():
            if name not in self._columns:
                self._columns[name] = _column(file, name, values.dtype, self._header.n_samples)
                if name == "id" and self._header.id_name is not None:
                    self._columns[name].attrs.create("name", self._header.id_name, dtype=h5py.string_dtype())
            _extend(self._columns[name], values)

    def end(self, file: h5py.File) -> None:
        if self._header.first_index is not None:
            file["X"].attrs["first_index"] = self._header.first_index
            file["X"].attrs["first_index_sure"] = int(self._header.first_index_sure)
        if self._header.sparse:
            file["X"].attrs["shape"] = np.array([self.n_samples, self._header.n_features], np.int64)


def _extend(dataset: h5py.Dataset, values: np.ndarray) -> None:
    start = dataset.shape[0]
    dataset.resize(start + len(values), axis=0)
    if len(values):
        dataset[start:] = values.astype(object) if values.dtype.kind == "U" else values


def _column(parent: h5py.Group, name: str, dtype: np.dtype, length: int | None) -> h5py.Dataset:
    """Create an empty one-dimensional dataset; `length` is its final length, if known."""
    dtype = h5py.string_dtype() if dtype.kind == "U" else dtype
    most = current_tuning().storage.piece_bytes // np.dtype(np.float32).itemsize
    chunk = max(1, min(most, length or most))
    return parent.create_dataset(name, shape=(0,), maxshape=(None,), chunks=(chunk,), dtype=dtype)


def _dense_rows(file: h5py.File, header: Header) -> Callable[[np.ndarray], None]:
    fitting = max(1, current_tuning().storage.block_bytes // (header.n_features * header.dtype.itemsize))
    rows = 1 << (fitting.bit_length() - 1)
    chunk = (min(rows, header.n_samples or rows), header.n_features)
    shape, most = (0, header.n_features), (None, header.n_features)
    dataset = file.create_dataset("X", shape=shape, maxshape=most, chunks=chunk, dtype=header.dtype)
    return lambda X: _extend(dataset, X)


def _sparse_rows(file: h5py.File, header: Header) -> Callable[[sparse.csr_array], None]:
    group = file.create_group("X")
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
    narrow = header.n_features <= np.iinfo(np.int32).max
    data = _column(group, "data", header.dtype, header.n_values)
    indices = _column(group, "indices", np.dtype(np.int32 if narrow else np.int64), header.n_values)
    n_ends = None if header.n_samples is None else header.n_samples + 1
    indptr = _column(group, "indptr", np.dtype(np.int64), n_ends)
    _extend(indptr, np.zeros(1, np.int64))

    def append(X: sparse.csr_array) -> None:
        start = data.shape[0]
        _extend(data, X.data)
        _extend(indices, X.indices)
        _extend(indptr, X.indptr[1:].astype(np.int64) + start)

    return append


class StoredLabels:
    """The dataset of the labels, and the classes or the range of those that are stored."""

    def __init__(self, file: h5py.File, header: Header, dtype: np.dtype) -> None:
        self._text = dtype.kind == "U"
        self._dataset = _column(file, "y", dtype, header.n_samples)
        self._seen: set | None = set()
        self._most = current_tuning().limits.labels
        self.range = np.inf, -np.inf
        if header.label_name is not None:
            self._dataset.attrs.create("name", header.label_name, dtype=h5py.string_dtype())
        if header.class_names:
            names = list(header.class_names)
            self._dataset.attrs.create("class_names", names, dtype=h5py.string_dtype())

    def append(self, y: np.ndarray) -> None:
        """Store the labels of a block."""
        _extend(self._dataset, y)
        if not self._text and len(y):
            self.range = min(self.range[0], float(y.min())), max(self.range[1], float(y.max()))
        if self._seen is not None:
            self._seen.update(np.unique(y).tolist())
            numeric = y.dtype.kind == "f" and (y != np.floor(y)).any()
            if numeric or len(self._seen) > self._most:
                self._seen = None

    @property
    def n_classes(self) -> int | None:
        """Number of distinct labels; None if they are not classes."""
        return None if self._seen is None else len(self._seen)
