"""Accuracy, confusion matrix and R² of predictions, summed up block by block in constant memory."""

from typing import Any, Protocol

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.utils.multiclass import type_of_target

from fastsvm.sources import HDF5Data

__all__ = ["Measure", "UnknownLabels", "check_labels", "measure_of", "nothing"]

_SHOWN = 5  # labels in a message


class UnknownLabels(ValueError):
    """No label of a file is a class of the model."""


class Measure(Protocol):
    """Compares predictions with the labels of a file: an array for each block, whose sum gives the report."""

    def of(self, start: int, predicted: np.ndarray) -> np.ndarray:
        """Return the array of a block that begins at row `start`."""

    def told(self, tally: np.ndarray) -> dict[str, Any]:
        """Return fields of the report, from the sum over all blocks."""


def check_labels(model: Any, data: HDF5Data, path: object) -> str:
    """Return a note on rows whose class a model does not know, "" if there are none or it is a regressor.

    Raises
    ------
    UnknownLabels
        If it knows no class of the file: the labels are those of another question, or from another column, or they are
        real numbers.
    """
    classes = _classes(model)
    if data.y is None or classes is None:
        return ""
    if type_of_target(data.y).startswith("continuous"):
        raise UnknownLabels(f"The labels in {path} are real numbers, but the model predicts classes.")
    found, counts = np.unique(data.y, return_counts=True)
    n = len(classes)
    all_ = np.concatenate([classes, found])  # in one type
    unknown = ~np.isin(all_[n:], all_[:n])
    if unknown.all():
        raise UnknownLabels(
            f"No label in {path} is a class of the model: the labels are {_listed(found)}, the classes are "
            f"{_listed(classes)}. Name the column of the labels by --label, or its values as in the training."
        )
    if not unknown.any():
        return ""
    rows = int(counts[unknown].sum())
    return f"{rows:,} of {len(data):,} rows have a class that the model does not know: {_listed(found[unknown])}."


def _classes(model: Any) -> np.ndarray | None:
    """Return the classes of a classifier, -1 and 1 for outliers and others, or None for a regressor."""
    if is_outlier_detector(model):
        return np.array([-1, 1])
    return model.classes_ if is_classifier(model) else None


def _listed(labels: np.ndarray) -> str:
    more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
    return ", ".join(map(str, labels[:_SHOWN].tolist())) + more


def measure_of(model: Any, data: HDF5Data, path: object) -> Measure:
    """Return the measure for a model and a file.

    Parameters
    ----------
    model : estimator
        A fitted model.
    data : HDF5Data
        The file, with labels or without.
    path : str or Path
        The file as the user knows it, for messages.

    Returns
    -------
    Measure

    Raises
    ------
    ValueError
        If the model is a regressor and the labels are not numbers.
    """
    if data.y is None:
        return nothing
    classes = _classes(model)
    if classes is not None:
        return _Confusion(classes, data.y, data.class_names)
    if data.y.dtype.kind not in "biuf" or not np.isfinite(data.y).all():
        raise ValueError(f"The labels in {path} must be finite numbers, for the model is a regression.")
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
