"""Linear support vector regression."""

from typing import Any

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import Rule, number
from fastsvm.estimators.linear.base_linear_svm import BaseLinearRegressor
from fastsvm.estimators.linear.loss_parameter import loss_of, loss_rule

__all__ = ["LinearSVR"]


class LinearSVR(BaseLinearRegressor):
    """Linear support vector regression, exact, from memory or from an HDF5 file larger than it.

    Minimises ½‖w‖² + C Σ loss. Names and meanings are those of `sklearn.svm.LinearSVR` where it has them; different
    are that `tol` bounds the duality gap and that nothing is copied.

    Parameters
    ----------
    epsilon : float, default=0.0
        Distance from the target up to which there is no loss.
    tol : float, default=1e-3
        The fit ends when (P - D) / P is at most this, with the objective P and a lower bound D of what it could be.
    C : float, default=1.0
        Factor of the losses.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"} or a loss object, default="epsilon_insensitive"
        max(0, |f - y| - epsilon), or its square.
        A loss object is one that `fastsvm.losses.register_loss` registered. `fastsvm.save` refuses models with it.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    intercept_scaling : float, default=1.0
        Value of a constant feature. The intercept is its weight times this value. It is penalised like all weights; the
        larger the value, the less.
    dual : bool or "auto", default="auto"
        Accepted for code written for scikit-learn: the solver works on both problems at once, which have the same
        solution.
    verbose : bool or int, default=False
        Show progress, on a terminal.
    random_state : int, RandomState or None, default=None
        Seed of the order in which samples are processed.
    max_iter : int, default=1000
        Largest number of epochs, which are passes over the samples that change the weights. Newton steps follow within
        this limit if the epochs do not suffice and there are few features or few samples. With the squared loss and at
        least 10,000 samples in memory of at most 256 features, an epoch is a Newton step, of two or three passes.
    memory : "auto", int or str, default="auto"
        Memory that the fit may use beside the weights and the dual variables: bytes, or a size such as "2GB".
        Samples on disk are read once if they fit in a third of it, else window by window in each epoch. "auto" is half
        of what is available. Samples in memory do not count.
    max_time : float or None, default=None
        Time limit of a fit in seconds.
    warm_start : bool, default=False
        Begin the next fit at the dual variables of the last, if the numbers of samples and classes are the same. A fit
        that was interrupted, or ran out of time or epochs, is resumed if nothing has changed.
    standardize : bool, default=False
        Whether features are standardised to mean 0 and variance 1 during the fit, by statistics of one more pass over
        the samples. The stored samples do not change. `coef_` and `intercept_` are for samples as they are passed.
        Sparse samples are scaled only.
    criterion : {"gap", "gradient"}, default="gap"
        What `tol` bounds: the relative duality gap, or, as in LIBLINEAR, the violation of the optimality conditions of
        the dual problem, the projected gradient, which takes much longer to become small.
    window_visits : "auto" or int, default="auto"
        For samples on disk: how often an epoch processes each window while it is in memory. "auto" is as often as there
        is time for while the next window is read, at most 4 times. Results then depend on the speed of the machine.
        With an int they are the same for the same `random_state`.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_features,)
        Weights of the features.
    intercept_ : ndarray of float64, shape (1,)
        Intercept.
    objective_ : float
        ½‖w‖² + C Σ loss of these weights, that of the constant feature among them.
    dual_objective_ : float
        Objective of feasible dual variables, a lower bound of the minimum.
    duality_gap_ : float
        Difference of the two: an upper bound of how far the objective is from its minimum. Computed in float64.
    kkt_violation_ : float
        Largest projected gradient of the dual problem, in units of scores; where epochs are Newton steps the largest
        derivative of the objective by a weight.
    n_iter_ : int
        Epochs.
    converged_ : bool
        Whether what `criterion` names is within `tol`.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "callback", "stalled".
    solver_ : str
        Which solver ended the fit, chosen from the samples and the loss: "gram", "weights", "newton", "rounds",
        "ascent" or "given-sum".
    history_ : dict of str to ndarray
        One entry an epoch: epoch, time (s), objective (the lowest so far), dual_objective, gap (the lowest relative gap
        so far; the largest of the classes one against the rest), bytes_read.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM,
    ICML, algorithm 1. Yu, Hsieh, Chang and Lin (2012), Large linear classification when data cannot fit in memory,
    ACM TKDD 5. Lin, Mairal and Harchaoui (2015), A universal catalyst for first-order optimization, NeurIPS,
    algorithm 1. Yan and Li (2020), An efficient augmented Lagrangian method for support vector machine, Optimization
    Methods and Software 35. Ho and Lin (2012), Large-scale linear support vector regression, JMLR 13, algorithm 4.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import LinearSVR
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = LinearSVR(C=10, random_state=0).fit(X, 3 * X[:, 0] - 1)
    >>> bool(model.score(X, 3 * X[:, 0] - 1) > 0.99)
    True
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: bool | str = "auto",
        verbose: bool | int = False,
        random_state: Any = None,
        max_iter: int = 1000,
        memory: str | int = "auto",
        max_time: float | None = None,
        warm_start: bool = False,
        standardize: bool = False,
        criterion: str = "gap",
        window_visits: int | str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.memory = memory
        self.max_time = max_time
        self.warm_start = warm_start
        self.standardize = standardize
        self.criterion = criterion
        self.window_visits = window_visits

    def _own_rules(self) -> dict[str, Rule]:
        return {"epsilon": number(least=0), "loss": loss_rule("numbers", dual=True)}

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "LinearSVR":
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; they are not copied.
        y : array-like of shape (n_samples,) or None
            Targets, real numbers. None takes those that come with an `HDF5Data`.
        sample_weight : array-like of shape (n_samples,) or None
            Factors of C. Samples of weight 0 are left out.

        Returns
        -------
        LinearSVR
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found.
        """
        self._check_parameters()
        self._fit_numbers(X, y, sample_weight, loss_of(self.loss, epsilon=float(self.epsilon)))
        return self
