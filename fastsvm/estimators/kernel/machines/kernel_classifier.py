"""What a fitted classifier does with samples: decision values, predicted classes, accuracy."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import InvalidParameterError

from fastsvm._compiled.compiler import writeable
from fastsvm.estimators.fitting.labels import check_ties
from fastsvm.estimators.fitting.parameters import Rule, boolean, one_of
from fastsvm.estimators.fitting.predictions import Classifier
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.kernel_matrix.expansion import PairCoefficients
from fastsvm.multiclass import Expansion, elected, one_vs_rest_scores, pair_coefficients

__all__ = ["KernelClassifier"]

_PROBABILITIES = (
    "{name} has no probabilities of its own. Use sklearn.calibration.CalibratedClassifierCV({name}(), ensemble=False), "
    "which has predict_proba."
)


class KernelClassifier(Classifier, KernelMachine):
    """Prediction of classes from the expansions of one decision function a pair of classes.

    Parameters
    ----------
    probability : bool, default=False
        False only: there are no probabilities. scikit-learn computes them, for example by
        `sklearn.calibration.CalibratedClassifierCV(SVC(), ensemble=False)`.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Columns of `decision_function` for three classes and more: one a class, or one a pair.
    break_ties : bool, default=False
        Predict by the largest decision value of "ovr" instead of the first class with most votes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. A class whose weights are all zero is not among them.
    support_ : ndarray of int64, shape (n_SV,)
        Row numbers of the support vectors, ordered by class.
    n_support_ : ndarray of int32, shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or CSR matrix of float64, shape (n_classes - 1, n_SV)
        Coefficients of the support vectors, in scikit-learn's layout; sparse after a fit on sparse samples.
    intercept_ : ndarray of float64, shape (n_classes * (n_classes - 1) / 2,)
        Intercepts.
    coef_ : ndarray or CSR matrix of float64, shape (n_classes * (n_classes - 1) / 2, n_features)
        Weights of the features, for the linear kernel only; with `standardize` of the standardised features.
    within_margin_ : ndarray of int64
        Row numbers of those on or within the margin in some two-class problem, in rising order. After exact steps
        they are the support vectors; after those with the `learning_rate` of `SVC` the decision function has others.
    class_weight_ : ndarray of float64, shape (n_classes,)
        Factors of C.
    n_iter_ : ndarray of int64, shape (n_classes * (n_classes - 1) / 2,)
        Steps of each two-class problem.
    """

    def _own_rules(self) -> dict[str, Rule]:
        return {"decision_function_shape": one_of("ovr", "ovo"), "break_ties": boolean}

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter that is not usable."""
        super()._check_parameters()
        if self.probability not in (False, "deprecated"):
            raise InvalidParameterError(f"probability={self.probability!r}: {self._no_probabilities()}")

    @property
    def predict_proba(self) -> Any:
        """Missing: raises AttributeError, which says how to get probabilities."""
        raise AttributeError(self._no_probabilities())

    @property
    def predict_log_proba(self) -> Any:
        """Missing: raises AttributeError, which says how to get probabilities."""
        raise AttributeError(self._no_probabilities())

    def _no_probabilities(self) -> str:
        return _PROBABILITIES.format(name=type(self).__name__)

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> dict[str, Any]:
        """Return classes, support, coefficients, intercepts and numbers of steps of all pairs."""
        sign = -1 if len(classes) == 2 else 1  # scikit-learn's: of two classes the second is positive
        expansion = Expansion.of(outcome.beta, outcome.rows, outcome.starts, outcome.labels, len(classes))
        return {
            "classes_": classes,
            "support_": expansion.support,
            "n_support_": expansion.n_support,
            "dual_coef_": sign * expansion.dual_coef,
            "intercept_": sign * outcome.intercept,
            "within_margin_": outcome.within,
            "n_iter_": outcome.n_steps,
        }

    def _layout(self) -> tuple[int, int]:
        n_classes = len(self.classes_)
        return n_classes - 1, n_classes * (n_classes - 1) // 2

    def _coefficients(self) -> np.ndarray | sparse.csr_matrix:
        return pair_coefficients(self._dense_dual_coef(), self.n_support_)

    def _expansion_coefficients(self) -> np.ndarray | PairCoefficients:
        coef = self._dense_dual_coef()
        if len(coef) == self._layout()[1]:  # of two classes, or all pairs share the support vectors
            return coef.T
        return PairCoefficients(
            writeable(np.ascontiguousarray(coef, np.float64)), np.cumsum(self.n_support_, dtype=np.int64)
        )

    def _as_decisions(self, decisions: np.ndarray) -> np.ndarray:
        if len(self.classes_) == 2:
            return decisions[:, 0]
        if self.decision_function_shape == "ovr":
            return one_vs_rest_scores(decisions, len(self.classes_))
        return decisions

    def _check_votes(self) -> None:
        self._check_fitted()
        check_ties(self)

    def _labels(self, decisions: np.ndarray) -> np.ndarray:
        n_classes = len(self.classes_)
        if n_classes == 2:
            return self.classes_[(decisions[:, 0] >= 0).astype(np.intp)]  # a tie goes where LIBSVM sends it
        return self.classes_[elected(decisions, n_classes, self.break_ties)]
