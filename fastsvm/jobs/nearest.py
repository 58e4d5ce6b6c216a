"""The nearest of some names, for messages about one that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["nearest"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to a name, whatever the case of its letters; None if none is near.

    Examples
    --------
    >>> nearest("c", ["C", "coef0"]), nearest("gama", ["C", "gamma"]), nearest("x", ["C", "gamma"])
    ('C', 'gamma', None)
    """
    by_letters = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), by_letters, 1, 0.5)
    return by_letters[found[0]] if found else None
