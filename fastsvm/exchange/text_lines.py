"""Lines of text with words and numbers, and errors that name the file and the line."""

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fastsvm.files.atomic_file import check_input
from fastsvm.tuning import current_tuning

__all__ = ["TextLines", "begins_with"]

_LARGEST = np.iinfo(np.int32).max


def begins_with(path: str | Path, word: bytes) -> bool:
    """Return whether a file begins with a word and a space."""
    path = Path(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(BOM_UTF8) + len(word) + 1).removeprefix(BOM_UTF8).startswith(word + b" ")


class TextLines:
    """Lines of a file, split into words; memory is bounded by the longest line. Messages call the file `what`."""

    def __init__(self, path: str | Path, what: str) -> None:
        check_input(path)
        if not Path(path).is_file():
            raise ValueError(f"{path} is a folder, not {what}.")
        self.path, self.what, self.number = path, what, 0
        self._places: dict[str, int] = {}

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yield the words of each line that has any. Editors of Windows put a byte-order mark before the first."""
        with open(self.path, "rb") as file:
            for self.number, line in enumerate(file, 1):
                words = (line.removeprefix(BOM_UTF8) if self.number == 1 else line).split()
                if words:
                    yield words

    def key_word(self, words: Sequence[bytes]) -> str:
        """Return the first word of the line that was yielded last, which may begin no other line."""
        name = shown(words[0])
        if name in self._places:
            raise self.error(f"{name} is there a second time")
        self._places[name] = self.number
        return name

    def error(self, problem: str, key_word: str | None = None) -> ValueError:
        """Return the error for the line that was yielded last, or for that of a key word."""
        number = self.number if key_word is None else self._places[key_word]
        return ValueError(f"{self.path}, line {number}: {problem}.")

    def damaged(self, problem: str) -> ValueError:
        """Return the error for the file as a whole."""
        return ValueError(f"{self.path} is not {self.what}, or is damaged: {problem}.")

    def numbers(self, words: Sequence[bytes]) -> np.ndarray:
        """Return finite numbers, in float64."""
        try:
            found = np.array([_number(word) for word in words], np.float64)
        except ValueError:
            raise self.error(f"there should be {_told(words)}") from None
        if not np.isfinite(found).all():
            raise self.error(f"{shown(words[int(np.argmin(np.isfinite(found)))])} is not a finite number")
        return found

    def whole(self, words: Sequence[bytes], least: int = -_LARGEST - 1) -> np.ndarray:
        """Return whole numbers of 32 bits, in int64, each at least `least`."""
        try:
            found = np.array([_whole(word) for word in words], np.int64)
        except (ValueError, OverflowError):
            raise self.error(f"there should be whole numbers, found {shown(b' '.join(words))}") from None
        if len(found) and not least <= found.min() <= found.max() <= _LARGEST:
            raise self.error(f"numbers from {least} to {_LARGEST} are possible, found {found.min()} to {found.max()}")
        return found

    def one(self, words: Sequence[bytes]) -> bytes:
        """Return the word behind the first one of a line."""
        if len(words) != 2:
            raise self.error(f"one word should follow {shown(words[0])}, found {len(words) - 1}")
        return words[1]

    def pairs(self, words: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices and values of index:value pairs; the indices must increase."""
        parts = [word.partition(b":") for word in words]
        indices = self.whole([index for index, _, _ in parts], least=0)
        if (np.diff(indices) <= 0).any():
            raise self.error("the indices of features do not increase")
        return indices, self.numbers([value for _, _, value in parts])


def _number(word: bytes) -> float:
    if b"_" in word:  # which Python's numbers may have
        raise ValueError
    return float(word)


def _whole(word: bytes) -> int:
    if b"_" in word or len(word) > len(str(_LARGEST)) + 1:
        raise ValueError
    return int(word)


def _told(words: Sequence[bytes]) -> str:
    """Say which of some words is not a number."""
    for word in words:
        try:
            _number(word)
        except ValueError:
            return f"a number, found {shown(word) or 'nothing'}"
    return "numbers"


def shown(word: bytes) -> str:
    """Return a word for a message."""
    most = current_tuning().limits.letters
    text = word[:most].decode("ascii", "backslashreplace")
    return text if len(word) <= most else f"{text}..."
