"""One problem in two scales: pixels from 0 to 1, or the bytes that are stored.

With z = x / 255 and weights v of pixels, those of bytes are w = v / 255, and

    ½ ‖v‖² + ½ b² + C Σ loss(v·z + b)  =  255² (½ ‖w‖² + ½ (b / 255)² + C / 255² Σ loss(w·x + b)).

Who learns from bytes with C / 255² and the constant feature 255 solves the same problem, of which the objective is
counted for pixels throughout.
"""

from typing import NamedTuple

from bench.linear_parameters import Factors

__all__ = ["LEVELS", "Pixels"]

LEVELS = 255
"""What a byte is divided by to be a pixel from 0 to 1."""


class Pixels(NamedTuple):
    """Linear SVMs with the hinge, one class against the rest, of pixels from 0 to 1."""

    C: float
    loss: str = "hinge"

    @property
    def C_of_bytes(self) -> float:
        return self.C / LEVELS**2

    def alpha(self, n_rows: int) -> float:
        """Return the factor of ½ ‖v‖² beside the mean loss."""
        return 1 / (self.C * n_rows)

    def factors(self, n_rows: int) -> Factors:
        """Return what the objective of pixels consists of, given the weights of bytes."""
        return Factors(self.C, LEVELS**2, 1.0)
