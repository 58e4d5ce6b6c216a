"""Whether the labels of a file can be compared with the predictions of a model."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.utils.multiclass import type_of_target

from fastsvm.sources import HDF5Data
from fastsvm.tuning import current_tuning

__all__ = ["UnknownLabels", "check_labels", "classes_of", "listed"]


class UnknownLabels(ValueError):
    """No label of a file is a class of the model, or the labels cannot be compared with predictions."""


def check_labels(classes: np.ndarray | None, data: HDF5Data, path: object) -> str:
    """Return a note on rows whose class a model does not know, "" if there are none or it is a regressor.

    `classes` are the model's, None for a regressor; `path` is the file as the user knows it, for messages.
    UnknownLabels is raised if it knows no class of the file: the labels are those of another question, or from another
    column, or they are real numbers. For a regressor, it is raised if they are not finite numbers.
    """
    if data.y is None:
        return ""
    if classes is None:
        if data.y.dtype.kind not in "biuf" or not np.isfinite(data.y).all():
            raise UnknownLabels(f"The labels in {path} must be finite numbers, for the model is a regression.")
        return ""
    if data.y.dtype.kind == "f" and not np.isfinite(data.y).all():
        raise UnknownLabels(f"The labels in {path} contain NaN or infinity, which name no class.")
    if type_of_target(data.y).startswith("continuous"):
        raise UnknownLabels(f"The labels in {path} are real numbers, but the model predicts classes.")
    found, counts = np.unique(data.y, return_counts=True)
    n = len(classes)
    all_ = np.concatenate([classes, found])  # in one type
    unknown = ~np.isin(all_[n:], all_[:n])
    if unknown.all():
        raise UnknownLabels(
            f"No label in {path} is a class of the model: the labels are {listed(found)}, the classes are "
            f"{listed(classes)}. Name the column of the labels by --label, or its values as in the training."
        )
    if not unknown.any():
        return ""
    rows = int(counts[unknown].sum())
    return f"{rows:,} of {len(data):,} rows have a class that the model does not know: {listed(found[unknown])}."


def classes_of(model: Any) -> np.ndarray | None:
    """Return the classes of a classifier, -1 and 1 for outliers and others, or None for a regressor."""
    if is_outlier_detector(model):
        return np.array([-1, 1])
    return model.classes_ if is_classifier(model) else None


def listed(things: np.ndarray) -> str:
    """Return the first of some labels or names, and how many there are more."""
    most = current_tuning().limits.shown
    more = f" and {len(things) - most:,} more" if len(things) > most else ""
    return ", ".join(map(str, things[:most].tolist())) + more
