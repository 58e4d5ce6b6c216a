"""Sparse rows in a group of HDF5 or Zarr, as AnnData writes them."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np
from scipy import sparse

from fastsvm.sources.base import Kind, Reads, Source
from fastsvm.sources.block import CSRBlock, index_type, look_through
from fastsvm.sources.hdf5 import HDF5DenseSource, HDF5Source, attribute, place_of, reading
from fastsvm.sources.tiled import block_bytes, check_unpacked, stored_type

Node = Any
"""A group or an array of HDF5 or of Zarr, which have the same methods but no type in common."""


class CSRGroup(Source):
    """Rows of a group in AnnData's layout: `data`, `indices`, `indptr` and the attribute `shape`.

    A subclass defines `node`, the open group of HDF5 or Zarr, and `where`, its name and file for messages.
    """

    sparse = True
    ahead = True

    @property
    @abstractmethod
    def node(self) -> Node:
        """The open group."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Name and file of the group."""

    @abstractmethod
    def _timed(self, read: Callable[[], Kind], start: int, stop: int) -> Kind:
        """Return what `read` returns of rows `start` to `stop`, and count it."""

    def _inspect(self) -> None:
        group = self.node
        self._check_parts(group)
        n_rows, n_features = self._declared(group)
        self.shape = int(n_rows), int(n_features)
        self.dtype = stored_type(group["data"].dtype)
        self.indptr = group["indptr"][:].astype(np.int64)
        self._check_rows(group["data"].shape[0], group["indices"].shape[0])
        row_bytes = max(1, self.dtype.itemsize + group["indices"].dtype.itemsize)
        self.nbytes = int(self.indptr[-1]) * row_bytes + self.indptr.nbytes
        self.values_per_row = int(self.indptr[-1]) / max(1, self.shape[0])
        self.block_rows = max(1, int(block_bytes(self.nbytes, self.tuning) * self.shape[0] / max(1, self.nbytes)))

    def widen(self, n_features: int) -> None:
        """Let rows that were text, which does not say how many features there are, have more of them, which are 0."""
        if self.origin.first_index is not None:
            self.shape = self.shape[0], max(self.shape[1], n_features)

    def _declared(self, group: Node) -> Node:
        """Return the shape that the group declares."""
        return group.attrs.get("shape", ())

    @abstractmethod
    def _packed(self, part: Node) -> tuple[int, ...] | None:
        """Return the shape of a chunk of a part whose chunks are compressed, None of another."""

    def _check_parts(self, group: Node) -> None:
        where = f"{self.where} is not a CSR group: "
        for name, kinds in (("data", "biuf"), ("indices", "iu"), ("indptr", "iu")):
            part = group.get(name)
            if not hasattr(part, "dtype") or not hasattr(part, "shape"):
                raise ValueError(f"{where}it lacks the dataset {name}.")
            if part.ndim != 1 or part.dtype.kind not in kinds:
                wanted = "numbers" if name == "data" else "integers"
                raise ValueError(f"{where}{name} must hold {wanted} in one dimension, found {part.dtype} {part.shape}.")
        shape = np.atleast_1d(self._declared(group))
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
            raise ValueError(f"{where}its attribute shape must be two whole numbers, found {shape.tolist()}.")

    def _check_rows(self, n_values: int, n_indices: int) -> None:
        where = f"The CSR group {self.where} is ragged: "
        if len(self.indptr) != self.shape[0] + 1:
            raise ValueError(f"{where}indptr has {len(self.indptr)} entries for {self.shape[0]} rows.")
        if n_values != n_indices:
            raise ValueError(f"{where}{n_values} values but {n_indices} column indices.")
        falls = self.indptr[1:] < self.indptr[:-1]  # differences could overflow
        if self.indptr[0] != 0 or self.indptr[-1] != n_values or falls.any():
            raise ValueError(f"{where}indptr must increase from 0 to the number of values, {n_values}.")

    def within(self, memory: int) -> Source:
        """Return the source with blocks that are a small part of so many bytes."""
        for name in ("data", "indices"):
            tile = self._packed(self.node[name])
            if tile is not None:
                nbytes = tile[0] * self.node[name].dtype.itemsize
                check_unpacked(f"{name} of {self.where}", tile, nbytes, memory, self.tuning)
        return super().within(memory)

    def read(self, start: int, stop: int) -> CSRBlock:
        """Return rows `start` to `stop`."""
        return self._timed(lambda: self._read(start, stop), start, stop)

    def _read(self, start: int, stop: int) -> CSRBlock:
        first, last = self.indptr[start], self.indptr[stop]
        data = self.node["data"][first:last].astype(self.dtype, copy=False)
        indices = self.node["indices"][first:last]
        indices = indices if indices.dtype in (np.int32, np.int64) else indices.astype(np.int64)
        indptr = self.indptr[start : stop + 1] - first
        _, rising, inside = look_through(indices, indptr, self.shape[1])
        if not inside and len(indices) and not 0 <= indices.min() <= indices.max() < self.shape[1]:
            raise ValueError(
                f"The CSR group {self.where} is damaged: rows {start} to {stop} hold column "
                f"indices from {indices.min()} to {indices.max()}, there are {self.shape[1]} features."
            )
        block = CSRBlock(data, indices.astype(index_type(self.shape[1]), copy=False), indptr, self.shape[1])
        if rising:
            return block
        summed = CSRBlock.of(block.user_array())
        data = summed.data.astype(self.dtype)
        if summed.data.dtype.kind in "iu" and (data != summed.data).any():
            raise ValueError(f"{self.where} repeats entries whose sum does not fit {self.dtype}.")
        return summed._replace(data=data)


