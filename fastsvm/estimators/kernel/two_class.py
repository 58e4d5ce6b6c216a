"""Problems of a fit: their rows, signs, bounds and targets, and what came out."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.outer_loop import StopReason

__all__ = ["Outcome", "TwoClass"]


class TwoClass(NamedTuple):
    """One problem of multipliers with two signs.

    Attributes
    ----------
    rows : ndarray of int64, shape (n,)
        Numbers of its rows.
    y, upper : ndarray of float64, shape (n,) or (2 n,)
        Signs ±1 and upper bounds of the multipliers. There is one a row, or there are two: first those with y = 1 of
        all rows, then those with y = −1.
    classes : tuple of int
        Numbers of the classes.
    target : ndarray of float64 or None
        Targets of the multipliers; None for the signs.
    total : float
        Sum of the multipliers of each sign if it is given, else 0.
    """

    rows: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    classes: tuple[int, int] = (0, 0)
    target: np.ndarray | None = None
    total: float = 0.0

    @classmethod
    def of(cls, labels: np.ndarray, upper: np.ndarray, first: int, second: int) -> "TwoClass":
        """Return the problem of two classes, the first of them positive."""
        rows, y, bounds = _rows_of_pair(labels, upper, first, second)
        return cls(rows, y, bounds, (first, second))

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


@jit
def _rows_of_pair(labels, upper, first, second):
    """Return the rows of two classes, their signs and their bounds, in one call."""
    n = 0
    for i in range(labels.size):
        n += labels[i] == first or labels[i] == second
    rows, y, bounds, place = np.empty(n, np.int64), np.empty(n), np.empty(n), 0
    for i in range(labels.size):
        if labels[i] == first or labels[i] == second:
            rows[place], y[place], bounds[place] = i, 1.0 if labels[i] == first else -1.0, upper[i]
            place += 1
    return rows, y, bounds


class Outcome(NamedTuple):
    """Solutions, an entry a problem, and for all: classes of the rows, rows within a margin, why the fit stopped."""

    rows: list[np.ndarray]
    beta: list[np.ndarray]
    labels: np.ndarray
    within: np.ndarray
    intercept: np.ndarray
    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray
    margin: np.ndarray
    n_steps: np.ndarray
    stop_reason: StopReason
