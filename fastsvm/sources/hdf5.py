"""Rows in an HDF5 file, dense or sparse, with labels and weights. One thread reads whole chunks, one block ahead."""

import errno
import math
import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.files.atomic_file import check_input
from fastsvm.sources.base import Kind, Reads, Source, digest_of
from fastsvm.sources.tiled import TiledSource, stored_type
from fastsvm.tuning import current_tuning

_KINDS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.ENUM, h5py.h5t.STRING)  # HDF5 stores bools as an enumeration
_HEAP, _HEAP_HEADER = b"GCOL\1", 16
_REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("number", "<u4")])  # to a string in a heap
_LOCKED, _WRITTEN = "unable to lock file", "already open for write"  # words of HDF5
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
CLOSED = "The HDF5 file is closed: open it again, for example with fastsvm.open_hdf5(path)."
MATLAB = "MATLAB_class"  # the attribute of datasets that MATLAB stored
_DIGESTED_RUNS, _DIGESTED_ROWS = 16, 64  # The digest of a file has the values of so many runs of so many rows.


# --- checks of a file before its content is read, and the errors of HDF5 ---------------------------------


def place_of(node: h5py.Group | h5py.Dataset | h5py.Datatype) -> str:
    """Return name and file of a node, for messages."""
    return f"{node.name} in {node.file.filename}"


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Convert any error, as HDF5 may raise for a damaged file, into an OSError or a ValueError that names the file."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (OSError, ValueError)) and str(path) in str(error):
            raise
        if (reason := in_use(path, error)) is not None:
            raise BlockingIOError(reason) from error
        kind = OSError if isinstance(error, OSError) and error.errno is not None else ValueError
        reason = str(error).strip("'\"") or type(error).__name__
        raise kind(f"{path} cannot be read, it is damaged or truncated: {reason}; get or make it again.") from error


def in_use(path: str | Path, error: Exception) -> str | None:
    """Return what to do if HDF5 refused a file because another program uses it, or seems to; else None."""
    words, number = str(error), getattr(error, "errno", None)
    if _LOCKED in words and number in _NO_LOCKS:
        return f"{path} is on a file system without locks: set the environment variable HDF5_USE_FILE_LOCKING=FALSE."
    if _LOCKED in words:
        return (
            f"{path} is open in another program, which may be writing to it: close it there. If no program writes to "
            "it, set the environment variable HDF5_USE_FILE_LOCKING=FALSE."
        )
    if _WRITTEN in words:
        return (
            f"{path} is marked as being written: close it in the program that writes it. If that program was killed, "
            f"`h5clear -s {path}` removes the mark; h5clear comes with HDF5."
        )
    return None


