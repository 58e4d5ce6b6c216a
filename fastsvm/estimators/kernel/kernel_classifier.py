"""What a fitted kernel machine does with samples: decision values, predicted classes, accuracy."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _num_samples, check_is_fitted

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.validation import check_rows, required_labels
from fastsvm.estimators.kernel.kernel_parameter import is_precomputed, resolve_kernel
from fastsvm.estimators.kernel.object_samples import samples_for
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.kernels import Linear
from fastsvm.multiclass import one_vs_rest_scores, pair_coefficients, votes
from fastsvm.sources import MemorySource, check_finite, is_stored

__all__ = ["KernelClassifier"]


class KernelClassifier(ClassifierMixin, BaseEstimator):
    """Prediction of classes from the expansions of one decision function a pair of classes."""

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: sparse rows are taken, and kernel matrices if precomputed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = is_precomputed(self)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, "dual_coef_")

    @property
    def coef_(self) -> np.ndarray | sparse.csr_matrix:
        """Weights of the features, one row a pair of classes, read-only; for the linear kernel only."""
        check_is_fitted(self)
        if not isinstance(resolve_kernel(self), Linear):
            raise AttributeError("coef_ is only available when using a linear kernel")
        vectors: Any = self.support_vectors_
        standardization = Standardization.of_model(self)
        if standardization is not None:
            vectors = standardization.apply(MemorySource.of(vectors)).in_memory().block.user_array()
        found: Any = self._pair_coefficients().T
        if sparse.issparse(vectors):
            found = sparse.csr_matrix(found) @ sparse.csr_matrix(vectors)
            found.data.flags.writeable = False
        else:
            found = np.asarray(found @ vectors.astype(np.float64, copy=False))
            found.flags.writeable = False  # it is computed at each access, so that a change would do nothing
        return found

    def _check_unaltered(self, n_vectors: int) -> None:
        """Raise ValueError if attributes were replaced by some that do not fit: predictions would be wrong."""
        n, n_classes = len(self.support_), len(self.classes_)
        fits = np.shape(self.dual_coef_) == (n_classes - 1, n) and np.sum(self.n_support_) == n == n_vectors
        if not fits or np.shape(self.intercept_) != (n_classes * (n_classes - 1) // 2,):
            raise ValueError(
                f"The internal representation of {type(self).__name__} was altered: support_, support_vectors_, "
                "n_support_, dual_coef_ and intercept_ do not fit together. Fit the model again."
            )

    def _pair_coefficients(self) -> np.ndarray:
        dual_coef: Any = self.dual_coef_
        dual_coef = dual_coef.toarray() if sparse.issparse(dual_coef) else np.asarray(dual_coef)
        return dual_coef.T if len(self.classes_) == 2 else pair_coefficients(dual_coef, self.n_support_)

    def _decisions(self, X: Any) -> np.ndarray:
        """Return one decision a pair of classes: of the second class if there are two, else of the first."""
        check_is_fitted(self)
        vectors = self.support_vectors_
        self._check_unaltered(len(self.support_) if is_precomputed(self) else _num_samples(vectors))
        source = check_rows(self, samples_for(self, X, vectors), reset=False)
        coef = self._pair_coefficients()
        decisions = np.empty((len(source), coef.shape[1]))
        with Pool.open() as pool:
            predictor = Predictor(self, coef, source, pool)
            for start, block in source.blocks():
                if is_stored(X):  # arrays were checked before
                    check_finite(block, start)
                decisions[start : start + block.shape[0]] = predictor.scores(block) + self.intercept_
        return decisions

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision values of samples.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks. For a precomputed kernel, (n_samples, n_samples_fit).

        Returns
        -------
        ndarray of float64
            Shape (n_samples,) for two classes, positive for `classes_[1]`; else (n_samples, n_classes) for
            "ovr", (n_samples, n_pairs) for "ovo", where positive stands for the first class of a pair.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite.
        """
        return self._shaped(self._decisions(X))

    def _decided(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes and the decision values of rows, from one pass."""
        decisions = self._decisions(X)
        return self._labels(decisions), self._shaped(decisions)

    def _shaped(self, decisions: np.ndarray) -> np.ndarray:
        """Return the pairs' decisions in the shape that the user asked for."""
        if len(self.classes_) == 2:
            return decisions[:, 0]
        if self.decision_function_shape == "ovr":
            return one_vs_rest_scores(decisions, len(self.classes_))
        return decisions

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each sample.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels from `classes_`.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, is not finite, or `break_ties` is set with
            `decision_function_shape="ovo"`.
        """
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return self._labels(self._decisions(X))

    def _labels(self, decisions: np.ndarray) -> np.ndarray:
        """Return the classes that the pairs' decisions elect."""
        n_classes = len(self.classes_)
        if n_classes == 2:
            return self.classes_[(decisions[:, 0] >= 0).astype(np.intp)]  # a tie goes where LIBSVM sends it
        scores = one_vs_rest_scores(decisions, n_classes) if self.break_ties else votes(decisions, n_classes)
        return self.classes_[np.argmax(scores, axis=1)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of samples whose class is predicted correctly.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or None
            Labels; None takes those that come with an `HDF5Data`.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the samples.

        Returns
        -------
        float
            Accuracy, 0 to 1.

        Raises
        ------
        ValueError
            If there are no labels.
        """
        return super().score(X, required_labels(X, y), sample_weight)
