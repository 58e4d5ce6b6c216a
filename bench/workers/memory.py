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
    """The process before an action, and what its peak is after it."""

    def __init__(self) -> None:
        give_back()
        self.resets = _reset_peak()
        self.before_mb = status_mb("VmRSS") if self.resets else lifetime_peak_mb()

    def json(self) -> dict[str, float]:
        """Return memory before, at the peak since then, and the difference, in MB.

        Where the system cannot forget an earlier peak, the difference is to that, hence a lower bound.
        """
        peak = status_mb("VmHWM") if self.resets else lifetime_peak_mb()
        return {"before_mb": self.before_mb, "peak_mb": peak, "added_mb": max(0.0, peak - self.before_mb)}


def touch(megabytes: float) -> None:
    """Take so much memory from the system and give it back.

    A virtual machine is handed memory by its host when it first uses it, at seconds a gigabyte on some. Who runs
    first must not pay for all.
    """
    np.ones(int(megabytes * 1e6), np.uint8)


def give_back() -> None:
    """Return free memory to the system: what an earlier action left would hide what this one takes."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc can
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
    """Return the most memory that the program ever had.

    Where Linux tells, it is not that of `getrusage`, which begins with what the process had that started this one.
    """
    return status_mb("VmHWM") if Path("/proc/self/status").exists() else lifetime_peak_mb()


def lifetime_peak_mb() -> float:
    """Return the most memory that the process ever had, nan where the system does not tell."""
    if resource is None:
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
