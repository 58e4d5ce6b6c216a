"""A file of predictions that is written block by block: a process that ends loses those of the last seconds at most.

The rows are written to `OUT.part`, as records of equal length, in the order in which samples are stored, because that
reads whole chunks. The journal `OUT.part.json` beside it names the model and the data, and says how many rows are
safely on disk, with their checksum. `OUT` is written from the complete part, as CSV or HDF5, in the order of the file
that the samples were converted from.
"""

import csv
import hashlib
import io
import json
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector

from fastsvm.files.atomic_file import atomic_write, has_locks, name_beside, take
from fastsvm.files.hdf5_output import hdf5_written
from fastsvm.jobs.inputs import Json
from fastsvm.jobs.say import say
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import HDF5Data
from fastsvm.tuning import current_tuning

FORMAT = "fastsvm-predictions"
VERSION = 2
Block = dict[str, np.ndarray]
"""Columns of some rows of the output, by name: "id" if the rows have identifiers, "prediction" and "decision"."""

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # in full width too, and after apostrophes
_NUMBER = re.compile(r"[-+](\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


# --- the part and its journal ------------------------------------------------------------------------------------


class PredictionState(NamedTuple):
    """The progress of a prediction: rows that are written, in whole blocks."""

    rows: int = 0
    nbytes: int = 0
    crc: int = 0  # It is the CRC-32 of the bytes.
    decision: tuple[str, list[int]] = "", []  # They are type and shape of the decision values of a row.
    tally: np.ndarray | None = None  # It is the sum of a measure over the rows; None before the first block.


class _Unusable(Exception):
    """The reason why the part of an earlier process cannot be resumed."""


def label_type(model: BaseEstimator) -> np.dtype:
    """Return the type in which the predictions of a model are stored; text has the length of the longest label."""
    if is_outlier_detector(model):
        return np.dtype(np.int64)
    if not is_classifier(model):
        return np.dtype(np.float64)
    if model.classes_.dtype.kind in "OU":
        return np.dtype(f"S{max(1, *(len(_encoded(str(label))) for label in model.classes_))}")
    return model.classes_.dtype


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def write_all(file: FileIO, offset: int, data: bytes) -> None:
    """Write all bytes at a position of an unbuffered file, whose `write` may take only some at a time."""
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def parts_of(output: str | Path) -> tuple[Path, Path]:
    """Return the two files that exist beside an output while it is written: its part and its journal."""
    output = Path(output)
    return name_beside(output, ".part"), name_beside(output, ".part.json")


class PredictionFile:
    """A file of predictions while it is written, with the rows of `state`. Use `opened` to make one.

    `file` is the part, locked; labels have the type `labels` in it. It is resumed if the predictions depend on the
    same, `bound_to`.
    """

    def __init__(self, output: str | Path, file: FileIO, labels: np.dtype, bound_to: Json) -> None:
        self.output = Path(output)
        self.part, self.journal = parts_of(output)
        self._new_journal = name_beside(self.output, ".part.json.new")
        self._file, self._labels = file, labels
        self._bound_to = json.loads(json.dumps(bound_to))
        self.state = PredictionState()
        self._safe_rows, self._next, self._sync_failed = 0, 0.0, False
        self._tuning = current_tuning().jobs

    @classmethod
    @contextmanager
    def opened(
        cls, output: str | Path, labels: np.dtype, bound_to: Json, order: "SourceOrder | None" = None
    ) -> Iterator["PredictionFile"]:
        """Open the part of an output, with the rows of an earlier process if it made the same predictions.

        At the end the output is written, in an order of the rows. After a ValueError the part is removed; after other
        errors it stays.
        """
        with _locked(parts_of(output)[0]) as file:
            self = cls(output, file, labels, bound_to)
            self._check_own()
            try:
                self._resume()
                yield self
                self._finish(SourceOrder() if order is None else order)
            except ValueError:
                self._discard()
                raise
            except BaseException:
                self._keep()
                raise

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray | None) -> None:
        """Add a block of rows; `tally` is the sum of a measure over all rows to its end, or None."""
        decision = decisions.dtype.str, list(decisions.shape[1:])
        records = np.empty(len(labels), self._record_type(decision))
        if self._labels.kind == "S":
            labels = np.strings.encode(labels.astype(str), "utf-8", "surrogatepass")
        records["prediction"], records["decision"] = labels, decisions
        data, state = records.tobytes(), self.state
        with self._explained():
            write_all(self._file, state.nbytes, data)
        crc = zlib.crc32(data, state.crc)
        self.state = PredictionState(state.rows + len(labels), state.nbytes + len(data), crc, decision, tally)
        if time.perf_counter() >= self._next:
            self.save()

    def _record_type(self, decision: tuple[str, list[int]]) -> np.dtype:
        """Return the type of a row, whose decision values have a type and a shape."""
        return np.dtype([("prediction", self._labels), ("decision", decision[0], tuple(decision[1]))])

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
        body |= state._replace(tally=tally)._asdict()
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
        """Remove all bytes behind the rows of `state`."""
        self._file.truncate(self.state.nbytes)

    def _left(self) -> PredictionState:
        """Return the state that an earlier process left."""
        if not self.journal.exists():
            return PredictionState()
        state = self._read_journal()
        self._file.seek(0)
        crc, left, most = 0, state.nbytes, current_tuning().storage.block_bytes
        while data := self._file.read(min(most, left)):
            crc, left = zlib.crc32(data, crc), left - len(data)
        if left or crc != state.crc:
            raise _Unusable("it is damaged, its checksum differs")
        return state

    def _read_journal(self) -> PredictionState:
        try:
            body = json.loads(self.journal.read_text(encoding="utf-8"))
            checksum, kind = body.pop("checksum"), (body["format"], body["version"])
            bound_to, tally = body["bound_to"], body["tally"]
            state = PredictionState(*(body[name] for name in PredictionState._fields))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Unusable(f"{self.journal.name} is damaged") from error
        if kind != (FORMAT, VERSION):
            raise _Unusable(f"{self.journal.name} was written by another version of fastsvm")
        if checksum != _checksum(body):
            raise _Unusable(f"{self.journal.name} is damaged")
        for name in self._bound_to | bound_to:
            if self._bound_to.get(name) != bound_to.get(name):
                raise _Unusable(f"the {name} changed")
        return state._replace(tally=None if tally is None else np.array(tally))

    def _finish(self, order: "SourceOrder") -> None:
        """Write the output from the complete part, in an order of the rows."""
        self.save()
        rows = np.memmap(self.part, self._record_type(self.state.decision), "r", shape=self.state.rows)
        with self._explained(), atomic_write(self.output, name_beside(self.output, ".part.new")) as path:
            (_write_csv if self.output.name.endswith(".csv") else _write_hdf5)(path, order.blocks(rows), len(rows))
        del rows  # Windows removes no file that is mapped or open
        if not has_locks():
            self._file.close()
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


