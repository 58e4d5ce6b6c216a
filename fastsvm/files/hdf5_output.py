"""HDF5 files written through Python, so that neither a full disk nor a signal interrupts HDF5 itself.

If HDF5 cannot write a file, it cannot close it either: it raises an error and crashes the process at its end. So HDF5
writes to an object that accepts all bytes and stores the first error of the disk. That error is raised after HDF5 has
returned. Python calls the object in the thread that calls HDF5. Signal handlers may raise, but they run in the main
thread only. So HDF5 is called in a separate thread.
"""

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


@contextmanager
def hdf5_written(path: Path, **options: int) -> Iterator[Callable[..., Any]]:
    """Make an HDF5 file, which is not removed after an error; `options` are those of `h5py.File`.

    Yields `do`: `do(function, *arguments)` returns `function(file, *arguments)` of the writing thread; OSError says
    that the disk has not taken all so far.
    """
    with open(path, "w+b", buffering=0) as file:
        disk = _Disk(file)
        with ThreadPoolExecutor(1, "hdf5 output") as thread:
            held = ExitStack()  # It has the open file, even if a signal comes while the thread opens it.

            def do(function: Callable[..., Any], *arguments: object) -> Any:
                result = thread.submit(function, output, *arguments).result()
                disk.raise_error()
                return result

            try:
                output = thread.submit(lambda: held.enter_context(h5py.File(disk, "w", **options))).result()
                yield do
            finally:
                thread.submit(held.close).result()
        disk.raise_error()


def write_all(file: FileIO, offset: int, data: "ReadableBuffer") -> None:
    """Write all bytes at a position of an unbuffered file, whose `write` may take only some at a time."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


class _Disk(io.RawIOBase):
    """An open file as HDF5 sees it: writes never fail."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._place = self._size = 0
        self._error: Exception | None = None

    def raise_error(self) -> None:
        """Raise the first error of the disk, if any."""
        if self._error is not None:
            raise self._error

    def _try(self, action: Callable[[], object]) -> None:
        """Call `action`, unless an earlier one failed."""
        if self._error is None:
            try:
                action()
            except Exception as error:  # HDF5 must not see any error
                self._error = error

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def write(self, data: "ReadableBuffer") -> int:
        data = memoryview(data).cast("B")
        self._try(lambda: write_all(self._file, self._place, data))
        self._place += len(data)
        self._size = max(self._size, self._place)
        return len(data)

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))  # zeros where nothing was written
        self._try(lambda: self._read(view))
        self._place += len(view)
        return len(view)

    def _read(self, view: memoryview) -> None:
        self._file.seek(self._place)
        while view and (n := self._file.readinto(view)):
            view = view[n:]

    def truncate(self, size: int | None = None) -> int:
        size = self._place if size is None else size
        self._try(lambda: self._file.truncate(size))
        self._size = size
        return size
