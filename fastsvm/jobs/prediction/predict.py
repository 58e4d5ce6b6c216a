"""Predict the rows of a file with a saved model, block by block."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from tqdm.auto import tqdm

from fastsvm.files.atomic_file import check_output
from fastsvm.jobs.fingerprint import fingerprint
from fastsvm.jobs.prediction.layouts import CSVLayout, HDF5Layout, label_type
from fastsvm.jobs.prediction.metrics import measure_of
from fastsvm.jobs.prediction.resumable_file import PredictionFile, PredictionState, parts_of
from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import StopSignals
from fastsvm.persistence.model_file import load
from fastsvm.sources import HDF5Data, open_hdf5

__all__ = ["ScoringReport", "evaluate", "predict"]

_ROWS = 16_384  # of a block
_VALUES = 1 << 23  # of all decision functions on a block: 64 MiB
_LEAST_ROWS = 256
_SAY_SECONDS = 30.0  # between two lines where there is no terminal


class ScoringReport(NamedTuple):
    """What `predict` and `evaluate` tell.

    Attributes
    ----------
    output : str
        File of the predictions, "" if there is none.
    n_samples : int
        Rows predicted.
    accuracy : float or None
        Share predicted correctly, if the file has labels.
    r2 : float or None
        Of a regression, the share of the variance of the file's targets that is explained.
    per_class : dict of str to float
        The same for the rows of each class, by its name.
    confusion : list of list of int
        Rows of each true class (of `labels`), by predicted class.
    labels : list of str
        Names of the classes.
    seconds : float
        Time taken.
    """

    output: str
    n_samples: int
    accuracy: float | None
    r2: float | None
    per_class: dict[str, float]
    confusion: list[list[int]]
    labels: list[str]
    seconds: float


class _Place(Protocol):
    """Where predictions go, and how far they are."""

    reached: PredictionState

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray) -> None:
        """Add a block of rows, and the sum of what was measured on all rows up to its end."""


class _Nowhere:
    """Keeps nothing but the sum."""

    def __init__(self) -> None:
        self.reached = PredictionState()

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray) -> None:
        self.reached = PredictionState(self.reached.rows + len(labels), (), tally)


def predict(model_path: str | Path, path: str | Path, output: str | Path) -> ScoringReport:
    """Write the predicted label and the decision values of every row of a file.

    If the process is ended before all rows are predicted, be it by a signal, the same call goes on after the last
    block that is safely on disk, and ends with the same file and the same report.

    Parameters
    ----------
    model_path : str or Path
        A saved model.
    path : str or Path
        HDF5 file with X.
    output : str or Path
        Ending in .csv: text, one line a row; else HDF5 with `prediction` and `decision`. It is written beside, as
        `output.part`, and renamed when complete.

    Returns
    -------
    ScoringReport

    Raises
    ------
    ValueError, FileNotFoundError, PermissionError
        If a file is not usable, or another process writes the same output.
    OSError
        If the disk is full; the rows that are written stay.
    Stopped
        After SIGTERM, SIGHUP or Ctrl-C, when the rows that are predicted are on disk.
    """
    begin = time.perf_counter()
    for written in (output, *parts_of(output)):
        check_output(written, model_path, path)
    stops = StopSignals()
    with stops.listening(), open_hdf5(path) as data:
        _check_rows(data)
        model = load(model_path)
        layout = CSVLayout() if str(output).endswith(".csv") else HDF5Layout(len(data), label_type(model))
        with PredictionFile.opened(output, layout, _bound_to(model, model_path, path)) as place:
            if place.reached.rows:
                say(f"going on after {place.reached.rows:,} of {len(data):,} rows.")
            report = _score(model, data, place, stops.raise_if_asked)
    return report._replace(output=str(output), seconds=time.perf_counter() - begin)


def evaluate(model_path: str | Path, path: str | Path) -> ScoringReport:
    """Return how well a saved model predicts the labels of a file.

    Parameters
    ----------
    model_path : str or Path
        A saved model.
    path : str or Path
        HDF5 file with X and y.

    Returns
    -------
    ScoringReport

    Raises
    ------
    ValueError
        If the file has no labels, or its features are not those of the model.
    """
    begin = time.perf_counter()
    with open_hdf5(path) as data:
        if data.y is None:
            raise ValueError(f"{path} has no dataset 'y' to compare predictions with; use predict.")
        _check_rows(data)
        report = _score(load(model_path), data, _Nowhere(), lambda: None)
    return report._replace(seconds=time.perf_counter() - begin)


def _check_rows(data: HDF5Data) -> None:
    if len(data) == 0:
        raise ValueError(f"{data.path} has no rows.")


def _score(model: Any, data: HDF5Data, place: _Place, raise_if_asked: Callable[[], None]) -> ScoringReport:
    """Predict the rows that `place` lacks, and tell of all."""
    measure, step = measure_of(model, data), _block_rows(model)
    with _progress(place.reached.rows, len(data)) as tell:
        for start in range(place.reached.rows, len(data), step):
            rows = np.arange(start, min(start + step, len(data)))
            labels, decisions = model._decided(data.X.take(rows))
            _check_unchanged(data)
            found, before = measure.of(start, labels), place.reached.tally
            place.append(labels, decisions, found if before is None else before + found)
            tell(len(rows))
            raise_if_asked()
    none = ScoringReport("", len(data), None, None, {}, [], [], 0.0)
    return none._replace(**measure.told(place.reached.tally))


def _block_rows(model: Any) -> int:
    """Return how many rows are predicted at a time: fewer of a model with very many decision functions."""
    return min(_ROWS, max(_LEAST_ROWS, _VALUES // np.size(model.intercept_)))


def _check_unchanged(data: HDF5Data) -> None:
    try:
        data.X.check_unchanged()
    except ValueError as error:
        raise ValueError(f"{data.path} changed while it was predicted; predict it when it is complete.") from error


def _bound_to(model: Any, model_path: str | Path, path: str | Path) -> dict[str, Any]:
    """Return what tells these predictions from others, by the names that a message gives."""
    from fastsvm import __version__

    with Path(model_path).open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    of_data = {name: value for name, value in fingerprint(path).items() if name != "file"}  # it may be named otherwise
    return {
        "model": {"bytes": Path(model_path).stat().st_size, "digest": digest},
        "data file": of_data,
        "version of fastsvm": __version__,
        "size of a block": _block_rows(model),
    }


@contextmanager
def _progress(done: int, total: int) -> Iterator[Callable[[int], None]]:
    """Yield what is told of rows that are done: a bar moves on a terminal, elsewhere there is a line now and then."""
    next_line = time.perf_counter() + _SAY_SECONDS
    with tqdm(total=total, initial=done, desc="predict", unit="row", unit_scale=True, disable=None) as bar:

        def tell(rows: int) -> None:
            nonlocal done, next_line
            done += rows
            bar.update(rows)
            if bar.disable and time.perf_counter() >= next_line:
                next_line = time.perf_counter() + _SAY_SECONDS
                say(f"predict: {done:,} of {total:,} rows ({done / total:.0%})")

        yield tell
