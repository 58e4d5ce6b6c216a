"""Checks of an HDF5 file before its content is read, and conversion of the errors that HDF5 raises."""

import errno
import math
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.tuning import current_tuning

__all__ = ["attribute", "check_heaps", "check_storage", "in_use", "kind_of", "member", "place_of", "reading"]

_KINDS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.ENUM, h5py.h5t.STRING)  # HDF5 stores bools as an enumeration
_HEAP, _HEAP_HEADER = b"GCOL\1", 16
_REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("number", "<u4")])  # to a string in a heap
_LOCKED, _WRITTEN = "unable to lock file", "already open for write"  # words of HDF5
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


def place_of(node: h5py.Group | h5py.Dataset | h5py.Datatype) -> str:
    """Return name and file of a node, for messages."""
    return f"{node.name} in {node.file.filename}"


def kind_of(node: h5py.Group | h5py.Dataset | h5py.Datatype) -> str:
    """Return whether a node is a dataset, a group or a named type, for messages."""
    kinds = {h5py.Dataset: "a dataset", h5py.Group: "a group", h5py.Datatype: "a named type"}
    return next(name for kind, name in kinds.items() if isinstance(node, kind))


@contextmanager
def reading(path: str | Path, remedy: str = "get or make it again") -> Iterator[None]:
    """Convert any error into an OSError or a ValueError that names the file.

    HDF5 may raise KeyError, RuntimeError, TypeError or MemoryError for a damaged file.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (OSError, ValueError)) and str(path) in str(error):
            raise
        if (reason := in_use(path, error)) is not None:
            raise BlockingIOError(reason) from error
        kind = OSError if isinstance(error, OSError) and error.errno is not None else ValueError
        reason = str(error).strip("'\"") or type(error).__name__
        raise kind(f"{path} cannot be read, it is damaged or truncated: {reason}; {remedy}.") from error


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
    """Raise ValueError if HDF5 would loop forever in a heap of strings of a file.

    A heap is a sequence of objects with their sizes. HDF5 detects neither a size of 0, as after a lost block of the
    disk, nor a size that leads back. Files of more than 64 MiB are not searched.
    """
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        if not _HEAP_HEADER < size <= current_tuning().limits.read_bytes:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found, left = content.find(_HEAP), size
            while found >= 0:
                length = int.from_bytes(content[found + 8 : found + _HEAP_HEADER], "little")
                stop = min(size, found + length)
                place = _stuck(np.frombuffer(content[found:stop], np.uint8), _HEAP_HEADER)
                left -= stop - found
                if place >= 0 or left < 0:
                    raise ValueError(
                        f"{path} is damaged: at byte {found + max(place, 0)} its strings have no lengths; get or make "
                        "it again."
                    )
                found = content.find(_HEAP, found + 1)


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
    """Return the node with a name in a group, following links within the file.

    It raises ValueError if it is a link to another file, or if links form a cycle.
    """
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
    """Return an attribute that is a string or an int, or several; another type raises ValueError.

    HDF5 may end the process when it reads an attribute with a damaged type.
    """
    if name not in node.attrs:
        return default
    kind = node.attrs.get_id(name).get_type()
    if kind.get_class() not in (h5py.h5t.STRING, h5py.h5t.INTEGER):
        raise ValueError(f"The attribute {name} of {place_of(node)} holds no strings or ints.")
    return node.attrs[name]


def check_storage(dataset: h5py.Dataset) -> None:
    """Raise ValueError unless the file of a dataset contains all values that its shape declares.

    A file may refer to others, which are read only if the user passes the dataset itself as X. Shapes are compared with
    the stored bytes, so a few forged bytes cannot make the reader allocate much memory.
    """
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
            lengths = np.frombuffer(file.read(n_bytes // _REFERENCE.itemsize * _REFERENCE.itemsize), _REFERENCE)[
                "length"
            ]
            if len(lengths) and lengths.max() > size:
                raise ValueError(f"{where} is damaged: it has a string of {lengths.max()} bytes, the file has {size}.")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
