"""How much memory does an action add to the process?"""

import contextlib
import ctypes
import gc
import math
import sys
from pathlib import Path

import numpy as np

try:
    import resource
except ImportError:  # Windows
    resource = None

__all__ = ["Memory", "give_back", "lifetime_peak_mb", "peak_mb", "status_mb", "touch"]


class Memory:
    """Memory of the process before an action, and its peak after it."""

    def __init__(self) -> None:
        give_back()
        self.resets = _reset_peak()
        self.before_mb = status_mb("VmRSS") if self.resets else lifetime_peak_mb()

    def json(self) -> dict[str, float]:
        """Return the memory before, the peak since then, and the difference, in MB.

        If the system cannot reset an earlier peak, the difference is relative to that peak, so it is a lower bound.
        """
        peak = status_mb("VmHWM") if self.resets else lifetime_peak_mb()
        return {"before_mb": self.before_mb, "peak_mb": peak, "added_mb": max(0.0, peak - self.before_mb)}


def touch(megabytes: float) -> None:
    """Allocate memory, write to it, and free it.

    The host of a virtual machine may take seconds per gigabyte to provide memory when it is first used. The first
    competitor must not pay for the others.
    """
    np.ones(int(megabytes * 1e6), np.uint8)


def give_back() -> None:
    """Return free memory to the system. Otherwise this action could reuse what an earlier one left."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has this function
        ctypes.CDLL(None).malloc_trim(0)


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def status_mb(name: str) -> float:
    """Return what Linux says of the process by that name."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name + ":"))


def peak_mb() -> float:
    """Return the peak memory of the program.

    On Linux this is not that of `getrusage`, which includes memory of the process that started this one.
    """
    return status_mb("VmHWM") if Path("/proc/self/status").exists() else lifetime_peak_mb()


def lifetime_peak_mb() -> float:
    """Return the peak memory of the process, NaN if the system does not report it."""
    if resource is None:
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
