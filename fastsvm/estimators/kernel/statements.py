"""What each machine asks of its samples: the problems of their multipliers."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.estimators.fitting.labels import class_weights, encode
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.multiclass import class_pairs
from fastsvm.solvers.kernel_dual.problem import Problems

__all__ = ["Statement", "problems_of_pairs", "state_classes", "state_nu_classes", "state_one_class", "state_targets"]


class Statement(NamedTuple):
    """What a machine asks of its samples.

    A machine without classes has none in `classes`. `labels` has the class number of each sample, -1 for those that are
    left out, and `upper` is the bound of a sample's multipliers.

    `problems(labels, upper)` returns the problems. Where duplicates are merged, one of them has the bounds of all, and
    the others are left out. `kinds` returns a number for each sample, or None if all would be different. Samples of one
    number, not -1, have one label or target, so that duplicates among them may be merged. `more` has the fitted
    attributes that do not depend on the solution.
    """

    classes: np.ndarray
    labels: np.ndarray
    upper: np.ndarray
    problems: Callable[[np.ndarray, np.ndarray], Problems]
    more: dict[str, Any]
    kinds: Callable[[], np.ndarray | None]


def state_classes(estimator: Any, data: TrainingSet) -> Statement:
    """Return the problems of a classifier, one a pair of classes; samples of weight 0 are left out."""
    classes, labels = encode(data.y, data.weight)
    factors, upper = _bounds(estimator, classes, labels, data.weight)

    def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
        return problems_of_pairs(labels, upper, len(classes))

    return Statement(classes, labels, upper, problems, {"class_weight_": factors}, lambda: labels)


def state_nu_classes(estimator: Any, data: TrainingSet) -> Statement:
    """Return the problems of a ν-classifier, one a pair of classes; samples of weight 0 are left out.

    If the smaller class of a pair cannot have as large a total as ν asks for, ValueError is raised.
    """
    classes, labels = encode(data.y, data.weight)
    factors, upper = _bounds(estimator, classes, labels, data.weight)
    used = labels >= 0
    sums = np.bincount(labels[used], upper[used], len(classes))
    for a, b in class_pairs(len(classes)):
        most = 2 * min(sums[a], sums[b]) / (sums[a] + sums[b])
        if estimator.nu > most * (1 + ROUNDING):
            digits = 10.0 ** (5 - np.floor(np.log10(most)))
            raise ValueError(
                f"specified nu is infeasible: nu={estimator.nu} for the classes {classes[a]} and {classes[b]}, whose "
                f"weights sum to {sums[a]:.6g} and {sums[b]:.6g}; at most {np.floor(most * digits) / digits:.6g} is "
                "feasible."
            )

    def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
        pairs = problems_of_pairs(labels, upper, len(classes))
        sums = [float(pairs.upper[a:b].sum()) for a, b in pairwise(pairs.starts.tolist())]
        totals = estimator.nu * np.array(sums) / 2
        return pairs._replace(target=np.zeros(len(pairs.y)), totals=totals, groups=2)

    return Statement(classes, labels, upper, problems, {"class_weight_": factors}, lambda: labels)


def state_one_class(weight: np.ndarray, nu: float) -> Statement:
    """Return the problem of the support of a distribution, in which the multipliers sum to ν Σ weights."""

    def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
        rows = np.flatnonzero(labels == 0)
        n, upper = len(rows), upper[rows]
        return _only(rows, np.ones(n), upper, np.zeros(n), nu * float(upper.sum()))

    labels = np.where(weight > 0, 0, -1)
    return Statement(np.empty(0), labels, weight, problems, {}, lambda: labels)


def state_targets(data: TrainingSet, upper: np.ndarray, epsilon: float, total: float = 0.0) -> Statement:
    """Return the problem of regression, with a tube of half width `epsilon`.

    Samples with bound 0 in `upper` are left out. `total` is the sum of the multipliers of each sign if it is given,
    else 0.
    """

    def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
        rows = np.flatnonzero(labels == 0)
        y, target = np.repeat([1.0, -1.0], len(rows)), data.y[rows]
        targets = np.concatenate([target - epsilon, target + epsilon])
        return _only(rows, y, np.tile(upper[rows], 2), targets, total)._replace(groups=2 if total > 0 else 1)

    labels = np.where(upper > 0, 0, -1)

    def kinds() -> np.ndarray | None:
        targets, numbers = np.unique(data.y, return_inverse=True)
        return np.where(labels == 0, numbers, -1) if len(targets) < len(labels) else None

    return Statement(np.empty(0), labels, upper, problems, {}, kinds)


def _only(rows: np.ndarray, y: np.ndarray, upper: np.ndarray, target: np.ndarray, total: float) -> Problems:
    """Return one problem."""
    starts, classes = np.array([0, len(y)]), np.zeros((1, 2), np.int64)
    return Problems(starts, rows, y, upper, target, np.array([total]), classes, len(y) // max(1, len(rows)))


def _bounds(
    estimator: Any, classes: np.ndarray, labels: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factor of C of each class, and the upper bound of each row's multiplier, 0 for rows left out."""
    factors = class_weights(estimator.class_weight, classes, labels, weight)
    return factors, float(estimator.C) * weight * factors[labels]  # rows left out are those of weight 0


def problems_of_pairs(labels: np.ndarray, upper: np.ndarray, n_classes: int) -> Problems:
    """Return the problems of all pairs of classes, the first class of each positive.

    `labels` has the class number of every sample, -1 for those in no problem, and `upper` the bound of its multipliers.
    """
    starts, rows, y, bounds, classes = _rows_of_pairs(labels, upper, n_classes)
    return Problems(starts, rows, y, bounds, y, np.zeros(len(classes)), classes)


@jit
def _rows_of_pairs(labels, upper, n_classes):
    """Return where each pair of classes starts, the rows of all with signs and bounds, and its classes, in a call."""
    ends = np.zeros(n_classes + 1, np.int64)
    for i in range(labels.size):
        if labels[i] >= 0:
            ends[labels[i] + 1] += 1
    for c in range(n_classes):
        ends[c + 1] += ends[c]
    order, place = np.empty(ends[-1], np.int64), ends.copy()
    for i in range(labels.size):
        if labels[i] >= 0:
            order[place[labels[i]]] = i
            place[labels[i]] += 1
    n = ends[-1] * (n_classes - 1)
    n_pairs = n_classes * (n_classes - 1) // 2
    starts, classes = np.zeros(n_pairs + 1, np.int64), np.empty((n_pairs, 2), np.int64)
    rows, y, bounds = np.empty(n, np.int64), np.empty(n), np.empty(n)
    _merge_classes(order, ends, upper, (starts, classes), (rows, y, bounds))
    return starts, rows, y, bounds, classes


@jit
def _merge_classes(order, ends, upper, pairs, out):
    """Write the rows of each pair of classes as they rise, their signs and bounds; `order` has them class by class."""
    k, place, pair, (starts, classes), (rows, y, bounds) = ends.size - 1, 0, 0, pairs, out
    for a in range(k):
        for b in range(a + 1, k):
            i, j = ends[a], ends[b]
            while i < ends[a + 1] or j < ends[b + 1]:
                is_first = j == ends[b + 1] or (i < ends[a + 1] and order[i] < order[j])
                row = order[i] if is_first else order[j]
                rows[place], y[place], bounds[place] = row, 1.0 if is_first else -1.0, upper[row]
                place += 1
                if is_first:
                    i += 1
                else:
                    j += 1
            classes[pair, 0], classes[pair, 1] = a, b
            pair += 1
            starts[pair] = place
