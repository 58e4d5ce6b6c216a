"""Encoding of labels as class numbers, and class weights."""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["check_ties", "class_weights", "encode"]

# Programs match on the words of scikit-learn's messages, so these contain them.
_ONE_WITH_WEIGHT = ". Invalid input - all samples with positive weights belong to the same class (sample_weight)."


def encode(y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted labels of the samples of positive weight, and the class number of each sample.

    The class number is -1 for samples of weight 0. If there are fewer than two classes, ValueError is raised.
    """
    used = weight > 0
    values = y[used]
    classes = np.unique(values)
    if 2 * len(classes) > len(y):
        check_classification_targets(y)  # which warns that there are many classes
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
            + (_ONE_WITH_WEIGHT if len(np.unique(y)) > 1 else ".")
        )
    labels = np.full(len(y), -1, np.int64)
    labels[used] = np.searchsorted(classes, values)  # faster than np.unique's own inverse, which needs an argsort
    return classes, labels


def check_ties(estimator: BaseEstimator) -> None:
    """Raise ValueError if ties of votes are to be broken although decisions are those of pairs."""
    if estimator.break_ties and estimator.decision_function_shape == "ovo":
        raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")


def class_weights(
    class_weight: dict | str | None, classes: np.ndarray, labels: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the factor of C of each class for `class_weight`; labels are class numbers, or -1.

    "balanced" makes the sums of weights of all classes equal. A dict may name classes that do not occur, since a
    cross-validation split may lack a class; classes that it does not name have the factor 1. ValueError is raised if
    `class_weight` is none of these, a factor is not positive, or a dict names an unknown class and lacks a known one.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise InvalidParameterError(f"class_weight must be a dict, 'balanced' or None; found {class_weight!r}.")
        used = labels >= 0
        count = np.bincount(labels[used], weight[used], len(classes))
        return count.sum() / (len(classes) * count)
    if not isinstance(class_weight, dict):
        raise InvalidParameterError(f"class_weight must be a dict, 'balanced' or None; found {class_weight!r}.")
    names = classes.tolist()
    weighted = [label for label in names if label in class_weight]
    # A misspelt name is more likely than a rare class.
    if len(weighted) < len(names) and len(weighted) < len(class_weight):
        unknown = [label for label in class_weight if label not in names]
        raise ValueError(
            f"class_weight has keys that are not classes, {unknown}. The classes, "
            f"{[label for label in names if label not in class_weight]}, are not in class_weight."
        )
    factors = [class_weight.get(label, 1.0) for label in names]
    numbers = all(isinstance(factor, Real) for factor in class_weight.values())
    if not (numbers and all(0 < factor < np.inf for factor in class_weight.values())):
        raise ValueError(f"class_weight must be a positive, finite number for every class; found {class_weight}.")
    return np.array(factors, dtype=np.float64)
