"""LIBLINEAR with the interface of its authors (liblinear-official), on one thread."""

from typing import Any

import numpy as np
from liblinear.liblinear import problem
from liblinear.liblinearutil import train
from scipy import sparse

__all__ = ["LiblinearOneClass", "LiblinearSVC", "stored"]


def stored(X: Any, y: np.ndarray) -> problem:
    """Return samples and the numbers of their classes as its solvers take them.

    There is a constant feature 1, unless there is one class only.
    """
    classes, codes = np.unique(y, return_inverse=True)
    bias = 1 if len(classes) > 1 else -1
    return problem(codes.astype(np.float64), sparse.csr_matrix(X, dtype=np.float64), bias=bias)


class LiblinearSVC:
    """Linear machine, one class against the rest. `solver` is the number of LIBLINEAR's, `tol` its tolerance."""

    def __init__(self, solver: int, C: float, tol: float) -> None:
        self._options = f"-q -s {solver} -c {C!r} -B 1 -e {tol!r}"

    def fit(self, rows: problem, y: np.ndarray) -> "LiblinearSVC":
        model = train(rows, self._options)
        labels = np.array(model.get_labels())
        n_scores = len(labels) if len(labels) > 2 else 1
        weights = np.ctypeslib.as_array(model.w, ((model.nr_feature + 1) * n_scores,)).reshape(-1, n_scores).T.copy()
        # Classes are in order of appearance. Two classes have one score, that of the first class.
        weights = weights[np.argsort(labels)] if n_scores > 1 else weights * (1 if labels[0] == 1 else -1)
        self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1]
        return self


class LiblinearOneClass:
    """Linear machine of one class. Its intercept is minus the offset."""

    def __init__(self, nu: float, tol: float) -> None:
        self._options = f"-q -s 21 -n {nu!r} -e {tol!r}"

    def fit(self, rows: problem, y: np.ndarray) -> "LiblinearOneClass":
        model = train(rows, self._options)
        self.coef_ = np.ctypeslib.as_array(model.w, (model.nr_feature,))[None].copy()
        self.intercept_ = np.array([-model.rho])
        return self
