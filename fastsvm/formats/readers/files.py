"""Files that may be compressed: opening them and reading their lines."""

import io
import zlib
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Generic, TypeVar

from fastsvm.tuning import current_tuning

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Lines", "compressed", "head", "opened"]

_MODULES = {"gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "compression.zstd"}  # a Python may lack some of them

Text = TypeVar("Text", bytes, str)


def compressed(path: Path) -> str | None:
    """Return "gz", "bz2", "xz" or "zst" if the first bytes of a file say so, else None."""
    with open(path, "rb") as stream:
        start = stream.read(10)
    starts = {"gz": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00", "zst": b"\x28\xb5\x2f\xfd"}
    if start.startswith(b"BZh") and start[4:] == b"1AY&SY":
        return "bz2"
    return next((kind for kind, begin in starts.items() if start.startswith(begin)), None)


class _Decompressed(io.RawIOBase):
    """The content of a compressed file. Damaged data raise a ValueError that names the file."""

    def __init__(self, stream: io.BufferedIOBase, path: Path, errors: tuple[type[Exception], ...]) -> None:
        self._stream, self._path, self._errors = stream, path, errors

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        try:
            return self._stream.readinto(buffer)
        except self._errors as error:
            raise self._damaged(error) from error

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self._stream.seek(offset, whence)
        except self._errors as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _damaged(self, error: Exception) -> Exception:
        if isinstance(error, OSError) and error.errno is not None:  # an error of the disk, not of the content
            return error
        return ValueError(
            f"{self._path} is truncated or damaged, its compressed data cannot be read to the end ({error}); "
            "get the file again."
        )


def opened(path: Path) -> BinaryIO:
    """Open a file for reading; decompress gzip, bzip2, xz and, from Python 3.14 on, Zstandard.

    It raises ValueError if this Python does not read the compression, and reading does if compressed data are damaged
    or truncated.
    """
    kind = compressed(path)
    buffered = current_tuning().storage.piece_bytes
    if kind is None:
        return open(path, "rb", buffering=buffered)
    try:
        module = import_module(_MODULES[kind])
    except ImportError as error:
        raise ValueError(f"{path} is compressed as .{kind}, which this Python does not read. Decompress it.") from error
    own = (getattr(module, name, zlib.error) for name in ("LZMAError", "ZstdError"))
    errors = (EOFError, OSError, zlib.error, *own)
    return io.BufferedReader(_Decompressed(module.open(path, "rb"), path, errors), buffered)


def head(path: Path, n_bytes: int) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with opened(path) as stream:
        return stream.read(n_bytes)


class Lines(Generic[Text]):
    """The lines of a binary or text stream. The total length of lines in memory is bounded.

    `most` bytes or characters, at least a million, may be read until `taken` is set to 0.
    """

    def __init__(self, stream: IO[Text], most: int, path: Path) -> None:
        self._stream: IO[Text] = stream
        self._most, self._path = max(most, current_tuning().storage.piece_bytes), path
        self.taken = 0

    def __iter__(self) -> "Lines[Text]":
        return self

    def __next__(self) -> Text:
        line = self._stream.readline(self._most + 1)
        if not line:
            raise StopIteration
        self.taken += len(line)
        if self.taken > self._most:
            raise ValueError(
                f"{self._path} has a line of more than {self._most} bytes: raise memory if it is a row of a table, or "
                "check whether it is one."
            )
        return line
