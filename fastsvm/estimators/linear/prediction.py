"""Scores and predictions of fitted linear models."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_is_fitted

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.documentation import documented_by
from fastsvm.estimators.fitting.predictions import Answer, Classifier, Regressor
from fastsvm.estimators.fitting.session import FitSession, IterativeEstimator, of_one_model
from fastsvm.estimators.fitting.validation import STATISTICS, Samples, check_columns, check_rows
from fastsvm.linalg.linear_predictor import scores
from fastsvm.linalg.row_products import product_type
from fastsvm.losses import Loss, probabilities
from fastsvm.memory import threads_within
from fastsvm.sources import Source, check_finite, is_stored, standardized, to_dense


def _class_probabilities(loss: Loss, scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of the classes, which sum to 1, for scores of shape (n_samples, n_scores)."""
    shares = probabilities(loss, scores)
    if shares.shape[1] == 1:
        return np.hstack([1 - shares, shares])
    if loss.of_classes:
        return shares
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0, shares / np.where(total > 0, total, 1), 1 / shares.shape[1])


def dense_coef(model: BaseEstimator) -> np.ndarray:
    """Return the weights of a linear model as an array of two dimensions, also after `sparsify`."""
    return np.atleast_2d(to_dense(model.coef_))


def for_rows_as_passed(
    coef: np.ndarray, intercept: np.ndarray, shift: np.ndarray | None, scale: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts for samples x of those for (x - shift) scale; None for no mapping."""
    if shift is None or scale is None:
        return coef, intercept
    return coef * scale, intercept - coef @ (shift * scale)


def scaled_type(source: Source) -> np.dtype:
    """Return the type of rows that are standardised for a fit.

    Dense rows are multiplied as stored, and the weights scaled. Sparse ones must not be rounded by being scaled, or
    what is measured would not be of the rows as passed.
    """
    return np.dtype(np.float64) if source.sparse else product_type(source.dtype)


class LinearModel(IterativeEstimator, BaseEstimator):
    """Scores of samples, and samples standardised for a fit.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether there is an intercept.
    random_state : int, RandomState or None, default=None
        Seed of the order in which samples are processed.
    standardize : bool, default=False
        Whether features are standardised to mean 0 and variance 1 during the fit, by statistics of one more pass over
        the samples. The stored samples do not change. `coef_` and `intercept_` are for samples as they are passed.
        Sparse samples are scaled only.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (1, n_features)
        Weights of the features.
    n_iter_ : int
        Epochs.
    """

    coef_: Any
    max_iter: int

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: sparse rows are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, "coef_")

    def sparsify(self) -> Self:
        """Store `coef_` as a CSR matrix, which is smaller if most weights are zero. Predictions stay the same.

        A model that is fitted further has an array again.

        Returns
        -------
        estimator
            The estimator itself.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Store `coef_` as an array again, after `sparsify`.

        Returns
        -------
        estimator
            The estimator itself.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        coef = dense_coef(self)
        self.coef_ = coef[0] if is_regressor(self) and not hasattr(self, "components_") else coef
        return self

    def _session(self) -> FitSession:
        return FitSession(self, max_subtasks=self.max_iter)

    def _standardized(self, source: Source, weight: np.ndarray) -> Source:
        """Return the samples, standardised by a weighted pass over them if the estimator's `standardize` is set."""
        if not self.standardize:
            self._shift = self._scale = None
            return source
        check_columns(self.memory, source.shape[1], STATISTICS)
        source = standardized(source, scaled_type(source), weight)
        self._shift = np.zeros(source.shape[1]) if source.shift is None else source.shift.astype(np.float64)
        self._scale = source.scale.astype(np.float64)
        return source

    def _for_rows_as_passed(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercepts for samples as they are passed."""
        return for_rows_as_passed(coef, intercept, self._shift, self._scale)

    def _scores(self, X: Samples) -> np.ndarray:
        """Return the scores of samples, shape (n_samples, n_scores)."""
        check_is_fitted(self)
        source = check_rows(self, X, reset=False)
        with Pool.open(most=threads_within(self.memory)) as pool:
            values = scores(source, dense_coef(self), np.atleast_1d(self.intercept_), pool, self.standardize)
        if is_stored(X) and not np.isfinite(values).all():
            for start, block in source.blocks():
                check_finite(block, start)
        return values

    def _decided_by(self, X: Samples, *forms: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        """Return what each function makes of the scores of samples."""
        decisions = self._scores(X)
        return [form(decisions) for form in forms]


class LinearClassifier(Classifier, LinearModel):
    """Classification by the scores of the classes; for two classes there is one score, that of the second.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of the samples of each class; one against the rest, of the samples of the class itself.
    n_jobs : int or None, default=None
        Accepted for code written for scikit-learn: all fits use the threads that Numba is set to use.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_ : ndarray of float64, shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of float64, shape (1,) or (n_classes,)
        Intercepts.
    """

    def _as_decisions(self, decisions: np.ndarray) -> np.ndarray:
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def _labels(self, decisions: np.ndarray) -> np.ndarray:
        is_pair = decisions.shape[1] == 1
        return self.classes_[(decisions[:, 0] > 0).astype(np.intp) if is_pair else decisions.argmax(axis=1)]

    @documented_by(Answer)
    def soft_decision(self, X: Samples) -> np.ndarray:
        """Return the scores cut off at -1 and 1: soft decisions between the margins, hard ones beyond.

        Returns
        -------
        ndarray of float64
            In the shape of `decision_function`.
        """
        return np.clip(self.decision_function(X), -1, 1)


class LinearProbabilities:
    """Probabilities of the classes, for losses that define them."""

    _chosen_loss: Callable[[], Loss]
    _scores: Callable[[Any], np.ndarray]

    @documented_by(Answer)
    @of_one_model
    def predict_proba(self, X: Samples) -> np.ndarray:
        """Return probabilities of the classes, which the losses "log_loss", "modified_huber" and "softmax" define.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Of more than two classes one against the rest, each one's probability is divided by their sum.
        """
        return _class_probabilities(self._chosen_loss(), self._scores(X))

    @documented_by(Answer)
    def predict_log_proba(self, X: Samples) -> np.ndarray:
        """Return logarithms of `predict_proba`.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Minus infinity for a probability of 0.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class LinearRegressor(Regressor, LinearModel):
    """Predictions are the scores.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_features,)
        Weights of the features.
    """
