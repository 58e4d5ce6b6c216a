"""Linear regression by mini-batch stochastic gradient descent."""

from dataclasses import KW_ONLY

import numpy as np

from fastsvm._compiled.threads import one_threaded_blas
from fastsvm.estimators.fitting.documentation import Learning, documented, documented_by, parametrised
from fastsvm.estimators.fitting.session import drafted
from fastsvm.estimators.fitting.validation import Attributes, Column, Rule, Samples, TrainingSet, check_training_set
from fastsvm.estimators.linear.base_sgd import BaseSGD
from fastsvm.estimators.linear.prediction import LinearRegressor
from fastsvm.estimators.linear.training_task import Task, loss_rule


@documented
@parametrised
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

    loss: str = "squared_error"
    _: KW_ONLY
    power_t: float = 0.25

    def _own_rules(self) -> dict[str, Rule]:
        return {"loss": loss_rule("numbers")}

    @documented_by(Learning)
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
