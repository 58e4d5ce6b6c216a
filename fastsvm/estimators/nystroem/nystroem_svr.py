"""Support vector regression with landmarks."""

from typing import Any

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import Rule, number, one_of
from fastsvm.estimators.kernel.machines.svr import SVR
from fastsvm.estimators.linear.base_linear_svm import BaseLinearRegressor
from fastsvm.estimators.linear.loss_parameter import loss_of
from fastsvm.estimators.nystroem.nystroem_machine import NystroemMachine

__all__ = ["NystroemSVR"]


class NystroemSVR(NystroemMachine, BaseLinearRegressor):
    """Kernel support vector regression of millions of samples, with landmarks and bounds of what they cost.

    As `NystroemSVC`, for numbers.

    Parameters
    ----------
    C : float, default=1.0
        Factor of the losses.
    epsilon : float, default=0.1
        Distance from the target up to which there is no loss.
    kernel : str, callable or kernel object, default="rbf"
        As for `SVC`: "linear", "poly", "rbf", "laplacian", "exponential", a function of two blocks of samples, or an
        object such as `fastsvm.kernels.RBF(0.5)`. It must be positive semi-definite. Kernel values cannot be
        precomputed.
    degree : int, default=3
        Degree of "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel, as for `SVC`.
    coef0 : float, default=0.0
        Constant of "poly".
    n_components : "auto" or int, default="auto"
        Number of landmarks, at most that of the distinct samples. "auto" is the smallest of 64, 128, ..., 2,048 with
        which `trace_error_` is at most .01, fewer if the memory asks for it. The time of a fit grows with its square.
    landmarks : {"uniform", "rpcholesky", "support"} or array-like of shape (n_landmarks, n_features), \
default="uniform"
        Landmarks are samples of positive weight, drawn without replacement, or by randomly pivoted Cholesky
        factorisation among 16 times as many as landmarks, or fewer if the memory asks for it. "support" draws them
        among the support vectors of an `SVR` of 10 times as many samples, at least 2,000. An array holds the
        landmarks themselves; `n_components` is ignored.
    rank_tol : float, default=1e-6
        Directions of the landmarks whose eigenvalue is at most this share of the largest are left out.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        max(0, |f - y| - epsilon), or its square.
    tol : float, default=1e-3
        The fit ends when (P - D) / P is at most this, with the objective P and a lower bound D of what it could be.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    intercept_scaling : float, default=1.0
        Value s of a constant feature. The intercept is its weight times this value. It is penalised like all weights;
        the larger the value, the less. The kernel is then K + s².
    max_iter : int, default=1000
        Largest number of epochs, which are passes over the features.
    max_time : float or None, default=None
        Time limit of a fit in seconds. Landmarks and features come first, and are not cut short.
    memory : "auto", int or str, default="auto"
        Memory that the fit may use: bytes, or a size such as "2GB". "auto" is half of what is available. If half of it
        holds the features as float32, or else as float16, they stay in memory, else they are float16 in a scratch file.
        Samples in memory do not count.
    scratch_folder : str or None, default=None
        Folder of the scratch file, which takes two bytes for each sample and landmark, and is removed when the fit
        ends. None is the folder of temporary files.
    standardize : bool, default=False
        Whether the kernel sees features standardised to mean 0 and variance 1. The stored samples do not change.
        Sparse samples are scaled only.
    refine : {"exact"} or None, default=None
        "exact": an exact machine, that of `SVR`, predicts in place of the landmarks. It takes the time of `SVR`.
    bounds : bool, default=False
        Whether to compute `exact_bounds_`. That takes a kernel value for each pair of support vectors.
    warm_start : bool, default=False
        Begin the next fit at the dual variables of the last, if the numbers of samples are the same.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks and of the order in which samples are processed.
    verbose : bool or int, default=False
        Show progress, on a terminal.

    Attributes
    ----------
    components_ : array or CSR matrix, shape (n_landmarks, n_features)
        The landmarks, as they were passed.
    component_indices_ : ndarray of int64, shape (n_landmarks,)
        Numbers of these samples; missing if an array of landmarks was passed.
    coef_ : ndarray of float64, shape (1, n_landmarks)
        Coefficients of the kernel values with the landmarks.
    intercept_ : ndarray of float64, shape (1,)
        Intercept.
    rank_ : int
        Number of features: directions of the landmarks that were kept.
    trace_error_ : float
        Share of the trace of the kernel matrix that the features do not have, measured on at most 1,024 samples.
    objective_ : float
        ½‖w‖² + C Σ loss on the features as they are stored; the weight of the constant feature is
        one of w.
    dual_objective_ : float
        Objective of feasible dual variables, a lower bound of the minimum on these features.
    duality_gap_ : float
        Difference of the two: an upper bound of how far the objective is from its minimum. Computed in float64.
    exact_machine_ : SVR
        With `refine`, the fitted machine; missing where the time ran out, so that the landmarks predict.
    exact_bounds_ : tuple of float
        With `bounds`, lower and upper bound of the optimum of the kernel problem, in which all samples are landmarks.
        The upper one is the objective of this model there.
    kkt_violation_ : float
        Largest projected gradient of the dual problem, in units of scores.
    n_iter_ : int
        Epochs.
    converged_ : bool
        Whether the duality gap is within `tol`.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "callback", "stalled".
    solver_ : str
        Which solver ended the fit, chosen from the samples and the loss: "gram", "weights", "newton", "rounds",
        "ascent" or "given-sum".
    history_ : dict of str to ndarray
        One entry an epoch: epoch, time (s), objective (the lowest so far), dual_objective, gap (the lowest relative gap
        so far), bytes_read.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.

    References
    ----------
    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS. Zhang, Lan, Wang and
    Moerchen (2012), Scaling up kernel SVM on limited resources: a low-rank linearization approach, AISTATS. Chen,
    Epperly, Tropp and Webber (2024), Randomly pivoted Cholesky: practical approximation of a kernel matrix with few
    entry evaluations, Communications on Pure and Applied Mathematics 78. Hsieh, Chang, Lin, Keerthi and Sundararajan
    (2008), A dual coordinate descent method for large-scale linear SVM, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import NystroemSVR
    >>> X = np.linspace(0, 6, 3000)[:, None]
    >>> model = NystroemSVR(C=10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.9)
    True
    """

    _refined_loss = "epsilon_insensitive"

    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        n_components: int | str = "auto",
        landmarks: Any = "uniform",
        rank_tol: float = 1e-6,
        loss: str = "epsilon_insensitive",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        max_iter: int = 1000,
        max_time: float | None = None,
        memory: str | int = "auto",
        scratch_folder: str | None = None,
        standardize: bool = False,
        refine: str | None = None,
        bounds: bool = False,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_components = n_components
        self.landmarks = landmarks
        self.rank_tol = rank_tol
        self.loss = loss
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory = memory
        self.scratch_folder = scratch_folder
        self.standardize = standardize
        self.refine = refine
        self.bounds = bounds
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _exact_machine(self, memory: int, seconds: float) -> SVR:
        return SVR(**self._kernel_parameters(memory, seconds), epsilon=self.epsilon)

    def _own_rules(self) -> dict[str, Rule]:
        losses = {"loss": one_of("epsilon_insensitive", "squared_epsilon_insensitive")}
        return super()._own_rules() | losses | {"epsilon": number(least=0)}

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "NystroemSVR":
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; they are not copied, and read a few times from a file.
        y : array-like of shape (n_samples,) or None
            Targets, real numbers. None takes those that come with an `HDF5Data`.
        sample_weight : array-like of shape (n_samples,) or None
            Factors of C. Samples of weight 0 are left out.

        Returns
        -------
        NystroemSVR
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable, or the kernel is not positive semi-definite; the message says
            what was found.
        OSError
            If a scratch file is needed and cannot be written, as on a full disk.
        """
        self._check_parameters()
        self._fit_numbers(X, y, sample_weight, loss_of(self.loss, epsilon=float(self.epsilon)))
        return self