# --- the output --------------------------------------------------------------------------------------------------


class SourceOrder(NamedTuple):
    """The order of the rows in the file that a data set was converted from, and their identifiers, as stored."""

    order: np.ndarray | None = None  # The stored rows come in it; None is the order in which they are stored.
    ids: np.ndarray | None = None

    @classmethod
    def of(cls, data: HDF5Data) -> "SourceOrder":
        """Return the order of the source of a data set."""
        rows = data.source_row
        return cls(None if rows is None else np.argsort(rows, kind="stable"), data.ids)

    def blocks(self, records: np.ndarray) -> Iterator[Block]:
        """Yield the columns of blocks of rows in this order."""
        step = current_tuning().jobs.block_rows
        with progress_bar(total=len(records), desc="write", unit="row", unit_scale=True) as bar:
            for start in range(0, len(records), step):
                part = slice(start, min(start + step, len(records)))
                rows = part if self.order is None else self.order[part]
                block, ids = records[rows], {} if self.ids is None else {"id": self.ids[rows]}
                yield ids | {name: np.ascontiguousarray(block[name]) for name in ("prediction", "decision")}
                bar.update(len(block))


def _write_csv(path: Path, blocks: Iterator[Block], n_rows: int) -> None:
    with path.open("wb") as file:
        for number, block in enumerate(blocks):
            values = block["decision"].reshape(len(block["decision"]), -1)
            if number == 0:
                n = values.shape[1]
                names = [f"decision_{k}" for k in range(n)] if n > 1 else ["decision"]
                file.write(_lines([[*(["id"] if "id" in block else []), "prediction", *names]]))
            words = [_words(block[name]) for name in ("id", "prediction") if name in block]
            file.write(_lines([[*some, *more] for *some, more in zip(*words, values.tolist(), strict=True)]))


def _words(values: np.ndarray) -> list:
    if values.dtype.kind == "S":
        values = np.strings.decode(values, "utf-8", "surrogatepass")
    return [_plain_text(value) if isinstance(value, str) else value for value in values.tolist()]


def _plain_text(label: str) -> str:
    """Return a label with an apostrophe before it if a spreadsheet would take it for a formula.

    Numbers stay as they are. A formula that has apostrophes already gets one more, so that removing one restores it.
    """
    return f"'{label}" if _FORMULA.match(label) and not _NUMBER.fullmatch(label) else label


def _lines(rows: list[list]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")  # lone surrogates are not in UTF-8


def _write_hdf5(path: Path, blocks: Iterator[Block], n_rows: int) -> None:
    start = 0
    with hdf5_written(path) as file:
        for block in blocks:
            for name, values in block.items():
                if start == 0:
                    file.do(_create, name, n_rows, values)
                file.do(_fill, name, start, values)
            start += len(block["prediction"])


def _create(file: h5py.File, name: str, n_rows: int, values: np.ndarray) -> None:
    kinds = {"U": h5py.string_dtype(), "S": h5py.string_dtype("utf-8", max(1, values.dtype.itemsize))}
    file.create_dataset(name, (n_rows, *values.shape[1:]), kinds.get(values.dtype.kind, values.dtype))


def _fill(file: h5py.File, name: str, start: int, values: np.ndarray) -> None:
    if values.dtype.kind == "S":
        values = values.view(file[name].dtype)  # which says that the bytes are UTF-8
    file[name][start : start + len(values)] = values.astype(object) if values.dtype.kind == "U" else values
