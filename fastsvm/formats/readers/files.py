"""Files that may be compressed: opening them and reading their lines."""

import bz2
import gzip
import io
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Lines", "compressed", "head", "opened"]

_BUFFER_BYTES = 1 << 18
_LEAST_LINE = 1 << 20

Text = TypeVar("Text", bytes, str)


def compressed(path: Path) -> str | None:
    """Return "gz" or "bz2" if the first bytes of a file say so, else None."""
    with open(path, "rb") as stream:
        start = stream.read(10)
    if start.startswith(b"\x1f\x8b"):
        return "gz"
    return "bz2" if start.startswith(b"BZh") and start[4:] == b"1AY&SY" else None


class _Decompressed(io.RawIOBase):
    """The content of a compressed file. Damaged data raise a ValueError that names the file."""

    def __init__(self, stream: io.BufferedIOBase, path: Path) -> None:
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        try:
            return self._stream.readinto(buffer)
        except (EOFError, OSError, zlib.error) as error:
            raise self._damaged(error) from error

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self._stream.seek(offset, whence)
        except (EOFError, OSError, zlib.error) as error:
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
    """Open a file for reading; decompress gzip and bzip2.

    Reading raises ValueError if compressed data are damaged or truncated.
    """
    opener = {"gz": gzip.open, "bz2": bz2.open, None: None}[compressed(path)]
    if opener is None:
        return open(path, "rb", buffering=_BUFFER_BYTES)
    return io.BufferedReader(_Decompressed(opener(path, "rb"), path), _BUFFER_BYTES)


def head(path: Path, n_bytes: int) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with opened(path) as stream:
        return stream.read(n_bytes)


class Lines(Generic[Text]):
    """The lines of a stream. The total length of lines in memory is bounded.

    Parameters
    ----------
    stream : file
        Binary or text file.
    most : int
        Bytes or characters that may be read until `taken` is set to 0; at least a million.
    path : Path
        The file, for messages.
    """

    def __init__(self, stream: IO[Text], most: int, path: Path) -> None:
        self._stream: IO[Text] = stream
        self._most, self._path = max(most, _LEAST_LINE), path
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
