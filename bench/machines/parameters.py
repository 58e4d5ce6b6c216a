"""Which kernel machine? Imports nothing but the standard library."""

from dataclasses import dataclass
from typing import Any

__all__ = ["MachineParameters"]

_OWN = {"svr": ("C", "epsilon"), "nu-svr": ("C", "nu"), "nu-svc": ("nu",), "one-class": ("nu",)}


@dataclass(frozen=True)
class MachineParameters:
    """The machine with an RBF kernel that every competitor is asked to fit.

    Attributes
    ----------
    machine : {"svr", "nu-svr", "nu-svc", "one-class"}
        Which problem.
    gamma, C, epsilon, nu, tol : float
        As in scikit-learn. A machine takes those that it has.
    """

    machine: str
    gamma: float
    C: float = 1.0
    epsilon: float = 0.1
    nu: float = 0.5
    tol: float = 1e-3

    @property
    def own(self) -> dict[str, float]:
        """What this machine has and others have not."""
        return {name: getattr(self, name) for name in _OWN[self.machine]}

    @property
    def estimator(self) -> dict[str, Any]:
        """The parameters of an estimator."""
        return {"gamma": self.gamma, "tol": self.tol, **self.own}
