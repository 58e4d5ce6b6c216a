"""Locks of files. The system releases them when the process ends, even if it is killed."""

import time
from contextlib import suppress
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["has_locks", "is_taken", "take"]

_TRIALS, _PAUSE = 10, 0.05  # seconds: `is_taken` in another process holds a lock for a moment


def has_locks() -> bool:
    """Return whether this system has locks and can rename open files."""
    return fcntl is not None


def take(file: IO) -> bool:
    """Lock an open file. Return False if another process has locked it; without locks, return True."""
    for _ in range(_TRIALS):
        if not is_taken(file, shared=False):
            return True
        time.sleep(_PAUSE)
    return False


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
