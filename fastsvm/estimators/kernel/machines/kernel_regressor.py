"""What regressors with kernels have in common."""

from fastsvm.estimators.fitting.predictions import Regressor
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine

__all__ = ["KernelRegressor"]


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
