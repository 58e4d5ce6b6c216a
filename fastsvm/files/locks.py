"""Locks of files and folders. The system releases them when the process ends, even if it is killed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

windows: Any = None  # Windows' own locks
with suppress(ImportError):
    import msvcrt as windows

__all__ = ["LOCK", "has_locks", "is_taken", "locked_folder", "take"]

_PATIENCE = 0.5  # A lock is tried for so many seconds: `is_taken` in another process holds one for a moment.
LOCK = "owner.lock"  # the file that stands for a folder on Windows, where a folder cannot be locked


def has_locks() -> bool:
    """Return whether this system has locks and can rename open files."""
    return fcntl is not None


def take(file: IO) -> bool:
    """Lock an open file. Return False if another process has locked it; without locks, return True."""
    end = time.monotonic() + _PATIENCE
    while is_taken(file, shared=False):
        if time.monotonic() >= end:
            return False
        time.sleep(_PATIENCE / 10)
    return True


def is_taken(file: IO | int, shared: bool = True) -> bool:
    """Return whether another process has locked an open file. If not, lock it: shared or exclusive."""
    if fcntl is None:
        return False
    with suppress(OSError):
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def locked_folder(folder: Path) -> Iterator[bool | None]:
    """Lock a folder. Yields whether that succeeded; None if it cannot be locked, by nobody or not by this user."""
    number, succeeded = -1, None
    try:
        if windows is not None:
            number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
            succeeded = not _is_taken_on_windows(number)
        elif fcntl is not None:
            number = os.open(folder, os.O_RDONLY)
            is_free = not is_taken(number, shared=False)
            succeeded = is_free and os.path.samestat(os.fstat(number), os.stat(folder))  # it may be another one by now
    except FileNotFoundError:  # another process removed it
        succeeded = False
    except OSError:
        pass
    try:
        yield succeeded
    finally:
        if number >= 0:
            os.close(number)
        if windows is not None and succeeded:
            with suppress(OSError):  # an open file could not be removed, so the folder may be empty but for it
                (folder / LOCK).unlink()
                folder.rmdir()


def _is_taken_on_windows(number: int) -> bool:
    try:
        windows.locking(number, windows.LK_NBLCK, 1)
    except OSError:
        return True
    return False
