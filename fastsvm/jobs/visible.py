"""Text from data on its way to people: characters that a terminal or a page would obey are shown by their numbers."""

import re

__all__ = ["visible"]

# Controls, separators of lines, marks that turn the direction of what follows, and halves of pairs of UTF-16.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return text in which such characters are written as in Python, ESC as `\x1b`."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
