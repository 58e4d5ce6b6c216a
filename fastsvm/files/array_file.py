"""A file of arrays and a JSON header: an uncompressed zip archive of .npy files with a checksum at its end.

`unzip` and `numpy.load` open such a file too. The checksum, which detects damage, is compared first. For a forged file,
the reader allocates at most as many bytes as the file has: it compares sizes before it allocates memory, decompresses
nothing and unpickles nothing.
"""

import hashlib
import json
import math
import sys
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.lib import format as npy_format

from fastsvm.tuning import current_tuning

Header: TypeAlias = dict[str, Any]
"""An object of JSON."""

_HEADER, _NAME_AT = "header.json", 30  # The name of the first part, and its position in the file.
_MARK = b"sha256 "
_DIGITS = 2 * hashlib.sha256().digest_size  # of the comment of the archive, at the end of the file


def is_array_file(path: Path) -> bool:
    """Return whether a file begins like those of `write_arrays`."""
    with open(path, "rb") as file:
        start = file.read(_NAME_AT + len(_HEADER))
    return start.startswith(b"PK\3\4") and start.endswith(_HEADER.encode())


def write_arrays(path: Path, header: str, arrays: dict[str, np.ndarray]) -> None:
    """Write a header, a JSON object, and arrays of numbers or strings to a file. Equal content gives equal bytes."""
    words, most = header.encode(), current_tuning().limits.read_bytes
    if len(words) > most:
        raise ValueError(f"The header of {path} would take {len(words)} bytes; at most {most} are read.")
    with open(path, "w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.comment = _MARK + b"0" * _DIGITS
            archive.writestr(zipfile.ZipInfo(_HEADER), words)
            for name, array in arrays.items():
                _check_type(array.dtype, name)
                wide = array.nbytes > np.iinfo(np.int32).max // 2  # with its header, it may need sizes of 64 bits
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=wide) as member:
                    npy_format.write_array(member, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
        digest = _digest(file)
        file.seek(-_DIGITS, 2)
        file.write(digest)


def read_arrays(path: Path) -> tuple[Header, dict[str, np.ndarray]]:
    """Return the header and the arrays that `write_arrays` wrote; other files and damaged ones raise ValueError."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        end = b""
        if size > len(_MARK) + _DIGITS:
            file.seek(-len(_MARK) - _DIGITS, 2)
            end = file.read()
        if not end.startswith(_MARK):
            raise ValueError(
                f"{path} was cut short, is damaged, or was not written by fastsvm: its checksum is not at its end. Get "
                "the file again."
            )
        if end[len(_MARK) :] != _digest(file):
            raise ValueError(f"{path} is damaged: its content does not match its checksum. Get the file again.")
        try:
            return _content(file, size)
        except Exception as error:  # zipfile and json may raise any error for a forged file
            reason = str(error) or type(error).__name__
            raise ValueError(f"{path} is damaged, or was not written by fastsvm: {reason}.") from error


def _digest(file: BinaryIO) -> bytes:
    """Return the checksum of a file up to the stored checksum at its end."""
    left = file.seek(0, 2) - _DIGITS
    digest, most = hashlib.sha256(), current_tuning().storage.piece_bytes
    file.seek(0)
    while left > 0 and (piece := file.read(min(most, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest().encode()


def _content(file: BinaryIO, size: int) -> tuple[Header, dict[str, np.ndarray]]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _check_entries(entries, size)
        header = json.loads(archive.read(entries[0]))
        if not isinstance(header, dict):
            raise ValueError(f"its header must be a JSON object, it is {type(header).__name__}")
        return header, {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries[1:]}


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Raise ValueError unless the header comes first and all parts are uncompressed and fit into the file."""
    names = [entry.filename for entry in entries]
    if names[:1] != [_HEADER] or not all(name.endswith(".npy") for name in names[1:]) or len(set(names)) < len(names):
        listed = names[: current_tuning().limits.shown]
        raise ValueError(f"its parts are not a header and arrays of different names, but {listed}")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
            raise ValueError(f"its part {entry.filename} is compressed or encrypted")
    if entries[0].file_size > (most := current_tuning().limits.read_bytes):
        raise ValueError(f"its header has {entries[0].file_size} bytes, more than {most}")
    total = sum(entry.file_size for entry in entries)
    if total > size:
        raise ValueError(f"its parts claim {total} bytes, it has {size}")


def _check_type(dtype: np.dtype, name: str) -> None:
    number = dtype.kind in "biuf" and dtype.itemsize <= 8
    if not number and (dtype.kind not in "US" or dtype.itemsize == 0):
        raise ValueError(f"the array {name} has type {dtype}; numbers of at most 8 bytes and strings can be stored")


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """Return an array. Raise ValueError if its size is not that of its part."""
    name = entry.filename.removesuffix(".npy")
    with archive.open(entry) as stream:
        if npy_format.read_magic(stream) != (1, 0):
            raise ValueError(f"the array {name} is of another version of the format")
        shape, fortran, dtype = npy_format.read_array_header_1_0(stream)
        _check_type(dtype, name)
        begin, nbytes = stream.tell(), math.prod(shape) * dtype.itemsize
        if fortran or min(shape, default=0) < 0 or begin + nbytes != entry.file_size:
            raise ValueError(f"the array {name}, {shape} of {dtype}, does not take the {entry.file_size} bytes it has")
    with archive.open(entry) as stream:
        array = npy_format.read_array(stream, allow_pickle=False)  # of memory of this size
        if stream.read(1):  # zipfile compares its own checksum here
            raise ValueError(f"the array {name} continues after its end")
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError(f"the array {name} holds bytes that are not bools")
    if array.dtype.kind == "U" and array.size:
        points = np.frombuffer(array.tobytes(), np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if points.max() > sys.maxunicode:
            raise ValueError(f"the array {name} holds numbers that are not characters")
    return array.astype(dtype.newbyteorder("="), copy=False)
