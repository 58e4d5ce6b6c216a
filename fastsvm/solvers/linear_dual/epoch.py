"""What visits to rows have in common, be it one by one or in blocks."""

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.losses import Demands, Loss
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.sources import Block

__all__ = ["EpochState", "Shrinking", "Visits", "class_bounds", "weight_left"]

_LONGEST_REST = 8  # turns
_NEVER = np.iinfo(np.int32).max


@storable("linear dual shrinking")
class Shrinking(NamedTuple):
    """Which rows rest: one whose variables did not move is left out once, then two, four and eight times.

    All are woken when the problem changes. This is shrinking that needs no bounds to be known.

    Attributes
    ----------
    due : ndarray of int32, shape (n,)
        The turn in which each row is visited next; `_NEVER` for those that are not learnt from.
    pause : ndarray of uint8, shape (n,)
        How many turns it was left out last.
    """

    due: np.ndarray
    pause: np.ndarray

    @classmethod
    def of(cls, costs: np.ndarray) -> "Shrinking":
        """Return that all rows that cost something are awake."""
        return cls(np.where(costs > 0, 0, _NEVER).astype(np.int32), np.zeros(len(costs), np.uint8))

    def wake(self) -> None:
        """Let no row rest."""
        self.due[self.due != _NEVER] = 0
        self.pause[:] = 0

    def awake(self, rows: np.ndarray, turn: int) -> np.ndarray:
        """Return which of some rows are to be visited."""
        return self.due[rows] <= turn

    def note(self, rows: np.ndarray, moved: np.ndarray, turn: int) -> None:
        """Let rows that were visited and did not move rest."""
        pause = np.where(moved, 0, np.clip(2 * self.pause[rows], 1, _LONGEST_REST)).astype(np.uint8)
        self.pause[rows] = pause
        self.due[rows] = pause.astype(np.int32) + (turn + 1)


@storable("linear dual epoch")
class EpochState(NamedTuple):
    """Where the weights are on their way through an epoch; arrays are changed in place.

    Attributes
    ----------
    weights, mean : ndarray of float64, shape (n_scores, n_weights)
        Weights of the features, zeros to a round number, and that of the constant feature last; and their mean over
        the epoch if they stayed as they are.
    position : ndarray of float64, shape (n_scores, n_weights)
        Σ β_i x_i; of sparse rows, as it was when the epoch began.
    anchor_term : ndarray of float64, shape (n_scores, n_weights)
        M V, so that (I + M) W = Σ β_i x_i + M V.
    gaps : ndarray of float64, shape (n_scores,)
        Sum of the gaps of the rows as they were met.
    metric : Metric
        Of the proximal term, by which the weights follow Σ β_i x_i.
    shrinking : Shrinking
        Which rows are left out.
    turn : int
        How often rows have been met before.
    seen, row_share : float
        Rows that the epoch has behind it, and what a row adds to them.
    """

    weights: np.ndarray
    mean: np.ndarray
    position: np.ndarray
    anchor_term: np.ndarray
    gaps: np.ndarray
    metric: Metric
    shrinking: Shrinking
    turn: int
    seen: float = 0.0
    row_share: float = 1.0


class Visits(ABC):
    """Steps in the dual variables of rows that are met.

    Parameters
    ----------
    loss : Loss
        Of a row.
    demands : Demands
        What rows demand.
    dual : ndarray of shape (n, n_scores)
        The variables; they are changed.
    values_of_row : float
        How many values a row has, on average.
    constant : float
        Value of the constant feature, 0 if there is none.
    pool : Pool
        Threads.

    Attributes
    ----------
    consecutive : bool
        Whether rows are to be met in the order in which they are stored, a window at a time.
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
        """Take the weights as they are, at the beginning of an epoch or within one."""

    @abstractmethod
    def end(self, path: EpochState) -> None:
        """Bring Σ β_i x_i up to date, at the end of an epoch; the weights in the path are so all the time."""

    @abstractmethod
    def visit(
        self, block: Block, places: np.ndarray, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]
    ) -> None:
        """Take the steps of some rows of a block."""


def class_bounds(k: int, n_parts: int) -> list[tuple[int, int]]:
    """Return the bounds of about equal parts of `k` scores."""
    return list(pairwise(np.linspace(0, k, min(k, n_parts) + 1).astype(int).tolist()))


def weight_left(done: np.ndarray) -> np.ndarray:
    """Return by what share weights that change now change their mean, when a share of the epoch is `done`.

    They count in proportion to the time that they are there (Lacoste-Julien, Schmidt and Bach 2012, A simpler approach
    to obtaining an O(1/t) convergence rate for the projected stochastic subgradient method).
    """
    return 1.0 - done**2
