"""What the user is told while something runs: by the logger `fastsvm`, or on standard error where nobody listens to it.

`logging.getLogger("fastsvm").setLevel("WARNING")` silences it. With a handler, on this logger or on the root, an
application gets the messages.
"""

import logging
import sys
from contextlib import suppress

_logger = logging.getLogger("fastsvm")
if _logger.level == logging.NOTSET:  # else the root's level, that of warnings, would hide what `verbose` asks for
    _logger.setLevel(logging.INFO)


def say(message: str) -> None:
    """Print a line; if it cannot be printed, drop it, so that the work continues."""
    # The terminal has gone, the disk of the log is full, or the file is closed or none.
    with suppress(OSError, ValueError, AttributeError):
        print(f"fastsvm: {message}", file=sys.stderr, flush=True)


def tell(message: str) -> None:
    """Log a message; print it where the application has no handler."""
    if _logger.hasHandlers():
        _logger.info(message)
    elif _logger.isEnabledFor(logging.INFO):
        say(message)
