"""Rows in an HDF5 file, dense or sparse, with labels and weights. One thread reads whole chunks, one block ahead."""

import errno
import math
import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import DTypeLike

from fastsvm._compiled.compiler import jit
from fastsvm.files.atomic_file import check_input
from fastsvm.sources.base import Kind, Origin, Reads, Source, digest_of
from fastsvm.sources.block import CSRBlock, index_type, look_through
from fastsvm.sources.tiled import TiledSource, block_bytes, check_unpacked, stored_type
from fastsvm.tuning import current_tuning

_KINDS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.ENUM, h5py.h5t.STRING)  # HDF5 stores bools as an enumeration
_HEAP, _HEAP_HEADER = b"GCOL\1", 16
_REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("number", "<u4")])  # to a string in a heap
_LOCKED, _WRITTEN = "unable to lock file", "already open for write"  # words of HDF5
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
CLOSED = "The HDF5 file is closed: open it again, for example with fastsvm.open_hdf5(path)."
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
        """Let rows that were text, which does not say how many features there are, have more of them, which are 0."""
        if self.origin.first_index is not None:
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


# --- a data set: rows, labels and weights ----------------------------------------------------------------


class HDF5Data:
    """The data set of an HDF5 file, to pass as X to `fit`, `predict` and `score`. `open_hdf5` returns one.

    Parameters
    ----------
    file : h5py.File
        An open file with `X`, and optionally other datasets; see `open_hdf5`.

    Attributes
    ----------
    X : Source
        The rows, on disk.
    y : ndarray of shape (n_samples,) or None
        Labels, in memory; strings are str. None if the file has no labels.
    sample_weight : ndarray of shape (n_samples,) or None
        Sample weights, in memory. None if the file has no weights.
    class_names : list of str or None
        Names of the classes 0, 1, ...; None if the file has no names.
    feature_names : ndarray of str objects, shape (n_features,), or None
        Names of the features; None if the file has no names.
    path : Path
        The file.

    Examples
    --------
    >>> import h5py, numpy as np, os, tempfile
    >>> from fastsvm import open_hdf5
    >>> path = os.path.join(tempfile.mkdtemp(), "data.h5")
    >>> with h5py.File(path, "w") as file:
    ...     file["X"] = np.eye(3)
    ...     file["y"] = np.array(["ant", "bee", "cat"], dtype=h5py.string_dtype())
    >>> with open_hdf5(path) as data:
    ...     data.shape, data.y.tolist()
    ((3, 3), ['ant', 'bee', 'cat'])
    """

    def __init__(self, file: h5py.File) -> None:
        if not file:
            raise ValueError(CLOSED)
        self.path = Path(file.filename)
        self._file = file
        self._taken: np.ndarray | None = None
        with reading(self.path):
            self.X: Source = hdf5_source(self._rows())
            self._n_stored = len(self.X)
            self.y = self._column("y")
            self.sample_weight = self._column("sample_weight")
            names = attribute(member(file, "y"), "class_names") if "y" in file else None
            self.class_names = None if names is None else [_text(name) for name in names]
            names = self._column("feature_names", axis=1)
            if names is not None and names.dtype.kind != "U":
                raise ValueError(f"feature_names in {self.path} must be strings, they are {names.dtype}.")
            self.X.feature_names = self.feature_names = None if names is None else names.astype(object)
            self.X.origin = self._origin()

    def _rows(self) -> h5py.Dataset | h5py.Group:
        if "X" not in self._file:
            held = ", ".join(sorted(self._file)) or "nothing"
            raise ValueError(f"{self.path} has no dataset or CSR group 'X'; it holds {held}.")
        node = member(self._file, "X")
        for part in [member(node, name) for name in node] if isinstance(node, h5py.Group) else [node]:
            if isinstance(part, h5py.Dataset):
                check_storage(part)
        return node

    def _column(self, name: str, axis: int = 0) -> np.ndarray | None:
        """Return a dataset with an entry for each row (axis 0) or each feature (axis 1) of X; None if there is none."""
        if name not in self._file:
            return None
        column, n = member(self._file, name), self._n_stored if axis == 0 else self.X.shape[1]
        if not isinstance(column, h5py.Dataset) or column.shape != (n,):
            problem = "is a group" if isinstance(column, h5py.Group) else "is a named type"
            problem = f"has shape {column.shape}" if isinstance(column, h5py.Dataset) else problem
            of = "row" if axis == 0 else "column"
            raise ValueError(f"{place_of(column)} must have shape ({n},), one entry for each {of} of X; it {problem}.")
        check_storage(column)
        values = read_column(column)
        return values if self._taken is None or axis == 1 else values[self._taken]

    def _origin(self) -> Origin:
        rows = member(self._file, "X")
        first, sure = (attribute(rows, name) for name in ("first_index", "first_index_sure"))
        if first not in (None, 0, 1):
            raise ValueError(f"The attribute first_index of X in {self.path} must be 0 or 1, it is {first!r}.")
        label = attribute(member(self._file, "y"), "name") if "y" in self._file else None
        return Origin(None if first is None else int(first), bool(sure), None if label is None else _text(label))

    @property
    def source_row(self) -> np.ndarray | None:
        """Number of each row in the file that was converted, read anew; None if the rows are in its order."""
        with reading(self.path):
            rows = self._column("source_row")
        if rows is not None and rows.dtype.kind not in "iu":
            raise ValueError(f"source_row in {self.path} must hold whole numbers, it holds {rows.dtype}.")
        return rows

    @property
    def ids(self) -> np.ndarray | None:
        """Values that identify the rows, from the dataset `id`, read anew; None if the file has none."""
        with reading(self.path):
            return self._column("id")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return self.X.shape

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.X)

    @property
    def ndim(self) -> int:
        """Number of dimensions, 2."""
        return 2

    def __getitem__(self, rows: Any) -> "HDF5Data":
        """Return some rows, by numbers, a mask or a slice, with their labels and weights. The rows stay in the file.

        So scikit-learn's `cross_val_score` and `GridSearchCV` can split the data. An Ellipsis may follow the rows.
        """
        if isinstance(rows, tuple):
            if len(rows) != 2 or rows[1] is not Ellipsis:
                raise TypeError(f"Only rows of {self.path} can be taken, not columns. Use data.X to read values.")
            rows = rows[0]
        numbers = np.atleast_1d(np.arange(len(self))[rows])
        some = object.__new__(type(self))  # a copy by pickle's rules would open the file again
        some.__dict__.update(vars(self))
        some.X = self.X.take(numbers)
        some._taken = numbers if self._taken is None else self._taken[numbers]
        some.y = None if self.y is None else self.y[numbers]
        some.sample_weight = None if self.sample_weight is None else self.sample_weight[numbers]
        return some

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Raise TypeError: rows are never read into memory without being asked."""
        raise TypeError(
            f"The rows of {self.path} stay in the file, but this function needs an array in memory. To scale features, "
            "pass standardize=True to the estimator of fastsvm instead of StandardScaler in a Pipeline. If the rows "
            "fit in memory, pass data.X.in_memory().block.user_array()."
        )

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the open file, which another process opens again."""
        return {name: value for name, value in vars(self).items() if name != "_file"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state and open the file again."""
        vars(self).update(state)
        self._file = open_file(self.path)

    def close(self) -> None:
        """Close the file. Its rows cannot be read afterwards."""
        self._file.close()

    def __enter__(self) -> "HDF5Data":
        """Return the data set itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()


class Columns(NamedTuple):
    """What comes with rows in a file; None for what does not, as with other rows."""

    y: np.ndarray | None = None
    sample_weight: np.ndarray | None = None
    class_names: list[str] | None = None
    path: Path | None = None


def columns_of(X: object) -> Columns:
    """Return the labels, the weights, the names of the classes and the file that come with samples."""
    X = of_open_file(X)
    return Columns(X.y, X.sample_weight, X.class_names, X.path) if isinstance(X, HDF5Data) else Columns()


def of_open_file(X: Any) -> Any:
    """Return the data set of an open `h5py.File`, and anything else as it is."""
    return HDF5Data(X) if isinstance(X, h5py.File) else X


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def read_column(dataset: h5py.Dataset) -> np.ndarray:
    """Return a one-dimensional dataset of numbers or strings as an array. Strings become str."""
    with reading(dataset.file.filename):
        if h5py.check_string_dtype(dataset.dtype):
            return np.asarray(dataset.asstr()[:], dtype=str)
        if dataset.dtype.kind not in "biufc":
            raise ValueError(f"it holds {dataset.dtype}, not numbers or strings")
        return dataset[:]


def open_hdf5(path: str | Path) -> HDF5Data:
    """Open a data set in an HDF5 file, without reading its rows.

    Parameters
    ----------
    path : str or Path
        A file with `X`, a dataset `(n_samples, n_features)` of numbers or a group in AnnData's CSR layout
        (`data`, `indices`, `indptr`, attribute `shape`); optionally `y`, `sample_weight`, `id` and `source_row`, each
        `(n_samples,)`, and `feature_names`, `(n_features,)`.

    Returns
    -------
    HDF5Data
        The data set, to pass as X. Its labels are used if no y is passed. As a context manager, it closes the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not HDF5, is truncated, lacks `X`, or its parts do not fit each other.

    Examples
    --------
    >>> import h5py, numpy as np, os, tempfile
    >>> from fastsvm import SVC, open_hdf5
    >>> path = os.path.join(tempfile.mkdtemp(), "data.h5")
    >>> with h5py.File(path, "w") as file:
    ...     file["X"] = np.array([[0.0], [1.0], [2.0], [3.0]])
    ...     file["y"] = np.array([0, 0, 1, 1])
    >>> with open_hdf5(path) as data:
    ...     SVC().fit(data).score(data)
    1.0
    """
    file = open_file(path)
    try:
        return HDF5Data(file)
    except BaseException:
        file.close()
        raise
