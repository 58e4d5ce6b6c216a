"""Losses of the margin z = y f(x) whose slope is a clipped line, as the solvers of the primal problem need them.

    ℓ(z) = ∫ from z to ∞ of curvature · clip(start − t, 0, width) dt

The squared hinge max(0, 1 − z)² starts at 1, has curvature 2 and no end of its width. The bent hinge has a bend from
1 + h to 1 − h where the hinge max(0, 1 − z) has a corner (the Huber loss of Chapelle 2007); it is within h / 4 of the
hinge, and tends to it with h.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["MarginLoss", "huberized_hinge", "squared_hinge"]


class MarginLoss(NamedTuple):
    """A loss whose slope is a clipped line.

    Attributes
    ----------
    start : float
        Margin below which there is a loss.
    curvature : float
        How fast its slope grows from there.
    width : float
        How far, before the slope is constant.
    """

    start: float
    curvature: float
    width: float

    def excess(self, margins: np.ndarray) -> np.ndarray:
        """Return clip(start − z, 0, width), in proportion to which the loss falls with the margin."""
        return np.clip(self.start - margins, 0, self.width)

    def value(self, margins: np.ndarray) -> np.ndarray:
        """Return the losses."""
        excess = self.excess(margins)
        beyond = np.maximum(0, self.start - margins) - excess
        return self.curvature * excess * (excess / 2 + beyond)

    def is_curved(self, margins: np.ndarray) -> np.ndarray:
        """Return for which margins the loss is curved."""
        excess = self.start - margins
        return (excess > 0) & (excess <= self.width)


squared_hinge = MarginLoss(1.0, 2.0, np.inf)


def huberized_hinge(h: float) -> MarginLoss:
    """Return the hinge with a bend from 1 + h to 1 − h, h > 0; for a tiny h it cannot be told from the hinge.

    If h is a power of two, curvature times width is 1 without rounding.
    """
    return MarginLoss(1.0 + h, 1 / (2 * h), 2 * h)
