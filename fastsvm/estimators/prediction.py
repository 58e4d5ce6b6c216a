"""Predictions of any estimator together with its decision values."""

from typing import Any

import numpy as np

__all__ = ["predict_with_decisions"]


def predict_with_decisions(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the predictions of a fitted estimator and its decision values, which are computed once for both.

    Both are as `predict` and `decision_function` return them. For a regression, the decision values are the
    predictions.
    """
    return model._decided(X)
