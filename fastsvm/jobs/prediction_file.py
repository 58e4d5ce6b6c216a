"""A file of predictions that is written block by block: a process that ends loses those of the last seconds at most.

The rows are written to `OUT.part`, in a layout whose bytes only grow. The journal `OUT.part.json` beside it names the
model and the data, and says how many rows are safely on disk, at which bytes, with which checksums. The complete part
is renamed to `OUT`.

Predictions are made in the order in which samples are stored, because that reads whole chunks. If that is not the order
of the file that the samples were converted from, or if values identify the samples, `OUT` is written from the part.
"""

import csv
import hashlib
import io
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector

from fastsvm.files.atomic_file import atomic_write, complete, has_locks, name_beside, take
from fastsvm.files.hdf5_output import hdf5_into, hdf5_written
from fastsvm.jobs.inputs import Json
from fastsvm.jobs.say import say
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import HDF5Data
from fastsvm.tuning import current_tuning

__all__ = ["CSVLayout", "HDF5Layout", "PredictionFile", "PredictionState", "SourceOrder", "label_type", "parts_of"]

FORMAT = "fastsvm-predictions"
VERSION = 1
Rewrite = Callable[[Path, Path], None]

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # in full width too, and after apostrophes
_NUMBER = re.compile(r"[-+](\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


# --- layouts -----------------------------------------------------------------------------------------------------


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

    def stored(self, file: FileIO) -> "Stretch":
        """Return the stretch at the same place as a file has it; it is shorter if the file ends before."""
        file.seek(self.offset)
        stretch, most = Stretch(self.offset), current_tuning().storage.block_bytes
        while data := file.read(min(most, self.nbytes - stretch.nbytes)):
            stretch = stretch.longer(data)
        return stretch


class CSVLayout:
    """CSV, one line per row. A layout is begun with labels and decision values of the first block, for their types."""

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
    """HDF5 with the contiguous datasets `prediction`, of the given type, and `decision`, each of `n_rows` rows.

    The file gets its metadata before the first row, and the places of all rows are allocated. Later writes only fill
    these places, so a process that ends at any moment leaves no damaged file.
    """

    def __init__(self, n_rows: int, dtype: np.dtype) -> None:
        self.n_rows, self.dtype = n_rows, dtype

    def begun(self, file: FileIO, labels: np.ndarray, decisions: np.ndarray) -> tuple[Stretch, ...]:
        """Write the metadata; return the stretches of the datasets, then those of the metadata."""
        with hdf5_into(file) as output:
            spans = [
                output.do(self._allocate, "prediction", self.dtype, ()),
                output.do(self._allocate, "decision", decisions.dtype, decisions.shape[1:]),
            ]
        starts = [0, *(end for _, end in sorted(spans))]
        ends = [*(start for start, _ in sorted(spans)), file.seek(0, io.SEEK_END)]
        metadata = [Stretch(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start]
        return (*(Stretch(start) for start, _ in spans), *(stretch.stored(file) for stretch in metadata))

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


Layout = CSVLayout | HDF5Layout


def label_type(model: BaseEstimator) -> np.dtype:
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


def _words(values: np.ndarray) -> list:
    return [_plain_text(value) if isinstance(value, str) else value for value in values.tolist()]


def _lines(rows: list[list]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")  # lone surrogates are not in UTF-8


# --- the file and its journal --------------------------------------------------------------------------------------


class PredictionState(NamedTuple):
    """The progress of a prediction: rows that are written, in whole blocks."""

    rows: int = 0
    stretches: tuple[Stretch, ...] = ()  # They are the bytes that hold the rows; empty before the first block.
    tally: np.ndarray | None = None  # It is the sum of a measure over the rows; None before the first block.


class _Unusable(Exception):
    """The reason why the part of an earlier process cannot be resumed."""


def parts_of(output: str | Path) -> tuple[Path, Path]:
    """Return the two files that exist beside an output while it is written: its part and its journal."""
    output = Path(output)
    return name_beside(output, ".part"), name_beside(output, ".part.json")


class PredictionFile:
    """A file of predictions while it is written, with the rows of `state`. Use `opened` to make one.

    `file` is the part, locked. It is resumed if the predictions depend on the same, `bound_to`. `rewrite(part, path)`
    writes the output from the complete part; None if the part is the output.
    """

    def __init__(
        self,
        output: str | Path,
        file: FileIO,
        layout: Layout,
        bound_to: Json,
        rewrite: "Rewrite | None" = None,
    ) -> None:
        self.output = Path(output)
        self.part, self.journal = parts_of(output)
        self._new_journal = name_beside(self.output, ".part.json.new")
        self._rewritten = name_beside(self.output, ".part.new")
        self._file, self._layout, self._rewrite = file, layout, rewrite
        self._bound_to = json.loads(json.dumps(bound_to))
        self.state = PredictionState()
        self._safe_rows, self._next, self._sync_failed = 0, 0.0, False
        self._tuning = current_tuning().jobs

    @classmethod
    @contextmanager
    def opened(
        cls, output: str | Path, layout: Layout, bound_to: Json, rewrite: "Rewrite | None" = None
    ) -> Iterator["PredictionFile"]:
        """Open the part of an output, with the rows of an earlier process if it made the same predictions.

        At the end the part becomes the output. After a ValueError it is removed; after other errors it stays.
        """
        with _locked(parts_of(output)[0]) as file:
            self = cls(output, file, layout, bound_to, rewrite)
            self._check_own()
            try:
                self._resume()
                yield self
                self._finish()
            except ValueError:
                self._discard()
                raise
            except BaseException:
                self._keep()
                raise

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray | None) -> None:
        """Add a block of rows; `tally` is the sum of a measure over all rows to its end, or None."""
        with self._explained():
            stretches = self.state.stretches or self._layout.begun(self._file, labels, decisions)
            grown = list(stretches)
            for k, data in enumerate(self._layout.encoded(labels, decisions)):
                write_all(self._file, stretches[k].end, data)
                grown[k] = stretches[k].longer(data)
        self.state = PredictionState(self.state.rows + len(labels), tuple(grown), tally)
        if time.perf_counter() >= self._next:
            self.save()

    def save(self) -> None:
        """Flush the rows to the disk, then write the journal that counts them; OSError says that the disk is full or
        fails.
        """
        begin = time.perf_counter()
        with self._explained():
            try:
                os.fsync(self._file.fileno())
            except OSError:  # the system may have dropped the bytes, and the next call would not report that
                self._sync_failed = True
                raise
            self._write_journal(self.state)
        self._safe_rows = self.state.rows
        now = time.perf_counter()
        self._next = now + max(self._tuning.log_s, (now - begin) / self._tuning.save_share)

    def _write_journal(self, state: PredictionState) -> None:
        tally = None if state.tally is None else state.tally.tolist()
        body = {"format": FORMAT, "version": VERSION, "bound_to": self._bound_to}
        body |= {"rows": state.rows, "stretches": state.stretches, "tally": tally}
        text = json.dumps({"checksum": _checksum(body), **body}, indent=1)
        with atomic_write(self.journal, self._new_journal) as part:
            part.write_text(text + "\n", encoding="utf-8")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add to an error in writing what the user can do."""
        try:
            yield
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot write {self.part}: {error.strerror or error}. Its rows stay; when there is room again, the "
                "same command resumes.",
            ) from error

    def _check_own(self) -> None:
        """Raise ValueError if the part has no journal: `PredictionFile` writes the journal before the first row."""
        if os.fstat(self._file.fileno()).st_size and not self.journal.exists():
            raise ValueError(
                f"{self.part} exists and is not a part of predictions, which would be written there. Remove it, or "
                "name another output."
            )

    def _resume(self) -> None:
        """Take over the rows of an earlier process, or start again and say why."""
        try:
            self.state = self._left()
            self._safe_rows = self.state.rows
        except _Unusable as reason:
            say(f"cannot resume from {self.part}: {reason}. Starting again.")
        if not self.state.rows:
            self.state = PredictionState()
        self._cut()
        self.save()

    def _cut(self) -> None:
        """Remove all bytes behind the rows of `state`; in an HDF5 file, later rows are written to the same places."""
        self._file.truncate(max((stretch.end for stretch in self.state.stretches), default=0))

    def _left(self) -> PredictionState:
        """Return the state that an earlier process left."""
        if not self.journal.exists():
            return PredictionState()
        state = self._read_journal()
        if any(stretch.stored(self._file) != stretch for stretch in state.stretches):
            raise _Unusable("it is damaged, its checksum differs")
        return state

    def _read_journal(self) -> PredictionState:
        try:
            body = json.loads(self.journal.read_text(encoding="utf-8"))
            checksum, kind = body.pop("checksum"), (body["format"], body["version"])
            bound_to, rows, tally = body["bound_to"], body["rows"], body["tally"]
            stretches = tuple(Stretch(*numbers) for numbers in body["stretches"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Unusable(f"{self.journal.name} is damaged") from error
        if kind != (FORMAT, VERSION):
            raise _Unusable(f"{self.journal.name} was written by another version of fastsvm")
        if checksum != _checksum(body):
            raise _Unusable(f"{self.journal.name} is damaged")
        for name in self._bound_to | bound_to:
            if self._bound_to.get(name) != bound_to.get(name):
                raise _Unusable(f"the {name} changed")
        return PredictionState(rows, stretches, None if tally is None else np.array(tally))

    def _finish(self) -> None:
        """Rename the complete part to the output, or write the output from it."""
        self.save()
        if not has_locks():  # Windows renames no open file
            self._file.close()
        with self._explained():
            if self._rewrite is None:
                complete(self.part, self.output)
            else:
                with atomic_write(self.output, self._rewritten) as path:
                    self._rewrite(self.part, path)
                self.part.unlink()
        self.journal.unlink(missing_ok=True)

    def _keep(self) -> None:
        """Keep the rows that are written, if the disk allows it."""
        if not self.state.rows:
            self._discard()
        elif self._safe_rows < self.state.rows and not self._sync_failed:
            with suppress(OSError):
                self._cut()  # on a full disk, removing half a block makes room for the journal
                self.save()

    def _discard(self) -> None:
        """Remove the part and the journal."""
        if not has_locks():
            self._file.close()
        for path in (self.part, self.journal, self._new_journal):
            path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    """Open and lock a file; the lock ends with the process."""
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(number, "r+b", buffering=0) as file:
            if not take(file):
                raise ValueError(f"{path} is being written by another process. Wait until it has ended.")
            # Another process may have renamed the file before it was locked.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                yield file
                return


def _checksum(body: Json) -> str:
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()


# --- the order of the source -------------------------------------------------------------------------------------


class SourceOrder:
    """Positions of the samples in the order of the source of a data set, and the identifiers of its rows as stored."""

    def __init__(self, order: np.ndarray, ids: np.ndarray | None) -> None:
        self.order, self.ids = order, ids

    @classmethod
    def of(cls, data: HDF5Data) -> "SourceOrder | None":
        """Return the order of the source of a data set; None if it is stored in that order, without identifiers."""
        rows, ids = data.source_row, data.ids
        if rows is None and ids is None:
            return None
        return cls(np.arange(len(data)) if rows is None else np.argsort(rows, kind="stable"), ids)

    def write(self, part: Path, output: Path, as_csv: bool) -> None:
        """Write the predictions of a part, contiguous HDF5, in the order of the source, as CSV or HDF5."""
        (self._write_csv if as_csv else self._write_hdf5)(output, *_stored(part))

    def _blocks(self, labels: np.ndarray, decisions: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
        """Yield the columns of blocks of rows, in the order of the source."""
        step = current_tuning().jobs.block_rows
        with progress_bar(total=len(labels), desc="sort", unit="row", unit_scale=True) as bar:
            for start in range(0, len(labels), step):
                rows = self.order[start : start + step]
                ids = {} if self.ids is None else {"id": self.ids[rows]}
                yield ids | {"prediction": labels[rows], "decision": decisions[rows]}
                bar.update(len(rows))

    def _write_csv(self, output: Path, labels: np.ndarray, decisions: np.ndarray) -> None:
        layout = CSVLayout()
        with output.open("wb") as file:
            file.write(layout.header(decisions, with_ids=self.ids is not None))
            for block in self._blocks(labels, decisions):
                words = block["prediction"]
                words = np.strings.decode(words, "utf-8") if words.dtype.kind == "S" else words
                file.write(layout.lines(words, block["decision"], block.get("id")))

    def _write_hdf5(self, output: Path, labels: np.ndarray, decisions: np.ndarray) -> None:
        start = 0
        with hdf5_written(output) as file:
            for block in self._blocks(labels, decisions):
                for name, values in block.items():
                    if start == 0:
                        file.do(_create, name, len(labels), values)
                    file.do(_fill, name, start, values)
                start += len(block["prediction"])


def _stored(part: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the predictions and decision values of a file, mapped into memory."""

    def mapped(dataset: h5py.Dataset) -> np.ndarray:
        return np.memmap(part, dataset.dtype, "r", dataset.id.get_offset(), dataset.shape)

    with part.open("rb") as stream, h5py.File(stream, "r") as file:  # HDF5 would lock a path, and the part is locked
        return mapped(file["prediction"]), mapped(file["decision"])


def _create(file: h5py.File, name: str, n_rows: int, values: np.ndarray) -> None:
    kinds = {"U": h5py.string_dtype(), "S": h5py.string_dtype("utf-8", max(1, values.dtype.itemsize))}
    file.create_dataset(name, (n_rows, *values.shape[1:]), kinds.get(values.dtype.kind, values.dtype))


def _fill(file: h5py.File, name: str, start: int, values: np.ndarray) -> None:
    file[name][start : start + len(values)] = values.astype(object) if values.dtype.kind == "U" else values
