"""What a linear model is to learn: a loss, from rows, labels and weights."""

import hashlib
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fastsvm.estimators.fitting.validation import Rule
from fastsvm.losses import Loss, is_loss, loss_named, loss_names
from fastsvm.sources import DenseBlock, MemorySource, Source


class Task(NamedTuple):
    """What is to be learnt.

    `targets` and `balance` are as `losses.add_losses` takes them; `pairs`, `folds` and `held` are as `losses.Demands`
    has them.
    `weights` are those of the rows in the mean, times those of their classes; `total` is the sum of the weights of the
    rows without those of their classes. `share` is that of the weights that the dual variables of a machine of one
    class sum up to, else None.
    """

    source: Source
    targets: np.ndarray
    weights: np.ndarray
    total: float
    balance: np.ndarray
    of_classes: bool
    pairs: np.ndarray = np.empty((0, 2), np.int64)
    share: float | None = None
    folds: np.ndarray = np.empty((0, 2), np.int64)
    held: np.ndarray = np.empty((0, 0), np.bool_)


def task_of_classes(source: Source, labels: np.ndarray, weight: np.ndarray, factors: np.ndarray, coupled: bool) -> Task:
    """Return the task of learning classes. `labels` are their numbers, -1 for rows that are left out.

    `factors` multiply the weights of each class. If `coupled`, the loss is one of all classes at once; else several are
    learnt one against the rest.
    """
    k, used = len(factors), labels >= 0
    weights, total = np.where(used, weight, 0.0), float(weight[used].sum())
    targets, balance = labels.astype(np.float64), np.ones(k)
    if coupled or k == 2:
        weights = weights * factors[labels]
    else:
        balance = factors
    if k == 2 and not coupled:
        targets, balance = np.where(labels == 1, 1.0, -1.0), np.ones(1)
    return Task(source, targets, weights, total, balance, of_classes=True)


def in_pairs(task: Task) -> Task:
    """Return the task of telling each pair of several classes apart, for one of all classes at once.

    A pair has no copy of its rows: rows of other classes cost nothing in its score.
    """
    pairs = np.column_stack(np.triu_indices(len(task.balance), 1))
    return task._replace(balance=np.ones(len(pairs)), pairs=pairs)


def fingerprint(task: Task) -> str:
    """Return a digest of rows, targets and weights."""
    digest = hashlib.blake2b(repr((task.source.digest(), len(task.balance))).encode())
    for array in (task.targets, task.weights, task.pairs):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def seed_of(estimator: BaseEstimator) -> int:
    """Return the estimator's random_state if it is a number, else a seed that it draws."""
    given = estimator.random_state  # to construct a generator takes as long as some epochs of few rows
    return int(given) if isinstance(given, Integral) else int(check_random_state(given).randint(2**31 - 1))


def merged(task: Task, most_values: int) -> Task:
    """Return the task with equal rows merged, in float64 and in sorted order; larger tasks are returned as they are.

    A row of weight 2 is then the same as two rows, to the last bit.
    """
    rows = distinct(task, most_values)
    if rows is None:
        return task
    first, weights = rows
    source = task.source.take(first)
    if isinstance(source, MemorySource) and not source.sparse:
        source = MemorySource(DenseBlock(source.block.dense(np.float64)))  # one type, for which alone code is compiled
    return task._replace(source=source, targets=task.targets[first], weights=weights)


def distinct(task: Task, most_values: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the numbers of the distinct rows in sorted order, each with the total weight of its equals.

    Returns None for larger tasks, and for rows that are not finite, so that the solver says where.
    """
    n, d = task.source.shape
    if n * d > most_values:
        return None
    rows = task.source.in_memory().block.dense(np.float64)
    if not np.isfinite(rows).all():
        return None
    used = np.flatnonzero(task.weights > 0)
    targets, values = task.targets[used], rows[used, 0]
    order = np.lexsort((values, targets))
    targets, values = targets[order], values[order]
    if ((targets[1:] != targets[:-1]) | (values[1:] != values[:-1])).all():
        return used[order], task.weights[used[order]]
    keyed = np.empty((len(used), d + 1))
    np.add(task.targets[used], 0.0, out=keyed[:, 0])  # so that zeros have the same sign
    np.add(rows if len(used) == n else rows[used], 0.0, out=keyed[:, 1:])
    bits = keyed.view(np.int64)
    sortable = np.where(bits < 0, ~bits, bits ^ np.int64(-(2**63))).byteswap()  # words in the order of the numbers
    words = sortable.view(f"S{keyed.itemsize * (d + 1)}")[:, 0]
    order = words.argsort(kind="stable")
    first = np.flatnonzero(np.append(True, words[order[1:]] != words[order[:-1]]))
    return used[order[first]], np.add.reduceat(task.weights[used[order]], first)


# --- the parameter `loss` --------------------------------------------------------------------------------


class _LossWords(NamedTuple):
    """The words for a rule of losses, which may be registered after the rule was made."""

    of: tuple[str, ...]
    dual: bool
    others: tuple[str, ...]

    def __str__(self) -> str:
        names = *self.others, *loss_names(*self.of, dual=self.dual)
        return "one of " + ", ".join(map(repr, names)) + " or such a loss registered with register_loss"


def loss_rule(*of: str, dual: bool = False, others: tuple[str, ...] = ()) -> Rule:
    """Return the rule of a loss of some kinds of targets; `others` are words that are allowed beside.

    With `dual`, it must have what dual coordinate ascent needs.
    """

    def holds(value: object) -> bool:
        return is_loss(value, *of, dual=dual) or (isinstance(value, str) and value in others)

    return Rule(holds, _LossWords(of, dual, others))


def loss_of(value: Any, **parameters: float) -> Loss:
    """Return the loss that a parameter stands for; one that is named gets those of the parameters that it has."""
    return loss_named(value, **parameters) if isinstance(value, str) else value
