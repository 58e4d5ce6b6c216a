"""Logistic regression."""

from typing import Any

import numpy as np

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.drafts import drafted, of_one_model
from fastsvm.estimators.fitting.parameters import Rule, one_of
from fastsvm.estimators.linear.base_linear_svm import BaseLinearClassifier
from fastsvm.estimators.linear.loss_parameter import loss_of
from fastsvm.estimators.linear.prediction import class_probabilities

__all__ = ["LogisticRegression"]


class LogisticRegression(BaseLinearClassifier):
    """Logistic regression, exact, from memory or from an HDF5 file larger than it.

    Minimises ½‖w‖² or ‖w‖₁ + C Σ log(1 + exp(-y f)), of each class against the rest. The intercept is penalised as a
    weight. This is what `sklearn.linear_model.LogisticRegression(solver="liblinear")` minimises. Its other solvers do
    not penalise the intercept, and have one problem for all classes.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        ½‖w‖², or ‖w‖₁: the smaller C, the more weights are exactly 0.
    C : float, default=1.0
        Factor of the losses.
    l1_ratio : {0, 1}, default=0.0
        1 is the same as penalty="l1", as in scikit-learn since 1.8. There is no mixture of both penalties.
    dual : bool or "auto", default=False
        Accepted for code written for scikit-learn: the solver works on both problems at once, which have the same
        solution.
    tol : float, default=1e-3
        The fit ends when (P - D) / P is at most this, with the objective P and a lower bound D of what it could be; of
        several classes, for each of them.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    intercept_scaling : float, default=1.0
        Value of a constant feature. The intercept is its weight times this value. It is penalised like all weights; the
        larger the value, the less.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for the samples of each class: with more than two classes, for the samples of the class itself.
    random_state : int, RandomState or None, default=None
        Seed of the order in which samples are processed.
    solver : {"auto", "liblinear"}, default="auto"
        Accepted for code written for scikit-learn: both are the same, and mean its "liblinear".
    max_iter : int, default=1000
        Largest number of epochs: Newton steps, with penalty "l1" or for samples in memory. With "l2", and samples
        on disk they are passes of dual coordinate ascent, and ten of these where sparse samples have many features.
    verbose : bool or int, default=False
        Show progress, on a terminal.
    warm_start : bool, default=False
        Begin the next fit at the dual variables of the last, or after Newton steps at its weights, if there are as
        many. A fit that was interrupted, or ran out of time or epochs, is resumed if nothing has changed.
    n_jobs : int or None, default=None
        Accepted for code written for scikit-learn: all fits use the threads there are.
    memory : "auto", int or str, default="auto"
        Memory that the fit may use beside the weights and the dual variables: bytes, or a size such as "2GB".
        Samples on disk are read once if they fit in a third of it, else window by window in each epoch. "auto" is half
        of what is available. Samples in memory do not count. With penalty "l1" each Newton step reads samples on disk
        two to four times, and a quarter of the memory holds Hessians: √(memory / (32 n_classes)) features at a time,
        at most 4,096.
    max_time : float or None, default=None
        Time limit of a fit in seconds.
    standardize : bool, default=False
        Whether features are standardised to mean 0 and variance 1 during the fit, by statistics of one more pass over
        the samples. The stored samples do not change. `coef_` and `intercept_` are for samples as they are passed.
        Sparse samples are scaled only.
    criterion : {"gap", "gradient"}, default="gap"
        What `tol` bounds: the relative duality gap, or, as in LIBLINEAR, the violation of the optimality conditions of
        the dual problem, the projected gradient, which takes much longer to become small. Where epochs are Newton
        steps, it is that of the problem itself.
    window_visits : "auto" or int, default="auto"
        For samples on disk: how often an epoch processes each window while it is in memory. "auto" is as often as there
        is time for while the next window is read, at most 4 times. Results then depend on the speed of the machine.
        With an int they are the same for the same `random_state`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    coef_ : ndarray of float64, shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of float64, shape (1,) or (n_classes,)
        Intercepts.
    objective_ : float
        The objective, penalty + C Σ loss, of these weights, that of the constant feature among them, summed over the
        classes one against the rest.
    dual_objective_ : float
        Objective of feasible dual variables, a lower bound of the minimum.
    duality_gap_ : float
        Difference of the two: an upper bound of how far the objective is from its minimum. Computed in float64.
    kkt_violation_ : float
        Largest projected gradient of the dual problem, in units of scores; where epochs are Newton steps the largest
        distance of 0 from the subdifferential of the objective by a weight.
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
    Yu, Huang and Lin (2011), Dual coordinate descent methods for logistic regression and maximum entropy models,
    Machine Learning 85. Yuan, Ho and Lin (2012), An improved GLMNET for l1-regularized logistic regression, JMLR 13.
    Lin, Mairal and Harchaoui (2015), A universal catalyst for first-order optimization, NeurIPS, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import LogisticRegression
    >>> X = np.array([[-1.0, 0.1], [-2.0, -0.1], [1.0, -0.1], [2.0, 0.1]])
    >>> model = LogisticRegression(penalty="l1", C=2.0).fit(X, [0, 0, 1, 1])
    >>> int((model.coef_ != 0).sum())
    1
    >>> model.predict_proba([[0.0, 5.0]]).round(2)
    array([[0.5, 0.5]])
    """

    def __init__(
        self,
        penalty: str = "l2",
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        dual: bool | str = False,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: dict | str | None = None,
        random_state: Any = None,
        solver: str = "auto",
        max_iter: int = 1000,
        verbose: bool | int = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        memory: str | int = "auto",
        max_time: float | None = None,
        standardize: bool = False,
        criterion: str = "gap",
        window_visits: int | str = "auto",
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.memory = memory
        self.max_time = max_time
        self.standardize = standardize
        self.criterion = criterion
        self.window_visits = window_visits

    def _own_rules(self) -> dict[str, Rule]:
        mixed = Rule(lambda value: value in (0, 1), "0 (penalty ½‖w‖²) or 1 (‖w‖₁), there is no mixture")
        solver = one_of("auto", "liblinear")
        solver = solver._replace(words=solver.words + ", as the intercept is penalised and each class has a problem")
        return {"penalty": one_of("l2", "l1"), "l1_ratio": mixed, "solver": solver}

    def _has_l1_penalty(self) -> bool:
        return self.penalty == "l1" or self.l1_ratio == 1

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "LogisticRegression":
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; they are not copied.
        y : array-like of shape (n_samples,) or None
            Labels, numbers or strings. None takes those that come with an `HDF5Data`.
        sample_weight : array-like of shape (n_samples,) or None
            Factors of C. Samples of weight 0 are left out.

        Returns
        -------
        LogisticRegression
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable; the message says what was found.
        """
        self._check_parameters()
        self._fit_classes(X, y, sample_weight, loss_of("log_loss"))
        return self

    @of_one_model
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities of the classes.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Of more than two classes, each one's probability against the rest is divided by their sum.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite.
        """
        return class_probabilities(loss_of("log_loss"), self._scores(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return logarithms of `predict_proba`.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples; those on disk are read in blocks.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Minus infinity for a probability of 0.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
