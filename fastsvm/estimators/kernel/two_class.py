"""Two-class problems of a fit: their rows and bounds, and what came out."""

from typing import NamedTuple

import numpy as np

from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.outer_loop import StopReason

__all__ = ["Outcome", "TwoClass"]


class TwoClass(NamedTuple):
    """A two-class problem: numbers of its rows, their labels ±1 and upper bounds, and the numbers of the classes."""

    rows: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    classes: tuple[int, int]

    @classmethod
    def of(cls, labels: np.ndarray, upper: np.ndarray, first: int, second: int) -> "TwoClass":
        """Return the problem of two classes, the first of them positive."""
        rows = np.flatnonzero((labels == first) | (labels == second))
        return cls(rows, np.where(labels[rows] == first, 1.0, -1.0), upper[rows], (first, second))

    @property
    def problem(self) -> KernelProblem:
        """The dual problem."""
        return KernelProblem(self.y, self.upper, self.y)

    def by_class(self) -> "TwoClass":
        """Return the problem with the rows of the first class before those of the second."""
        order = np.argsort(-self.y, kind="stable")
        return self._replace(rows=self.rows[order], y=self.y[order], upper=self.upper[order])


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
    n_steps: np.ndarray
    stop_reason: StopReason
