"""What dual ascent for a linear model is to learn."""

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from fastsvm.losses import Demands, Loss
from fastsvm.sources import DenseBlock, Source, Window, check_finite

__all__ = ["OVERFLOW", "LinearProblem", "explain"]

OVERFLOW = (
    "Products of the rows overflow: their values are too large. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler or standardize=True."
)
"""What an error says of weights that are not finite."""


class LinearProblem(NamedTuple):
    """What is to be learnt.

    Attributes
    ----------
    source : Source
        Rows as stored; those that are resident are a `MemorySource`.
    shift, scale : ndarray of float64, shape (n_features,)
        A value x is taken for (x - shift) scale; empty if for itself. Sparse rows are scaled by their source.
    loss : Loss
        Of a row.
    demands : Demands
        Targets and costs of rows.
    constant : float
        Value of the constant feature; 0 for no intercept.
    """

    source: Source
    shift: np.ndarray
    scale: np.ndarray
    loss: Loss
    demands: Demands
    constant: float

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return len(self.demands.balance)

    def by_problem(self, of_scores: np.ndarray) -> np.ndarray:
        """Return sums over the scores of each problem: one for a loss of all classes, otherwise one a score."""
        return of_scores.sum(keepdims=True) if self.loss.of_classes else of_scores

    def dense(self, block: DenseBlock, width: int) -> np.ndarray:
        """Return rows as they are multiplied with `width` weights, in float64."""
        rows = block.dense(np.float64)
        found = np.zeros((len(rows), width))
        found[:, : rows.shape[1]] = (rows - self.shift) * self.scale if self.scale.size else rows
        found[:, -1] = self.constant
        return found

    def windows_in_memory(self, size: int) -> Generator[Window, None, None]:
        """Yield all rows, which are in memory, in windows of at most `size`."""
        source, every = self.source, np.arange(len(self.source))
        for start in range(0, len(source), size):
            rows = every[start : start + size]
            yield Window(source.block, rows, rows)


def explain(window: Window) -> None:
    """Raise the error that says why what was computed from the rows of a window is not finite."""
    for place, row in zip(window.places, window.rows, strict=True):
        check_finite(window.block.slice(place, place + 1), row)
    raise ValueError(OVERFLOW)
