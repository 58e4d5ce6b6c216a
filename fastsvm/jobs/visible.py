"""Text from data, made safe to show: characters that control a terminal or a page are escaped."""

import re

__all__ = ["visible"]

# Control characters, line separators, marks of text direction, and lone surrogates of UTF-16.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return the text with control characters escaped as in Python, ESC as `\x1b`."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
