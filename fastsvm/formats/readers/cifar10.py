"""CIFAR-10 as published: binary or Python batches, in a folder or in the published archive."""

import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np

from fastsvm.formats.readers.files import head, opened
from fastsvm.formats.readers.plain_pickle import load_plain
from fastsvm.formats.readers.rows import Rows
from fastsvm.formats.readers.stream import Header, Options, Stream
from fastsvm.tuning import current_tuning

__all__ = ["read", "recognises"]

_BYTES = np.dtype([("label", np.uint8), ("pixels", np.uint8, (3, 32, 32))])  # of a record
_RECORD, _PIXELS = _BYTES.itemsize, _BYTES["pixels"].itemsize
_CLASSES = 10
_BATCHES = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}
_BATCH = re.compile(r"(data_batch_[1-5]|test_batch)(\.bin)?")


class _File(NamedTuple):
    """A file in a folder or an archive."""

    where: str
    size: int
    open: Callable[[], IO[bytes]]


def recognises(path: Path) -> bool:
    """Return whether a path is a batch, a folder with batches, or a tar archive."""
    if path.is_dir():
        return any(_BATCH.fullmatch(file.name) for file in path.iterdir())
    return path.suffix == ".bin" or _BATCH.fullmatch(path.name) is not None or _is_archive(path)


@contextmanager
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Open the batches of a split, or a single batch."""
    with _files(path) as files:
        if path.is_dir() or _is_archive(path):
            batches = _chosen(files, path, options.split)
        elif options.split is None:
            batches = [path.name]
        else:
            raise ValueError(f"split applies to folders and archives; {path} is one batch. Leave it out.")
        names = _class_names(files)
        binary = all(name.endswith(".bin") for name in batches)
        n_samples = sum(_n_records(files[name]) for name in batches) if binary else None
        header = Header(_PIXELS, np.dtype(np.uint8), np.dtype(np.int64), False, names, n_samples)
        blocks = _binary_blocks if binary else _python_blocks
        yield Stream(header, (rows for name in batches for rows in blocks(files[name], options)))


def _is_archive(path: Path) -> bool:
    return path.is_file() and head(path, 512)[257:262] == b"ustar"


@contextmanager
def _files(path: Path) -> Iterator[dict[str, _File]]:
    """Yield the files of a folder or archive by name; for a batch, those of its folder."""
    if not _is_archive(path):
        folder = path if path.is_dir() else path.parent
        yield {file.name: _on_disk(file) for file in folder.iterdir() if file.is_file()}
        return
    try:
        with opened(path) as stream, tarfile.open(fileobj=_bounded(stream, path), mode="r:") as archive:
            files = _archived(archive, path)
            # Read beyond the end of the archive: the checksum of gzip comes last.
            while stream.read(1 << 20):
                pass
            yield files
    except tarfile.TarError as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); get the file again.") from error


def _bounded(stream: BinaryIO, path: Path) -> BinaryIO:
    return cast(BinaryIO, _BoundedReads(stream, path))  # it has all methods that tarfile calls


class _BoundedReads:
    """A stream that refuses large reads, which a damaged header of an archive may request."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path, self._most = stream, path, current_tuning().limits.read_bytes
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, n_bytes: int) -> bytes:
        if not 0 <= n_bytes <= self._most:
            raise ValueError(f"{self._path} is damaged: a header asks for {n_bytes} bytes at once; get the file again.")
        return self._stream.read(n_bytes)


def _on_disk(path: Path) -> _File:
    return _File(str(path), path.stat().st_size, lambda: open(path, "rb"))


def _archived(archive: tarfile.TarFile, path: Path) -> dict[str, _File]:
    """Return the regular files of an archive by their names without folders."""
    found: dict[str, _File] = {}
    most = current_tuning().limits.entries  # tarfile keeps the header of each in memory
    for number, member in enumerate(archive):
        name = PurePosixPath(member.name).name
        if number >= most:
            raise ValueError(f"{path} holds more than {most} files; it is not the published archive.")
        if not member.isreg() or member.issparse():  # sparse files may have any size
            continue
        if name in found and _BATCH.fullmatch(name):
            raise ValueError(f"{path} holds two files named {name}; it is not the published archive.")
        found[name] = _File(f"{name} in {path}", member.size, partial(_extracted, archive, member))
    return found


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(member)
    if stream is None:
        raise ValueError(f"{member.name} is not a regular file.")
    return stream


