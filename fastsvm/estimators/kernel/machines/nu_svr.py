"""Nu-support vector regression with kernels."""

from typing import Any

import numpy as np

from fastsvm.estimators.fitting.documentation import documented
from fastsvm.estimators.fitting.parameters import NU, Rule, number
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_regressor import KernelRegressor
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.estimators.kernel.statements import Statement, state_targets

__all__ = ["NuSVR"]


@documented
class NuSVR(KernelRegressor):
    """Nu-support vector regression, exact, from memory or from an HDF5 file.

    As `SVR`, but `nu` stands in for the half width ε of the tube, which is part of the solution: minimises
    ½ ‖w‖² + C (ν n ε + Σ max(0, |y - f(x)| - ε)). Names, defaults and attributes are those of `sklearn.svm.NuSVR`.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the samples is outside of the tube, and at least this share are support vectors; above 0
        and at most 1.

    Attributes
    ----------
    epsilon_ : float
        Half width ε of the tube.
    objective_ : float
        Dual objective Σ y (α - α*) - ½ (α - α*)ᵀK(α - α*).

    References
    ----------
    Schölkopf, Smola, Williamson and Bartlett (2000), New support vector algorithms, Neural Computation 12. Chang and
    Lin (2002), Training ν-support vector regression, Neural Computation 14.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import NuSVR
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = NuSVR(nu=0.2, C=10).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    follows = ("nu", "C")

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: str | Any = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
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
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
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
        return {"nu": NU, "C": number(above=0)}

    def _state(self, data: TrainingSet) -> Statement:
        upper = float(self.C) * data.weight
        return state_targets(data, upper, 0.0, total=self.nu * float(upper.sum()) / 2)

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> dict[str, Any]:
        # Rounding may lead to less than 0 where nu is near 1. The primal objective is no higher at 0 then: by each unit
        # of epsilon below 0, losses rise by the sum of all C, and the term of epsilon falls by nu times that.
        return super()._expansion(outcome, classes) | {"epsilon_": max(0.0, -float(outcome.margin[0]))}
