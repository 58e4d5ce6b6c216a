"""Nu-support vector classification with kernels."""

from typing import Any

import numpy as np

from fastsvm.estimators.fitting.convergence_warnings import warn_of_margin
from fastsvm.estimators.fitting.documentation import documented
from fastsvm.estimators.fitting.parameters import NU, Rule, seed
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_classifier import KernelClassifier
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.estimators.kernel.statements import Statement, state_nu_classes

__all__ = ["NuSVC"]


@documented
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

    class_weight = None
    follows = ("nu",)
    _warns = staticmethod(warn_of_margin)

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: str | Any = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        standardize: bool = False,
        tol: float = 1e-3,
        memory: str | int = "auto",
        probability: bool = False,
        cache_size: float | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.standardize = standardize
        self.tol = tol
        self.memory = memory
        self.probability = probability
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.max_time = max_time
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _own_rules(self) -> dict[str, Rule]:
        return {"nu": NU, "random_state": seed} | super()._own_rules()

    def _state(self, data: TrainingSet) -> Statement:
        return state_nu_classes(self, data)

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> dict[str, Any]:
        """Divide by the margins, so that decision values at the margin are 1 and -1."""
        margin = np.where(outcome.margin > 0, outcome.margin, 1.0)
        beta = outcome.beta / np.repeat(margin, np.diff(outcome.starts))
        divided = outcome._replace(beta=beta, intercept=outcome.intercept / margin)
        return super()._expansion(divided, classes) | {"_margin": outcome.margin}
