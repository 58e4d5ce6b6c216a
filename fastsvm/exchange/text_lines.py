"""Lines of text with words and numbers, and errors that name the file and the line."""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fastsvm.files.atomic_file import check_input
from fastsvm.tuning import current_tuning

Header: TypeAlias = dict[str, Any]
"""The values of key words."""
ValueReaders: TypeAlias = dict[str, Callable[[list[bytes]], object]]
"""For each key word, how its value is read from the words of its line."""
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
        self._content = self._read()

    def __iter__(self) -> Iterator[list[bytes]]:
        """Return the iterator of the words of each line that has any; a second loop goes on where the first ended."""
        return self._content

    def _read(self) -> Iterator[list[bytes]]:  # editors of Windows put a byte-order mark before the first word
        with open(self.path, "rb") as file:
            for self.number, line in enumerate(file, 1):
                words = (line.removeprefix(BOM_UTF8) if self.number == 1 else line).split()
                if words:
                    yield words

    def header(self, values: ValueReaders, last: str, what_follows: str) -> Header:
        """Return the values of the key words up to the line `last`, each of which may begin one line."""
        header: Header = {}
        for words in self:
            name = shown(words[0])
            if name in self._places:
                raise self.error(f"{name} is there a second time")
            self._places[name] = self.number
            if name == last:
                return header
            if name not in values:
                raise self.error(f"there is no key word {name} in {self.what}")
            header[name] = values[name](words)
        raise self.damaged(f"it ends before {what_follows}, which the line {last} announces")

    def choice(self, words: Sequence[bytes], choices: Sequence[str]) -> str:
        """Return the word behind the key word, one of some."""
        word = shown(self._one(words)[0])
        if word not in choices:
            raise self.error(f"{shown(words[0])} is {word}, but must be one of {', '.join(choices)}")
        return word

    def count(self, words: Sequence[bytes]) -> int:
        """Return the whole number behind the key word, at least 0."""
        return int(self.whole(self._one(words), least=0)[0])

    def number_of(self, words: Sequence[bytes]) -> float:
        """Return the finite number behind the key word."""
        return float(self.numbers(self._one(words))[0])

    def require(self, header: Header, names: Sequence[str]) -> None:
        """Raise ValueError if a header lacks some key words."""
        missing = [name for name in names if name not in header]
        if missing:
            raise self.damaged(f"it lacks {', '.join(missing)}")

    def error(self, problem: str, key_word: str | None = None) -> ValueError:
        """Return the error for the line that was yielded last, or for that of a key word."""
        number = self.number if key_word is None else self._places[key_word]
        return ValueError(f"{self.path}, line {number}: {problem}.")

    def damaged(self, problem: str) -> ValueError:
        """Return the error for the file as a whole."""
        return ValueError(f"{self.path} is not {self.what}, or is damaged: {problem}.")

    def numbers(self, words: Sequence[bytes]) -> np.ndarray:
        """Return finite numbers, in float64."""
        values = np.empty(len(words))
        for k, word in enumerate(words):
            try:
                values[k] = float(word.replace(b"_", b"?"))  # Python's numbers may have underscores
            except ValueError:
                raise self.error(f"there should be a number, found {shown(word) or 'nothing'}") from None
        if not np.isfinite(values).all():
            raise self.error(f"{shown(words[int(np.argmin(np.isfinite(values)))])} is not a finite number")
        return values

    def whole(self, words: Sequence[bytes], least: int = -_LARGEST - 1) -> np.ndarray:
        """Return whole numbers of 32 bits, in int64, each at least `least`."""
        try:
            values = np.array([_whole(word) for word in words], np.int64)
        except (ValueError, OverflowError):
            raise self.error(f"there should be whole numbers, found {shown(b' '.join(words))}") from None
        if len(values) and not least <= values.min() <= values.max() <= _LARGEST:
            raise self.error(f"numbers from {least} to {_LARGEST} are possible, found {values.min()} to {values.max()}")
        return values

    def _one(self, words: Sequence[bytes]) -> Sequence[bytes]:
        """Return the words behind the first one of a line, of which there must be one."""
        if len(words) != 2:
            raise self.error(f"one word should follow {shown(words[0])}, found {len(words) - 1}")
        return words[1:]

    def table(self, n_rows: int, n_words: int, asked: str, rest: bool = False) -> Iterator[Sequence[bytes]]:
        """Yield the words of all further lines, for which a key word `asked`; with `rest`, they may have more words."""
        n = 0
        for n, words in enumerate(self, 1):
            if len(words) < n_words or (len(words) > n_words and not rest):
                raise self.error(f"there should be {n_words} numbers, found {len(words)}")
            yield words
            if n > n_rows:
                raise self.error(f"{asked.format(n_rows)}, here is one more")
        if n != n_rows:
            raise self.error(f"{asked.format(n_rows)}, there are {n}", asked.split()[0])

    def pairs(self, words: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices and values of index:value pairs; the indices must increase."""
        parts = [word.partition(b":") for word in words]
        indices = self.whole([index for index, _, _ in parts], least=0)
        if (np.diff(indices) <= 0).any():
            raise self.error("the indices of features do not increase")
        return indices, self.numbers([value for _, _, value in parts])


def _whole(word: bytes) -> int:
    if b"_" in word or len(word) > len(str(_LARGEST)) + 1:
        raise ValueError
    return int(word)


def shown(word: bytes) -> str:
    """Return a word for a message."""
    most = current_tuning().limits.letters
    text = word[:most].decode("ascii", "backslashreplace")
    return text if len(word) <= most else f"{text}..."


def whole_labels(classes: np.ndarray, program: str) -> np.ndarray:
    """Return labels as int64; ValueError says that some are not whole numbers of 32 bits."""
    are_whole = classes.dtype.kind in "biu" or (classes.dtype.kind == "f" and bool((np.mod(classes, 1) == 0).all()))
    if not are_whole or np.abs(classes.astype(np.float64)).max() > _LARGEST:
        raise ValueError(
            f"{program}'s text has whole numbers of 32 bits as labels, this model has {classes[:3].tolist()}"
            f"{', ...' if len(classes) > 3 else ''}. Fit it to numbers, such as those of sklearn.preprocessing."
            "LabelEncoder."
        )
    return classes.astype(np.int64)
