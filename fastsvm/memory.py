"""Memory: parse a budget, ask what is available, and what the process used at most."""

import ctypes
import os
import re
import sys
from numbers import Integral

_LEAST = 64 << 20  # So many bytes are taken to be available anyway.
_THREAD_BYTES = 24 << 20  # A thread has so many of the memory. Its own tiles and buffers take half of them at most.
_UNKNOWN = 2 << 30  # So many bytes are taken to be available where the system does not say.
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_memory(memory: str | int, enough: int | None = None) -> int:
    """Return a memory budget in bytes, of a number, or of a text with a unit, such as "2GB" or "1GiB", or "auto".

    "auto" is half of what the machine, or the container, has available now. To ask takes a tenth of a small fit, and is
    not done where every machine has `enough` bytes.

    >>> parse_memory("512MB")
    512000000
    """
    if isinstance(memory, str):
        if memory == "auto":
            if enough is not None and enough <= _LEAST // 2:
                return _LEAST // 2
            return available() // 2
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?)?b?\s*", memory.lower())
        if match and (size := int(float(match[1]) * _UNITS[match[2] or ""])) > 0:
            return size
    elif isinstance(memory, Integral) and not isinstance(memory, bool) and memory > 0:
        return int(memory)
    raise ValueError(f"memory must be 'auto', bytes as a positive int, or a size such as '2GB'; found {memory!r}.")


def threads_within(memory: str | int) -> int | None:
    """Return how many threads, each with buffers of its own, a memory budget allows for a fit, None for any number."""
    return None if memory == "auto" else max(1, parse_memory(memory) // _THREAD_BYTES)


def available() -> int:
    """Return an estimate of the bytes that the process may still allocate without swapping."""
    least = []
    try:
        match = re.search(rb"MemAvailable:\s+(\d+)", _contents("/proc/meminfo"))
        if match is None:
            raise OSError("no MemAvailable")
        least.append(int(match[1]) * 1024)
    except OSError:
        least.append(_of_windows() or _half_of_all() or _UNKNOWN)
    try:  # a container's limit (cgroup v2)
        limit = int(_contents("/sys/fs/cgroup/memory.max"))
        least.append(limit - int(_contents("/sys/fs/cgroup/memory.current")))
    except (OSError, ValueError):
        pass
    return max(_LEAST, min(least))


def _half_of_all() -> int:
    """Return half of the memory of the machine, for systems that do not say what is available; 0 if it is not known."""
    names = getattr(os, "sysconf_names", {})
    pages = os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in names else 0
    return max(0, pages * os.sysconf("SC_PAGE_SIZE") // 2) if pages > 0 else 0


class _MemoryStatus(ctypes.Structure):
    """What Windows tells of the memory (MEMORYSTATUSEX)."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("all", "free", "page_all", "page_free", "own", "own_free", "extended")),
    )


def _of_windows() -> int:
    """Return the memory that is available on Windows; 0 on other systems."""
    windows = getattr(ctypes, "windll", None)
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    return int(status.free) if windows and windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else 0


def _contents(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # every fit reads this, also one that takes less than a millisecond
        return file.readall()


def peak_memory() -> float | None:
    """Return the largest resident memory of the process so far in 10⁶ bytes, None where it is not known."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
