"""What predictions are worth, added up block by block: a few numbers, however many rows there are."""

from typing import Any, Protocol

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target

from fastsvm.sources import HDF5Data

__all__ = ["Measure", "measure_of"]


class Measure(Protocol):
    """Compares predictions with the labels of a file. What it finds in a block is an array, and is added up."""

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        """Return what the predictions of the rows from `start` on add."""

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        """Return the fields of a report, from the sum over all rows."""


def measure_of(model: Any, data: HDF5Data) -> Measure:
    """Return what is to be measured of a model on a file.

    Parameters
    ----------
    model : estimator
        Fitted.
    data : HDF5Data
        The file.

    Returns
    -------
    Measure

    Raises
    ------
    ValueError
        If the labels are of another kind than the predictions.
    """
    if data.y is None:
        return _Nothing()
    if is_classifier(model):
        if type_of_target(data.y).startswith("continuous"):
            raise ValueError(f"y in {data.path} holds real numbers, the model predicts classes.")
        return _Confusion(model.classes_, data)
    if data.y.dtype.kind not in "biuf" or not np.isfinite(data.y).all():
        raise ValueError(f"y in {data.path} does not hold finite numbers, which the model predicts.")
    return _SquaredError(data.y)


class _Nothing:
    """There are no labels to compare with."""

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        return {}


class _Confusion:
    """Counts the rows of each true class by predicted class."""

    def __init__(self, classes: np.ndarray, data: HDF5Data) -> None:
        self.y, self.class_names = data.y, data.class_names
        self.labels = np.unique(np.concatenate([classes, np.unique(data.y)]))

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        n = len(self.labels)
        truth = np.searchsorted(self.labels, self.y[start : start + len(predicted)])
        guess = np.searchsorted(self.labels, predicted)
        return np.bincount(truth * n + guess, minlength=n * n).reshape(n, n)

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        count, names = tally.sum(axis=1), self._names()
        per_class = {name: float(tally[i, i] / count[i]) for i, name in enumerate(names) if count[i]}
        accuracy = float(np.trace(tally) / tally.sum())
        return {"accuracy": accuracy, "per_class": per_class, "confusion": tally.tolist(), "labels": names}

    def _names(self) -> list[str]:
        labels, known = self.labels, self.class_names
        if known is not None and labels.dtype.kind in "iu" and labels.max() < len(known):
            return [known[label] for label in labels]
        return [str(label) for label in labels]


class _SquaredError:
    """Adds up what predicted numbers leave unexplained; the variance of those of the file is known beforehand."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y
        self.total = float(np.sum((y - y.mean(dtype=np.float64)) ** 2))

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        return np.array([np.sum((self.y[start : start + len(predicted)] - predicted) ** 2)])

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        left = float(tally[0])
        if len(self.y) < 2:  # one number has no variance
            return {"r2": None}
        if self.total == 0:  # as scikit-learn has it
            return {"r2": 1.0 if left == 0 else 0.0}
        return {"r2": 1.0 - left / self.total}
