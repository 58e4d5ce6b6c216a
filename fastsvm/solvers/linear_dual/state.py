"""How dual coordinate ascent is done, and all that it remembers from one window of rows to the next."""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.solvers.linear_dual.epoch import EpochState

__all__ = ["MOST_INEXACT", "LinearDualSettings", "LinearDualState"]

MOST_INEXACT = 30.0
"""Times the proximal term, up to which a gap is small."""


class LinearDualSettings(NamedTuple):
    """How it is learnt.

    Attributes
    ----------
    tol : float
        Relative gap.
    seed : int
        Of the order of rows.
    block_rows, n_sweeps, kept_blocks : int
        As `dual_blocks.Layout`.
    window_rows : int
        Rows of a window.
    n_visits : int
        How often a window on disk is visited while it is in memory; 0 to find out by the time that reading takes.
    most_values : int
        Of rows in memory, for which Newton steps may end what ascent does not.
    criterion : str
        "gap", or "gradient" if `tol` bounds the violation of the optimality conditions.
    """

    tol: float
    seed: int
    block_rows: int
    n_sweeps: int
    kept_blocks: int
    window_rows: int
    n_visits: int = 1
    most_values: int = 0
    criterion: str = "gap"


@storable("linear dual state")
class LinearDualState(NamedTuple):
    """All that is remembered from window to window; `dual`, `path` and `losses` are changed in place.

    Attributes
    ----------
    dual : ndarray of shape (n, n_scores)
        Dual variables.
    anchor, last : ndarray of float64, shape (n_scores, n_weights)
        Where the proximal term is centred, and the point before.
    momentum : ndarray of float64, shape (n_problems,)
        Of the anchors.
    path : EpochState
        Where the epoch is.
    candidate : ndarray of shape (n_scores, n_weights) or None
        Weights that are scored on the way.
    losses : ndarray of float64, shape (n_scores,)
        Sum of losses of the candidate so far.
    best : ndarray of float64, shape (n_scores, n_weights)
        Weights of the least objectives so far.
    primal, dual_value : ndarray of float64, shape (n_problems,)
        Their objectives, and the dual ones.
    begun : ndarray of float64, shape (n_problems,)
        Dual objectives near the anchors when the epoch began.
    epoch, window, seen : int
        Epochs completed; windows of this one, and rows in them.
    next_evaluation, last_evaluation : int
        Epochs after which the objective is computed next, and was last.
    gap : float
        Relative gap at the last look.
    progress : int
        Epoch of the last look that found some.
    halved, half : int, float
        Epoch at which the gap was last found to be at most half of what it was, and what it was then.
    level, change, rate : int, int, float
        How often the metric was made weaker, whether it was last made weaker (1) or stronger (-1), and how fast the gap
        fell before that.
    next_finish : int
        Epochs after which Newton steps are tried.
    inexact : float
        How large a gap may be, in multiples of the proximal term, for the anchor to move.
    visits : int
        How often each window of this epoch is visited.
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
    begun: np.ndarray
    epoch: int = 0
    window: int = 0
    seen: int = 0
    next_evaluation: int = 1
    last_evaluation: int = 0
    gap: float = np.inf
    progress: int = 0
    halved: int = 0
    half: float = np.inf
    level: int = 0
    change: int = 1
    rate: float = 0.0
    next_finish: int = 0
    inexact: float = MOST_INEXACT
    visits: int = 1
