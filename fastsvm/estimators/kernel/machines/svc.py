"""Support vector classification with kernels."""

from typing import Any, ClassVar

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import Rule, boolean, number, one_of, optional, seed
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_classifier import KernelClassifier
from fastsvm.estimators.kernel.solver_parameter import SOLVERS, check_solver
from fastsvm.estimators.kernel.statements import Statement, state_classes

__all__ = ["SVC"]

_RULES = {
    "C": number(above=0),
    "loss": one_of("hinge", "squared_hinge"),
    "fit_intercept": boolean,
    "learning_rate": optional(number(above=0)),
    "selection": one_of("cyclic", "random"),
    "random_state": seed,
}


class SVC(KernelClassifier):
    """C-support vector classification, exact, from memory or from an HDF5 file.

    Names, defaults, attributes and their order are those of `sklearn.svm.SVC`. The fit ends with a
    certificate of how far from the optimum it is.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a margin violation; the larger, the fewer. Very large values give the hard margin on
        separable data.
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "exponential", "precomputed"}, \
fastsvm.kernels.Kernel or callable, default="rbf"
        "laplacian" is exp(-gamma ‖x-z‖₁), "exponential" is exp(-gamma ‖x-z‖). An object such as
        `fastsvm.kernels.RBF(gamma=0.5)` brings its parameters: `degree`, `gamma` and `coef0` are then not used.
        A callable takes two blocks of rows, (a, d) and (b, d), and returns their (a, b) kernel values. With
        "precomputed" X is the matrix of kernel values.
    degree : int, default=3
        Degree of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels other than "linear"; "scale" is 1 / (n_features * variance of X), where the
        variance is weighted if sample weights are given, "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".
    solver : {"smo", "coordinate", "primal"}, default="smo"
        "smo" solves the dual problem, two multipliers at a time. "coordinate" solves the dual problem without an
        intercept, one multiplier at a time, and computes the intercept afterwards. "primal" minimises over
        the coefficients of the decision function, by Newton's method with `loss="squared_hinge"`, or with a
        `learning_rate` by gradient descent.
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
    shrinking : bool, default=True
        Ignored: each fit looks at all samples. It is there because scikit-learn's machines have it.
    standardize : bool, default=False
        Whether the kernel sees features standardised to mean 0 and variance 1, by weighted statistics of one more
        pass over the samples. The model stores them, so that predictions take samples as they are. Sparse samples are
        scaled only. `gamma="scale"` refers to standardised samples, `support_vectors_` are samples as they were passed.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at the end, in units of decision values. "coordinate" also
        requires the duality gap to be within `tol` of the objective.
    memory : "auto", int or str, default="auto"
        Memory that a fit may use, the support vectors of the model included: bytes, or a size such as "2GB". "auto" is
        half of what is available. Samples in memory do not count. Beside it, machine code takes some 20 MB in the first
        fit of a process, up to 100 MB if it must be compiled, and the allocator may keep some 10 MB that were freed.
    probability : bool, default=False
        False only: there are no probabilities. `CalibratedClassifierCV(SVC(), ensemble=False)` of
        `sklearn.calibration` computes them.
    cache_size : float or None, default=None
        Bound on the cache of kernel rows in MiB, within `memory`.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for each class.
    max_iter : int, default=-1
        Most steps of a two-class problem: of pairs, of coordinates, Newton's, or with `learning_rate` gradient
        steps. -1 is a finite default: max(10,000,000, 100 n) of pairs, 20 times as many of coordinates, 2,000 of
        Newton's, 10,000 with `learning_rate`.
    max_time : float or None, default=None
        Time limit of a fit in seconds.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Columns of `decision_function` for three classes and more: one a class, or one a pair.
    break_ties : bool, default=False
        Predict by the largest decision value of "ovr" instead of the first class with most votes.
    warm_start : bool, default=False
        Begin the next fit at the multipliers of the last, also after an interrupt, if the number of samples and the
        classes are the same.
    verbose : bool, default=False
        Show progress, on a terminal.
    random_state : int, RandomState or None, default=None
        Seed of the order of multipliers. None draws the same every time.

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
        Coefficients of the support vectors, in scikit-learn's layout; sparse after a fit on sparse samples.
    intercept_ : ndarray of float64, shape (n_classes * (n_classes - 1) / 2,)
        Intercepts.
    coef_ : ndarray or CSR matrix of float64, shape (n_classes * (n_classes - 1) / 2, n_features)
        Weights of the features, for the linear kernel only; with `standardize` of the standardised features.
    within_margin_ : ndarray of int64
        Row numbers of those on or within the margin in some two-class problem, in rising order. With exact steps
        they are the support vectors; with `learning_rate` the decision function has others.
    objective_ : float
        Dual objective Σα - ½ αᵀQα, summed over the two-class problems; for "primal" the primal one,
        ½ βᵀKβ + C Σ loss.
    kkt_violation_ : float
        The largest violation of the optimality conditions.
    duality_gap_ : float
        Primal minus dual objective, summed over the two-class problems: how far from the optimum the fit is at most, if
        the kernel is positive semi-definite.
    converged_ : bool
        Whether the violation is within `tol`.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "callback", "stalled".
    solver_ : str
        What solved the problem, chosen by its size: "small-rows" or "small-matrix" for few samples at once,
        "smo", "coordinate" or "primal" for the steps that `solver` names.
    n_iter_ : ndarray of int64, shape (n_classes * (n_classes - 1) / 2,)
        Steps of each two-class problem.
    history_ : dict of str to ndarray
        One entry an outer iteration: problem, time (s), iteration (steps), objective, gap, rows_computed,
        cache_hits, bytes_read, newton (Newton steps kept). `pandas.DataFrame(model.history_)` is a table of it.
    passes_ : int
        Passes over the rows.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.
    class_weight_ : ndarray of float64, shape (n_classes,)
        Factors of C.
    fit_status_ : int
        0 if converged, else 1.
    shape_fit_ : tuple of int
        Shape of the X of the fit.

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

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Any = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        solver: str = "smo",
        loss: str = "hinge",
        fit_intercept: bool = True,
        learning_rate: float | None = None,
        selection: str = "cyclic",
        shrinking: bool = True,
        standardize: bool = False,
        tol: float = 1e-3,
        memory: str | int = "auto",
        probability: bool = False,
        cache_size: float | None = None,
        class_weight: dict | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.learning_rate = learning_rate
        self.selection = selection
        self.shrinking = shrinking
        self.standardize = standardize
        self.tol = tol
        self.memory = memory
        self.probability = probability
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _own_rules(self) -> dict[str, Rule]:
        return {"solver": one_of(*SOLVERS)} | _RULES | super()._own_rules()  # solvers may be added later

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter that is not usable."""
        super()._check_parameters()
        check_solver(self)

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "SVC":
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
            Factors of C for each sample. Samples of weight 0 are left out.

        Returns
        -------
        SVC
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found.
        """
        return self._fitted_to(X, y, sample_weight)

    def _state(self, data: TrainingSet) -> Statement:
        return state_classes(self, data)
