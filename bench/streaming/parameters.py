"""One problem in two scales: pixels from 0 to 1, or the bytes that are stored.

With z = x / 255 and weights v of pixels, the weights of bytes are w = v / 255, and

    ½ ‖v‖² + ½ b² + C Σ loss(v·z + b)  =  255² (½ ‖w‖² + ½ (b / 255)² + C / 255² Σ loss(w·x + b)).

A fit to bytes with C / 255² and the constant feature 255 solves the same problem. All objectives are those of pixels.
"""

from dataclasses import dataclass
from typing import Any

from bench.linear.parameters import Factors

__all__ = ["LEVELS", "StreamingParameters"]

LEVELS = 255
"""Divisor that makes a byte a pixel from 0 to 1."""


@dataclass(frozen=True)
class StreamingParameters:
    """Linear SVM with the hinge, one against the rest, of pixels from 0 to 1, and the file it is fitted to.

    Attributes
    ----------
    C : float
        For pixels.
    rows, chunk_rows : int
        Samples in the file, and in a chunk of it.
    memory : str
        Memory budget of the fit.
    limit_s : float
        Most seconds of the fit and of the loop.
    rows_at_once : int
        Samples that the loop reads at once.
    loss : str
        Loss of the fit and of the loop.
    tol, max_iter : numbers
        Relative duality gap at which the fit stops, and its most epochs.
    """

    C: float
    rows: int
    chunk_rows: int
    memory: str
    limit_s: float
    rows_at_once: int
    loss: str = "hinge"
    tol: float = 1e-3
    max_iter: int = 100

    @property
    def of_bytes(self) -> dict[str, Any]:
        """The parameters of LinearSVC for bytes."""
        return {"loss": self.loss, "C": self.C / LEVELS**2, "intercept_scaling": LEVELS}

    def alpha(self, n_rows: int) -> float:
        """Return the factor of ½ ‖v‖² beside the mean loss."""
        return 1 / (self.C * n_rows)

    def factors(self, n_rows: int) -> Factors:
        """Return the factors of the objective of pixels, for weights of bytes."""
        return Factors(self.C, LEVELS**2, 1.0)
