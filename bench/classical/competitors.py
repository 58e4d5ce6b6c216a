"""Who solves a problem, and what is expected of the answer?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.svm import SVC as LIBSVM

from bench.classical.problems import Problem
from fastsvm import SVC

__all__ = ["HARD", "Competitor", "libsvm", "ours"]

HARD = 1e9  # C of the dual problem of the squared hinge, whose multipliers have no upper bound
_MEMORY_MIB = 4000  # of each, for caches or the whole fit


@dataclass(frozen=True)
class Competitor:
    """A way to solve a problem.

    Attributes
    ----------
    name : str
        What it is called in tables; unique in a case.
    build : callable
        Returns the estimator.
    rows : ndarray, CSR matrix or None
        What it is fitted to instead of the problem's rows: a kernel matrix, which is computed outside the clock.
    offset : bool
        Whether its problem has an offset.
    most_gap : float or None
        What its relative duality gap may be at the end.
    feasible : bool
        Whether its coefficients should satisfy the constraints of the dual problem.
    certified : bool
        Whether its `duality_gap_` is that of the problem.
    against : str or None
        Whose dual objective its gap is measured to; None for its own.
    stops : bool
        Whether it ends by itself, so that a warning that it did not counts.
    goal : str or None
        Whose objective it has to reach, from which on its time is counted too.
    warm_rows : tuple of int
        Rows of the fits that warm up: code may be another as soon as a problem is not small.
    chosen : str
        What was chosen for it outside the clock.
    """

    name: str
    build: Callable[[], Any]
    rows: Any = None
    offset: bool = True
    most_gap: float | None = None
    feasible: bool = True
    certified: bool = True
    against: str | None = None
    stops: bool = True
    goal: str | None = None
    warm_rows: tuple[int, ...] = (300, 4500)
    chosen: str = ""

    def rows_of(self, problem: Problem) -> Any:
        return problem.data.X if self.rows is None else self.rows

    def some(self, problem: Problem, which: np.ndarray) -> Any:
        """Return what it is fitted to, of some rows only."""
        rows = self.rows_of(problem)[which]
        return rows if self.rows is None else rows[:, which]


def ours(problem: Problem, **given: Any) -> Callable[[], Any]:
    """Return what makes fastsvm's estimator for a problem; what is given goes before the problem's parameters."""
    return lambda: SVC(**{**problem.parameters, "memory": _MEMORY_MIB * 2**20, **given})


def libsvm(problem: Problem, **given: Any) -> Callable[[], Any]:
    """Return what makes scikit-learn's estimator for a problem; what is given goes before its parameters."""
    return lambda: LIBSVM(**{**problem.parameters, "cache_size": _MEMORY_MIB, **given})
