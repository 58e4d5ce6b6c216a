"""The interface of epochs of dual coordinate ascent, and their state."""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.losses import Demands, Loss
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.sources import Block

__all__ = ["EpochState", "Epochs", "Shrinking", "class_bounds", "weight_left"]

_LONGEST_PAUSE = 8  # passes
_NEVER = np.iinfo(np.int32).max

BlockKind = TypeVar("BlockKind", bound=Block)


@storable("linear dual shrinking")
class Shrinking(NamedTuple):
    """Shrinking: a row whose variables did not change is skipped once, then two, four and eight times.

    All rows become active when the problem changes. Unlike liblinear's shrinking, this needs no bounds on the gradient.
    `due` is the pass in which each row is processed next, `_NEVER` for rows of cost 0. `pause` is the number of passes
    for which the row was last skipped.
    """

    due: np.ndarray
    pause: np.ndarray

    @classmethod
    def of(cls, costs: np.ndarray) -> "Shrinking":
        """Return the state in which all rows of positive cost are active."""
        return cls(np.where(costs > 0, 0, _NEVER).astype(np.int32), np.zeros(len(costs), np.uint8))

    def activate_all(self) -> None:
        """Make all rows of positive cost active."""
        self.due[self.due != _NEVER] = 0
        self.pause[:] = 0

    def is_active(self, rows: np.ndarray, turn: int) -> np.ndarray:
        """Return which of some rows are processed in the pass `turn`."""
        return self.due[rows] <= turn

    def update(self, rows: np.ndarray, moved: np.ndarray, turn: int) -> None:
        """Skip processed rows that did not change for twice as many passes as before; reset the others."""
        pause = np.where(moved, 0, np.clip(2 * self.pause[rows], 1, _LONGEST_PAUSE)).astype(np.uint8)
        self.pause[rows] = pause
        self.due[rows] = pause.astype(np.int32) + (turn + 1)


@storable("linear dual epoch")
class EpochState(NamedTuple):
    """Weights within an epoch; arrays are modified in place.

    `gaps` is of the scores. The other arrays have the shape (n_scores, n_weights): weights of the features, zero
    padding, and the weight of the constant feature.
    """

    weights: np.ndarray
    mean: np.ndarray  # It is the weighted mean of the weights over the epoch, if they did not change until its end.
    position: np.ndarray  # It is Σ β_i x_i; for sparse rows, its value at the beginning of the epoch.
    anchor_term: np.ndarray  # It is M V, so that (I + M) W = Σ β_i x_i + M V.
    gaps: np.ndarray  # The duality gaps of the rows before their updates are summed.
    metric: Metric  # It is M of the proximal term.
    shrinking: Shrinking
    turn: int  # So many passes over the rows came before this one.
    seen: float = 0.0  # So many rows were processed in this epoch.
    row_share: float = 1.0  # One pass counts for this share of a row.


class Epochs(ABC, Generic[BlockKind]):
    """Runs epochs of coordinate updates, on windows of rows.

    The dual variables, shape (n, n_scores), are modified. `values_of_row` is the mean number of stored values of a row,
    and `constant` the value of the constant feature, 0 if there is none. If `consecutive`, windows must be runs of
    consecutive rows, in order.
    """

    consecutive: bool

    def __init__(
        self, loss: Loss, demands: Demands, dual: np.ndarray, values_of_row: float, constant: float, pool: Pool
    ) -> None:
        self.loss, self.demands, self.dual, self.constant, self.pool = loss, demands, dual, constant, pool
        self.n_scores = dual.shape[1]
        self.values_of_row = values_of_row

    @abstractmethod
    def begin(self, path: EpochState) -> None:
        """Start from the weights of an epoch state, at the beginning of an epoch or within one."""

    @abstractmethod
    def end(self, path: EpochState) -> None:
        """Update Σ β_i x_i in the epoch state, at the end of an epoch."""

    @abstractmethod
    def process(
        self, block: BlockKind, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]
    ) -> None:
        """Update the variables of some rows of a block."""


def class_bounds(k: int, n_parts: int) -> list[tuple[int, int]]:
    """Return the bounds of at most `n_parts` nearly equal parts of `k` scores."""
    return list(pairwise(np.linspace(0, k, min(k, n_parts) + 1).astype(int).tolist()))


def weight_left(done: np.ndarray) -> np.ndarray:
    """Return the factor of a change of the weights in their mean, when the share `done` of the epoch is over.

    The mean weights iterates in proportion to their time in the epoch (Lacoste-Julien, Schmidt and Bach 2012, A simpler
    approach to obtaining an O(1/t) convergence rate for the projected stochastic subgradient method).
    """
    return 1.0 - done**2
