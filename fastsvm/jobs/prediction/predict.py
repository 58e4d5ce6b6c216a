"""Predict the samples of a file with a saved model, block by block."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm.estimators.prediction import predict_with_decisions
from fastsvm.exchange.model_text import is_libsvm_text
from fastsvm.files.atomic_file import check_output
from fastsvm.jobs.fingerprint import fingerprint
from fastsvm.jobs.inputs import Expected, InputOptions, as_hdf5, is_hdf5, rows_named
from fastsvm.jobs.labels import UnknownLabels, check_labels, classes_of
from fastsvm.jobs.models import fitting_model, load_model
from fastsvm.jobs.prediction.layouts import CSVLayout, HDF5Layout, label_type
from fastsvm.jobs.prediction.metrics import Measure, measure_of, nothing
from fastsvm.jobs.prediction.resumable_file import PredictionFile, PredictionState, parts_of
from fastsvm.jobs.prediction.source_order import SourceOrder
from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import StopSignals
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import HDF5Data, open_hdf5
from fastsvm.tuning import current_tuning

__all__ = ["ScoringReport", "evaluate", "opened", "predict"]


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


class _Output(Protocol):
    """Receives predictions block by block, and knows how many it has."""

    state: PredictionState

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray) -> None:
        """Add the predictions of a block; `tally` sums up all samples to its end."""


class _NoOutput:
    """Drops the predictions and keeps the tally."""

    def __init__(self) -> None:
        self.state = PredictionState()

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray) -> None:
        self.state = PredictionState(self.state.rows + len(labels), (), tally)


def predict(
    model_path: str | Path, path: str | Path, output: str | Path, options: InputOptions | None = None
) -> ScoringReport:
    """Write the predicted labels and the decision values of all samples of a file, in the order of its source.

    A file that `convert` made in random order is predicted in the order of the file that was converted. The model may
    be the text of LIBSVM or LIBLINEAR, and the file, HDF5 with X or in another format that `convert` knows, is read as
    `options` say. Without them a table that has only the model's features has no labels.

    The output is CSV if it ends in .csv, else HDF5 with the datasets `prediction` and `decision`. If the data have
    values that identify the rows, these are written too, as `id`. It is written as `output.part` and renamed when it is
    complete. If the process ends before all samples are predicted, the same call resumes after the last block that is
    safely on disk. It ends with the same file and the same report as an uninterrupted call.

    ValueError, FileNotFoundError or PermissionError says that a file is not usable, or that another process writes the
    same output. OSError says that the disk is full: the rows that are written stay. Stopped is raised after SIGTERM,
    SIGHUP or Ctrl-C: the rows that are predicted are on disk.
    """
    begin = time.perf_counter()
    for written in (output, *parts_of(output)):
        check_output(written, model_path, path)
    stops = StopSignals()
    with stops.listening(), opened(model_path, path, options, output) as (model, data):
        as_csv, order = str(output).endswith(".csv"), SourceOrder.of(data)
        layout = CSVLayout() if as_csv and order is None else HDF5Layout(len(data), label_type(model))
        bound_to = _bound_to(model, model_path, path, options)
        rewrite = None if order is None else lambda part, new: order.write(part, new, as_csv)
        with PredictionFile.opened(output, layout, bound_to, rewrite) as file:
            if file.state.rows:
                say(f"resumed after {file.state.rows:,} of {len(data):,} rows.")
            report = _score(model, data, _measure_or_nothing(model, data, path), file, stops.raise_if_asked)
    return report._replace(output=str(output), seconds=time.perf_counter() - begin)


def evaluate(model_path: str | Path, path: str | Path, options: InputOptions | None = None) -> ScoringReport:
    """Compare the predictions of a saved model with the labels of a file.

    The file has X and y, or another format that `convert` knows. ValueError says that it has no labels, that none of
    them is a class of the model, or that its features are not those of the model.
    """
    begin = time.perf_counter()
    with opened(model_path, path, options) as (model, data):
        if data.y is None:
            raise ValueError(
                f"{path} has no labels to compare predictions with. Name their column by --label, or use predict."
            )
        _say_note(check_labels(classes_of(model), data, path))
        report = _score(model, data, measure_of(model, data), _NoOutput(), lambda: None)
    return report._replace(seconds=time.perf_counter() - begin)


@contextmanager
def opened(
    model_path: str | Path, path: str | Path, options: InputOptions | None, output: str | Path | None = None
) -> Iterator[tuple[Any, HDF5Data]]:
    """Yield the model and the samples to predict; other formats are converted, in the order of the file."""
    model = load_model(model_path)
    expected = Expected.by(model, is_libsvm_text(model_path))
    with as_hdf5(path, options, expected, beside=output, shuffle=False) as file, open_hdf5(file) as data:
        if len(data) == 0:
            raise ValueError(f"{path} has no samples.")
        yield fitting_model(model, model_path, data.X), data


def _measure_or_nothing(model: Any, data: HDF5Data, path: str | Path) -> Measure:
    """Return the measure; nothing is measured by labels that the model cannot predict."""
    try:
        _say_note(check_labels(classes_of(model), data, path))
    except UnknownLabels as error:
        _say_note(f"{error} Nothing is compared.")
        return nothing
    return measure_of(model, data)


def _say_note(text: str) -> None:
    if text:
        say(f"note: {text}")


def _score(
    model: Any, data: HDF5Data, measure: Measure, output: _Output, raise_if_asked: Callable[[], None]
) -> ScoringReport:
    """Predict the samples that `output` lacks; return the report about all samples."""
    step = _block_rows(model)
    with _progress(output.state.rows, len(data)) as tell:
        for start in range(output.state.rows, len(data), step):
            rows = np.arange(start, min(start + step, len(data)))
            with rows_named(data.path, rows):
                labels, decisions = predict_with_decisions(model, data.X.take(rows))
            _check_unchanged(data)
            found, before = measure.of(start, labels), output.state.tally
            output.append(labels, decisions, found if before is None else before + found)
            tell(len(rows))
            raise_if_asked()
    report, tally = ScoringReport("", len(data), None, None, {}, [], [], 0.0), output.state.tally
    return report if tally is None else report._replace(**measure.told(tally))


def _block_rows(model: Any) -> int:
    """Return the number of rows of a block: fewer for a model with very many decision functions."""
    tuning = current_tuning().jobs
    return max(1, min(tuning.block_rows, tuning.decisions // np.size(model.intercept_)))


def _check_unchanged(data: HDF5Data) -> None:
    try:
        data.X.check_unchanged()
    except ValueError as error:
        raise ValueError(f"{data.path} changed during the prediction. Repeat it when the file is complete.") from error


def _bound_to(model: Any, model_path: str | Path, path: str | Path, options: InputOptions | None) -> dict[str, Any]:
    """Return what the predictions depend on, by the names that messages use."""
    from fastsvm import __version__

    with Path(model_path).open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    if is_hdf5(path):
        of_data = {name: value for name, value in fingerprint(path).items() if name != "file"}  # it may be renamed
    else:
        known = Path(path).stat()
        of_data = {"bytes": known.st_size, "changed_ns": known.st_mtime_ns, "options": options}
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
