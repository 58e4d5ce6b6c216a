"""The problem that all are asked to solve, and the budgets of each."""

from dataclasses import dataclass

__all__ = ["JUDGED", "MillionsParameters"]

JUDGED = 2_000
"""The most samples of which bounds of the optimum are asked for, and judged."""


@dataclass(frozen=True)
class MillionsParameters:
    """A kernel machine of the RBF kernel with the hinge, one against the rest, and the file it is fitted to.

    Attributes
    ----------
    C, gamma : float
        For the samples as they are in the file.
    landmarks : tuple of int
        Numbers of landmarks, or of random features.
    subsamples : tuple of int
        Numbers of samples of exact fits.
    trees : tuple of int
        Iterations of gradient boosting.
    tol : float
        Relative duality gap, or violation, at which fits stop.
    memory : str
        Memory budget of our fits.
    """

    C: float
    gamma: float
    landmarks: tuple[int, ...] = (256, 512, 1024, 2048)
    subsamples: tuple[int, ...] = (10_000, 20_000, 40_000, 80_000, 160_000, 320_000)
    trees: tuple[int, ...] = (100, 300)
    tol: float = 1e-3
    memory: str = "2GB"
