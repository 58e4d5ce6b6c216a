"""What is looked at in an HDF5 file before its content is read, and one kind of error for all that HDF5 raises."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

__all__ = ["check_storage", "member", "reading"]

_MOST_LINKS = 16
_SMALL = 1 << 28  # bytes that may be declared without being stored, as a fill value
_MOST_RATIO = 4096  # of what is declared to what is stored; that of gzip is at most 1,032


@contextmanager
def reading(path: str | Path, remedy: str = "get or make it again") -> Iterator[None]:
    """Make whatever is raised within an OSError or a ValueError that names the file.

    HDF5 has an error of any kind for a byte that changed: KeyError, RuntimeError, TypeError, MemoryError.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (OSError, ValueError)) and str(path) in str(error):
            raise
        kind = OSError if isinstance(error, OSError) and error.errno is not None else ValueError
        reason = str(error).strip("'\"") or type(error).__name__
        raise kind(f"{path} cannot be read, it is damaged or truncated: {reason}; {remedy}.") from error


def member(group: h5py.Group, name: str, hops: int = 0) -> h5py.Group | h5py.Dataset:
    """Return what a name in a group stands for, if that is in the same file.

    Raises
    ------
    ValueError
        If it is a link to another file, or leads in a circle.
    """
    path = group.file.filename
    if hops > _MOST_LINKS:
        raise ValueError(f"{name} in {path} is a link to a link that never ends.")
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


def check_storage(dataset: h5py.Dataset) -> None:
    """Raise ValueError unless the values of a dataset are in its file, and as many as it says.

    Other files are not read because this one says so: whoever passes a dataset as X means it, whoever opens a file
    need not know. Nor is memory asked for that a few forged bytes declare.
    """
    where = f"{dataset.name} in {dataset.file.filename}"
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
    if declared > max(_SMALL, _MOST_RATIO * stored):
        raise ValueError(
            f"{where} declares the shape {dataset.shape}, {declared} bytes, but {stored} bytes are stored: the file is "
            "damaged or incomplete."
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
