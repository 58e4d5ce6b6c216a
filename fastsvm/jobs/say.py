"""Messages of the commands: on standard error, in the words of the command line, and safe to show."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from fastsvm.messages import say as say

_NAMES = "label|id|format|split|array|dtype|sample_weight|first_index|n_features"
_PARAMETER = re.compile(rf"(?<![\w/])({_NAMES})=('[^']*'|\w*)")
# Control characters, line separators, marks of text direction, and lone surrogates of UTF-16.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


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
