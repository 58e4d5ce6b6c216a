"""Predict the rows of a file with a saved model, block by block."""

import csv
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import type_of_target
from tqdm.auto import tqdm

from fastsvm.jobs.outputs import check_output
from fastsvm.model_file import load, written_beside
from fastsvm.sources import HDF5Data, open_hdf5

__all__ = ["ScoringReport", "evaluate", "predict"]

_ROWS = 16_384

Write = Callable[[np.ndarray, np.ndarray], None]


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


def predict(model_path: str | Path, path: str | Path, output: str | Path) -> ScoringReport:
    """Write the predicted label and the decision values of every row of a file.

    Parameters
    ----------
    model_path : str or Path
        A saved model.
    path : str or Path
        HDF5 file with X.
    output : str or Path
        Ending in .csv: text, one line a row; else HDF5 with `prediction` and `decision`. It is written beside and
        renamed when complete.

    Returns
    -------
    ScoringReport
    """
    check_output(output, model_path, path)
    with written_beside(output) as part:
        writer = _csv_writer(part) if str(output).endswith(".csv") else _hdf5_writer(part)
        return _score(model_path, path, writer)._replace(output=str(output))


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
    with open_hdf5(path) as data:
        if data.y is None:
            raise ValueError(f"{path} has no dataset 'y' to compare predictions with; use predict.")
    return _score(model_path, path, _no_writer())


def _score(model_path: str | Path, path: str | Path, writer: AbstractContextManager[Write]) -> ScoringReport:
    begin = time.perf_counter()
    model = load(model_path)
    with open_hdf5(path) as data, writer as write:
        if len(data) == 0:
            raise ValueError(f"{path} has no rows.")
        if is_classifier(model) and data.y is not None and type_of_target(data.y).startswith("continuous"):
            raise ValueError(f"y in {path} holds real numbers, the model in {model_path} predicts classes.")
        predicted = []
        for start in tqdm(range(0, len(data), _ROWS), desc="predict", unit="block", disable=None):
            labels, decisions = model._decided(data.X.take(np.arange(start, min(start + _ROWS, len(data)))))
            predicted.append(labels)
            write(labels, decisions)
        return _summary(model, data, np.concatenate(predicted), time.perf_counter() - begin)


def _summary(model: Any, data: HDF5Data, predicted: np.ndarray, seconds: float) -> ScoringReport:
    if data.y is None:
        return ScoringReport("", len(predicted), None, None, {}, [], [], seconds)
    if not is_classifier(model):
        return ScoringReport("", len(predicted), None, float(r2_score(data.y, predicted)), {}, [], [], seconds)
    labels = np.unique(np.concatenate([model.classes_, data.y]))
    truth, guess = np.searchsorted(labels, data.y), np.searchsorted(labels, predicted)
    confusion = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(confusion, (truth, guess), 1)
    names = [str(label) for label in labels]
    if data.class_names is not None and labels.dtype.kind in "iu" and labels.max() < len(data.class_names):
        names = [data.class_names[label] for label in labels]
    count = confusion.sum(axis=1)
    per_class = {name: confusion[i, i] / count[i] for i, name in enumerate(names) if count[i]}
    accuracy = float(np.mean(truth == guess))
    per_class = {name: float(share) for name, share in per_class.items()}
    return ScoringReport("", len(predicted), accuracy, None, per_class, confusion.tolist(), names, seconds)


@contextmanager
def _no_writer() -> Iterator[Write]:
    yield lambda labels, decisions: None


@contextmanager
def _csv_writer(path: Path) -> Iterator[Write]:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        begun = False

        def write(labels: np.ndarray, decisions: np.ndarray) -> None:
            nonlocal begun
            columns = decisions.reshape(len(labels), -1)
            if not begun:
                names = [f"decision_{k}" for k in range(columns.shape[1])] if columns.shape[1] > 1 else ["decision"]
                lines.writerow(["prediction", *names])
                begun = True
            lines.writerows([label, *values] for label, values in zip(labels.tolist(), columns.tolist(), strict=True))

        yield write


@contextmanager
def _hdf5_writer(path: Path) -> Iterator[Write]:
    with h5py.File(path, "w") as file:

        def append(name: str, values: np.ndarray) -> None:
            if name not in file:
                kind = h5py.string_dtype() if values.dtype.kind in "OU" else values.dtype
                file.create_dataset(name, shape=(0, *values.shape[1:]), maxshape=(None, *values.shape[1:]), dtype=kind)
            dataset = file[name]
            dataset.resize(len(dataset) + len(values), axis=0)
            dataset[-len(values) :] = values.astype(object) if values.dtype.kind == "U" else values

        def write(labels: np.ndarray, decisions: np.ndarray) -> None:
            append("prediction", labels)
            append("decision", decisions)

        yield write
