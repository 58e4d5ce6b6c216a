"""Classes of the labels, and their weights."""

from numbers import Real

import numpy as np

__all__ = ["class_weights", "encode"]


def encode(y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of positive weight, and each row's class number, -1 for rows of weight 0.

    Raises
    ------
    ValueError
        If there are fewer than two.
    """
    used = weight > 0
    classes = np.unique(y[used])
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
            + (" with positive weight (sample_weight)." if len(np.unique(y)) > 1 else ".")
        )
    labels = np.full(len(y), -1, np.int64)
    labels[used] = np.searchsorted(classes, y[used])  # np.unique's own inverse takes a sort of places
    return classes, labels


def class_weights(given: dict | str | None, classes: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the factor of C of each class.

    Parameters
    ----------
    given : dict, "balanced" or None
        As the estimator's `class_weight`. "balanced" makes the classes' sums of weights equal. A dict may name
        classes that are not among these rows, as a part of them may lack a class.
    classes : ndarray of shape (n_classes,)
        Labels.
    labels : ndarray of int64, shape (n,)
        Class number of each row, or -1.
    weight : ndarray of float64, shape (n,)
        Weights of the rows.

    Raises
    ------
    ValueError
        If it is none of these, is not positive, or names unknown classes while it lacks one of `classes`.
    """
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, str):
        if given != "balanced":
            raise ValueError(f"class_weight must be a dict, 'balanced' or None; found {given!r}.")
        used = labels >= 0
        count = np.bincount(labels[used], weight[used], len(classes))
        return count.sum() / (len(classes) * count)
    if not isinstance(given, dict):
        raise ValueError(f"class_weight must be a dict, 'balanced' or None; found {given!r}.")
    known = classes.tolist()
    weighted = [label for label in known if label in given]
    if len(weighted) < len(known) and len(weighted) < len(given):  # a misspelt name is more likely than a rare class
        unknown = [label for label in given if label not in known]
        raise ValueError(f"class_weight names classes that are not in y, {unknown}, but not all that are: {known}.")
    factors = [given.get(label, 1.0) for label in known]
    if not all(isinstance(factor, Real) and 0 < factor < np.inf for factor in given.values()):
        raise ValueError(f"class_weight must be a positive, finite number for every class; found {given}.")
    return np.array(factors, dtype=np.float64)
