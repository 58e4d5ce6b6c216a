"""CIFAR-10 as published: binary or Python batches, in a folder or in the published archive."""

import io
import pickle
import pickletools
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np

from fastsvm.formats.readers.stream import Header, Options, Rows, Stream, head, matrix_in, opened
from fastsvm.tuning import current_tuning

_BYTES = np.dtype([("label", np.uint8), ("pixels", np.uint8, (3, 32, 32))])  # of a record
_RECORD, _PIXELS = _BYTES.itemsize, _BYTES["pixels"].itemsize
_CLASSES = 10
_BATCHES = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}
_BATCH = re.compile(r"(data_batch_[1-5]|test_batch)(\.bin)?")
_WORDS = """
PROTO FRAME STOP MARK GLOBAL STACK_GLOBAL REDUCE BUILD NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT
BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 UNICODE SHORT_BINUNICODE BINUNICODE
BINUNICODE8 LIST EMPTY_LIST APPEND APPENDS TUPLE EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 DICT EMPTY_DICT SETITEM SETITEMS PUT
BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET
"""
_STEPS = frozenset(_WORDS.split())
_DTYPE = re.compile(r"[<>|=]?[biuf][1248]")


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
        paths = [file for file in folder.iterdir() if file.is_file()]
        yield {file.name: _File(str(file), file.stat().st_size, cast(Any, partial(open, file, "rb"))) for file in paths}
        return
    try:
        # A stream of bounded reads has all methods that tarfile calls.
        with (
            opened(path) as stream,
            tarfile.open(fileobj=cast(BinaryIO, _BoundedReads(stream, path)), mode="r:") as archive,
        ):
            files = _archived(archive, path)
            # Read beyond the end of the archive: the checksum of gzip comes last.
            while stream.read(1 << 20):
                pass
            yield files
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


def _archived(archive: tarfile.TarFile, path: Path) -> dict[str, _File]:
    """Return the regular files of an archive by their names without folders."""
    files: dict[str, _File] = {}
    most = current_tuning().limits.entries  # tarfile keeps the header of each in memory
    for number, member in enumerate(archive):
        name = PurePosixPath(member.name).name
        if number >= most:
            raise ValueError(f"{path} holds more than {most} files; it is not the published archive.")
        if not member.isreg() or member.issparse():  # sparse files may have any size
            continue
        if name in files and _BATCH.fullmatch(name):
            raise ValueError(f"{path} holds two files named {name}; it is not the published archive.")
        content = cast(Callable[[], IO[bytes]], partial(archive.extractfile, member))  # that of a regular file
        files[name] = _File(f"{name} in {path}", member.size, content)
    return files


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
            stored = _loaded(stream, files["batches.meta"].where).get("label_names", [])
        where, most = files["batches.meta"].where, current_tuning().limits.labels
        listed = isinstance(stored, (list, tuple)) and all(isinstance(name, (str, bytes)) for name in stored)
        if not listed or sum(len(name) + 1 for name in stored) > most:
            raise ValueError(f"{where} must hold 'label_names', a list of names with at most {most} letters.")
        names = [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in stored]
    else:
        return None
    return tuple(name.strip() for name in names if name.strip()) or None


def _n_records(file: _File) -> int:
    if file.size == 0 or file.size % _RECORD:
        raise ValueError(
            f"{file.where} has {file.size} bytes, not a whole number of records of {_RECORD} bytes: it is "
            f"truncated in record {file.size // _RECORD} or is not a CIFAR-10 batch; get the file again."
        )
    return file.size // _RECORD


def _binary_blocks(file: _File, options: Options) -> Iterator[Rows]:
    step, n_records = options.rows(_RECORD), _n_records(file)
    with file.open() as stream:
        batch = matrix_in(stream, file.where, (n_records,), _BYTES)
        for first in range(0, n_records, step):
            records = batch.take(first, min(first + step, n_records))
            yield _rows(records["pixels"].reshape(-1, _PIXELS), records["label"], file, first)


def _python_blocks(file: _File, options: Options) -> Iterator[Rows]:
    with file.open() as stream:
        batch = _loaded(stream, file.where)
    pixels, stored = batch.get("data"), batch.get("labels", [])
    whole = isinstance(stored, (list, tuple)) and all(isinstance(label, int) for label in stored)
    labels = np.asarray(stored) if whole or isinstance(stored, np.ndarray) else np.empty(0)
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