class HDF5CSRSource(HDF5Source, CSRGroup):
    """Rows of a group of HDF5, whose file must stay open."""

    def _inspect(self) -> None:
        CSRGroup._inspect(self)

    @property
    def where(self) -> str:
        """Name and file of the group."""
        return f"{self.name} in {self.path}"

    def _declared(self, group: h5py.Group) -> Node:
        return attribute(group, "shape", ())

    def _packed(self, part: h5py.Dataset) -> tuple[int, ...] | None:
        return part.chunks if part.id.get_create_plist().get_nfilters() > 0 else None


class ZarrCSRSource(CSRGroup):
    """Rows of a group of Zarr."""

    def __init__(self, group: Node, path: object) -> None:
        self._group, self._place, self.reads = group, f"{group.path or '/'} in {path}", Reads()
        self._inspect()

    @property
    def where(self) -> str:
        """Name and file of the group."""
        return self._place

    @property
    def node(self) -> Node:
        """The open group."""
        return self._group

    def _packed(self, part: Node) -> tuple[int, ...]:
        return part.chunks

    def _timed(self, read: Callable[[], Kind], start: int, stop: int) -> Kind:
        return self.reads.timed(read)


def hdf5_source(node: h5py.Dataset | h5py.Group) -> HDF5Source:
    """Return the source of the rows of a dataset or of a group in AnnData's layout."""
    if isinstance(node, h5py.Datatype):
        raise ValueError("X is a named type of an HDF5 file, which holds no rows: pass one of its datasets or groups.")
    if isinstance(node, h5py.Dataset) or not node:
        return HDF5DenseSource(node)
    with reading(node.file.filename):
        encoding = attribute(node, "encoding-type", "csr_matrix")
    if encoding != "csr_matrix":
        raise ValueError(f"{place_of(node)} is stored as {encoding!r}; rows can be read from 'csr_matrix' only.")
    return HDF5CSRSource(node)


def group_attribute(group: Node, name: str) -> Node:
    """Return an attribute of a group of HDF5 or Zarr, None if there is none."""
    return attribute(group, name) if isinstance(group, h5py.Group) else group.attrs.get(name)


