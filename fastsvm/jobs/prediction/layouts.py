"""How predictions lie in a file: as stretches of bytes to which those of each block of rows are added.

Of HDF5, all that describes the file is written before the first row, and the place of every row is set aside. What
follows are bytes in those places, so that a process that ends at any moment leaves no damaged file.
"""

import csv
import io
import re
import zlib
from collections.abc import Sequence
from typing import IO, Any, NamedTuple, Protocol

import h5py
import numpy as np
from sklearn.base import is_classifier

from fastsvm.files.hdf5_output import hdf5_into

__all__ = ["CSVLayout", "HDF5Layout", "Layout", "Stretch", "label_type"]

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # in full width too, and what was made text
_NUMBER = re.compile(r"[-+](\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_PIECE = 1 << 22  # bytes that are read at a time


class Stretch(NamedTuple):
    """Bytes of a file that follow each other.

    Attributes
    ----------
    offset : int
        Where they begin.
    nbytes : int
        How many they are.
    crc : int
        Their checksum.
    """

    offset: int
    nbytes: int = 0
    crc: int = 0

    @property
    def end(self) -> int:
        """Where the next byte goes."""
        return self.offset + self.nbytes

    def longer(self, data: bytes) -> "Stretch":
        """Return the stretch with some bytes more at its end."""
        return Stretch(self.offset, self.nbytes + len(data), zlib.crc32(data, self.crc))

    def found(self, file: IO[bytes]) -> "Stretch":
        """Return the stretch of the same place as it is in a file, shorter if the file is."""
        file.seek(self.offset)
        stretch = Stretch(self.offset)
        while data := file.read(min(_PIECE, self.nbytes - stretch.nbytes)):
            stretch = stretch.longer(data)
        return stretch


class Layout(Protocol):
    """What a format of the output has to say."""

    def begun(self, file: IO[bytes], labels: np.ndarray, decisions: np.ndarray) -> tuple[Stretch, ...]:
        """Write what comes before the rows to an empty file; return the stretches, first those that will grow.

        The labels and decision values are those of some rows, for their types and shapes.
        """

    def encoded(self, labels: np.ndarray, decisions: np.ndarray) -> Sequence[bytes]:
        """Return what a block of rows adds to each stretch that grows."""


class CSVLayout:
    """Text, one line a row."""

    def begun(self, file: IO[bytes], labels: np.ndarray, decisions: np.ndarray) -> tuple[Stretch, ...]:
        """Write the names of the columns; return the stretch of all lines."""
        n = 1 if decisions.ndim == 1 else decisions.shape[1]
        names = [f"decision_{k}" for k in range(n)] if n > 1 else ["decision"]
        header = _lines([["prediction", *names]])
        write_all(file, 0, header)
        return (Stretch(0).longer(header),)

    def encoded(self, labels: np.ndarray, decisions: np.ndarray) -> Sequence[bytes]:
        """Return the lines."""
        columns = decisions.reshape(len(labels), -1).tolist()
        words = [_plain_text(label) if isinstance(label, str) else label for label in labels.tolist()]
        return (_lines([[label, *values] for label, values in zip(words, columns, strict=True)]),)


class HDF5Layout:
    """The datasets `prediction` and `decision`, each in one piece.

    Parameters
    ----------
    n_rows : int
        Of the complete file.
    dtype : numpy.dtype
        Of predictions.
    """

    def __init__(self, n_rows: int, dtype: np.dtype) -> None:
        self.n_rows, self.dtype = n_rows, dtype

    def begun(self, file: IO[bytes], labels: np.ndarray, decisions: np.ndarray) -> tuple[Stretch, ...]:
        """Write all but the rows; return the stretches of the datasets, and those of what is around them."""
        with hdf5_into(file) as output:
            spans = [
                output.do(self._set_aside, "prediction", self.dtype, ()),
                output.do(self._set_aside, "decision", decisions.dtype, decisions.shape[1:]),
            ]
        rest = _outside(spans, file.seek(0, io.SEEK_END))
        return (*(Stretch(start) for start, _ in spans), *(stretch.found(file) for stretch in rest))

    def _set_aside(self, book: h5py.File, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> tuple[int, int]:
        """Make a dataset and return where it begins and ends in the file."""
        how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        how.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # each row is written once, and takes no room before
        dataset = book.create_dataset(name, shape=(self.n_rows, *shape), dtype=dtype, dcpl=how)
        start = dataset.id.get_offset()
        return start, start + dataset.id.get_storage_size()

    def encoded(self, labels: np.ndarray, decisions: np.ndarray) -> Sequence[bytes]:
        """Return the bytes as they lie in the datasets."""
        if self.dtype.kind == "S":
            labels = np.strings.encode(labels.astype(str), "utf-8")
        return labels.astype(self.dtype).tobytes(), decisions.tobytes()


def label_type(model: Any) -> np.dtype:
    """Return the type in which the predictions of a model are stored; words take as many bytes as the longest."""
    if not is_classifier(model):
        return np.dtype(np.float64)
    if model.classes_.dtype.kind in "OU":
        return h5py.string_dtype("utf-8", max(1, *(len(str(label).encode()) for label in model.classes_)))
    return model.classes_.dtype


def write_all(file: IO[bytes], offset: int, data: bytes) -> None:
    """Write all bytes from a place in an unbuffered file on, which may take less than it is given."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _plain_text(label: str) -> str:
    """Return a label that a spreadsheet shows instead of computing it: an apostrophe before it makes it text.

    Numbers stay. One apostrophe less gives the label back wherever `_FORMULA` begins with one.
    """
    return f"'{label}" if _FORMULA.match(label) and not _NUMBER.fullmatch(label) else label


def _lines(rows: list[list[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")  # of halves of pairs, which UTF-8 has not


def _outside(spans: Sequence[tuple[int, int]], size: int) -> list[Stretch]:
    """Return what is not within the spans in a file of some size."""
    starts = [0, *(end for _, end in sorted(spans))]
    ends = [*(start for start, _ in sorted(spans)), size]
    return [Stretch(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]
