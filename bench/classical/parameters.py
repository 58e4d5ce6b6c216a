"""Which two-class problem, and which methods are compared on it?"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.kernel.exact_kernel import ExactKernel

__all__ = ["ClassicalParameters"]


@dataclass(frozen=True)
class ClassicalParameters:
    """A two-class problem with labels -1 and 1.

    Attributes
    ----------
    group : str
        Methods that are compared: "coordinate", "dual loop", "primal loop" or "squared".
    C, gamma, kernel, degree, coef0 : numbers and str
        As in scikit-learn.
    rates : tuple of float
        Learning rates to try for the loops of tutorials.
    long_loop : bool
        Whether the dual loop also runs for many more epochs.
    rate : float or None
        Best of `rates`, chosen outside the clock.
    tol : float
        Tolerance of the exact steps, chosen outside the clock.
    """

    group: str
    C: float = 1.0
    gamma: float = 1.0
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    rates: tuple[float, ...] = ()
    long_loop: bool = False
    rate: float | None = None
    tol: float = 1e-3

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared hinge."""
        return self.group == "squared"

    @property
    def primal(self) -> bool:
        """Whether the primal objective is shown, not the dual one."""
        return self.group not in ("coordinate", "dual loop")

    @property
    def estimator(self) -> dict[str, Any]:
        """The parameters of the problem by scikit-learn's names."""
        return {name: getattr(self, name) for name in ("C", "kernel", "gamma", "degree", "coef0")}

    def exact_kernel(self, X: Any) -> ExactKernel:
        return ExactKernel(X, self.kernel, self.gamma, self.degree, self.coef0)

    def matrix(self, X: Any) -> np.ndarray:
        """Return the kernel matrix; for the squared hinge that of its dual problem, K + I / 2C."""
        exact = self.exact_kernel(X)
        rows = exact.rows(np.arange(X.shape[0]), exact.centre())
        K = exact.between(rows, rows)
        if self.squared:
            K[np.diag_indices_from(K)] += 1 / (2 * self.C)
        return K
