"""What machines of one class have in common: they tell inliers from outliers."""

from typing import Any

import numpy as np
from sklearn.base import OutlierMixin

from fastsvm.estimators.fitting.drafts import of_one_model

__all__ = ["OutlierDetector"]

_ROUNDING = 1e-12  # A decision value at the boundary has this error, as a share of the offset.


class OutlierDetector(OutlierMixin):
    """Scores of samples, less an offset; those below it are outliers."""

    offset_: np.ndarray

    def _plain_decisions(self, X: Any) -> np.ndarray:
        """Return the scores less the offset."""
        raise NotImplementedError

    @of_one_model
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of samples less the offset.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks. For a precomputed kernel, (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Decision values, negative for outliers.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite.
        """
        decisions = self._plain_decisions(X)
        decisions[np.abs(decisions) <= _ROUNDING * np.abs(self.offset_)] = 0.0  # on the boundary, which is no outlier
        return decisions

    @of_one_model
    def score_samples(self, X: Any) -> np.ndarray:
        """Return the scores of samples, larger where samples of the fit are dense.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Scores.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite.
        """
        return self.decision_function(X) + self.offset_

    @of_one_model
    def predict(self, X: Any) -> np.ndarray:
        """Return 1 for each inlier and -1 for each outlier.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks.

        Returns
        -------
        ndarray of int64, shape (n_samples,)
            1 or -1.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite.
        """
        return self._decided(X)[0]

    @of_one_model
    def _decided(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions and decision values, from one pass."""
        decisions = self.decision_function(X)
        return np.where(decisions >= 0, 1, -1), decisions
