"""Opening a file whether or not it is compressed."""

import bz2
import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO, Generic, TextIO, TypeVar

__all__ = ["Lines", "compressed", "head", "opened"]

_BUFFER_BYTES = 1 << 18
_LEAST_LINE = 1 << 20

Text = TypeVar("Text", bytes, str)


def compressed(path: Path) -> str | None:
    """Return "gz" or "bz2" if the first bytes of a file are those of such a file, else None."""
    with open(path, "rb") as stream:
        start = stream.read(10)
    if start.startswith(b"\x1f\x8b"):
        return "gz"
    return "bz2" if start.startswith(b"BZh") and start[4:] == b"1AY&SY" else None


class _Decompressed(io.RawIOBase):
    """The content of a compressed file; damage is a ValueError that names the file."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
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
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the content
            return error
        return ValueError(
            f"{self._path} is truncated or damaged, its compressed data cannot be read to the end ({error}); "
            "get the file again."
        )


def opened(path: Path) -> BinaryIO:
    """Open a file for reading, decompressing it on the way if it is gzip or bzip2.

    Reading raises ValueError where compressed data turn out to be damaged or to end early.
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
    """The lines of a stream, one after another, of which those that are held at once have a bounded length.

    Parameters
    ----------
    stream : file
        Of bytes or text.
    most : int
        Bytes or characters that may be taken until `taken` is set to 0, a million at least.
    path : Path
        The file, for messages.
    """

    def __init__(self, stream: BinaryIO | TextIO, most: int, path: Path) -> None:
        self._stream, self._most, self._path = stream, max(most, _LEAST_LINE), path
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
                "look whether it is one."
            )
        return line
