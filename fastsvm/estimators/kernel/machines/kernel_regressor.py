"""What a fitted regressor does with samples: predictions, and their coefficient of determination."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from fastsvm.estimators.fitting.drafts import of_one_model
from fastsvm.estimators.fitting.validation import required_labels
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine

__all__ = ["KernelRegressor"]


class KernelRegressor(RegressorMixin, KernelMachine):
    """Predictions are the values of the decision function.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a deviation beyond the tube.

    Attributes
    ----------
    dual_coef_ : ndarray or CSR matrix of float64, shape (1, n_SV)
        Coefficients of the support vectors: the difference of their two multipliers, α - α*.
    """

    of_classes = False

    @of_one_model
    def _decided(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictions twice: they are the decision values."""
        found = self.predict(X)
        return found, found

    @of_one_model
    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target of each sample.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks. For a precomputed kernel, (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Predictions.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite.
        """
        return self._decisions(X)[:, 0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R², the share of the variance of y that is explained.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or None
            Targets; None takes those that come with an `HDF5Data`.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the samples.

        Returns
        -------
        float
            At most 1.

        Raises
        ------
        ValueError
            If there are no targets.
        """
        return super().score(X, required_labels(X, y), sample_weight)
