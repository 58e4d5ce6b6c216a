"""Which linear model, with which objective? Imports nothing but the standard library."""

from dataclasses import dataclass, replace
from typing import NamedTuple

__all__ = ["Factors", "LinearParameters"]


class Factors(NamedTuple):
    """Factors of the parts of an objective: the sum of the losses, the penalties of W and of b, and the sum of b.

    The `penalty` is ½ ‖·‖² ("l2") or ‖·‖₁ ("l1").
    """

    losses: float
    weights: float
    intercepts: float
    offsets: float = 0.0
    penalty: str = "l2"


@dataclass(frozen=True)
class LinearParameters:
    """The linear model that every competitor is asked to fit: loss, penalty and budget.

    Attributes
    ----------
    loss : str
        A loss of `linear.referee`. Losses of labels ±1 are used one against the rest. "outlier" is that of the machine
        of one class, whose targets are 0.
    alpha : float
        Factor of ½ ‖W‖² in the objective, beside the mean loss. Intercepts are not penalised.
    C : float or None
        Factor of the sum of the losses beside ½ ‖(W, b)‖². Intercepts are then penalised, as the weights of a constant
        feature are, and `of_rows` sets `alpha`.
    budget : float
        Number of epochs; a tolerance for competitors that do not count epochs.
    chosen : float, str or None
        Learning rate, or rule for it, of competitors for which one is chosen.
    most_budget : float or None
        Upper bound of the budgets of a curve; None for all that a competitor has.
    penalty : {"l2", "l1"}
        ½ ‖(W, b)‖² or ‖(W, b)‖₁, beside C.
    nu : float or None
        For the machine of one class: the largest share of the samples that are outliers.
    """

    loss: str
    alpha: float = 0.0
    C: float | None = None
    budget: float = 1
    chosen: float | str | None = None
    most_budget: float | None = None
    penalty: str = "l2"
    nu: float | None = None

    def of_rows(self, n_rows: int) -> "LinearParameters":
        """Return the same parameters with the `alpha` that corresponds to C."""
        return self if self.C is None else replace(self, alpha=1 / (self.C * n_rows))

    def factors(self, n_rows: int) -> Factors:
        """Return the factors of the objective."""
        if self.nu is not None:
            return Factors(1.0, 1.0, 0.0, self.nu * n_rows)
        return Factors(1 / n_rows, self.alpha, 0.0) if self.C is None else Factors(self.C, 1.0, 1.0, 0.0, self.penalty)
