"""Support vector classification and regression with landmarks."""

from dataclasses import KW_ONLY

import numpy as np

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.validation import Rule, check_ties, number, one_of
from fastsvm.estimators.kernel.machines.classifiers import SVC
from fastsvm.estimators.kernel.machines.regressors import SVR
from fastsvm.estimators.linear.base_linear_svm import BaseLinearClassifier, BaseLinearRegressor
from fastsvm.estimators.linear.training_task import loss_of
from fastsvm.estimators.nystroem.nystroem_machine import NystroemMachine
from fastsvm.losses import Loss
from fastsvm.multiclass import elected, one_vs_rest_scores


@documented
@parametrised
class NystroemSVC(NystroemMachine, BaseLinearClassifier):
    """Kernel support vector classification of millions of samples, with landmarks and bounds of what they cost.

    The kernel of two samples is replaced by that of their projections on some samples, the landmarks (Nyström's
    method). So the machine is linear in features that are computed once, and are learnt by the solver of `LinearSVC`.
    The model is a sum of kernel values with the landmarks. With `bounds`, `exact_bounds_` says between which objectives
    the optimum of the kernel problem itself is.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a class against the rest, or of a pair of classes. "crammer_singer" and "weston_watkins" have hinges of
        their own.
    multi_class : {"ovr", "ovo", "crammer_singer", "weston_watkins"}, default="ovr"
        Of several classes each against the rest, each pair, or one problem for all.
        All pairs are learnt in the same passes over the same features. k classes have k (k - 1) / 2 pairs, so that an
        epoch takes as much more time than one of k scores, and each sample has a dual variable a pair.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With "ovo", whether `decision_function` returns votes of classes or the decisions of pairs.
    break_ties : bool, default=False
        With "ovo", whether classes with equally many votes are compared by their decisions.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_scores, n_landmarks)
        Coefficients of the kernel values with the landmarks. There is one score for two classes, else one a class, or
        one a pair of classes, (0, 1), (0, 2), ..., (1, 2), ..., which is positive for the first.
    intercept_ : ndarray of float64, shape (n_scores,)
        Intercepts.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from fastsvm import NystroemSVC
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> model = NystroemSVC(C=10, gamma=1.0, bounds=True, random_state=0).fit(X, y)
    >>> len(model.components_), model.trace_error_ < 0.01
    (64, True)
    >>> lower, upper = model.exact_bounds_  # of the optimum of the kernel problem
    >>> upper < 1.1 * lower
    True
    """

    _exact_kind = SVC

    _: KW_ONLY
    C: float = 1.0
    loss: str = "hinge"
    multi_class: str = "ovr"
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    scratch_folder: str | None = None
    bounds: bool = False

    def _own_rules(self) -> dict[str, Rule]:
        losses = {"loss": one_of("hinge", "squared_hinge")}
        several = {"multi_class": one_of("ovr", "ovo", "crammer_singer", "weston_watkins")}
        return super()._own_rules() | losses | several

    def _learns_pairs(self, n_classes: int) -> bool:
        return self.multi_class == "ovo" and n_classes > 2

    def _chosen_loss(self) -> Loss:
        return loss_of(self.loss if self.multi_class in ("ovr", "ovo") else self.multi_class)

    # --- votes of pairs ----------------------------------------------------------------------------------

    def _as_decisions(self, decisions: np.ndarray) -> np.ndarray:
        if self._learns_pairs(len(self.classes_)) and self.decision_function_shape == "ovr":
            return one_vs_rest_scores(decisions, len(self.classes_))
        return super()._as_decisions(decisions)

    def _labels(self, decisions: np.ndarray) -> np.ndarray:
        k = len(self.classes_)
        if not self._learns_pairs(k):
            return super()._labels(decisions)
        check_ties(self)
        return self.classes_[elected(decisions, k, self.break_ties)]


@documented
@parametrised
class NystroemSVR(NystroemMachine, BaseLinearRegressor):
    """Kernel support vector regression of millions of samples, with landmarks and bounds of what they cost.

    As `NystroemSVC`, for numbers.

    Parameters
    ----------
    epsilon : float, default=0.1
        Distance from the target up to which there is no loss.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        max(0, |f - y| - epsilon), or its square.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import NystroemSVR
    >>> X = np.linspace(0, 6, 3000)[:, None]
    >>> model = NystroemSVR(C=10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.9)
    True
    """

    _exact_kind = SVR

    _: KW_ONLY
    C: float = 1.0
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    scratch_folder: str | None = None
    bounds: bool = False

    def _own_rules(self) -> dict[str, Rule]:
        losses = {"loss": one_of("epsilon_insensitive", "squared_epsilon_insensitive")}
        return super()._own_rules() | losses | {"epsilon": number(least=0)}
