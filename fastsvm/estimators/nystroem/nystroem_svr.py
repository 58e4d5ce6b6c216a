"""Support vector regression with landmarks."""

from dataclasses import KW_ONLY

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.validation import Rule, one_of
from fastsvm.estimators.kernel.machines.regressors import SVR
from fastsvm.estimators.linear.base_linear_svm import BaseLinearRegressor
from fastsvm.estimators.nystroem.nystroem_machine import NystroemMachine


@documented
@parametrised
class NystroemSVR(NystroemMachine, BaseLinearRegressor):
    """Kernel support vector regression of millions of samples, with landmarks and bounds of what they cost.

    As `NystroemSVC`, for numbers.

    Parameters
    ----------
    epsilon : float, default=0.1
        Distance from the target up to which there is no loss.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        max(0, |f - y| - epsilon), or its square.

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

    _: KW_ONLY
    C: float = 1.0
    epsilon: float = 0.1
    loss: str = "epsilon_insensitive"
    scratch_folder: str | None = None
    refine: str | None = None
    bounds: bool = False

    def _exact_machine(self, memory: int, seconds: float) -> SVR:
        return SVR(**self._kernel_parameters(memory, seconds), epsilon=self.epsilon)

    def _own_rules(self) -> dict[str, Rule]:
        losses = {"loss": one_of("epsilon_insensitive", "squared_epsilon_insensitive")}
        return super()._own_rules() | losses
