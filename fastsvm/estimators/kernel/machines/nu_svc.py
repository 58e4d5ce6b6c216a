"""Nu-support vector classification with kernels."""

from typing import Any

import numpy as np

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.convergence_warnings import warn_of_margin
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import NU, Rule, seed
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_classifier import KernelClassifier
from fastsvm.estimators.kernel.statements import Statement, state_nu_classes
from fastsvm.estimators.kernel.two_class import Outcome

__all__ = ["NuSVC"]


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
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "exponential", "precomputed"}, \
fastsvm.kernels.Kernel or callable, default="rbf"
        As for `SVC`: a name, an object of `fastsvm.kernels` with its parameters, a function of two blocks of rows, or
        "precomputed" if X is the matrix of kernel values.
    degree : int, default=3
        Degree of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels other than "linear"; "scale" is 1 / (n_features * variance of X), where the
        variance is weighted if sample weights are given, "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".
    shrinking : bool, default=True
        Ignored: each fit looks at all samples. It is there because scikit-learn's machines have it.
    standardize : bool, default=False
        Whether the kernel sees features standardised to mean 0 and variance 1, by weighted statistics of one more
        pass over the samples. The model stores them, so that predictions take samples as they are. Sparse samples are
        scaled only.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at the end, in units of decision values before
        their division by r.
    memory : "auto", int or str, default="auto"
        Memory that a fit may use, the support vectors of the model included: bytes, or a size such as "2GB". "auto" is
        half of what is available. Samples in memory do not count.
    probability : bool, default=False
        False only: there are no probabilities. `CalibratedClassifierCV(NuSVC(), ensemble=False)` of
        `sklearn.calibration` computes them.
    cache_size : float or None, default=None
        Bound on the cache of kernel rows in MiB, within `memory`.
    max_iter : int, default=-1
        Most steps of a two-class problem, of two multipliers each. -1 is a finite default: max(10,000,000, 100 n).
    max_time : float or None, default=None
        Time limit of a fit in seconds.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Columns of `decision_function` for three classes and more: one a class, or one a pair.
    break_ties : bool, default=False
        Predict by the largest decision value of "ovr" instead of the first class with most votes.
    warm_start : bool, default=False
        Begin the next fit at the multipliers of the last, also after an interrupt, if the number of samples
        and the classes are the same.
    verbose : bool, default=False
        Show progress, on a terminal.
    random_state : int, RandomState or None, default=None
        Accepted for code written for scikit-learn: nothing is drawn at random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. A class whose weights are all zero is not among them.
    support_ : ndarray of int64, shape (n_SV,)
        Row numbers of the support vectors, ordered by class.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Support vectors, in the type in which X was stored; empty for a precomputed kernel.
    n_support_ : ndarray of int32, shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or CSR matrix of float64, shape (n_classes - 1, n_SV)
        Coefficients of the support vectors, in scikit-learn's layout: y α / r with the margin r of the problem, or y α
        where there is no margin.
    intercept_ : ndarray of float64, shape (n_classes * (n_classes - 1) / 2,)
        Intercepts.
    coef_ : ndarray or CSR matrix of float64, shape (n_classes * (n_classes - 1) / 2, n_features)
        Weights of the features, for the linear kernel only; with `standardize` of the standardised features.
    within_margin_ : ndarray of int64
        Row numbers of the support vectors, in rising order.
    class_weight_ : ndarray of float64, shape (n_classes,)
        Ones. `sample_weight` weighs classes; scikit-learn's parameter `class_weight` has no effect there.
    objective_ : float
        Dual objective -½ αᵀQα before the division by r², summed over the two-class problems.
    kkt_violation_ : float
        The largest violation of the optimality conditions.
    duality_gap_ : float
        Primal minus dual objective: how far from the optimum the fit is at most, if the kernel is positive
        semi-definite.
    converged_ : bool
        Whether the violation is within `tol`.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "callback", "stalled".
    solver_ : str
        What solved the problem, chosen by its size: "small-rows" or "small-matrix" for few samples at once,
        "smo" for working sets.
    n_iter_ : ndarray of int64, shape (n_classes * (n_classes - 1) / 2,)
        Steps of each two-class problem.
    history_ : dict of str to ndarray
        One entry an outer iteration: problem, time (s), iteration (steps), objective, gap, rows_computed,
        cache_hits, bytes_read, newton (Newton steps kept).
    passes_ : int
        Passes over the rows.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.
    fit_status_ : int
        0 if converged, else 1.
    shape_fit_ : tuple of int
        Shape of the X of the fit.

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

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "NuSVC":
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; arrays of uint8, ints and float16/32/64 are used in their type. For a precomputed kernel the
            (n_samples, n_samples) kernel values.
        y : array-like of shape (n_samples,) or None
            Labels, numbers or strings. None takes those that come with an `HDF5Data`.
        sample_weight : array-like of shape (n_samples,) or None
            Upper bounds of the multipliers. Samples of weight 0 are left out.

        Returns
        -------
        NuSVC
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found, and for an infeasible nu
            the largest that is feasible.
        """
        return self._fitted_to(X, y, sample_weight)

    def _state(self, data: TrainingSet) -> Statement:
        return state_nu_classes(self, data)

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> dict[str, Any]:
        """Divide by the margins, so that decision values at the margin are 1 and -1."""
        margin = np.where(outcome.margin > 0, outcome.margin, 1.0)
        beta = outcome.beta / np.repeat(margin, np.diff(outcome.starts))
        divided = outcome._replace(beta=beta, intercept=outcome.intercept / margin)
        return super()._expansion(divided, classes) | {"_margin": outcome.margin}
