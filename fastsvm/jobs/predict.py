"""Predict the samples of a file with a saved model, block by block."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm.displays._samples import confusion_counts, names_of
from fastsvm.files.atomic_file import check_output
from fastsvm.jobs.inputs import (
    InputOptions,
    Json,
    UnknownLabels,
    check_labels,
    classes_of,
    fingerprint,
    is_hdf5,
    rows_named,
)
from fastsvm.jobs.models import opened
from fastsvm.jobs.prediction_file import PredictionFile, PredictionState, SourceOrder, label_type, parts_of
from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import StopSignals
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import HDF5Data
from fastsvm.tuning import current_tuning


class ScoringReport(NamedTuple):
    """The result of `predict` and `evaluate`."""

    output: str  # It is the file of the predictions, "" for `evaluate`.
    n_samples: int
    accuracy: float | None  # It is the share of correct classes; None for a regression or without labels.
    r2: float | None  # It is R²; None for a classifier or without labels.
    per_class: dict[str, float]  # It is the share of correct predictions among the samples of each class.
    confusion: list[list[int]]  # It has a row for each true class, a column for each predicted one.
    labels: list[str]  # They are in the order of `confusion`.
    seconds: float


def predict(
    model_path: str | Path, path: str | Path, output: str | Path, options: InputOptions | None = None
) -> ScoringReport:
    """Write the predicted labels and the decision values of all samples of a file, in the order of its source.

    The output is CSV if it ends in .csv, else HDF5 with the datasets `prediction` and `decision`. If the data have
    values that identify the rows, these are written too, as `id`. If the process ends before all samples are predicted,
    the same call resumes after the last block that is safely on disk, and ends with the same file and report.
    """
    begin = time.perf_counter()
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
        with PredictionFile.opened(output, label_type(model), bound_to, SourceOrder.of(data)) as file:
            if file.state.rows:
                say(f"resumed after {file.state.rows:,} of {len(data):,} rows.")
            report = _score(model, data, measure, file, stops.raise_if_asked)
    return report._replace(output=str(output), seconds=time.perf_counter() - begin)


def evaluate(model_path: str | Path, path: str | Path, options: InputOptions | None = None) -> ScoringReport:
    """Compare the predictions of a saved model with the labels of a file."""
    begin = time.perf_counter()
    with opened(model_path, path, options) as (model, data):
        if data.y is None:
            raise ValueError(
                f"{path} has no labels to compare predictions with. Name their column by --label, or use predict."
            )
        report = _score(model, data, _measure_of(model, data, path), None, lambda: None)
    return report._replace(seconds=time.perf_counter() - begin)


def _score(
    model: BaseEstimator,
    data: HDF5Data,
    measure: "_Measure | None",
    file: PredictionFile | None,
    raise_if_asked: Callable[[], None],
) -> ScoringReport:
    """Predict the samples that the file lacks, or all without a file; return the report about all samples."""
    step, state = _block_rows(model), PredictionState() if file is None else file.state
    tally = state.tally
    with _progress(state.rows, len(data)) as tell:
        for start in range(state.rows, len(data), step):
            rows = np.arange(start, min(start + step, len(data)))
            with rows_named(data.path, rows):
                labels, decisions = model._decided(data.X.take(rows))
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
            tell(len(rows))
            raise_if_asked()
    report = ScoringReport("", len(data), None, None, {}, [], [], 0.0)
    return report if measure is None or tally is None else report._replace(**measure.report(tally))


def _block_rows(model: BaseEstimator) -> int:
    """Return the number of rows of a block: fewer for a model with very many decision functions."""
    tuning = current_tuning().jobs
    return max(1, min(tuning.block_rows, tuning.decisions // np.size(model.intercept_)))


def _bound_to(model: BaseEstimator, model_path: str | Path, path: str | Path, options: InputOptions | None) -> Json:
    """Return what the predictions depend on, by the names that messages use."""
    from fastsvm import __version__

    with Path(model_path).open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    if is_hdf5(path):
        of_data = {name: value for name, value in fingerprint(path).items() if name != "file"}  # it may be renamed
    else:
        of_file = Path(path).stat()
        of_data = {"bytes": of_file.st_size, "changed_ns": of_file.st_mtime_ns, "options": options}
    return {
        "model": {"bytes": Path(model_path).stat().st_size, "digest": digest},
        "data file": of_data,
        "version of fastsvm": __version__,
        "size of a block": _block_rows(model),
    }


@contextmanager
def _progress(done: int, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many rows are done: it moves a bar on a terminal, else it prints some lines."""
    pause = current_tuning().jobs.say_s
    next_line = time.perf_counter() + pause
    with progress_bar(total=total, initial=done, desc="predict", unit="row", unit_scale=True) as bar:

        def tell(rows: int) -> None:
            nonlocal done, next_line
            done += rows
            bar.update(rows)
            if bar.disable and time.perf_counter() >= next_line:
                next_line = time.perf_counter() + pause
                say(f"predict: {done:,} of {total:,} rows ({done / total:.0%})")

        yield tell


# --- accuracy, confusion matrix and R², summed up block by block in constant memory ------------------------------


def _measure_of(model: BaseEstimator, data: HDF5Data, path: str | Path) -> "_Measure | None":
    """Return the measure of a model on a file, None without labels; UnknownLabels says that they cannot be compared."""
    classes = classes_of(model)
    if note := check_labels(classes, data, path):
        say(f"note: {note}")
    if data.y is None:
        return None
    return _SquaredError(data.y) if classes is None else _Confusion(classes, data.y, data)


class _Confusion:
    """Confusion matrix: rows are true classes, columns are predicted ones."""

    def __init__(self, classes: np.ndarray, y: np.ndarray, data: HDF5Data) -> None:
        self.y, self.data, self.labels = y, data, np.union1d(classes, y)

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        return confusion_counts(self.y[start : start + len(predicted)], predicted, self.labels)

    def report(self, tally: np.ndarray) -> Json:
        count, names = tally.sum(axis=1), names_of(self.labels, None, self.data)
        per_class = {name: float(tally[i, i] / count[i]) for i, name in enumerate(names) if count[i]}
        accuracy = float(np.trace(tally) / tally.sum())
        return {"accuracy": accuracy, "per_class": per_class, "confusion": tally.tolist(), "labels": names}


class _SquaredError:
    """Residual sum of squares, for R²."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y
        self.total = float(np.sum((y - y.mean(dtype=np.float64)) ** 2))

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        return np.array([np.sum((self.y[start : start + len(predicted)] - predicted) ** 2)])

    def report(self, tally: np.ndarray) -> Json:
        residual = float(tally[0])
        if len(self.y) < 2:  # R² is not defined for one sample
            return {"r2": None}
        if self.total == 0:  # as in scikit-learn
            return {"r2": 1.0 if residual == 0 else 0.0}
        return {"r2": 1.0 - residual / self.total}


_Measure = _Confusion | _SquaredError
"""Compares predictions with the labels of a file: an array for each block, whose sum gives the report."""
