"""Messages of the commands on standard error."""

import re
import sys
from contextlib import suppress

__all__ = ["in_options", "say"]

_NAMES = "label|id|format|split|array|dtype|sample_weight|first_index|n_features"
_PARAMETER = re.compile(rf"(?<![\w/])({_NAMES})=('[^']*'|\w*)")


def in_options(message: str) -> str:
    """Return a message in which parameters, such as id=0, are options of the command line, such as --id 0."""

    def option(found: re.Match) -> str:
        name, value = found.groups()
        if (name, value) == ("label", "False"):
            return "--no-label"
        return f"--{name.replace('_', '-')} {value}".rstrip()

    return _PARAMETER.sub(option, message)


def say(message: str) -> None:
    """Print a line; if it cannot be printed, drop it, so that the work continues."""
    with suppress(OSError, ValueError):  # the terminal has gone, the disk of the log is full, or the file is closed
        print(f"fastsvm: {message}", file=sys.stderr, flush=True)
