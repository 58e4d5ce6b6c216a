"""The problem of a linear machine, as dual coordinate ascent solves it."""

from collections.abc import Generator
from typing import NamedTuple, cast

import numpy as np

from fastsvm.losses import Demands, Loss
from fastsvm.sources import Block, CSRBlock, DenseBlock, MemorySource, Source, Window, check_finite

__all__ = ["OVERFLOW", "LinearProblem", "explain"]

OVERFLOW = (
    "Products of the rows overflow: their values are too large. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler or standardize=True. Or lower C, the sample weights or the targets, if these "
    "are as large."
)
"""Message of the error that weights are not finite."""


class LinearProblem(NamedTuple):
    """Rows, loss, targets and costs of a linear machine.

    Rows are as stored; a resident source is a `MemorySource`. Values x are mapped to (x - shift) scale, unless both are
    empty. Sparse rows are scaled by their source. `constant` is the value of the constant feature; 0 for no intercept.

    `total` is the sum of the dual variables of the one score, or None. The weight b of the constant feature is then not
    penalised, and `total` constant b is added to the objective.
    """

    source: Source
    shift: np.ndarray
    scale: np.ndarray
    loss: Loss
    demands: Demands
    constant: float
    total: float | None = None

    @property
    def block(self) -> Block:
        """All rows, of a source in memory."""
        return cast(MemorySource, self.source).block

    @property
    def n_scores(self) -> int:
        """Number of scores."""
        return len(self.demands.balance)

    def by_problem(self, of_scores: np.ndarray) -> np.ndarray:
        """Return sums over the scores of each problem: one for a loss of all classes, otherwise one a score."""
        return of_scores.sum(keepdims=True) if self.loss.of_classes else of_scores

    def penalty(self, weights: np.ndarray) -> np.ndarray:
        """Return the objective less the losses, for each problem."""
        if self.total is None:
            return self.by_problem(0.5 * np.einsum("cj,cj->c", weights, weights))
        inner = weights[:, :-1]
        return 0.5 * np.einsum("cj,cj->c", inner, inner) + self.total * self.constant * weights[:, -1]

    def dense(self, block: Block, width: int) -> np.ndarray:
        """Return the mapped rows in float64, padded to `width` columns with the constant feature last."""
        rows = block.dense(np.float64)
        found = np.zeros((len(rows), width))
        found[:, : rows.shape[1]] = (rows - self.shift) * self.scale if self.scale.size else rows
        found[:, -1] = self.constant
        return found

    def with_constant(self) -> Block:
        """Return all rows, of a source in memory, in float64 as they are stored, with the constant feature last."""
        block, width = self.block, self.source.shape[1] + 1
        if not isinstance(block, CSRBlock):
            return DenseBlock(self.dense(block, width))
        n, ends = len(block.indptr) - 1, block.indptr[1:]
        data = np.insert(block.data.astype(np.float64, copy=False), ends, self.constant)
        indices = np.insert(block.indices, ends, width - 1)
        return CSRBlock(data, indices, block.indptr + np.arange(n + 1), width).compressed(np.float64)

    def windows_in_memory(self, size: int) -> Generator[Window, None, None]:
        """Yield all rows of a source in memory, in windows of at most `size` rows."""
        source, every = self.source, np.arange(len(self.source))
        for start in range(0, len(source), size):
            rows = every[start : start + size]
            yield Window(self.block, rows, rows)


def explain(window: Window) -> None:
    """Raise the error for a result that is not finite: a bad value of a row of the window, or overflow."""
    for place, row in zip(window.places, window.rows, strict=True):
        check_finite(window.block.slice(place, place + 1), row)
    raise ValueError(OVERFLOW)
