"""CIFAR-10 as published: binary or Python batches, in a folder or in the published archive."""

import pickletools
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NamedTuple, cast

import numpy as np

from fastsvm.formats.readers.stream import Header, Options, Rows, Stream, head, opened
from fastsvm.tuning import current_tuning

_BYTES = np.dtype([("label", np.uint8), ("pixels", np.uint8, (3, 32, 32))])  # of a record
_RECORD, _PIXELS = _BYTES.itemsize, _BYTES["pixels"].itemsize
_CLASSES = 10
_BATCHES = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}
_SUFFIXES, _META = (".bin", ""), ("batches.meta.txt", "batches.meta")
_BATCH = re.compile(r"(data_batch_[1-5]|test_batch)(\.bin)?")
_OPERAND = re.compile(r"(SHORT_)?(BIN)?(INT[12]?|STRING|UNICODE8?|BYTES8?)|LONG[14]?")  # numbers, texts and bytes
_STEPS = {"NEWTRUE": True, "NEWFALSE": False, "EMPTY_LIST": None}  # and what they put on the stack, None for a list
_NAMES, _LABELS, _DATA = "label_names", "labels", "data"
_ENTRIES = {_NAMES, _LABELS, _DATA, "batch_label", "filenames", "num_cases_per_batch", "num_vis"}  # of all batches


class _File(NamedTuple):
    """A file in a folder or an archive."""

    where: str
    path: Path  # An archived file is extracted to it.


def recognises(path: Path) -> bool:
    """Return whether a path is a batch, a folder with batches, or a tar archive."""
    if path.is_dir():
        return any(_BATCH.fullmatch(file.name) for file in path.iterdir())
    return path.suffix == ".bin" or _BATCH.fullmatch(path.name) is not None or _is_archive(path)


@contextmanager
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Open the batches of a split, or a single batch."""
    files = _files(path, options)
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


def _files(path: Path, options: Options) -> dict[str, _File]:
    """Return the files of a folder or archive by name; for a batch, those of its folder."""
    if not _is_archive(path):
        folder = path if path.is_dir() else path.parent
        return {file.name: _File(str(file), file) for file in folder.iterdir() if file.is_file()}
    try:
        with opened(path) as stream:
            bounded = cast(BinaryIO, _BoundedReads(stream, path))  # which has all methods that tarfile calls
            with tarfile.open(fileobj=bounded, mode="r:") as archive:
                files = _extracted(archive, path, options)
            while stream.read(1 << 20):  # beyond the end of the archive: the checksum of gzip comes last
                pass
            return files
    except tarfile.TarError as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); get the file again.") from error


class _BoundedReads:
    """A stream that refuses large reads, which a damaged header of an archive may request."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path, self._most = stream, path, current_tuning().limits.read_bytes
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, n_bytes: int) -> bytes:
        if not 0 <= n_bytes <= self._most:
            raise ValueError(f"{self._path} is damaged: a header asks for {n_bytes} bytes at once; get the file again.")
        return self._stream.read(n_bytes)


def _extracted(archive: tarfile.TarFile, path: Path, options: Options) -> dict[str, _File]:
    """Extract the batches of a split and the names of the classes, from whatever folder of an archive."""
    files: dict[str, _File] = {}
    wanted = {*_META, *(name + suffix for name in _BATCHES.get(options.split or "", ()) for suffix in _SUFFIXES)}
    most = current_tuning().limits.entries  # tarfile keeps the header of each in memory
    for number, member in enumerate(archive):
        name = PurePosixPath(member.name).name
        if number >= most:
            raise ValueError(f"{path} holds more than {most} files; it is not the published archive.")
        if name not in wanted or not member.isreg() or member.issparse():  # sparse files may have any size
            continue
        if name in files:
            raise ValueError(f"{path} holds two files named {name}; it is not the published archive.")
        files[name] = _File(f"{name} in {path}", options.scratch / name)
        with cast(IO[bytes], archive.extractfile(member)) as content, files[name].path.open("wb") as file:
            shutil.copyfileobj(content, file, current_tuning().storage.piece_bytes)
    return files


