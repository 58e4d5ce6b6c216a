"""Messages to the user, safe to show: of fits by the logger `fastsvm`, or on standard error where nobody listens to it.

`logging.getLogger("fastsvm").setLevel("WARNING")` silences fits. With a handler, on this logger or on the root, an
application gets their messages. Commands print theirs, in the words of the command line.
"""

import logging
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

_NAMES = "label|id|format|split|array|dtype|sample_weight|first_index|n_features"
_PARAMETER = re.compile(rf"(?<![\w/])({_NAMES})=('[^']*'|\w*)")
# Control characters, line separators, marks of text direction, and lone surrogates of UTF-16.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
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


def in_options(message: str) -> str:
    """Return a message in which parameters, such as id=0, are options of the command line, such as --id 0."""

    def option(parameter: re.Match) -> str:
        name, value = parameter.groups()
        if (name, value) == ("label", "False"):
            return "--no-label"
        return f"--{name.replace('_', '-')} {value}".rstrip()

    return _PARAMETER.sub(option, message)


def visible(text: str) -> str:
    r"""Return text with the characters that control a terminal or a page escaped as in Python, ESC as `\x1b`."""
    return _CONTROLS.sub(lambda control: control[0].encode("unicode_escape").decode(), text)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of some names that is nearest to a name, whatever the case of its letters; None if none is near.

    Examples
    --------
    >>> nearest("c", ["C", "coef0"]), nearest("gama", ["C", "gamma"]), nearest("x", ["C", "gamma"])
    ('C', 'gamma', None)
    """
    by_letters = {one.lower(): one for one in names}
    matches = get_close_matches(name.lower(), by_letters, 1, 0.5)
    return by_letters[matches[0]] if matches else None
