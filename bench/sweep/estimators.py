"""Whom does a draw ask? An estimator of fastsvm and its counterpart in scikit-learn, with the same parameters.

Tolerances and all else are the defaults of each.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

import fastsvm
from bench.sweep.draws import Draw

__all__ = ["Pair", "gamma_of", "pair_of"]

_WITH_SEED = ("LinearSVC", "LinearSVR", "LogisticRegression", "SGDClassifier", "SGDRegressor", "LinearOneClassSVM",
              "NystroemSVC")  # fmt: skip
_CELLS, _FOLDS = (0.1, 1.0, 10.0), 3


class Pair(NamedTuple):
    """What makes the estimator of fastsvm and that of scikit-learn."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def gamma_of(draw: Draw, X: Any) -> float:
    """Return gamma as a number: "scale" is 1 / (features × variance), and other draws have a factor of that."""
    mean = X.mean(dtype=np.float64)
    square = (
        X.multiply(X).mean(dtype=np.float64) if sparse.issparse(X) else np.square(X - mean, dtype=np.float64).mean()
    )
    variance = square - mean**2 if sparse.issparse(X) else square
    scale = 1 / (X.shape[1] * variance) if variance else 1.0
    factor = draw.given.get("gamma", "scale")
    return float(scale if factor == "scale" else factor * scale)


def pair_of(draw: Draw, X: Any) -> Pair:
    """Return the two estimators of a draw for its samples."""
    name, given = draw.estimator, dict(draw.given)
    if given.get("gamma", "scale") != "scale":
        given["gamma"] = gamma_of(draw, X)
    seed = {"random_state": 0} if name in _WITH_SEED else {}
    ours = partial(getattr(fastsvm, name), **given, **seed) if name != "SVCSearch" else None
    if name == "SVCSearch":
        grid = {"C": list(_CELLS), "gamma": [cell * gamma_of(draw, X) for cell in _CELLS]}
        of_grid = {name: value for name, value in given.items() if name not in grid}
        return Pair(
            lambda: fastsvm.SVCSearch(fastsvm.SVC(**of_grid), grid, cv=_FOLDS),
            lambda: GridSearchCV(svm.SVC(**of_grid), grid, cv=_FOLDS),
        )
    if name == "NystroemSVC":
        of_svm = {key: given.pop(key) for key in ("C", "loss")}
        return Pair(ours, lambda: make_pipeline(Nystroem(**given, **seed), svm.LinearSVC(**of_svm, **seed)))
    if name == "LinearOneClassSVM":
        return Pair(ours, partial(linear_model.SGDOneClassSVM, **given, **seed))
    if name == "LogisticRegression":
        given["l1_ratio"] = 1.0 if given.pop("penalty") == "l1" else 0.0  # which scikit-learn no longer calls a penalty
        theirs = partial(linear_model.LogisticRegression, **given, **seed, solver=draw.peer)
        each = draw.classes > 2 and draw.peer == "liblinear"
        return Pair(ours, (lambda: OneVsRestClassifier(theirs())) if each else theirs)
    home = linear_model if name.startswith("SGD") else svm
    return Pair(ours, partial(getattr(home, name), **given, **seed))
