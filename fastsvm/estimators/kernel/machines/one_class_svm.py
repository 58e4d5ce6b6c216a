"""The one-class SVM: where samples are dense."""

from typing import Any

import numpy as np

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.outliers import OutlierDetector
from fastsvm.estimators.fitting.parameters import NU, Rule
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.statements import Statement, state_one_class
from fastsvm.estimators.kernel.two_class import Outcome

__all__ = ["OneClassSVM"]


class OneClassSVM(OutlierDetector, KernelMachine):
    """Support of a distribution, and outliers beyond it, exact, from memory or from an HDF5 file.

    Names, defaults and attributes are those of `sklearn.svm.OneClassSVM`. Minimises
    ½ ‖w‖² - ν n ρ + Σ max(0, ρ - w·φ(x)). The fit ends with a certificate of how far from the optimum it is.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the samples of the fit are outliers, and at least this share are support vectors; above 0
        and at most 1.
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
        Largest violation of the optimality conditions at the end, in units of scores.
    memory : "auto", int or str, default="auto"
        Memory that a fit may use, the support vectors of the model included: bytes, or a size such as "2GB". "auto" is
        half of what is available. Samples in memory do not count.
    cache_size : float or None, default=None
        Bound on the cache of kernel rows in MiB, within `memory`.
    max_iter : int, default=-1
        Most steps, of two multipliers each. -1 is a finite default: max(10,000,000, 100 n).
    max_time : float or None, default=None
        Time limit of a fit in seconds.
    warm_start : bool, default=False
        Begin the next fit at the multipliers of the last, also after an interrupt, if the number of samples
        is the same.
    verbose : bool, default=False
        Show progress, on a terminal.

    Attributes
    ----------
    support_ : ndarray of int64, shape (n_SV,)
        Row numbers of the support vectors, in rising order.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Support vectors, in the type in which X was stored; empty for a precomputed kernel.
    n_support_ : ndarray of int32, shape (1,)
        Number of support vectors.
    dual_coef_ : ndarray or CSR matrix of float64, shape (1, n_SV)
        Multipliers of the support vectors, whose sum is ν times that of the sample weights.
    intercept_ : ndarray of float64, shape (1,)
        Minus the offset ρ.
    coef_ : ndarray or CSR matrix of float64, shape (1, n_features)
        Weights of the features, for the linear kernel only; with `standardize` of the standardised features.
    offset_ : ndarray of float64, shape (1,)
        Offset ρ: decision values are scores less the offset.
    objective_ : float
        Dual objective -½ αᵀKα.
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
    n_iter_ : int
        Steps.
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
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson (2001), Estimating the support of a high-dimensional
    distribution, Neural Computation 13. Chang and Lin (2011), LIBSVM, ACM TIST 2, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import OneClassSVM
    >>> X = np.array([[0.0], [0.44], [0.45], [0.46], [1.0]])
    >>> OneClassSVM(gamma="auto").fit(X).predict([[0.45], [5.0]])
    array([ 1, -1])
    """

    of_classes = has_targets = False
    follows = ("nu",)

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
        cache_size: float | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        warm_start: bool = False,
        verbose: bool = False,
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
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.verbose = verbose

    def _own_rules(self) -> dict[str, Rule]:
        return {"nu": NU}

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "OneClassSVM":
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; arrays of uint8, ints and float16/32/64 are used in their type. For a precomputed kernel the
            (n_samples, n_samples) kernel values.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or None
            Upper bounds of the multipliers. Samples of weight 0 are left out.

        Returns
        -------
        OneClassSVM
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found.
        """
        return self._fitted_to(X, None, sample_weight)

    def _state(self, data: TrainingSet) -> Statement:
        return state_one_class(data.weight, float(self.nu))

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> dict[str, Any]:
        return super()._expansion(outcome, classes) | {"offset_": -outcome.intercept}

    def _plain_decisions(self, X: Any) -> np.ndarray:
        found: np.ndarray = self._decisions(X)[:, 0]
        return found
