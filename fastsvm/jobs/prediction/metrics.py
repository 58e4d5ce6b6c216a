"""Accuracy, confusion matrix and R² of predictions, summed up block by block in constant memory."""

from typing import Any, Protocol

import numpy as np

from fastsvm.jobs.labels import classes_of
from fastsvm.sources import HDF5Data

__all__ = ["Measure", "measure_of", "nothing"]


class Measure(Protocol):
    """Compares predictions with the labels of a file: an array for each block, whose sum gives the report."""

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        """Return the array of a block that begins at row `start`."""

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        """Return fields of the report, from the sum over all blocks."""


def measure_of(model: Any, data: HDF5Data) -> Measure:
    """Return the measure for a model and a file, with labels that `check_labels` passed, or without."""
    if data.y is None:
        return nothing
    classes = classes_of(model)
    if classes is not None:
        return _Confusion(classes, data.y, data.class_names)
    return _SquaredError(data.y)


class _Nothing:
    """The file has no labels."""

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        return {}


nothing: Measure = _Nothing()


class _Confusion:
    """Confusion matrix: rows are true classes, columns are predicted ones."""

    def __init__(self, classes: np.ndarray, y: np.ndarray, class_names: list[str] | None) -> None:
        self.y, self.class_names = y, class_names
        self.labels = np.unique(np.concatenate([classes, np.unique(y)]))

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
    """Residual sum of squares, for R²."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y
        self.total = float(np.sum((y - y.mean(dtype=np.float64)) ** 2))

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        return np.array([np.sum((self.y[start : start + len(predicted)] - predicted) ** 2)])

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        residual = float(tally[0])
        if len(self.y) < 2:  # R² is not defined for one sample
            return {"r2": None}
        if self.total == 0:  # as in scikit-learn
            return {"r2": 1.0 if residual == 0 else 0.0}
        return {"r2": 1.0 - residual / self.total}
