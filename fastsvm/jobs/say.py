"""What commands say on standard error, where work must not end because nobody can listen."""

import sys
from contextlib import suppress

__all__ = ["say"]


def say(words: str) -> None:
    """Print a line, unless its terminal has gone, or the disk of its file is full."""
    with suppress(OSError, ValueError):  # which a closed file raises
        print(f"fastsvm: {words}", file=sys.stderr, flush=True)
