"""Locks of files, which end with the process that has them, however it ends."""

import time
from contextlib import suppress
from typing import IO

try:
    import fcntl
except ImportError:  # on Windows, where there are none
    fcntl = None  # type: ignore[assignment]

__all__ = ["has_locks", "is_taken", "take"]

_TRIALS, _PAUSE = 10, 0.05  # seconds, for who only asks whether there is a lock holds it for a moment


def has_locks() -> bool:
    """Return whether this system has locks, and open files can be renamed."""
    return fcntl is not None


def take(file: IO) -> bool:
    """Lock an open file, and return whether no other process has done so; file systems without locks grant all."""
    for _ in range(_TRIALS):
        if not is_taken(file, shared=False):
            return True
        time.sleep(_PAUSE)
    return False


def is_taken(file: IO | int, shared: bool = True) -> bool:
    """Return whether another process has locked an open file; if not, this one has, perhaps with others."""
    if fcntl is None:
        return False
    with suppress(OSError):
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