def check_heaps(path: str | Path) -> None:
    """Raise ValueError if HDF5 would loop forever in a heap of strings, objects with sizes, of a file up to 64 MiB."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        if not _HEAP_HEADER < size <= current_tuning().limits.read_bytes:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            heap, left = content.find(_HEAP), size
            while heap >= 0:
                length = int.from_bytes(content[heap + 8 : heap + _HEAP_HEADER], "little")
                stop = min(size, heap + length)
                # HDF5 detects neither a size of 0, as after a lost block of the disk, nor a size that leads back.
                place = _stuck(np.frombuffer(content[heap:stop], np.uint8), _HEAP_HEADER)
                left -= stop - heap
                if place >= 0 or left < 0:
                    raise ValueError(
                        f"{path} is damaged: at byte {heap + max(place, 0)} its strings have no lengths; get or make "
                        "it again."
                    )
                heap = content.find(_HEAP, heap + 1)


@jit
def _stuck(content, at):
    """Return the position where a walk from object to object stops, or -1 if it reaches the end."""
    while at + 16 <= content.size:
        size = np.int64(0)
        for k in range(8):
            size |= np.int64(content[at + 8 + k]) << np.int64(8 * k)
        if size < 0 or (size == 0 and content[at] == 0 and content[at + 1] == 0):
            return at
        if size > content.size:
            return -1
        at += size if content[at] == 0 and content[at + 1] == 0 else 16 + (size + 7) // 8 * 8
    return -1


def member(group: h5py.Group, name: str, hops: int = 0) -> h5py.Group | h5py.Dataset:
    """Return the node with a name in a group, following links within the file; others and cycles raise ValueError."""
    path = group.file.filename
    if hops > h5py.h5p.create(h5py.h5p.LINK_ACCESS).get_nlinks():
        raise ValueError(f"{name} in {path} is a chain of links that never ends.")
    node: h5py.Group | h5py.Dataset = group.file if name.startswith("/") else group
    for part in filter(None, name.split("/")):
        link = node.get(part, getlink=True) if isinstance(node, h5py.Group) else None
        if isinstance(link, h5py.ExternalLink):
            raise ValueError(
                f"{name} in {path} is a link to {link.path} in the file {link.filename}, which is not followed: open "
                "that file, or copy its rows into this one."
            )
        node = member(node, link.path, hops + 1) if isinstance(link, h5py.SoftLink) else node[part]
    return node


def attribute(node: h5py.Group | h5py.Dataset, name: str, default: Any = None) -> Any:
    """Return an attribute that is a string or an int, or several; another type raises ValueError."""
    if name not in node.attrs:
        return default
    kind = node.attrs.get_id(name).get_type()
    if kind.get_class() not in (h5py.h5t.STRING, h5py.h5t.INTEGER):  # HDF5 may end the process for a damaged type
        raise ValueError(f"The attribute {name} of {place_of(node)} holds no strings or ints.")
    return node.attrs[name]


def check_storage(dataset: h5py.Dataset) -> None:
    """Raise ValueError unless the file of a dataset contains all values that its shape declares."""
    where = place_of(dataset)
    if dataset.id.get_type().get_class() not in _KINDS:  # HDF5 may end the process for other types, if they are damaged
        raise ValueError(f"{where} holds values of type {dataset.dtype}, not numbers or strings.")
    if dataset.is_virtual:
        names = sorted({source.file_name for source in dataset.virtual_sources()})
        raise ValueError(f"{where} is a virtual dataset of the files {_listed(names)}: pass the dataset itself as X.")
    if dataset.external:
        names = sorted({str(name) for name, _, _ in dataset.external})
        raise ValueError(f"{where} is stored in the files {_listed(names)}: pass the dataset itself as X.")
    settings = dataset.id.get_create_plist()
    for number in range(settings.get_nfilters()):
        code, _, _, name = settings.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            called = name.decode("utf-8", "replace") or "without a name"
            raise ValueError(
                f"{where} is stored through the filter {code} ({called}), which is not installed: install the package "
                "that brings it (hdf5plugin has many), or write the file again with gzip."
            )
    # A few forged bytes of a shape cannot make the reader allocate much memory.
    declared, stored = math.prod(dataset.shape or ()) * dataset.dtype.itemsize, dataset.id.get_storage_size()
    limits = current_tuning().limits
    if declared > max(limits.bytes, limits.ratio * stored):
        raise ValueError(
            f"{where} declares the shape {dataset.shape}, {declared} bytes, but {stored} bytes are stored: the file is "
            "damaged or incomplete."
        )
    words = h5py.check_string_dtype(dataset.dtype)
    if words is not None and words.length is None and settings.get_nfilters() == 0:
        _check_lengths(dataset, where)


def _check_lengths(dataset: h5py.Dataset, where: str) -> None:
    """Raise ValueError if a string declares to be longer than the file. HDF5 would allocate that much memory."""
    if dataset.file.userblock_size or not dataset.size or not Path(dataset.file.filename).is_file():  # of memory
        return
    chunks = range(dataset.id.get_num_chunks()) if dataset.chunks else ()
    spans = [dataset.id.get_chunk_info(number)[2:] for number in chunks]
    if not dataset.chunks:
        spans = [(dataset.id.get_offset(), dataset.id.get_storage_size())]
    with open(dataset.file.filename, "rb") as file:
        size = file.seek(0, 2)
        for place, n_bytes in spans:
            if place is None or place + n_bytes > size:
                continue  # never written, or damage that HDF5 detects
            file.seek(place)
            lengths = np.fromfile(file, _REFERENCE, n_bytes // _REFERENCE.itemsize)["length"]
            if len(lengths) and lengths.max() > size:
                raise ValueError(f"{where} is damaged: it has a string of {lengths.max()} bytes, the file has {size}.")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


# --- sources ---------------------------------------------------------------------------------------------


def open_file(path: str | Path) -> h5py.File:
    """Open an HDF5 file for reading. BlockingIOError says that another program writes to it, and not by SWMR."""
    path = Path(path)
    if not path.is_file():
        check_input(path)
        raise FileNotFoundError(f"There is no file {path}.")
    check_heaps(path)
    # Blocks are whole chunks: HDF5's own 8 MB would hold what is read once.
    cache = current_tuning().storage.piece_bytes
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
    """Return size and time of the last change of a file; zeros if there is none, or if it is live: its rows stay."""
    if is_live:
        return 0, 0
    try:
        status = os.stat(path)
    except OSError:  # a file in memory, or a removed one, whose rows can still be read
        return 0, 0
    return status.st_size, status.st_mtime_ns


class HDF5Source(Source):
    """Rows of a dataset or group in an HDF5 file, which must stay open; an unpickled copy opens it again."""

    ahead = True

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

    @abstractmethod
    def _inspect(self) -> None:
        """Set the attributes of a source from the file."""

    def check_unchanged(self) -> None:
        """Raise ValueError if the file has changed since the source was made."""
        version = _version(self.path, self._is_live)
        if version != self._seen:
            raise ValueError(
                f"{self.path} changed while its rows were in use: it had {self._seen[0]} bytes, written last at "
                f"{self._seen[1]} ns, and has {version[0]}, written at {version[1]} ns. Fit again when it is complete."
            )

    def digest(self) -> str:
        """Return a digest of the file's size, the time of its last change, and some rows."""
        return digest_of(repr((self._seen, super().digest())))

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


