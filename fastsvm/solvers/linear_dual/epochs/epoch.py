"""The interface of epochs of dual coordinate ascent, and their state."""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.sources import Block

__all__ = ["PART_BYTES", "EpochState", "Epochs", "Layout", "Shrinking", "class_bounds", "weight_left"]

PART_BYTES = 1 << 22
"""Largest size of a part of a window. It stays in the processor's cache."""

_NEVER = np.iinfo(np.int32).max

BlockKind = TypeVar("BlockKind", bound=Block)


@storable("linear dual shrinking")
class Shrinking(NamedTuple):
    """Shrinking: a row whose variables did not change is skipped once, then two and four times and so on.

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

    def update(self, rows: np.ndarray, moved: np.ndarray, turn: int, longest_pause: int) -> None:
        """Skip processed rows that did not change for twice as many passes as before; reset the others."""
        pause = np.where(moved, 0, np.clip(2 * self.pause[rows], 1, longest_pause)).astype(np.uint8)
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


class Layout(NamedTuple):
    """Sizes of blocks of dense rows and of the cache of their Gram matrices, and how long rows are skipped."""

    block_rows: int  # A block has at most so many rows.
    kept_blocks: int  # The Gram matrices of so many blocks are cached.
    n_sweeps: int  # There are at most so many sweeps over a block before the weights change.
    longest_pause: int  # A row whose variables do not change is skipped for at most so many passes.
    # So many bytes of converted rows, or of Gram matrices that are not cached, are prepared together. Few parts are
    # there at once.
    part_bytes: int = PART_BYTES


class Epochs(ABC, Generic[BlockKind]):
    """Runs epochs of coordinate updates, on windows of rows of a problem.

    The dual variables, shape (n, n_scores), are modified. If `consecutive`, windows must be runs of consecutive rows,
    in order.
    """

    consecutive: bool

    def __init__(self, problem: LinearProblem, dual: np.ndarray, layout: Layout, pool: Pool) -> None:
        self.layout, self.constant = layout, problem.constant
        self.take(problem, dual, pool)

    def take(self, problem: LinearProblem, dual: np.ndarray, pool: Pool) -> None:
        """Go on with other dual variables, perhaps of other scores of the same rows."""
        self.loss, self.demands, self.dual, self.pool = problem.loss, problem.demands, dual, pool
        self.n_scores = dual.shape[1]

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