def _chosen(files: dict[str, _File], path: Path, split: str | None) -> list[str]:
    """Return the names of the batches of a split; binary ones if both kinds exist."""
    if split is None:
        raise ValueError(f"{path} may hold a training and a test set; set split='train' or split='test'.")
    kinds = [[name + suffix for name in _BATCHES[split]] for suffix in (".bin", "")]
    present = [[name for name in names if name in files] for names in kinds]
    for names, there in zip(kinds, present, strict=True):
        if names == there:
            return names
    nearest = max((0, 1), key=lambda kind: len(present[kind]))
    missing = ", ".join(name for name in kinds[nearest] if name not in files)
    raise FileNotFoundError(f"{path} lacks {missing} of the CIFAR-10 {split} set.")


def _class_names(files: dict[str, _File]) -> tuple[str, ...] | None:
    """Return the class names in a file beside the batches, None if there is none."""
    if "batches.meta.txt" in files:
        with files["batches.meta.txt"].open() as stream:
            names = stream.read(current_tuning().limits.labels).decode("utf-8", "replace").split("\n")
    elif "batches.meta" in files:
        with files["batches.meta"].open() as stream:
            stored = load_plain(stream, files["batches.meta"].where).get("label_names", [])
        names = _names(stored, files["batches.meta"].where)
    else:
        return None
    return tuple(name.strip() for name in names if name.strip()) or None


def _names(stored: Any, where: str) -> list[str]:
    """Return a list of names as str. Raise ValueError if they are too long together."""
    most = current_tuning().limits.labels
    listed = isinstance(stored, (list, tuple)) and all(isinstance(name, (str, bytes)) for name in stored)
    if not listed or sum(len(name) + 1 for name in stored) > most:
        raise ValueError(f"{where} must hold 'label_names', a list of names with at most {most} letters.")
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in stored]


def _n_records(file: _File) -> int:
    if file.size == 0 or file.size % _RECORD:
        raise ValueError(
            f"{file.where} has {file.size} bytes, not a whole number of records of {_RECORD} bytes: it is "
            f"truncated in record {file.size // _RECORD} or is not a CIFAR-10 batch; get the file again."
        )
    return file.size // _RECORD


def _binary_blocks(file: _File, options: Options) -> Iterator[Rows]:
    step = options.rows(_RECORD)
    n_records = _n_records(file)
    with file.open() as stream:
        for first in range(0, n_records, step):
            wanted = min(step, n_records - first) * _RECORD
            raw = stream.read(wanted)
            if len(raw) < wanted:
                record = first + len(raw) // _RECORD
                raise ValueError(f"{file.where} ends in record {record}; get the file again.")
            records = np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)
            yield _rows(records[:, 1:], records[:, 0], file, first)


def _python_blocks(file: _File, options: Options) -> Iterator[Rows]:
    with file.open() as stream:
        batch = load_plain(stream, file.where)
    pixels, given = batch.get("data"), batch.get("labels", [])
    whole = isinstance(given, (list, tuple)) and all(isinstance(label, int) for label in given)
    labels = np.asarray(given) if whole or isinstance(given, np.ndarray) else np.empty(0)
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (_PIXELS,):
        raise ValueError(f"{file.where} must hold 'data', an array of bytes with {_PIXELS} columns.")
    if labels.shape != pixels.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(f"{file.where} must hold 'labels', a list of {len(pixels)} integers.")
    step = options.rows(_RECORD)
    for first in range(0, len(pixels), step):
        yield _rows(pixels[first : first + step], labels[first : first + step], file, first)


def _rows(pixels: np.ndarray, labels: np.ndarray, file: _File, first: int) -> Rows:
    wrong = np.flatnonzero((labels < 0) | (labels >= _CLASSES))
    if len(wrong):
        raise ValueError(
            f"{file.where}: record {first + wrong[0]} has the label {labels[wrong[0]]}, labels are 0 to 9; "
            "the file is damaged or is not a CIFAR-10 batch."
        )
    return Rows(np.ascontiguousarray(pixels), labels.astype(np.int64))