class HDF5DenseSource(HDF5Source, TiledSource):
    """Rows of a dataset of two dimensions, or with `flat` of more: those after the first are features then.

    MATLAB stores arrays with their axes in reverse order, so that rows are columns of the dataset.
    """

    def __init__(self, node: h5py.Dataset | h5py.Group, flat: bool = False) -> None:
        self._flat, self._reversed = flat, flat and bool(node) and MATLAB in node.attrs
        super().__init__(node)

    def _inspect(self) -> None:
        dataset = self.node
        if dataset.ndim != 2 and not (self._flat and dataset.ndim > 2):
            raise ValueError(f"{self.place} must have 2 dimensions, it has shape {dataset.shape}.")
        if dataset.dtype.kind not in "biuf":
            raise ValueError(f"{self.place} must hold numbers, it holds {dataset.dtype}.")
        shape, tile = (axes and axes[:: -1 if self._reversed else 1] for axes in (dataset.shape, dataset.chunks))
        self.shape, self.dtype = (shape[0], math.prod(shape[1:])), stored_type(dataset.dtype)
        if dataset.ndim > 2:  # columns of a chunk do not follow each other
            tile = tile and (tile[0], self.shape[1])
        self._set_tiles(tile, is_packed=dataset.id.get_create_plist().get_nfilters() > 0)

    @property
    def place(self) -> str:
        """Name and file of the dataset, for messages."""
        return place_of(self.node)

    def _copy(self, start: int, stop: int, columns: tuple[int, int], out: np.ndarray) -> None:
        node = self.node
        if node.ndim == 2 and not self._reversed:
            node.read_direct(out, np.s_[start:stop, slice(*columns)])
        elif node.ndim == 2:
            out[:] = node[slice(*columns), start:stop].T
        else:
            rows = node[..., start:stop].T if self._reversed else node[start:stop]
            out[:] = rows.reshape(stop - start, -1)[:, slice(*columns)]
