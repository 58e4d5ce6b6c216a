"""What each machine asks of its samples: the problems of their multipliers."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastsvm.estimators.fitting.labels import class_weights, encode
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.two_class import ClassPairs, TwoClass
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.multiclass import class_pairs

__all__ = ["Statement", "state_classes", "state_nu_classes", "state_one_class", "state_targets"]


class Statement(NamedTuple):
    """What a machine asks of its samples.

    A machine without classes has none in `classes`. `labels` has the class number of each sample, -1 for those that are
    left out, and `upper` is the bound of a sample's multipliers, of which it has `rows_of_sample`, 1 or 2.

    `problems(labels, upper)` returns the problems. Where duplicates are merged, one of them has the bounds of all, and
    the others are left out. `kinds` returns a number for each sample, or None if all would be different. Samples of one
    number, not -1, have one label or target, so that duplicates among them may be merged. `more` has the fitted
    attributes that do not depend on the solution.
    """

    classes: np.ndarray
    labels: np.ndarray
    upper: np.ndarray
    problems: Callable[[np.ndarray, np.ndarray], Sequence[TwoClass]]
    rows_of_sample: int
    more: dict[str, Any]
    kinds: Callable[[], np.ndarray | None]


def state_classes(estimator: Any, data: TrainingSet) -> Statement:
    """Return the two-class problems of a classifier; samples of weight 0 are left out."""
    classes, labels = encode(data.y, data.weight)
    factors, upper = _bounds(estimator, classes, labels, data.weight)

    def problems(labels: np.ndarray, upper: np.ndarray) -> Sequence[TwoClass]:
        return ClassPairs(labels, upper, len(classes))

    return Statement(classes, labels, upper, problems, 1, {"class_weight_": factors}, lambda: labels)


def state_nu_classes(estimator: Any, data: TrainingSet) -> Statement:
    """Return the two-class problems of a ν-classifier; samples of weight 0 are left out.

    If the smaller class of a pair cannot have as large a total as ν asks for, ValueError is raised.
    """
    classes, labels = encode(data.y, data.weight)
    factors, upper = _bounds(estimator, classes, labels, data.weight)
    known = labels >= 0
    sums = np.bincount(labels[known], upper[known], len(classes))
    for a, b in class_pairs(len(classes)):
        most = 2 * min(sums[a], sums[b]) / (sums[a] + sums[b])
        if estimator.nu > most * (1 + ROUNDING):
            digits = 10.0 ** (5 - np.floor(np.log10(most)))
            raise ValueError(
                f"specified nu is infeasible: nu={estimator.nu} for the classes {classes[a]} and {classes[b]}, whose "
                f"weights sum to {sums[a]:.6g} and {sums[b]:.6g}; at most {np.floor(most * digits) / digits:.6g} is "
                "feasible."
            )

    def problems(labels: np.ndarray, upper: np.ndarray) -> list[TwoClass]:
        pairs = ClassPairs(labels, upper, len(classes))
        return [pair.with_total(estimator.nu * float(pair.upper.sum()) / 2) for pair in pairs]

    return Statement(classes, labels, upper, problems, 1, {"class_weight_": factors}, lambda: labels)


def state_one_class(weight: np.ndarray, nu: float) -> Statement:
    """Return the problem of the support of a distribution, in which the multipliers sum to ν Σ weights."""

    def problems(labels: np.ndarray, upper: np.ndarray) -> list[TwoClass]:
        rows = np.flatnonzero(labels == 0)
        return [TwoClass.of_one_class(rows, upper[rows], nu * float(upper[rows].sum()))]

    labels = np.where(weight > 0, 0, -1)
    return Statement(np.empty(0), labels, weight, problems, 1, {}, lambda: labels)


def state_targets(data: TrainingSet, upper: np.ndarray, epsilon: float, total: float = 0.0) -> Statement:
    """Return the problem of regression, with a tube of half width `epsilon`.

    Samples with bound 0 in `upper` are left out. `total` is the sum of the multipliers of each sign if it is given,
    else 0.
    """

    def problems(labels: np.ndarray, upper: np.ndarray) -> list[TwoClass]:
        rows = np.flatnonzero(labels == 0)
        return [TwoClass.of_targets(rows, upper[rows], data.y[rows], epsilon, total)]

    labels = np.where(upper > 0, 0, -1)

    def kinds() -> np.ndarray | None:
        targets, found = np.unique(data.y, return_inverse=True)
        return np.where(labels == 0, found, -1) if len(targets) < len(labels) else None

    return Statement(np.empty(0), labels, upper, problems, 2, {}, kinds)


def _bounds(
    estimator: Any, classes: np.ndarray, labels: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factor of C of each class, and the upper bound of each row's multiplier, 0 for rows left out."""
    factors = class_weights(estimator.class_weight, classes, labels, weight)
    return factors, float(estimator.C) * weight * factors[labels]  # rows left out are those of weight 0
