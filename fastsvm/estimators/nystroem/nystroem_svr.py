"""Support vector regression with landmarks."""

import numpy as np

from fastsvm.estimators.fitting.documentation import documented
from fastsvm.estimators.fitting.validation import Rule, keep, number, one_of
from fastsvm.estimators.kernel.kernel_parameter import KernelLike
from fastsvm.estimators.kernel.machines.regressors import SVR
from fastsvm.estimators.linear.base_linear_svm import BaseLinearRegressor
from fastsvm.estimators.nystroem.nystroem_machine import NystroemMachine


@documented
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

    _exact_kind = SVR

    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: KernelLike = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        n_components: int | str = "auto",
        landmarks: str | np.ndarray = "uniform",
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
        bounds: bool = False,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        keep(self, locals())

    def _own_rules(self) -> dict[str, Rule]:
        losses = {"loss": one_of("epsilon_insensitive", "squared_epsilon_insensitive")}
        return super()._own_rules() | losses | {"epsilon": number(least=0)}
