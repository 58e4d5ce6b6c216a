"""Which linear model is asked for, and with which objective? Imports nothing but the standard library."""

from dataclasses import dataclass, replace
from typing import NamedTuple

__all__ = ["Factors", "LinearParameters"]


class Factors(NamedTuple):
    """What the parts of an objective are multiplied by: the sum of the losses, ½ ‖W‖² and ½ ‖b‖²."""

    losses: float
    weights: float
    offsets: float


@dataclass(frozen=True)
class LinearParameters:
    """What every competitor is told about the linear model to fit: loss and penalty, and how long.

    Attributes
    ----------
    loss : str
        A loss of `linear_referee`; those of labels ±1 are used one against the rest.
    alpha : float
        Factor of ½ ‖W‖² in the objective, beside the mean loss; offsets are free.
    C : float or None
        Factor of the sum of the losses beside ½ ‖(W, b)‖²: offsets are then penalised, as the weights of a constant
        feature are, and `alpha` follows from `of_rows`.
    budget : float
        After how many passes over the rows a fit ends, none before; a tolerance for those who count none.
    chosen : float, str or None
        Learning rate, or rule for it, of those for whom one is chosen.
    """

    loss: str
    alpha: float = 0.0
    C: float | None = None
    budget: float = 1
    chosen: float | str | None = None

    def of_rows(self, n_rows: int) -> "LinearParameters":
        """Return the same with the `alpha` that belongs to C."""
        return self if self.C is None else replace(self, alpha=1 / (self.C * n_rows))

    def factors(self, n_rows: int) -> Factors:
        """Return what the objective consists of."""
        return Factors(1 / n_rows, self.alpha, 0.0) if self.C is None else Factors(self.C, 1.0, 1.0)
