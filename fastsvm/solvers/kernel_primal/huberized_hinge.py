"""Margin losses for the primal solvers: functions of z = y f(x) whose derivative is a clipped linear function.

    ℓ(z) = ∫ from z to ∞ of curvature · clip(start − t, 0, width) dt

The squared hinge max(0, 1 − z)² has start 1, curvature 2 and infinite width. The huberized hinge (Chapelle 2007)
replaces the corner of the hinge max(0, 1 − z) by a parabola between 1 − h and 1 + h. It differs from the hinge by at
most h / 4.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["MarginLoss", "huberized_hinge", "squared_hinge"]


class MarginLoss(NamedTuple):
    """A loss whose derivative is a clipped linear function.

    Attributes
    ----------
    start : float
        Margin below which the loss is positive.
    curvature : float
        Second derivative on the curved part.
    width : float
        Length of the curved part. Below `start - width` the derivative is constant.
    """

    start: float
    curvature: float
    width: float

    def excess(self, margins: np.ndarray) -> np.ndarray:
        """Return clip(start − z, 0, width). The derivative is −curvature times this."""
        return np.clip(self.start - margins, 0, self.width)

    def value(self, margins: np.ndarray) -> np.ndarray:
        """Return the losses."""
        excess = self.excess(margins)
        beyond = np.maximum(0, self.start - margins) - excess
        return self.curvature * excess * (excess / 2 + beyond)

    def is_curved(self, margins: np.ndarray) -> np.ndarray:
        """Return a mask of the margins at which the second derivative is positive."""
        excess = self.start - margins
        return (excess > 0) & (excess <= self.width)


squared_hinge = MarginLoss(1.0, 2.0, np.inf)


def huberized_hinge(h: float) -> MarginLoss:
    """Return the hinge smoothed between 1 − h and 1 + h, for h > 0.

    For h below the rounding error of 1 it equals the hinge. If h is a power of two, curvature times width is exactly 1.
    """
    return MarginLoss(1.0 + h, 1 / (2 * h), 2 * h)