def rows_of_columns(
    group: Node, most_bytes: int
) -> tuple[tuple[int, int], np.dtype, Iterator[sparse.csr_array]] | None:
    """Return shape, type and blocks of rows of a matrix that is stored by columns; None if it is stored otherwise.

    AnnData's CSC groups and MATLAB's sparse matrices are. Blocks of so many bytes take a pass over the file each.
    """
    shape, n_rows = group_attribute(group, "shape"), group_attribute(group, "MATLAB_sparse")
    names, where = ("data", "indices", "indptr"), f"{group.name} is not a sparse matrix: "
    if n_rows is not None:
        names = "data", "ir", "jc"
    elif group_attribute(group, "encoding-type") != "csc_matrix":
        return None
    parts = [group.get(name) for name in names]
    if n_rows is not None and parts[0] is None:  # MATLAB stores no values of a matrix of zeros
        parts[:2] = [np.empty(0), np.empty(0, np.int64)]
    for name, part, kinds in zip(names, parts, ("biuf", "iu", "iu"), strict=True):
        if part is None or not hasattr(part, "shape") or len(part.shape) != 1 or part.dtype.kind not in kinds:
            raise ValueError(
                f"{where}{name} must hold {'numbers' if kinds == 'biuf' else 'integers'} in one dimension."
            )
    data, indices, ends = parts
    sizes = np.atleast_1d(shape if n_rows is None else (int(n_rows), ends.shape[0] - 1))
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise ValueError(f"{where}its attribute shape must be two whole numbers, found {shape}.")
    ends = np.asarray(ends[:]).astype(np.int64)
    if len(ends) != sizes[1] + 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != data.shape[0]:
        raise ValueError(f"{where}the ends of its columns must rise from 0 to {data.shape[0]}.")
    if indices.shape != data.shape:
        raise ValueError(f"{where}it has {data.shape[0]} values but {indices.shape[0]} row numbers.")
    dtype = stored_type(data.dtype)
    return (int(sizes[0]), int(sizes[1])), dtype, _row_blocks(group, (data, indices, ends), int(sizes[0]), most_bytes)


def _row_blocks(
    group: Node, parts: tuple[Node, Node, np.ndarray], n_rows: int, most_bytes: int
) -> Iterator[sparse.csr_array]:
    data, indices, ends = parts
    step = max(1, most_bytes // 64)  # a value that is read takes up to 64 bytes on its way
    runs = [(start, min(start + step, int(ends[-1]))) for start in range(0, int(ends[-1]), step)]
    counts = np.zeros(n_rows, np.int64)
    for start, stop in runs:
        rows = np.asarray(indices[start:stop])
        if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
            raise ValueError(
                f"{group.name} is damaged: its row numbers are {rows.min()} to {rows.max()}, there are {n_rows} rows."
            )
        counts += np.bincount(rows, minlength=n_rows)
    totals = np.cumsum(counts)
    first = 0
    while first < n_rows:
        before = int(totals[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(totals, before + step, "right")))
        found = []
        for start, stop in runs:
            rows = np.asarray(indices[start:stop])
            here = np.flatnonzero((rows >= first) & (rows < last))
            columns = np.searchsorted(ends, start + here, "right") - 1
            found.append((np.asarray(data[start:stop])[here], rows[here] - first, columns))
        shape = last - first, len(ends) - 1
        if found:
            values, places, columns = (np.concatenate(part) for part in zip(*found, strict=True))
            wide = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
            block = sparse.csr_array((wide, (places, columns)), shape=shape)  # which adds up what is repeated
            summed, block.data = block.data, block.data.astype(stored_type(data.dtype))
            if summed.dtype.kind == "i" and (block.data != summed).any():
                raise ValueError(f"{group.name} repeats entries whose sum does not fit {data.dtype}.")
            yield block
        else:
            yield sparse.csr_array(shape, dtype=data.dtype)
        first = last
