"""Support vector classification with kernels: SVC and NuSVC, a decision function for each pair of classes."""

from dataclasses import KW_ONLY
from typing import ClassVar, NoReturn

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import InvalidParameterError

from fastsvm._compiled.compiler import writeable
from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.predictions import Classifier
from fastsvm.estimators.fitting.session import warn_of_margin
from fastsvm.estimators.fitting.validation import (
    Attributes,
    Rule,
    TrainingSet,
    check_ties,
    class_weights,
    encode,
    number,
    one_of,
    optional,
)
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.estimators.kernel.prepare import Statement
from fastsvm.estimators.kernel.solver_parameter import SOLVERS, check_solver
from fastsvm.kernel_matrix.expansion import PairCoefficients
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.multiclass import Expansion, elected, one_vs_rest_scores, pair_coefficients
from fastsvm.solvers.kernel_dual.problem import Problems
from fastsvm.sources import to_dense

_PROBABILITIES = (
    "{name} has no probabilities of its own. Use fastsvm.CalibratedClassifier({name}()), which has predict_proba."
)
_RULES = {
    "loss": one_of("hinge", "squared_hinge"),
    "learning_rate": optional(number(above=0)),
    "selection": one_of("cyclic", "random"),
}


@parametrised
class KernelClassifier(Classifier, KernelMachine):
    """Prediction of classes from the expansions of one decision function a pair of classes.

    Parameters
    ----------
    probability : bool, default=False
        False only: there are no probabilities. `fastsvm.CalibratedClassifier(model)` has them.
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

    _: KW_ONLY
    probability: bool = False
    decision_function_shape: str = "ovr"
    break_ties: bool = False

    def _state(self, data: TrainingSet) -> Statement:
        """Return the problems of all pairs of classes; samples of weight 0 are left out."""
        classes, labels = encode(data.y, data.weight)
        factors = class_weights(self.class_weight, classes, labels, data.weight)
        upper = float(self.C) * data.weight * factors[labels]  # samples that are left out have weight 0

        def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
            return Problems.of_pairs(labels, upper, len(classes))

        return Statement(classes, labels, upper, problems, {"class_weight_": factors}, lambda: labels)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.probability not in (False, "deprecated"):
            raise InvalidParameterError(f"probability={self.probability!r}: {self._no_probabilities()}")

    @property
    def predict_proba(self) -> NoReturn:
        """Missing: raises AttributeError, which says how to get probabilities."""
        raise AttributeError(self._no_probabilities())

    predict_log_proba = predict_proba

    def _no_probabilities(self) -> str:
        return _PROBABILITIES.format(name=type(self).__name__)

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> Attributes:
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
        return pair_coefficients(to_dense(self.dual_coef_), self.n_support_)

    def _expansion_coefficients(self) -> np.ndarray | PairCoefficients:
        coef = to_dense(self.dual_coef_)
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


@documented
@parametrised
class SVC(KernelClassifier):
    """C-support vector classification, exact, from memory or from an HDF5 file.

    Names, defaults, attributes and their order are those of `sklearn.svm.SVC`. The fit ends with a
    certificate of how far from the optimum it is.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a margin violation; the larger, the fewer. Very large values give the hard margin on
        separable data.
    solver : {"smo", "coordinate", "primal"}, default="smo"
        "smo" solves the dual problem, two multipliers at a time. "coordinate" solves the dual problem without an
        intercept, one multiplier at a time, until the duality gap is within `tol` of the objective too, and computes
        the intercept afterwards. "primal" minimises over the coefficients of the decision function, by Newton's method
        with `loss="squared_hinge"`, or with a `learning_rate` by gradient descent.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a sample in units of C, max(0, 1 - y f(x)) or its square; the square for "primal" only, which has the
        other with a `learning_rate` only.
    fit_intercept : bool, default=True
        Whether decision values have an intercept. "smo" needs one. With "coordinate" it is no part of the problem,
        but the mean of y - f(x) over the support vectors that are not at their bounds.
    learning_rate : float or None, default=None
        None for exact steps. A rate turns "coordinate" into projected gradient ascent, in which all multipliers move
        at once, and "primal" into gradient descent (of a subgradient for "hinge"), with that rate for all
        steps.
    selection : {"cyclic", "random"}, default="cyclic"
        Order in which "coordinate" updates multipliers.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for each class.
    max_iter : int, default=-1
        Most steps of a two-class problem: of pairs, of coordinates, Newton's, or with `learning_rate` gradient
        steps. -1 is a finite default: max(10,000,000, 100 n) of pairs, 20 times as many of coordinates, 2,000 of
        Newton's, 10,000 with `learning_rate`.
    random_state : int, RandomState or None, default=None
        Seed of the order of multipliers. None draws the same every time.

    Attributes
    ----------
    objective_ : float
        Dual objective Σα - ½ αᵀQα, summed over the two-class problems; for "primal" the primal one,
        ½ βᵀKβ + C Σ loss.

    References
    ----------
    Fan, Chen and Lin (2005), Working set selection using second order information for training support vector
    machines, JMLR 6. Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), A dual coordinate descent method for
    large-scale linear SVM, ICML, equation 9, for "coordinate". Chapelle (2007), Training a support vector machine in
    the primal, Neural Computation 19, for "primal".

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import SVC
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> y = np.array(["left", "left", "right", "right"])
    >>> model = SVC(gamma="auto").fit(X, y)
    >>> model.predict([[-0.8, -1.0]])
    array(['left'], dtype='<U5')
    >>> model.converged_
    True
    """

    of_many: ClassVar[str] = "NystroemSVC"

    _: KW_ONLY
    C: float = 1.0
    solver: str = "smo"
    loss: str = "hinge"
    fit_intercept: bool = True
    learning_rate: float | None = None
    selection: str = "cyclic"
    class_weight: dict | str | None = None
    random_state: int | np.random.RandomState | None = None

    def _own_rules(self) -> dict[str, Rule]:
        return {"solver": one_of(*SOLVERS)} | _RULES  # solvers may be added later

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_solver(self)


@documented
@parametrised
class NuSVC(KernelClassifier):
    """Nu-support vector classification, exact, from memory or from an HDF5 file.

    As `SVC`, but `nu` stands in for C. Names, defaults, attributes and their order are those of `sklearn.svm.NuSVC`.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the samples violate the margin, and at least this share are support vectors; above 0 and
        at most 1. The largest that is possible is 2 min(n₁, n₂) / (n₁ + n₂) for classes of n₁ and n₂ samples. If it is
        below the share of samples that violate any margin, the solution is w = 0 with `objective_` 0 and no margin.
        Decision values are then rounding errors, in LIBSVM too, and the fit warns.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at the end, in units of decision values before
        their division by r.
    random_state : int, RandomState or None, default=None
        Accepted for code written for scikit-learn: nothing is drawn at random.

    Attributes
    ----------
    dual_coef_ : ndarray or CSR matrix of float64, shape (n_classes - 1, n_SV)
        Coefficients of the support vectors, in scikit-learn's layout: y α / r with the margin r of the problem, or y α
        where there is no margin.
    class_weight_ : ndarray of float64, shape (n_classes,)
        Ones. `sample_weight` weighs classes; scikit-learn's parameter `class_weight` has no effect there.
    objective_ : float
        Dual objective -½ αᵀQα before the division by r², summed over the two-class problems.

    References
    ----------
    Schölkopf, Smola, Williamson and Bartlett (2000), New support vector algorithms, Neural Computation 12. Chang and
    Lin (2001), Training ν-support vector classifiers: theory and algorithms, Neural Computation 13.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import NuSVC
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> NuSVC().fit(X, np.array([1, 1, 2, 2])).predict([[-0.8, -1.0]])
    array([1])
    """

    follows = ("nu",)

    _: KW_ONLY
    nu: float = 0.5
    random_state: int | np.random.RandomState | None = None

    def _warn(self) -> None:
        warn_of_margin(self)

    def _state(self, data: TrainingSet) -> Statement:
        stated = super()._state(data)
        self._check_totals(stated)

        def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
            pairs = stated.problems(labels, upper)
            sums = np.bincount(labels[labels >= 0], upper[labels >= 0], len(stated.classes))
            totals = self.nu * sums[pairs.classes].sum(axis=1) / 2
            return pairs._replace(target=np.zeros(len(pairs.y)), totals=totals, groups=2)

        return stated._replace(problems=problems)

    def _check_totals(self, stated: Statement) -> None:
        """Raise ValueError if the smaller class of a pair cannot have as large a total as ν asks for."""
        classes, labels = stated.classes, stated.labels
        used = labels >= 0
        sums = np.bincount(labels[used], stated.upper[used], len(classes))
        # The pair with the least share is that of the classes with the least and the largest sum.
        a, b = np.sort([np.argmin(sums), len(sums) - 1 - np.argmax(sums[::-1])])
        most = 2 * min(sums[a], sums[b]) / (sums[a] + sums[b])
        if self.nu > most * (1 + ROUNDING):
            digits = 10.0 ** (5 - np.floor(np.log10(most)))
            raise ValueError(
                f"specified nu is infeasible: nu={self.nu} for the classes {classes[a]} and {classes[b]}, whose "
                f"weights sum to {sums[a]:.6g} and {sums[b]:.6g}; at most {np.floor(most * digits) / digits:.6g} "
                "is feasible."
            )

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> Attributes:
        """Divide by the margins, so that decision values at the margin are 1 and -1."""
        margin = np.where(outcome.margin > 0, outcome.margin, 1.0)
        beta = outcome.beta / np.repeat(margin, np.diff(outcome.starts))
        divided = outcome._replace(beta=beta, intercept=outcome.intercept / margin)
        return super()._expansion(divided, classes) | {"_margin": outcome.margin}
