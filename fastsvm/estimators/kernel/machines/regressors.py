"""Support vector regression with kernels: SVR and NuSVR, whose samples have two multipliers each."""

from dataclasses import KW_ONLY
from typing import ClassVar

import numpy as np

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.predictions import Regressor
from fastsvm.estimators.fitting.validation import Attributes, Rule, TrainingSet, one_of
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.estimators.kernel.prepare import Statement
from fastsvm.solvers.kernel_dual.problem import Problems


class KernelRegressor(Regressor, KernelMachine):
    """Regression by one decision function, whose coefficients are differences of multipliers.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a deviation beyond the tube.

    Attributes
    ----------
    dual_coef_ : ndarray or CSR matrix of float64, shape (1, n_SV)
        Coefficients of the support vectors: the difference of their two multipliers, α - α*.
    """

    def _of_targets(self, data: TrainingSet, epsilon: float, nu: float) -> Statement:
        """Return the problem with a tube of half width `epsilon`, or with the totals of a ν above 0."""
        upper = float(self.C) * data.weight
        total = nu * float(upper.sum()) / 2

        def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
            rows = (labels == 0).nonzero()[0]
            ones, bound, target = np.ones(len(rows)), upper[rows], data.y[rows]
            pairs = (ones, -ones), (bound, bound), (target - epsilon, target + epsilon)
            y, bounds, targets = (np.concatenate(pair) for pair in pairs)
            return Problems.only(rows, y, bounds, targets, total, 2 if nu > 0 else 1)

        labels = np.where(upper > 0, 0, -1)

        def kinds() -> np.ndarray | None:
            targets, numbers = np.unique(data.y, return_inverse=True)
            return np.where(labels == 0, numbers, -1) if len(targets) < len(labels) else None

        return Statement(np.empty(0), labels, upper, problems, {}, kinds)


@documented
@parametrised
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

    _: KW_ONLY
    C: float = 1.0
    epsilon: float = 0.1
    solver: str = "smo"

    def _own_rules(self) -> dict[str, Rule]:
        return {"solver": one_of("smo", "coordinate")}

    def _state(self, data: TrainingSet) -> Statement:
        return self._of_targets(data, float(self.epsilon), 0.0)


@documented
@parametrised
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

    _: KW_ONLY
    nu: float = 0.5
    C: float = 1.0

    def _state(self, data: TrainingSet) -> Statement:
        return self._of_targets(data, 0.0, self.nu)

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> Attributes:
        # Rounding may lead to less than 0 where nu is near 1. The primal objective is no higher at 0 then: by each unit
        # of epsilon below 0, losses rise by the sum of all C, and the term of epsilon falls by nu times that.
        return super()._expansion(outcome, classes) | {"epsilon_": max(0.0, -float(outcome.margin[0]))}
