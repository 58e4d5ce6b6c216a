"""Messages of the commands on standard error."""

import sys
from contextlib import suppress

__all__ = ["say"]


def say(message: str) -> None:
    """Print a line; if it cannot be printed, drop it, so that the work continues."""
    with suppress(OSError, ValueError):  # the terminal has gone, the disk of the log is full, or the file is closed
        print(f"fastsvm: {message}", file=sys.stderr, flush=True)
