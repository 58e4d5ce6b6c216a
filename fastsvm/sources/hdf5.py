"""Rows in an HDF5 file, dense or sparse. One thread reads whole chunks, one block ahead."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np

from fastsvm.files.atomic_file import check_input
from fastsvm.sources.base import Kind, Reads, Source
from fastsvm.sources.block import Block, CSRBlock, index_type
from fastsvm.sources.compressed import look_through
from fastsvm.sources.hdf5_checks import attribute, check_heaps, in_use, place_of, reading
from fastsvm.sources.read_ahead import read_ahead
from fastsvm.sources.tiled import TiledSource, block_bytes, check_unpacked, stored_type
from fastsvm.tuning import current_tuning

__all__ = ["CLOSED", "HDF5CSRSource", "HDF5DenseSource", "HDF5Source", "hdf5_source", "open_file"]

CLOSED = "The HDF5 file is closed: open it again, for example with fastsvm.open_hdf5(path)."
_DIGESTED_RUNS, _DIGESTED_ROWS = 16, 64  # The digest of a file has the values of so many runs of so many rows.


def open_file(path: str | Path) -> h5py.File:
    """Open an HDF5 file for reading.

    FileNotFoundError says that there is none, ValueError that it is not HDF5 or damaged; the messages name the path. If
    another program writes to it, and not for readers, too (SWMR), BlockingIOError is raised.
    """
    path = Path(path)
    if not path.is_file():
        check_input(path)
        raise FileNotFoundError(f"There is no file {path}.")
    check_heaps(path)
    cache = (
        current_tuning().storage.piece_bytes
    )  # blocks are whole chunks: HDF5's own 8 MB would hold what is read once
    try:
        return h5py.File(path, "r", rdcc_nbytes=cache)
    except Exception as error:
        if (reason := in_use(path, error)) is not None:
            with suppress(OSError):
                return h5py.File(path, "r", rdcc_nbytes=cache, swmr=True)
            raise BlockingIOError(reason) from error
        if not h5py.is_hdf5(path):
            raise ValueError(f"{path} is not an HDF5 file; `fastsvm convert` makes one.") from None
        raise ValueError(f"{path} cannot be opened, it is damaged or truncated: {error}") from error


def _version(path: str, is_live: bool) -> tuple[int, int]:
    """Return size and time of the last change of a file; zeros if there is none, or if it is live.

    A live file is written for readers (SWMR): the rows that were there when it was opened stay.
    """
    if is_live:
        return 0, 0
    try:
        found = os.stat(path)
    except OSError:  # a file in memory, or a removed one, whose rows can still be read
        return 0, 0
    return found.st_size, found.st_mtime_ns


class HDF5Source(Source):
    """Rows in a dataset or group of an HDF5 file, dense or sparse.

    The file must stay open while the source is used; an unpickled copy opens it again.
    """

    def __init__(self, node: h5py.Dataset | h5py.Group) -> None:
        if not node:
            raise ValueError(CLOSED)
        self.path, self.name = node.file.filename, node.name
        self._node = node
        self.reads = Reads()
        self._is_live = node.file.swmr_mode
        self._seen = _version(self.path, self._is_live)
        with reading(self.path):
            self._inspect()

    def _inspect(self) -> None:
        """Set the attributes of a source from the file."""
        raise NotImplementedError

    def check_unchanged(self) -> None:
        """Raise ValueError if the file has changed since the source was made."""
        found = _version(self.path, self._is_live)
        if found != self._seen:
            raise ValueError(
                f"{self.path} changed while its rows were in use: it had {self._seen[0]} bytes, written last at "
                f"{self._seen[1]} ns, and has {found[0]}, written at {found[1]} ns. Fit again when it is complete."
            )

    def digest(self) -> str:
        """Return a digest of the file's size, the time of its last change, and some rows."""
        return hashlib.blake2b(repr((self._seen, super().digest())).encode(), digest_size=16).hexdigest()

    def _digested(self) -> Iterator[tuple[int, int]]:
        for start in np.unique(np.linspace(0, max(0, len(self) - _DIGESTED_ROWS), _DIGESTED_RUNS).astype(int)).tolist():
            yield start, min(len(self), start + _DIGESTED_ROWS)

    @property
    def node(self) -> h5py.Dataset | h5py.Group:
        """The dataset or group of the rows, in the open file."""
        if self._node is None:
            with reading(self.path):
                self._node = open_file(self.path)[self.name]
        self._check_open()
        return self._node

    def _check_open(self) -> None:
        if self._node is not None and not self._node:
            raise ValueError(f"{self.path} is closed; keep it open while its rows are used.")

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_node": None}

    def _timed(self, read: Callable[[], Kind], start: int, stop: int) -> Kind:
        try:
            return self.reads.timed(read)
        except Exception as error:
            self._check_open()  # h5py may raise any error if the file is closed during a read
            if isinstance(error, MemoryError) or self.path in str(error):
                raise
            kind = OSError if isinstance(error, OSError) else ValueError
            raise kind(f"Rows {start} to {stop} of {self.path} cannot be read: {error}") from error

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """Yield each block after the number of its first row; read one block ahead."""
        return read_ahead(super().blocks())


