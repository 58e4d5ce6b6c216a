"""Linear regression by mini-batch stochastic gradient descent."""

from typing import Any

import numpy as np

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.callbacks import with_callbacks
from fastsvm.estimators.fitting.drafts import drafted
from fastsvm.estimators.fitting.parameters import Rule
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.fitting.validation import check_training_set, forget
from fastsvm.estimators.linear.base_sgd import BaseSGD
from fastsvm.estimators.linear.loss_parameter import loss_rule
from fastsvm.estimators.linear.prediction import LinearRegressor
from fastsvm.estimators.linear.training_task import Task

__all__ = ["SGDRegressor"]


class SGDRegressor(LinearRegressor, BaseSGD):
    """Linear regression by mini-batch stochastic gradient descent, from memory or from an HDF5 file.

    Names and meanings are those of `sklearn.linear_model.SGDRegressor` where it has them. Different are the defaults of
    `learning_rate` and `average`, steps on batches of rows, and that weights of rows count relatively.

    Parameters
    ----------
    loss : str or a loss object, default="squared_error"
        "squared_error" (½ (f - y)²), "huber", "epsilon_insensitive" or "squared_epsilon_insensitive".
        A loss object is one that `fastsvm.losses.register_loss` registered. `fastsvm.save` refuses models with it.
    penalty : {"l2", "l1", "elasticnet"} or None, default="l2"
        Penalty of the weights; the intercept is never penalised.
    alpha : float, default=1e-4
        Factor of the penalty in the objective, mean loss + alpha R(w), with R = ½‖w‖², ‖w‖₁ or a mixture.
    l1_ratio : float, default=0.15
        Share of the L1 penalty in "elasticnet", 0 to 1.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    max_iter : int, default=1000
        Largest number of epochs, which are passes over the samples that change the weights.
    tol : float or None, default=1e-3
        The fit ends when the objective of the weights returned, computed over all rows, fell by at most `tol` times the
        objective of zero weights while the number of epochs doubled, and by at most a tenth of itself unless it is
        below ten such tolerances. None runs `max_iter` epochs.
    shuffle : bool, default=True
        Whether samples are processed in random order, a new one each epoch.
    verbose : bool or int, default=False
        Show progress, on a terminal.
    epsilon : float, default=0.1
        Distance from the target at which "huber" becomes linear, or below which the epsilon-insensitive losses are
        zero.
    random_state : int, RandomState or None, default=None
        Seed of the order of the samples and of the validation set.
    learning_rate : {"adagrad", "auto", "optimal", "pegasos", "invscaling", "constant", "adaptive"}, default="adagrad"
        Length of a step: "adagrad" gives each weight its own, by the gradients so far (Duchi, Hazan and Singer 2011)
        and the length of its feature, so that rare features and features of any unit learn as fast as others. On sparse
        rows of many features a step is also no longer than twice the way to a loss of zero (Loizou, Vaswani, Laradji
        and Lacoste-Julien 2021, equation 3). The other rates are one η for all weights in step t = 0, 1, .... "auto"
        begins with what suits the rows' lengths and falls as η₀ / (√(1 + 4 t / steps per epoch) + λ η₀ t), with the
        factor λ of ½‖w‖² in the objective, without the root if steps follow the exact gradient of a smooth loss;
        "optimal" is scikit-learn's 1 / (alpha (t₀ + t));
        "pegasos" 1 / (alpha (t + 1)); "invscaling" eta0 / (t + 1)**power_t; "constant" eta0; "adaptive" eta0, divided
        by 5 whenever the fit would otherwise end, until it is below 1e-6.
    eta0 : float, default=0.01
        Initial learning rate of the last three.
    power_t : float, default=0.25
        Exponent of "invscaling".
    early_stopping : bool, default=False
        Whether convergence is judged by the score on a validation set. The weights with the best score are returned.
        The validation set of samples on disk consists of whole blocks.
    validation_fraction : float, default=0.1
        Share of the samples in the validation set; of a file, at most what an eighth of `memory` holds.
    n_iter_no_change : int, default=5
        Epochs before the objective is first compared, or, with `early_stopping`, without a better score at the end.
    warm_start : bool, default=False
        Begin the next fit at the weights of the last. A fit that was interrupted, or ran out of time, is resumed in the
        same epoch if samples and classes are the same.
    average : bool or int, default=True
        Return the average of the weights after each step, in which step t weighs t³ (polynomial decay, Shamir and Zhang
        2013, section 4); an int is the number of rows to be visited before it begins. False returns the weights after
        the last step.
    batch_size : "auto", int or None, default="auto"
        Rows whose mean gradient a step follows; None is all, which is gradient descent. "auto" is 32, but 8 for at
        most 256 rows, and else 1 for sparse rows of many features.
    momentum : float, default=0.0
        Share of the last step that is added to a step, at least 0 and below 1. Sparse rows are then made dense, a
        batch at a time.
    clip_norm : float or None, default=None
        Largest norm of a batch's gradient; longer ones are shortened. Sparse rows as with `momentum`.
    memory : "auto", int or str, default="auto"
        What rows on disk may take in memory: bytes, or a size such as "2GB". If a third of it holds them, they are read
        once, else window after window, of 2,048 rows a thread at least. "auto" is half of what is available.
    max_time : float or None, default=None
        Time limit of a fit in seconds.
    standardize : bool, default=False
        Whether features are standardised to mean 0 and variance 1 during the fit, by statistics of one more pass over
        the samples. The stored samples do not change. `coef_` and `intercept_` are for samples as they are passed.
        Sparse samples are scaled only. Partial fits use the statistics of the first one.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_features,)
        Weights of the features.
    intercept_ : ndarray of float64, shape (1,)
        Intercepts.
    objective_ : float
        Mean loss + alpha R(w) over the rows that were learnt from, of these weights.
    n_iter_ : int
        Epochs.
    t_ : float
        Steps, plus one.
    converged_ : bool
        Whether the fit converged, or ran all epochs with `tol=None`.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "callback", or "stalled": a constant rate does not come closer.
    loss_curve_ : ndarray of float64
        Mean loss of each batch before its step; when there are more than 10,000, each entry is of several batches.
    history_ : dict of str to ndarray
        One entry an epoch: epoch, time (s), steps, objective (during the epoch), rate, validation_score, bytes_read.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro and Cotter (2011), Pegasos: primal estimated sub-gradient solver for SVM,
    Mathematical Programming 127. Lacoste-Julien, Schmidt and Bach (2012), A simpler approach to obtaining an O(1/t)
    convergence rate for the projected stochastic subgradient method, equation 5.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import SGDRegressor
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = SGDRegressor(random_state=0).fit(X, 3 * X[:, 0] - 1)
    >>> bool(model.score(X, 3 * X[:, 0] - 1) > 0.99)
    True
    """

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        penalty: str | None = "l2",
        alpha: float = 1e-4,
        l1_ratio: float = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: bool | int = False,
        epsilon: float = 0.1,
        random_state: Any = None,
        learning_rate: str = "adagrad",
        eta0: float = 0.01,
        power_t: float = 0.25,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        average: bool | int = True,
        batch_size: int | str | None = "auto",
        momentum: float = 0.0,
        clip_norm: float | None = None,
        memory: str | int = "auto",
        max_time: float | None = None,
        standardize: bool = False,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.average = average
        self.batch_size = batch_size
        self.momentum = momentum
        self.clip_norm = clip_norm
        self.memory = memory
        self.max_time = max_time
        self.standardize = standardize

    def _own_rules(self) -> dict[str, Rule]:
        return {"loss": loss_rule("numbers")}

    @drafted
    @with_callbacks
    @one_threaded_blas
    def fit(
        self, X: Any, y: Any = None, coef_init: Any = None, intercept_init: Any = None, sample_weight: Any = None
    ) -> "SGDRegressor":
        """Fit the model.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; they are not copied.
        y : array-like of shape (n_samples,) or None
            Targets, real numbers. None takes those that come with an `HDF5Data`.
        coef_init, intercept_init : array-like or None
            Initial weights and intercepts, in the shape of `coef_` and `intercept_`.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the samples in the mean. Samples of weight 0 are left out.

        Returns
        -------
        SGDRegressor
            The estimator itself.

        Raises
        ------
        ValueError
            If a parameter or the data are not usable, or the weights overflow; the message says what was found.
        """
        self._check_parameters()
        session, earlier = FitSession(self, max_subtasks=self.max_iter), self._earlier()
        forget(self)
        task = self._task(X, y, sample_weight, first=True)
        given = coef_init is not None or intercept_init is not None
        self._fit(task, self._begin(coef_init, intercept_init, task, earlier, {}), {}, given, session)
        return self

    @drafted
    @one_threaded_blas
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "SGDRegressor":
        """Run one more epoch, on these samples.

        The average and the learning rate continue. The rate "auto" is that of the first samples, and assumes epochs of
        at least 1,000 steps. There is no test of convergence, no validation set, and callbacks are not called.

        Parameters
        ----------
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
            Samples; they are not copied.
        y : array-like of shape (n_samples,) or None
            As for `fit`.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the samples.

        Returns
        -------
        SGDRegressor
            The estimator itself.

        Raises
        ------
        ValueError
            As for `fit`.
        """
        self._check_parameters()
        self._partial_fit(self._task(X, y, sample_weight, first=not hasattr(self, "coef_")), {})
        return self

    def _task(self, X: Any, y: Any, sample_weight: Any, first: bool) -> Task:
        data = check_training_set(self, X, y, sample_weight, of_classes=False, reset=first)
        source = self._scaled(data.source, data.weight, again=not first)
        return Task(
            source, np.ascontiguousarray(data.y), data.weight, float(data.weight.sum()), np.ones(1), of_classes=False
        )