def _chosen(files: dict[str, _File], path: Path, split: str | None) -> list[str]:
    """Return the names of the batches of a split; binary ones if both kinds exist."""
    if split is None:
        raise ValueError(f"{path} may hold a training and a test set; set split='train' or split='test'.")
    kinds = [[name + suffix for name in _BATCHES[split]] for suffix in _SUFFIXES]
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
        with files["batches.meta.txt"].path.open("rb") as stream:
            names = stream.read(current_tuning().limits.labels).decode("utf-8", "replace").split("\n")
    elif "batches.meta" in files:
        where, most = files["batches.meta"].where, current_tuning().limits.labels
        names = [name for name in _entries(files["batches.meta"]).get(_NAMES, ()) if isinstance(name, str)]
        if not names or sum(len(name) + 1 for name in names) > most:
            raise ValueError(f"{where} must hold 'label_names', a list of names with at most {most} letters.")
    else:
        return None
    return tuple(name.strip() for name in names if name.strip()) or None


def _n_records(file: _File) -> int:
    size = file.path.stat().st_size
    if size == 0 or size % _RECORD:
        raise ValueError(
            f"{file.where} has {size} bytes, not a whole number of records of {_RECORD} bytes: it is "
            f"truncated in record {size // _RECORD} or is not a CIFAR-10 batch; get the file again."
        )
    return size // _RECORD


def _binary_blocks(file: _File, options: Options) -> Iterator[Rows]:
    step, n_records = options.rows(_RECORD), _n_records(file)
    with file.path.open("rb") as stream:
        for first in range(0, n_records, step):
            records = np.frombuffer(stream.read(_RECORD * min(step, n_records - first)), _BYTES)
            yield _rows(records["pixels"].reshape(-1, _PIXELS), records["label"], file, first)


def _python_blocks(file: _File, options: Options) -> Iterator[Rows]:
    entries = _entries(file)
    array = entries.get(_DATA, [])
    by_columns, values = max(pairwise(array), key=lambda pair: len(str(pair[1])), default=(True, ""))
    values = str(values).encode("latin-1", "replace")
    if "u1" not in array or by_columns is not False or not values or len(values) % _PIXELS:
        raise ValueError(f"{file.where} must hold 'data', an array of bytes with {_PIXELS} columns.")
    pixels = np.frombuffer(values, np.uint8).reshape(-1, _PIXELS)
    begin, *labels = entries.get(_LABELS) or [0]
    if begin is not None or len(labels) != len(pixels) or not all(isinstance(label, int) for label in labels):
        raise ValueError(f"{file.where} must hold 'labels', a list of {len(pixels)} integers.")
    step = options.rows(_RECORD)
    for first in range(0, len(pixels), step):
        yield _rows(pixels[first : first + step], np.array(labels[first : first + step]), file, first)


def _rows(pixels: np.ndarray, labels: np.ndarray, file: _File, first: int) -> Rows:
    wrong = np.flatnonzero((labels < 0) | (labels >= _CLASSES))
    if len(wrong):
        raise ValueError(
            f"{file.where}: record {first + wrong[0]} has the label {labels[wrong[0]]}, labels are 0 to 9; "
            "the file is damaged or is not a CIFAR-10 batch."
        )
    return Rows(np.ascontiguousarray(pixels), labels.astype(np.int64))


# --- Python batches --------------------------------------------------------------------------------------


def _entries(file: _File) -> dict[str, list]:
    """Return numbers, texts and, as None, lists in the pickle of a dictionary, by the entry after whose name they come.

    A pickle is a program that may call any function, so it is never run: only its operands are read.
    """
    limits = current_tuning().limits
    entries: dict[str, list] = {}
    held: list = []
    try:
        if file.path.stat().st_size > limits.bytes:
            raise ValueError(f"it has more than {limits.bytes} bytes")
        for number, (step, value, _) in enumerate(pickletools.genops(file.path.read_bytes())):
            if number >= limits.steps:
                raise ValueError(f"it has more than {limits.steps} steps")
            if step.name in _STEPS:
                held.append(_STEPS[step.name])
            if not _OPERAND.fullmatch(step.name) or value in ("latin1", b"latin1"):  # by which Python 3 stores bytes
                continue
            value = value.decode("latin-1") if isinstance(value, bytes) else value
            if value in _ENTRIES:
                entries[value] = held = []
            else:
                held.append(value)
    except Exception as error:  # a damaged pickle may raise anything
        reason = str(error) or type(error).__name__
        raise ValueError(f"{file.where} cannot be read as a pickle: {reason}.") from error
    return entries
