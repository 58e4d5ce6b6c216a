"""Support vector regression with kernels."""

from typing import Any, ClassVar

from fastsvm.estimators.fitting.documentation import documented
from fastsvm.estimators.fitting.parameters import Rule, number, one_of
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_regressor import KernelRegressor
from fastsvm.estimators.kernel.statements import Statement, state_targets

__all__ = ["SVR"]


@documented
class SVR(KernelRegressor):
    """Epsilon-support vector regression, exact, from memory or from an HDF5 file.

    Minimises ½ ‖w‖² + C Σ max(0, |y - f(x)| - epsilon). Names, defaults and attributes are those of `sklearn.svm.SVR`.
    The fit ends with a certificate of how far from the optimum it is.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half width of the tube: distance from the target up to which a prediction costs nothing.
    solver : {"smo", "coordinate"}, default="smo"
        "smo" solves the dual problem, two multipliers at a time. "coordinate" solves the dual problem without an
        intercept, one multiplier at a time, until the duality gap is within `tol` of the objective too, and
        `intercept_` is 0.

    Attributes
    ----------
    objective_ : float
        Dual objective Σ y (α - α*) - ε Σ (α + α*) - ½ (α - α*)ᵀK(α - α*).

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

    def _state(self, data: TrainingSet) -> Statement:
        return state_targets(data, float(self.C) * data.weight, float(self.epsilon))
