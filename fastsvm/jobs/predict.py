"""Predict the samples of a file with a saved model, block by block: a process that ends loses some seconds at most.

The rows are written to `OUT.part`, as records of equal length, in the order in which samples are stored, because that
reads whole chunks. The checkpoint `OUT.part.state` beside it names the model and the data, and says how many rows are
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from fastsvm._compiled.compilations import stopwatch
from fastsvm.displays._samples import confusion_counts, names_of
from fastsvm.estimators.search.calibration import CalibratedClassifier
from fastsvm.files.atomic_file import atomic_write, check_output, has_locks, name_beside, take
from fastsvm.files.hdf5_output import hdf5_written, write_all
from fastsvm.files.storable import storable
from fastsvm.jobs.inputs import Json, UnknownLabels, check_labels, class_figures, classes_of, fingerprint, rows_named
from fastsvm.jobs.models import opened
from fastsvm.jobs.signals import StopSignals
from fastsvm.jobs.training.checkpoints import DamagedCheckpoint, changed, read, write
from fastsvm.messages import say
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import Data, Source
from fastsvm.tuning import current_tuning

Block = dict[str, np.ndarray]
"""Columns of some rows of the output, by name: "id" if the rows have identifiers, "prediction" and "decision".

Of a model with probabilities there is "probability", too.
"""

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # in full width too, and after apostrophes
_NUMBER = re.compile(r"[-+](\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def predict(model_path: str | Path, path: str | Path, output: str | Path, options: Json | None = None) -> Json:
    """Write the predicted labels and the decision values of all samples of a file, in the order of its source.

    If the process ends early, the same call resumes after the last block that is safely on disk.
    """
    spent = stopwatch()
    for written in (output, *parts_of(output)):
        check_output(written, model_path, path)
    stops = StopSignals()
    with stops.listening(), opened(model_path, path, options, output) as (model, data):
        bound_to = _bound_to(model, model_path, path, options)
        try:
            measure = _measure_of(model, data, path)
        except UnknownLabels as error:
            say(f"note: {error} Nothing is compared.")
            measure = None
        with PredictionFile.opened(output, label_type(model), bound_to, data.source_row, data.ids) as file:
            if isinstance(model, CalibratedClassifier):
                file.probable = names_of(model.classes_, None, data)
            if file.state.rows:
                say(f"resumed after {file.state.rows:,} of {len(data):,} rows.")
            report = _score(model, data, measure, file, stops.raise_if_asked)
    return report | {"output": str(output)} | spent()


def evaluate(model_path: str | Path, path: str | Path, options: Json | None = None) -> Json:
    """Compare the predictions of a saved model with the labels of a file, by accuracy and confusion matrix or by R²."""
    spent = stopwatch()
    with opened(model_path, path, options) as (model, data):
        if data.y is None:
            raise ValueError(
                f"{path} has no labels to compare predictions with. Name their column by --label, or use predict."
            )
        report = _score(model, data, _measure_of(model, data, path), None, lambda: None)
    return report | spent()


def _score(
    model: BaseEstimator,
    data: Data,
    measure: "_Measure | None",
    file: "PredictionFile | None",
    raise_if_asked: Callable[[], None],
) -> Json:
    """Predict the samples that the file lacks, or all without a file; return the report about all samples."""
    step, state, n = _block_rows(model), PredictionState() if file is None else file.state, len(data)
    tally = state.tally
    with progress_bar(total=n, initial=state.rows, desc="predict", unit="row", unit_scale=True) as bar:
        for start in range(state.rows, n, step):
            rows = np.arange(start, min(start + step, n))
            with rows_named(data.path, rows):
                labels, decisions = _decided(model, data.X.take(rows))
            try:
                data.X.check_unchanged()
            except ValueError as error:
                raise ValueError(
                    f"{data.path} changed during the prediction. Repeat it when the file is complete."
                ) from error
            if measure is not None:
                of_block = measure.of(start, labels)
                tally = of_block if tally is None else tally + of_block
            if file is not None:
                file.append(labels, decisions, tally)
            bar.update(len(rows))
            raise_if_asked()
    report: Json = {"output": "", "n_samples": n, "accuracy": None, "r2": None}
    report |= {"balanced_accuracy": None, "per_class": {}, "confusion": [], "labels": []}
    return report if measure is None or tally is None else report | measure.report(tally)


def _decided(model: BaseEstimator, rows: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and decision values, from one pass, with the columns of probabilities after them."""
    if is_regressor(model):
        return (predicted := model.predict(rows)), predicted
    if not is_classifier(model):
        return model._decided(rows)
    forms = [model._probabilities] if isinstance(model, CalibratedClassifier) else []
    labels, decisions, *more = model._decided_by(rows, model._labels, model._as_decisions, *forms)
    return labels, np.column_stack([decisions, *more]) if more else decisions


