"""Snap ML's linear SVM: dual coordinate ascent with several threads.

Its objective is a sum over the samples. Its intercept is the weight of a constant feature, so it is penalised.
"""

from typing import Any

import numpy as np
from snapml import SupportVectorMachine

__all__ = ["SnapLinear"]

_NEVER = 1e-30  # a fit ends early if the weights change less than this


class SnapLinear:
    """Linear SVM, one class against the rest. X should be float32."""

    def __init__(self, loss: str, alpha: float, max_iter: int, n_jobs: int) -> None:
        self._loss, self._alpha, self._max_iter, self._n_jobs = loss, alpha, max_iter, n_jobs

    def fit(self, X: Any, y: np.ndarray) -> "SnapLinear":
        model = SupportVectorMachine(
            loss=self._loss, max_iter=self._max_iter, regularizer=self._alpha * len(y), tol=_NEVER,
            fit_intercept=True, n_jobs=self._n_jobs, random_state=0,
        )  # fmt: skip
        model.fit(X, y)
        self.coef_, self.intercept_ = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
        return self
