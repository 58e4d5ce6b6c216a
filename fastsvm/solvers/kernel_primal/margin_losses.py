"""The hinge and the squared hinge as functions of z = y f(x), for arrays of margins."""

from typing import NamedTuple

import numpy as np

__all__ = ["MarginLoss"]


class MarginLoss(NamedTuple):
    """max(0, 1 − z), or its square."""

    squared: bool

    def value(self, margins: np.ndarray) -> np.ndarray:
        """Return the losses."""
        excess = np.maximum(0, 1 - margins)
        return excess * excess if self.squared else excess

    def fall(self, margins: np.ndarray) -> np.ndarray:
        """Return minus the derivatives. At the corner of the hinge it is 0."""
        return 2 * np.maximum(0, 1 - margins) if self.squared else (margins < 1).astype(float)
