"""Settings and state of dual coordinate ascent."""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.solvers.linear_dual.epochs.dense_epoch import PART_BYTES
from fastsvm.solvers.linear_dual.epochs.epoch import EpochState

__all__ = ["MAX_INEXACTNESS", "LinearDualSettings", "LinearDualState"]

MAX_INEXACTNESS = 30.0
"""Largest gap of a solved subproblem, in multiples of the proximal term."""


class LinearDualSettings(NamedTuple):
    """Tolerance, order of rows and sizes of windows and blocks.

    Attributes
    ----------
    tol : float
        Relative duality gap, or largest violation if `criterion` is "gradient".
    seed : int
        Seed of the order of rows.
    block_rows, n_sweeps, kept_blocks : int
        As in `dense_epoch.Layout`.
    window_rows : int
        Rows of a window.
    n_passes : int
        Passes over a window on disk while it is in memory; 0 to choose by the time that reading takes.
    most_values : int
        Largest number of values of the rows in memory for which Newton steps are allowed.
    criterion : str
        "gap", or "gradient" if `tol` bounds the violation of the optimality conditions.
    least : float
        Absolute value of an objective below which its gap is relative to this.
    part_bytes : int
        As in `dense_epoch.Layout`.
    deadline : float
        Moment (of time.perf_counter) at which long steps end early.
    """

    tol: float
    seed: int
    block_rows: int
    n_sweeps: int
    kept_blocks: int
    window_rows: int
    n_passes: int = 1
    most_values: int = 0
    criterion: str = "gap"
    least: float = 1e-300
    part_bytes: int = PART_BYTES
    deadline: float = np.inf


@storable("linear dual state")
class LinearDualState(NamedTuple):
    """What the solver carries from window to window; `dual`, `path` and `losses` are modified in place.

    Attributes
    ----------
    dual : ndarray of shape (n, n_scores)
        Dual variables.
    anchor, last : ndarray of float64, shape (n_scores, n_weights)
        Centre of the proximal term, and the last solution of a subproblem.
    momentum : ndarray of float64, shape (n_problems,)
        Momentum of the anchors.
    path : EpochState
        Weights within the epoch.
    candidate : ndarray of shape (n_scores, n_weights) or None
        Weights whose losses are summed during the epoch, for rows on disk.
    losses : ndarray of float64, shape (n_scores,)
        Sum of losses of the candidate so far.
    best : ndarray of float64, shape (n_scores, n_weights)
        Weights of the lowest primal objectives so far.
    primal, dual_value : ndarray of float64, shape (n_problems,)
        Primal objectives of `best`, and dual objectives of `dual`.
    initial_value : ndarray of float64, shape (n_problems,)
        Dual objectives of the subproblems when the epoch began.
    epoch, window, seen : int
        Completed epochs, completed windows of the current epoch, and their rows.
    next_evaluation, last_evaluation : int
        Epochs after which the objective is evaluated next, and was evaluated last.
    gap : float
        Lowest relative gap of an evaluation.
    progress_at : int
        Epoch of the last evaluation that found progress.
    halved_at, halved_gap : int, float
        Epoch at which the gap was last found halved, and the gap then.
    metric_level, metric_change, metric_rate : int, int, float
        How often the metric was weakened; 1 if the last change weakened it, -1 if it strengthened it; and the rate at
        which the gap fell before that change.
    next_finish : int
        Epochs after which Newton steps are tried.
    inexactness : float
        Gap up to which a subproblem counts as solved, in multiples of the proximal term.
    passes : int
        Passes over each window of this epoch.
    in_rounds : bool
        Whether epochs are rounds: of pairs of rows that exchange mass, for variables of a given sum, or of passes over
        wide sparse rows.
    """

    dual: np.ndarray
    anchor: np.ndarray
    last: np.ndarray
    momentum: np.ndarray
    path: EpochState
    candidate: np.ndarray | None
    losses: np.ndarray
    best: np.ndarray
    primal: np.ndarray
    dual_value: np.ndarray
    initial_value: np.ndarray
    epoch: int = 0
    window: int = 0
    seen: int = 0
    next_evaluation: int = 1
    last_evaluation: int = 0
    gap: float = np.inf
    progress_at: int = 0
    halved_at: int = 0
    halved_gap: float = np.inf
    metric_level: int = 0
    metric_change: int = 1
    metric_rate: float = 0.0
    next_finish: int = 0
    inexactness: float = MAX_INEXACTNESS
    passes: int = 1
    in_rounds: bool = False