def _block_rows(model: BaseEstimator) -> int:
    """Return the number of rows of a block: fewer for a model with very many decision functions."""
    tuning = current_tuning().jobs
    return max(1, min(tuning.block_rows, tuning.decisions // np.size(getattr(model, "estimator_", model).intercept_)))


def _bound_to(model: BaseEstimator, model_path: str | Path, path: str | Path, options: Json | None) -> Json:
    """Return what the predictions depend on, by the names that messages use."""
    from fastsvm import __version__

    with Path(model_path).open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    of_data = fingerprint(path, options)
    of_data.pop("file")  # it may be renamed
    return {
        "model": {"bytes": Path(model_path).stat().st_size, "digest": digest},
        "data file": of_data,
        "version of fastsvm": __version__,
        "size of a block": _block_rows(model),
    }


# --- accuracy, confusion matrix and R², summed up block by block in constant memory ------------------------------


def _measure_of(model: BaseEstimator, data: Data, path: str | Path) -> "_Measure | None":
    """Return the measure of a model on a file, None without labels; UnknownLabels says that they cannot be compared."""
    classes = classes_of(model)
    if note := check_labels(classes, data, path):
        say(f"note: {note}")
    if data.y is None:
        return None
    return _Measure(data, data.y, None if classes is None else np.union1d(classes, data.y))


class _Measure(NamedTuple):
    """Compares predictions with labels: confusion matrices or residual sums of squares of blocks, which it adds."""

    data: Data
    y: np.ndarray
    labels: np.ndarray | None  # They are those of the confusion matrix; None for a regression.

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        y = self.y[start : start + len(predicted)]
        if self.labels is None:
            return np.array([np.sum((y - predicted) ** 2)])
        return confusion_counts(y, predicted, self.labels)

    def report(self, tally: np.ndarray) -> Json:
        if self.labels is None:
            residual, total = float(tally[0]), float(np.sum((self.y - self.y.mean(dtype=np.float64)) ** 2))
            if len(self.y) < 2:  # R² is not defined for one sample
                return {"r2": None}
            return {"r2": 1.0 - residual / total if total else float(residual == 0)}  # as in scikit-learn
        names = names_of(self.labels, None, self.data)
        return class_figures(tally, names) | {"confusion": tally.tolist(), "labels": names}


# --- the part and its state --------------------------------------------------------------------------------------


@storable("predicted rows")
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
    classes = classes_of(model)
    if classes is None:
        return np.dtype(np.float64)
    if classes.dtype.kind in "OU":
        return np.dtype(f"S{max(1, *(len(str(label).encode('utf-8', 'surrogatepass')) for label in classes))}")
    return classes.dtype


def parts_of(output: str | Path) -> tuple[Path, Path]:
    """Return the two files that exist beside an output while it is written: its part and the state of this."""
    output = Path(output)
    return name_beside(output, ".part"), name_beside(output, ".part.state")


class PredictionFile:
    """A file of predictions while it is written, with the rows of `state`; `opened` makes one, whose part is locked."""

    def __init__(self, output: str | Path, file: FileIO, labels: np.dtype, bound_to: Json) -> None:
        self.output = Path(output)
        self.part, self._state_file = parts_of(output)
        self._file, self._labels = file, labels
        self._bound_to = json.loads(json.dumps(bound_to))
        self.state = PredictionState()
        self.probable: list[str] = []  # The last columns of decision values are probabilities of these classes.
        self._next, self._sync_failed = 0.0, False
        self._tuning = current_tuning().jobs

    @classmethod
    @contextmanager
    def opened(
        cls,
        output: str | Path,
        labels: np.dtype,
        bound_to: Json,
        source_row: np.ndarray | None = None,
        ids: np.ndarray | None = None,
    ) -> Iterator["PredictionFile"]:
        """Open the part of an output, with the rows of an earlier process if they depend on the same, `bound_to`.

        At the end the output is written. After a ValueError the part is removed; after other errors it stays.
        """
        with _locked(parts_of(output)[0]) as file:
            self = cls(output, file, labels, bound_to)
            if os.fstat(file.fileno()).st_size and not self._state_file.exists():  # which is written before a row
                raise ValueError(
                    f"{self.part} exists and is not a part of predictions, which would be written there. Remove it, or "
                    "name another output."
                )
            try:
                self._resume()
                yield self
                self._finish(None if source_row is None else np.argsort(source_row, kind="stable"), ids)
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
        """Flush the rows to the disk, then write the state that counts them; OSError says that the disk is full or
        fails.
        """
        begin = time.perf_counter()
        with self._explained():
            try:
                os.fsync(self._file.fileno())
            except OSError:  # the system may have dropped the bytes, and the next call would not report that
                self._sync_failed = True
                raise
            self._write_state()
        now = time.perf_counter()
        self._next = now + max(self._tuning.log_s, (now - begin) / self._tuning.save_share)

    def _write_state(self) -> None:
        with atomic_write(self._state_file) as part:
            write(part, {"bound_to": self._bound_to, "state": self.state}, {})

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

    def _resume(self) -> None:
        """Take over the rows of an earlier process, or start again and say why."""
        try:
            self.state = self._left()
        except _Unusable as reason:
            say(f"cannot resume from {self.part}: {reason}. Starting again.")
        self._file.truncate(self.state.nbytes)
        self.save()

    def _left(self) -> PredictionState:
        """Return the state that an earlier process left."""
        if not self._state_file.exists():
            return PredictionState()
        try:
            left = read(self._state_file, {})
        except DamagedCheckpoint as error:
            raise _Unusable(f"{self._state_file.name} is damaged, or of another version of fastsvm") from error
        if (name := changed(left["bound_to"], self._bound_to)) is not None:
            raise _Unusable(f"the {name} changed")
        self._file.seek(0)
        state: PredictionState = left["state"]
        crc, nbytes, most = 0, state.nbytes, current_tuning().storage.block_bytes
        while data := self._file.read(min(most, nbytes)):
            crc, nbytes = zlib.crc32(data, crc), nbytes - len(data)
        if nbytes or crc != state.crc:
            raise _Unusable("it is damaged, its checksum differs")
        return state

    def _finish(self, order: np.ndarray | None, ids: np.ndarray | None) -> None:
        """Write the output from the complete part, in an order of its rows, with identifiers."""
        self.save()
        rows = np.memmap(self.part, self._record_type(self.state.decision), "r", shape=self.state.rows)
        writer = _write_csv if self.output.name.endswith(".csv") else _write_hdf5
        with self._explained(), atomic_write(self.output) as path:
            writer(path, _blocks(rows, order, ids, len(self.probable)), len(rows), self.probable)
        del rows  # Windows removes no file that is mapped or open
        self._discard()

    def _keep(self) -> None:
        """Keep the rows that are written, if the disk allows it."""
        if not self.state.rows:
            self._discard()
        elif not self._sync_failed:
            with suppress(OSError):
                self._file.truncate(self.state.nbytes)  # on a full disk, half a block takes the room of the state
                self.save()

    def _discard(self) -> None:
        """Remove the part and its state."""
        if not has_locks():
            self._file.close()
        self.part.unlink(missing_ok=True)
        self._state_file.unlink(missing_ok=True)


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


# --- the output --------------------------------------------------------------------------------------------------


def _blocks(records: np.ndarray, order: np.ndarray | None, ids: np.ndarray | None, n_probable: int) -> Iterator[Block]:
    """Yield the columns of blocks of rows in an order, None for that in which they are stored."""
    step = current_tuning().jobs.block_rows
    with progress_bar(total=len(records), desc="write", unit="row", unit_scale=True) as bar:
        for start in range(0, len(records), step):
            part = slice(start, min(start + step, len(records)))
            rows = part if order is None else order[part]
            block = records[rows]
            columns = {name: np.ascontiguousarray(block[name]) for name in ("prediction", "decision")}
            if n_probable:
                decision, columns["probability"] = np.split(columns["decision"], [-n_probable], axis=1)
                columns["decision"] = decision[:, 0] if n_probable == 2 else decision
            yield ({} if ids is None else {"id": ids[rows]}) | columns
            bar.update(len(block))


def _write_csv(path: Path, blocks: Iterator[Block], n_rows: int, probable: list[str]) -> None:
    with path.open("wb") as file:
        for number, block in enumerate(blocks):
            values = block["decision"].reshape(len(block["decision"]), -1)
            if number == 0:
                n = values.shape[1]
                names = [f"decision_{k}" for k in range(n)] if n > 1 else ["decision"]
                names += [f"p_{name}" for name in probable]
                file.write(_lines([[*(["id"] if "id" in block else []), "prediction", *names]]))
            words = [_words(block[name]) for name in ("id", "prediction") if name in block]
            numbers = np.hstack([values, block["probability"]]) if probable else values
            file.write(_lines([[*some, *more] for *some, more in zip(*words, numbers.tolist(), strict=True)]))


def _words(values: np.ndarray) -> list:
    if values.dtype.kind == "S":
        values = np.strings.decode(values, "utf-8", "surrogatepass")
    if values.dtype.kind != "U":
        return values.tolist()
    # Labels that a spreadsheet would take for a formula have one apostrophe more; numbers stay.
    return [
        f"'{label}" if _FORMULA.match(label) and not _NUMBER.fullmatch(label) else label for label in values.tolist()
    ]


def _lines(rows: list[list]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")  # lone surrogates are not in UTF-8


def _write_hdf5(path: Path, blocks: Iterator[Block], n_rows: int, probable: list[str]) -> None:
    start = 0
    with hdf5_written(path) as do:
        for block in blocks:
            for name, values in block.items():
                do(_fill, name, values, start, n_rows)
            start += len(block["prediction"])


def _fill(file: h5py.File, name: str, values: np.ndarray, start: int, n_rows: int) -> None:
    """Write some values of a column of n_rows, which is made before the first."""
    kinds = {"U": h5py.string_dtype(), "S": h5py.string_dtype("utf-8", max(1, values.dtype.itemsize))}
    kind = kinds.get(values.dtype.kind, values.dtype)
    column = file.require_dataset(name, (n_rows, *values.shape[1:]), kind)
    if values.dtype.kind == "S":
        values = values.view(kind)  # which says that the bytes are UTF-8
    column[start : start + len(values)] = values.astype(object) if values.dtype.kind == "U" else values
