"""What fitted models answer: classes, targets or outliers, from the values of decision functions.

Estimators have the method `_decided_by(X, *forms)`, which returns what each function makes of the values of the
decision functions, shape (n_samples, n_decisions), of which it may get some rows at a time.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin

from fastsvm.estimators.fitting.documentation import documented_by
from fastsvm.estimators.fitting.session import of_one_model
from fastsvm.estimators.fitting.validation import Column, Samples, required_labels
from fastsvm.kernel_matrix.rounding import ROUNDING


class Answer:
    """What the answers of fitted models have in common.

    Parameters
    ----------
    X : as for `fit`, shape (n_samples, n_features)
        Samples; those on disk are read in blocks. For a precomputed kernel, (n_samples, n_samples_fit).
    y : array-like of shape (n_samples,) or None
        Labels or targets; None takes those that come with an `HDF5Data`.
    sample_weight : array-like of shape (n_samples,) or None
        Weights of the samples.

    Raises
    ------
    ValueError
        If X does not have the features of the fit, or is not finite.
    """


class Scored:
    """A model whose predictions are compared with labels or targets."""

    @documented_by(Answer)
    def score(self, X: Samples, y: Column = None, sample_weight: Column = None) -> float:
        """Return the share of samples whose class is predicted correctly, or R² of a regression.

        Returns
        -------
        float
            At most 1; an accuracy is at least 0.

        Raises
        ------
        ValueError
            If there are no labels or targets.
        """
        return super().score(X, required_labels(X, y), sample_weight)  # type: ignore[misc]


class Classifier(Scored, ClassifierMixin):
    """Classes that the decision values elect."""

    _decided_by: Callable[..., list[np.ndarray]]

    @abstractmethod
    def _labels(self, decisions: np.ndarray) -> np.ndarray:
        """Return the classes that the values of the decision functions elect."""

    @abstractmethod
    def _as_decisions(self, decisions: np.ndarray) -> np.ndarray:
        """Return the values of the decision functions in the shape that the user asked for."""

    def _check_votes(self) -> None:
        """Raise ValueError if parameters do not say how classes are elected; here for nothing."""

    @documented_by(Answer)
    @of_one_model
    def decision_function(self, X: Samples) -> np.ndarray:
        """Return the decision values of samples.

        Returns
        -------
        ndarray of float64
            Shape (n_samples,) for two classes, positive for `classes_[1]`; else (n_samples, n_classes), or, with
            `decision_function_shape="ovo"`, (n_samples, n_pairs), where positive stands for the first class of a pair.
        """
        return self._decided_by(X, self._as_decisions)[0]

    @documented_by(Answer)
    @of_one_model
    def predict(self, X: Samples) -> np.ndarray:
        """Return the class of each sample.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels from `classes_`.

        Raises
        ------
        ValueError
            If `break_ties` is set with `decision_function_shape="ovo"`.
        """
        self._check_votes()
        return self._decided_by(X, self._labels)[0]


class Regressor(Scored, RegressorMixin):
    """Predictions are the values of the decision function."""

    of_classes: ClassVar[bool] = False
    _decided_by: Callable[..., list[np.ndarray]]

    @documented_by(Answer)
    @of_one_model
    def predict(self, X: Samples) -> np.ndarray:
        """Return the predicted target of each sample.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Predictions.
        """
        return self._decided_by(X, _of_one_function)[0]


class OutlierDetector(OutlierMixin):
    """Scores of samples, less an offset; those below it are outliers.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the samples of the fit are outliers, and at least this share are support vectors; above 0
        and at most 1.

    Attributes
    ----------
    offset_ : ndarray of float64, shape (1,)
        Offset ρ: decision values are scores less the offset.
    intercept_ : ndarray of float64, shape (1,)
        Minus the offset.
    """

    of_classes: ClassVar[bool] = False
    has_targets: ClassVar[bool] = False
    offset_: np.ndarray
    _decided_by: Callable[..., list[np.ndarray]]

    @documented_by(Answer)
    @of_one_model
    def decision_function(self, X: Samples) -> np.ndarray:
        """Return the scores of samples less the offset.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Decision values, negative for outliers.
        """
        decisions = self._decided_by(X, _of_one_function)[0]
        decisions[np.abs(decisions) <= ROUNDING * np.abs(self.offset_)] = 0.0  # on the boundary, which is no outlier
        return decisions

    @documented_by(Answer)
    @of_one_model
    def score_samples(self, X: Samples) -> np.ndarray:
        """Return the scores of samples, larger where samples of the fit are dense.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Scores.
        """
        return self.decision_function(X) + self.offset_

    @documented_by(Answer)
    @of_one_model
    def predict(self, X: Samples) -> np.ndarray:
        """Return 1 for each inlier and -1 for each outlier.

        Returns
        -------
        ndarray of int64, shape (n_samples,)
            1 or -1.
        """
        return self._decided(X)[0]

    @of_one_model
    def _decided(self, X: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions and decision values, from one pass."""
        decisions = self.decision_function(X)
        return np.where(decisions >= 0, 1, -1), decisions


def _of_one_function(decisions: np.ndarray) -> np.ndarray:
    """Return the values of the only decision function."""
    return decisions[:, 0]
