"""Linear regression by mini-batch stochastic gradient descent."""

import numpy as np

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.documentation import documented, documented_by
from fastsvm.estimators.fitting.session import drafted
from fastsvm.estimators.fitting.validation import Attributes, Column, Rule, Samples, TrainingSet, check_training_set
from fastsvm.estimators.linear.base_sgd import BaseSGD, GradientDescent
from fastsvm.estimators.linear.prediction import LinearRegressor
from fastsvm.estimators.linear.training_task import Task, loss_rule


@documented
class SGDRegressor(LinearRegressor, BaseSGD):
    """Linear regression by mini-batch stochastic gradient descent, from memory or from an HDF5 file.

    Names and meanings are those of `sklearn.linear_model.SGDRegressor` where it has them. Different are the defaults of
    `learning_rate` and `average`, steps on batches of rows, and that weights of rows count relatively.

    Parameters
    ----------
    loss : str or a loss object, default="squared_error"
        "squared_error" (½ (f - y)²), "huber", "epsilon_insensitive" or "squared_epsilon_insensitive".
        A loss object is one that `fastsvm.losses.register_loss` registered. `fastsvm.save` refuses models with it.
    power_t : float, default=0.25
        Exponent of "invscaling".

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
        random_state: int | np.random.RandomState | None = None,
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

    @documented_by(GradientDescent)
    @drafted
    @one_threaded_blas
    def partial_fit(self, X: Samples, y: Column = None, sample_weight: Column = None) -> "SGDRegressor":
        """Run one more epoch, on these samples.

        The average and the learning rate continue. The rate "auto" is that of the first samples, and assumes epochs of
        at least 1,000 steps. There is no test of convergence, no validation set, and callbacks are not called.
        """
        self._check_parameters()
        first = not hasattr(self, "coef_")
        data = check_training_set(self, X, y, sample_weight, of_classes=False, reset=first)
        self._partial_fit(*self._task(data, again=not first))
        return self

    def _task(self, data: TrainingSet, again: bool = False) -> tuple[Task, Attributes]:
        source, total = self._scaled(data.source, data.weight, again), float(data.weight.sum())
        return Task(source, np.ascontiguousarray(data.y), data.weight, total, np.ones(1), of_classes=False), {}
