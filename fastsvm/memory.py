"""How much memory the process took."""

import sys

__all__ = ["peak_memory"]


def peak_memory() -> float | None:
    """Return the largest resident memory of the process so far in 10⁶ bytes, None where it is not known."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