class HDF5DenseSource(HDF5Source, TiledSource):
    """Rows of a two-dimensional dataset."""

    def _inspect(self) -> None:
        dataset = self.node
        if dataset.ndim != 2:
            raise ValueError(f"{self.place} must have 2 dimensions, it has shape {dataset.shape}.")
        if dataset.dtype.kind not in "biuf":
            raise ValueError(f"{self.place} must hold numbers, it holds {dataset.dtype}.")
        self.shape, self.dtype = dataset.shape, stored_type(dataset.dtype)
        self._set_tiles(dataset.chunks, is_packed=dataset.id.get_create_plist().get_nfilters() > 0)

    @property
    def place(self) -> str:
        """Name and file of the dataset, for messages."""
        return place_of(self.node)

    def _copy(self, start: int, stop: int, columns: tuple[int, int], out: np.ndarray) -> None:
        self.node.read_direct(out, np.s_[start:stop, slice(*columns)])


class HDF5CSRSource(HDF5Source):
    """Rows of a group in AnnData's layout: `data`, `indices`, `indptr` and the attribute `shape`."""

    sparse = True

    def _inspect(self) -> None:
        group = self.node
        self._check_parts(group)
        n_rows, n_features = attribute(group, "shape")
        self.shape = int(n_rows), int(n_features)
        self.dtype = stored_type(group["data"].dtype)
        self.indptr = group["indptr"][:].astype(np.int64)
        self._check_rows(len(group["data"]), len(group["indices"]))
        row_bytes = max(1, self.dtype.itemsize + group["indices"].dtype.itemsize)
        self.nbytes = int(self.indptr[-1]) * row_bytes + self.indptr.nbytes
        self.values_per_row = int(self.indptr[-1]) / max(1, self.shape[0])
        self.block_rows = max(1, int(block_bytes(self.nbytes, self.tuning) * self.shape[0] / max(1, self.nbytes)))

    def widen(self, n_features: int) -> None:
        """Let the rows have more features, which are 0: sparse text does not say how many there are."""
        self.shape = self.shape[0], max(self.shape[1], n_features)

    def _check_parts(self, group: h5py.Group) -> None:
        where = f"{place_of(group)} is not a CSR group: "
        for name, kinds in (("data", "biuf"), ("indices", "iu"), ("indptr", "iu")):
            part = group.get(name)
            if not isinstance(part, h5py.Dataset):
                raise ValueError(f"{where}it lacks the dataset {name}.")
            if part.ndim != 1 or part.dtype.kind not in kinds:
                wanted = "numbers" if name == "data" else "integers"
                raise ValueError(f"{where}{name} must hold {wanted} in one dimension, found {part.dtype} {part.shape}.")
        shape = np.atleast_1d(attribute(group, "shape", ()))
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
            raise ValueError(f"{where}its attribute shape must be two whole numbers, found {shape.tolist()}.")

    def _check_rows(self, n_values: int, n_indices: int) -> None:
        where = f"The CSR group {self.name} in {self.path} is ragged: "
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
            part = self.node[name]
            if part.id.get_create_plist().get_nfilters() > 0:
                check_unpacked(place_of(part), part.chunks, part.chunks[0] * part.dtype.itemsize, memory, self.tuning)
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
                f"The CSR group {self.name} in {self.path} is damaged: rows {start} to {stop} hold column "
                f"indices from {indices.min()} to {indices.max()}, there are {self.shape[1]} features."
            )
        block = CSRBlock(data, indices.astype(index_type(self.shape[1]), copy=False), indptr, self.shape[1])
        if rising:
            return block
        summed = CSRBlock.of(block.user_array())
        data = summed.data.astype(self.dtype)
        if summed.data.dtype.kind in "iu" and (data != summed.data).any():
            raise ValueError(f"{self.name} in {self.path} repeats entries whose sum does not fit {self.dtype}.")
        return summed._replace(data=data)


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
