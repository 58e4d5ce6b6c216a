"""File formats of predictions, as stretches of bytes that grow with each block of rows.

An HDF5 file gets its metadata before the first row, and the places of all rows are allocated. Later writes only fill
these places, so a process that ends at any moment leaves no damaged file.
"""

import csv
import io
import re
import zlib
from collections.abc import Sequence
from io import FileIO
from typing import Any, NamedTuple, Protocol

import h5py
import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from fastsvm.files.hdf5_output import hdf5_into
from fastsvm.tuning import current_tuning

__all__ = ["CSVLayout", "HDF5Layout", "Layout", "Stretch", "label_type"]

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # in full width too, and after apostrophes
_NUMBER = re.compile(r"[-+](\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


class Stretch(NamedTuple):
    """Consecutive bytes of a file, from the position `offset` on, with their CRC-32."""

    offset: int
    nbytes: int = 0
    crc: int = 0

    @property
    def end(self) -> int:
        """Position after the last byte."""
        return self.offset + self.nbytes

    def longer(self, data: bytes) -> "Stretch":
        """Return the stretch with more bytes at its end."""
        return Stretch(self.offset, self.nbytes + len(data), zlib.crc32(data, self.crc))

    def found(self, file: FileIO) -> "Stretch":
        """Return the stretch at the same place as a file has it; it is shorter if the file ends before."""
        file.seek(self.offset)
        stretch, most = Stretch(self.offset), current_tuning().storage.block_bytes
        while data := file.read(min(most, self.nbytes - stretch.nbytes)):
            stretch = stretch.longer(data)
        return stretch


class Layout(Protocol):
    """A format of the output."""

    def begun(self, file: FileIO, labels: np.ndarray, decisions: np.ndarray) -> tuple[Stretch, ...]:
        """Write the head to an empty file; return the stretches, first those that grow.

        The labels and decision values are those of the first block. They tell types and shapes.
        """

    def encoded(self, labels: np.ndarray, decisions: np.ndarray) -> Sequence[bytes]:
        """Return the bytes of a block of rows for each stretch that grows."""


class CSVLayout:
    """CSV, one line per row."""

    def begun(self, file: FileIO, labels: np.ndarray, decisions: np.ndarray) -> tuple[Stretch, ...]:
        """Write the names of the columns; return the stretch of the lines."""
        header = self.header(decisions)
        write_all(file, 0, header)
        return (Stretch(0).longer(header),)

    def encoded(self, labels: np.ndarray, decisions: np.ndarray) -> Sequence[bytes]:
        """Return the lines of a block."""
        return (self.lines(labels, decisions),)

    @staticmethod
    def header(decisions: np.ndarray, with_ids: bool = False) -> bytes:
        """Return the line with the names of the columns."""
        n = 1 if decisions.ndim == 1 else decisions.shape[1]
        names = [f"decision_{k}" for k in range(n)] if n > 1 else ["decision"]
        return _lines([[*(["id"] if with_ids else []), "prediction", *names]])

    @staticmethod
    def lines(labels: np.ndarray, decisions: np.ndarray, ids: np.ndarray | None = None) -> bytes:
        """Return the lines of a block, with the identifiers of its rows if given."""
        rows = [
            [word, *values]
            for word, values in zip(_words(labels), decisions.reshape(len(labels), -1).tolist(), strict=True)
        ]
        return _lines(rows if ids is None else [[id, *row] for id, row in zip(_words(ids), rows, strict=True)])


class HDF5Layout:
    """HDF5 with the contiguous datasets `prediction`, of the given type, and `decision`, each of `n_rows` rows."""

    def __init__(self, n_rows: int, dtype: np.dtype) -> None:
        self.n_rows, self.dtype = n_rows, dtype

    def begun(self, file: FileIO, labels: np.ndarray, decisions: np.ndarray) -> tuple[Stretch, ...]:
        """Write the metadata; return the stretches of the datasets, then those of the metadata."""
        with hdf5_into(file) as output:
            spans = [
                output.do(self._allocate, "prediction", self.dtype, ()),
                output.do(self._allocate, "decision", decisions.dtype, decisions.shape[1:]),
            ]
        rest = _outside(spans, file.seek(0, io.SEEK_END))
        return (*(Stretch(start) for start, _ in spans), *(stretch.found(file) for stretch in rest))

    def _allocate(self, file: h5py.File, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> tuple[int, int]:
        """Make a dataset; return where it begins and ends in the file."""
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # each row is written once, and takes no room before
        dataset = file.create_dataset(name, shape=(self.n_rows, *shape), dtype=dtype, dcpl=properties)
        start = dataset.id.get_offset()
        return start, start + dataset.id.get_storage_size()

    def encoded(self, labels: np.ndarray, decisions: np.ndarray) -> Sequence[bytes]:
        """Return the bytes of a block for either dataset."""
        if self.dtype.kind == "S":
            labels = np.strings.encode(labels.astype(str), "utf-8")
        return labels.astype(self.dtype).tobytes(), decisions.tobytes()


def label_type(model: Any) -> np.dtype:
    """Return the type in which the predictions of a model are stored; text has the length of the longest label."""
    if is_outlier_detector(model):
        return np.dtype(np.int64)
    if not is_classifier(model):
        return np.dtype(np.float64)
    if model.classes_.dtype.kind in "OU":
        return h5py.string_dtype("utf-8", max(1, *(len(str(label).encode()) for label in model.classes_)))
    return model.classes_.dtype


def write_all(file: FileIO, offset: int, data: bytes) -> None:
    """Write all bytes at a position of an unbuffered file, whose `write` may take only some at a time."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _plain_text(label: str) -> str:
    """Return a label with an apostrophe before it if a spreadsheet would take it for a formula.

    Numbers stay as they are. A formula that has apostrophes already gets one more, so that removing one restores it.
    """
    return f"'{label}" if _FORMULA.match(label) and not _NUMBER.fullmatch(label) else label


def _words(values: np.ndarray) -> list[Any]:
    return [_plain_text(value) if isinstance(value, str) else value for value in values.tolist()]


def _lines(rows: list[list[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")  # lone surrogates are not in UTF-8


def _outside(spans: Sequence[tuple[int, int]], size: int) -> list[Stretch]:
    """Return the stretches of a file of some size that are outside the spans."""
    starts = [0, *(end for _, end in sorted(spans))]
    ends = [*(start for start, _ in sorted(spans)), size]
    return [Stretch(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]
