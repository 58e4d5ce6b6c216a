"""Support vector regression with kernels."""

from typing import Any, ClassVar

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import Rule, number, one_of
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_regressor import KernelRegressor
from fastsvm.estimators.kernel.statements import Statement, state_targets

__all__ = ["SVR"]


class SVR(KernelRegressor):
    """Epsilon-support vector regression, exact, from memory or from an HDF5 file.

    Minimises ½ ‖w‖² + C Σ max(0, |y - f(x)| - epsilon). Names, defaults and attributes are those of `sklearn.svm.SVR`.
    The fit ends with a certificate of how far from the optimum it is.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a deviation beyond `epsilon`.
    epsilon : float, default=0.1
        Distance from the target up to which a prediction costs nothing.
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
    solver : {"smo", "coordinate"}, default="smo"
        "smo" solves the dual problem, two multipliers at a time. "coordinate" solves the dual problem without an
        intercept, one multiplier at a time, and `intercept_` is 0.
    shrinking : bool, default=True
        Ignored: each fit looks at all samples. It is there because scikit-learn's machines have it.
    standardize : bool, default=False
        Whether the kernel sees features standardised to mean 0 and variance 1, by weighted statistics of one more
        pass over the samples. The model stores them, so that predictions take samples as they are. Sparse samples are
        scaled only.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at the end, in units of targets. "coordinate" also requires the
        duality gap to be within `tol` of the objective.
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
        Coefficients of the support vectors: the difference of their two multipliers, α - α*.
    intercept_ : ndarray of float64, shape (1,)
        Intercept.
    coef_ : ndarray or CSR matrix of float64, shape (1, n_features)
        Weights of the features, for the linear kernel only; with `standardize` of the standardised features.
    objective_ : float
        Dual objective Σ y (α - α*) - ε Σ (α + α*) - ½ (α - α*)ᵀK(α - α*).
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
    Chang and Lin (2011), LIBSVM: a library for support vector machines, ACM TIST 2, section 2.4. Smola and Schölkopf
    (2004), A tutorial on support vector regression, Statistics and Computing 14.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import SVR
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = SVR(C=10, epsilon=0.05).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.06)
    True
    """

    fit_intercept = False  # of "coordinate", whose problem has no intercept

    of_many: ClassVar[str] = "NystroemSVR"

    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: str | Any = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        solver: str = "smo",
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
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
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
        return {"C": number(above=0), "epsilon": number(least=0), "solver": one_of("smo", "coordinate")}

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "SVR":
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; arrays of uint8, ints and float16/32/64 are used in their type. For a precomputed kernel the
            (n_samples, n_samples) kernel values.
        y : array-like of shape (n_samples,) or None
            Targets, real numbers. None takes those that come with an `HDF5Data`.
        sample_weight : array-like of shape (n_samples,) or None
            Factors of C for each sample. Samples of weight 0 are left out.

        Returns
        -------
        SVR
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found.
        """
        return self._fitted_to(X, y, sample_weight)

    def _state(self, data: TrainingSet) -> Statement:
        return state_targets(data, float(self.C) * data.weight, float(self.epsilon))