# --- Python batches --------------------------------------------------------------------------------------
#
# A pickle may name any function and call it, and it is a program, of which a few bytes can allocate gigabytes. So its
# opcodes are checked before it runs: only those of published batches are allowed, and their number is bounded. Of names
# it may use those that an array needs. The result must be a dictionary of numbers, strings, arrays, and flat lists of
# numbers and strings.


class _Type:
    """Stands for a NumPy dtype."""

    def __init__(self, code: object = "u1", *_: object) -> None:
        self._code = code.decode("ascii") if isinstance(code, bytes) else str(code)
        if not _DTYPE.fullmatch(self._code):
            raise pickle.UnpicklingError(f"it holds an array of type {self._code[:20]!r}, not of numbers")
        self._order: Any = "|"  # NumPy checks the state

    def __setstate__(self, state: tuple) -> None:
        order = state[1]
        self._order = order.decode("ascii") if isinstance(order, bytes) else str(order)

    def dtype(self) -> np.dtype:
        return np.dtype(self._code).newbyteorder(self._order)


class _Array:
    """Stands for a NumPy array."""

    def __init__(self, *_: object) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, raw = state
        order: Literal["C", "F"] = "F" if fortran else "C"
        self.values = np.frombuffer(raw, kind.dtype()).reshape(shape, order=order)


class _Unpickler(pickle.Unpickler):
    """Replaces the few names that an array needs by inert classes."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._left = len(content)  # characters that may still be encoded: the pickle holds each one once

    def find_class(self, module: str, name: str) -> object:
        # Created anew for each name, because a pickle can set attributes of a function.
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _Type,
            ("_codecs", "encode"): lambda *args: self._encode(*args),
        }
        stand_in = allowed.get((module, name))
        if stand_in is None:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}; only arrays, strings and plain containers are read"
            )
        return stand_in

    def _encode(self, text: str, encoding: str = "latin1") -> bytes:
        if encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}")
        self._left -= len(text)
        if self._left < 0:
            raise pickle.UnpicklingError("it encodes more text than it holds")
        return text.encode("latin-1")


def _content(stream: IO[bytes]) -> bytes:
    """Return the bytes of a pickle. Raise UnpicklingError unless its opcodes are few and those of plain data."""
    limits = current_tuning().limits
    pieces: list[bytes] = []
    while piece := stream.read(current_tuning().storage.piece_bytes):
        pieces.append(piece)
        if sum(map(len, pieces)) > limits.bytes:
            raise pickle.UnpicklingError(f"it has more than {limits.bytes} bytes")
    content = b"".join(pieces)
    for number, (step, argument, place) in enumerate(pickletools.genops(content)):
        if step.name not in _STEPS:
            raise pickle.UnpicklingError(f"its byte {place} is {step.name}, which plain data does not need")
        if number >= limits.steps:
            raise pickle.UnpicklingError(f"it has more than {limits.steps} steps")
        if step.name.endswith("PUT") and isinstance(argument, int) and argument > number:  # one entry for each number
            raise pickle.UnpicklingError(f"its byte {place} stores object number {argument} of {number}")
        if isinstance(argument, int) and argument.bit_length() > 64:  # large ints may share one hash
            raise pickle.UnpicklingError(f"its byte {place} holds an int of {argument.bit_length()} bits")
    return content


def _plain(value: object) -> object:
    """Return a value, with the array in place of an `_Array`."""
    if isinstance(value, _Array):
        return value.values
    if isinstance(value, (list, tuple)):
        if not all(isinstance(item, (int, float, str, bytes)) for item in value):
            raise pickle.UnpicklingError("it holds lists of other things than numbers and strings")
        return value
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    raise pickle.UnpicklingError("it holds dictionaries or types within its dictionary")


def _loaded(stream: IO[bytes], where: object) -> dict[str, Any]:
    """Return the dictionary in a pickle, with keys as str; other strings of Python 2 become bytes."""
    try:
        content = _Unpickler(_content(stream)).load()
        if isinstance(content, dict):
            if len(content) > current_tuning().limits.entries:
                raise pickle.UnpicklingError(f"its dictionary has {len(content)} keys")
            keys = (key.decode("latin-1") if isinstance(key, bytes) else str(key) for key in content)
            content = dict(zip(keys, map(_plain, content.values()), strict=True))
    except Exception as error:  # a damaged pickle may raise anything
        reason = str(error) or type(error).__name__
        raise ValueError(f"{where} cannot be read as a pickle: {reason}.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{where} holds {type(content).__name__.strip('_')}, not a dictionary.")
    return content
