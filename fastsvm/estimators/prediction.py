"""Predictions of any estimator together with its decision values."""

from typing import Any

import numpy as np

__all__ = ["predict_with_decisions"]


def predict_with_decisions(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the predictions of samples and their decision values, which are computed once for both.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    X : as for `fit`, shape (n_samples, n_features)
        Samples.

    Returns
    -------
    predictions : ndarray, shape (n_samples,)
        As `predict` returns them.
    decisions : ndarray of float64
        As `decision_function` returns them; for a regression, the predictions.
    """
    return model._decided(X)
