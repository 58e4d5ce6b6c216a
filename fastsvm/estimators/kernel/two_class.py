"""Problems of a fit: their rows, signs, bounds and targets, and what came out."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, overload

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.outer_loop import StopReason

__all__ = ["ClassPairs", "Outcome", "Together", "TwoClass", "sizes_of"]


class TwoClass(NamedTuple):
    """One problem of multipliers with two signs.

    There is one multiplier a row, or there are two: first those with y = 1 of all rows, then those with y = −1. `y`,
    `upper` and the targets have an entry for each; None for targets that are the signs. `rows` and `classes` are
    numbers of rows and classes. `total` is the sum of the multipliers of each sign if it is given, else 0.
    """

    rows: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    classes: tuple[int, int] = (0, 0)
    target: np.ndarray | None = None
    total: float = 0.0

    def with_total(self, total: float) -> "TwoClass":
        """Return the problem of ν-classification: targets are 0, and the total of each sign is given."""
        return self._replace(target=np.zeros(len(self.rows)), total=total)

    @classmethod
    def of_targets(
        cls, rows: np.ndarray, upper: np.ndarray, target: np.ndarray, epsilon: float, total: float = 0.0
    ) -> "TwoClass":
        """Return the problem of regression, with bounds, targets and a tube of half the width `epsilon`."""
        y, targets = np.repeat([1.0, -1.0], len(rows)), np.concatenate([target - epsilon, target + epsilon])
        return cls(rows, y, np.tile(upper, 2), target=targets, total=total)

    @classmethod
    def of_one_class(cls, rows: np.ndarray, upper: np.ndarray, total: float) -> "TwoClass":
        """Return the problem of the support of a distribution: all multipliers are positive, and their sum is given."""
        return cls(rows, np.ones(len(rows)), upper, target=np.zeros(len(rows)), total=total)

    @property
    def problem(self) -> KernelProblem:
        """The dual problem."""
        return KernelProblem(self.y, self.upper, self.y if self.target is None else self.target, self.total)

    @property
    def rows_of_sample(self) -> int:
        """Multipliers of each row, 1 or 2."""
        return len(self.y) // len(self.rows)

    def places(self, n: int) -> np.ndarray:
        """Return the places of the multipliers among those of all n rows."""
        return self.rows if self.rows_of_sample == 1 else np.concatenate([self.rows, n + self.rows])

    def of_rows(self, mask: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows of which a multiplier is in a mask."""
        n = len(self.rows)
        return self.rows[mask if self.rows_of_sample == 1 else mask[:n] | mask[n:]]

    def coefficients(self, alpha: np.ndarray) -> np.ndarray:
        """Return the coefficient of each row, y α or the sum of its two."""
        beta = alpha * self.y
        return beta if self.rows_of_sample == 1 else beta[: len(self.rows)] + beta[len(self.rows) :]

    def by_class(self) -> "TwoClass":
        """Return the problem with the rows of the first class before those of the second."""
        return self.in_order(np.argsort(-self.y, kind="stable"))

    def in_order(self, order: np.ndarray) -> "TwoClass":
        """Return the problem with its rows in another order."""
        places = order if self.rows_of_sample == 1 else np.concatenate([order, len(order) + order])
        target = None if self.target is None else self.target[places]
        return self._replace(rows=self.rows[order], y=self.y[places], upper=self.upper[places], target=target)


class Together(NamedTuple):
    """Problems one after the other; the multipliers of each begin at its entry of `starts`."""

    starts: np.ndarray
    rows: np.ndarray
    y: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, pairs: Sequence[TwoClass]) -> "Together":
        """Return problems one after the other."""
        if isinstance(pairs, ClassPairs):
            return pairs.together
        starts = np.array([0, *accumulate(len(pair.y) for pair in pairs)])
        arrays = ([getattr(pair, name) for pair in pairs] for name in ("rows", "y", "upper"))
        return cls(starts, *(each[0] if len(each) == 1 else np.concatenate(each) for each in arrays))

    @property
    def rows_of_sample(self) -> int:
        """Multipliers of each row, 1 or 2."""
        return len(self.y) // len(self.rows)

    def per_row(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the values of each row's multipliers; a problem with two of them is an only one."""
        return values if self.rows_of_sample == 1 else values[: len(self.rows)] + values[len(self.rows) :]


class ClassPairs(Sequence[TwoClass]):
    """The problems of all pairs of classes, the first class of each positive.

    Hundreds of classes have so many pairs that an object for each takes longer than its solution, so that they are made
    when they are asked for. `labels` has the class number of every row, -1 for rows that are in no problem, and `upper`
    the bound of its multipliers.
    """

    def __init__(self, labels: np.ndarray, upper: np.ndarray, n_classes: int) -> None:
        *together, self._classes = _rows_of_pairs(labels, upper, n_classes)
        self.together = Together(*together)

    def __len__(self) -> int:
        return len(self._classes)

    @overload
    def __getitem__(self, number: int) -> TwoClass: ...

    @overload
    def __getitem__(self, number: slice) -> list[TwoClass]: ...

    def __getitem__(self, number: int | slice) -> TwoClass | list[TwoClass]:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        starts, *arrays = self.together
        rows, y, upper = (each[starts[number] : starts[number + 1]] for each in arrays)
        first, second = self._classes[number].tolist()
        return TwoClass(rows, y, upper, (first, second))

    def __iter__(self) -> Iterator[TwoClass]:
        return (self[number] for number in range(len(self)))


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


def sizes_of(pairs: Sequence[TwoClass]) -> np.ndarray:
    """Return the number of rows of each problem."""
    if isinstance(pairs, ClassPairs):
        return np.diff(pairs.together.starts)
    return np.array([len(pair.rows) for pair in pairs])


class Outcome(NamedTuple):
    """Solutions, and why the fit stopped.

    Those of a problem's rows begin at its entry of `starts` in `rows` and `beta`, which are the numbers of the rows and
    their coefficients. `labels` are the classes of all rows, and `within` the numbers of the rows within a margin.
    Certificates have an entry a problem. `begun` says whether multipliers of a problem are more than the zeros of one
    that was not begun.
    """

    starts: np.ndarray
    rows: np.ndarray
    beta: np.ndarray
    labels: np.ndarray
    within: np.ndarray
    intercept: np.ndarray
    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray
    margin: np.ndarray
    n_steps: np.ndarray
    begun: np.ndarray
    stop_reason: StopReason
