"""Values of a job file: each is checked, and errors name its place and the nearest valid key."""

import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from fastsvm.jobs.nearest import nearest

__all__ = ["SectionReader", "parse_seconds"]

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class SectionReader:
    """Reads values from sections and raises errors that name the job file, the section and the key."""

    def __init__(self, where: str) -> None:
        self.where = where

    def section(self, words: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """Return a section, empty if it is absent."""
        found = words.get(name, {})
        if not isinstance(found, Mapping):
            raise ValueError(f"{self.where}: {name} must be a section [{name}], found {found!r}.")
        return found

    def refuse_unknown(self, section: str, found: Mapping[str, Any], known: Sequence[str], more: str = "") -> None:
        """Raise ValueError for a key that is not known."""
        for name in found:
            if name not in known:
                near = nearest(name, known)
                meant = f" Did you mean {near!r}?" if near else f" Choose from {', '.join(known)}."
                what = f"{section}.{name} is not a key{more}" if section else f"[{name}] is not a section"
                raise ValueError(f"{self.where}: {what}.{meant}")

    def wrong(self, section: str, key: str, wanted: str, found: Any) -> ValueError:
        """Return the error of a value."""
        return ValueError(f"{self.where}: {section}.{key} must be {wanted}, found {found!r}.")

    def value(self, section: str, key: str, make: Any) -> Any:
        """Return what `make` returns; its errors name the key."""
        try:
            return make()
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.where}: {section}.{key}: {error}") from error

    def word(self, section: str, key: str, found: Mapping[str, Any]) -> str | None:
        """Return a word, or None."""
        value = found.get(key)
        if value is not None and not (isinstance(value, str) and value):
            raise self.wrong(section, key, "a word", value)
        return value

    def column(self, section: str, key: str, found: Mapping[str, Any]) -> str | int | None:
        """Return the name or the number of a column, or None."""
        value = found.get(key)
        if isinstance(value, bool) or not isinstance(value, (str, int, NoneType)) or value == "":
            raise self.wrong(section, key, "the name or the number of a column", value)
        return value

    def required_word(self, section: str, key: str, found: Mapping[str, Any]) -> str:
        """Return a word that must be there."""
        word = self.word(section, key, found)
        if word is None:
            raise self.wrong(section, key, "a word", word)
        return word

    def one_of(self, section: str, key: str, found: Mapping[str, Any], known: tuple[str, ...]) -> str | None:
        """Return one of some words, or None."""
        word = self.word(section, key, found)
        if word is not None and word not in known:
            near = nearest(word, known)
            raise self.wrong(section, key, f"one of {', '.join(known)}{f' ({near!r}?)' if near else ''}", word)
        return word

    def boolean(self, section: str, key: str, found: Mapping[str, Any], usual: bool) -> bool:
        """Return a truth value."""
        value = found.get(key, usual)
        if not isinstance(value, bool):
            raise self.wrong(section, key, "true or false", value)
        return value

    def number(
        self, section: str, key: str, found: Mapping[str, Any], usual: float, least: float, below: float
    ) -> float:
        """Return a number from `least` to less than `below`."""
        value = found.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < below:
            raise self.wrong(section, key, f"a number from {least:g} to less than {below:g}", value)
        return float(value)

    def whole(self, section: str, key: str, found: Mapping[str, Any], usual: Any, least: int) -> Any:
        """Return a whole number."""
        value = found.get(key, usual)
        if value is not usual and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise self.wrong(section, key, f"a whole number of at least {least}", value)
        return value

    def seconds(self, section: str, key: str, found: Mapping[str, Any]) -> float | None:
        """Return a time in seconds, or None."""
        value = found.get(key)
        return None if value is None else self.value(section, key, lambda: parse_seconds(value))


def parse_seconds(text: str | float) -> float:
    """Return a time in seconds.

    A text has seconds, or numbers with the units ms, s, min (or m), h, d, such as "1.5h". ValueError says that it has
    another form, or that the time is not positive.

    >>> parse_seconds("1h 30min")
    5400.0
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        total = float(text)
    else:
        parts = re.findall(r"([0-9.]+)\s*([a-z]+)", str(text)) if isinstance(text, str) else []
        rest = re.sub(r"([0-9.]+)\s*([a-z]+)", "", str(text)).strip()
        try:
            total = sum(float(number) * _UNITS[unit] for number, unit in parts)
        except (KeyError, ValueError):
            rest = str(text)
        if rest or not parts:
            raise ValueError(f"a time must be seconds or numbers with ms, s, min, h or d ('1h 30min'), found {text!r}.")
    if not 0 < total < float("inf"):
        raise ValueError(f"a time must be positive, found {text!r}.")
    return total
