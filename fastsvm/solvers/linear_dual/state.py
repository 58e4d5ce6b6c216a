"""Settings and state of dual coordinate ascent."""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable
from fastsvm.solvers.linear_dual.epochs.epoch import PART_BYTES, EpochState
from fastsvm.tuning import LinearTuning

__all__ = ["MAX_INEXACTNESS", "MIN_INEXACTNESS", "LinearDualSettings", "LinearDualState"]

MIN_INEXACTNESS, MAX_INEXACTNESS = 1.0, 30.0
"""Smallest and largest gap of a solved subproblem, in multiples of the proximal term."""


class LinearDualSettings(NamedTuple):
    """Tolerance, order of rows and sizes of windows and blocks. Fields without a comment are those of `Layout`."""

    tol: float  # It bounds the relative duality gap, or the largest violation if `criterion` is "gradient".
    seed: int  # It decides the order of rows.
    block_rows: int
    kept_blocks: int
    window_rows: int  # A window has so many rows.
    n_passes: int = 1  # A window on disk is passed so often while in memory; 0 chooses by the time of reading.
    most_values: int = 0  # Newton steps are allowed if the rows in memory have at most so many values.
    criterion: str = "gap"  # It is "gradient" if `tol` bounds the violation of the optimality conditions.
    least: float = 1e-300  # The gap of an objective below this absolute value is relative to it.
    part_bytes: int = PART_BYTES
    deadline: float = np.inf  # Long steps end early at this moment of time.perf_counter.
    tuning: LinearTuning = LinearTuning()


@storable("linear dual state")
class LinearDualState(NamedTuple):
    """What the solver carries from window to window; `dual`, `path` and `losses` are modified in place.

    The dual variables have the shape (n, n_scores), weights the shape (n_scores, n_weights); `losses` has a number a
    score, other arrays one a problem.
    """

    dual: np.ndarray
    anchor: np.ndarray  # The proximal term is centred here.
    last: np.ndarray  # The last subproblem had this solution.
    momentum: np.ndarray  # It moves the anchors.
    path: EpochState  # It has the weights within the epoch.
    candidate: np.ndarray | None  # The losses of these weights are summed during the epoch, for rows on disk.
    losses: np.ndarray  # The candidate has these sums so far.
    best: np.ndarray  # These weights have the lowest primal objectives so far.
    primal: np.ndarray  # `best` has these primal objectives.
    dual_value: np.ndarray  # `dual` has these dual objectives.
    initial_value: np.ndarray  # The subproblems had these dual objectives when the epoch began.
    epoch: int = 0  # So many epochs are complete.
    window: int = 0  # So many windows of the current epoch are complete.
    seen: int = 0  # These windows have so many rows.
    next_evaluation: int = 1  # The objective is evaluated next after so many epochs.
    last_evaluation: int = 0  # It was evaluated last after so many epochs.
    gap: float = np.inf  # No evaluation found a lower relative gap.
    progress_at: int = 0  # The last evaluation that found progress was at this epoch.
    halved_at: int = 0  # The gap was last found halved at this epoch.
    halved_gap: float = np.inf  # The gap was this then.
    metric_level: int = 0  # The metric was weakened so often.
    metric_change: int = 1  # It is 1 if the last change weakened the metric, -1 if it strengthened it.
    metric_rate: float = 0.0  # The gap fell at this rate before that change.
    next_finish: int = 0  # Newton steps are tried after so many epochs.
    inexactness: float = MAX_INEXACTNESS  # At this gap, in multiples of the proximal term, a subproblem is solved.
    passes: int = 1  # In this epoch there are so many over each window.
    # Epochs are rounds: of pairs of rows that exchange mass, for variables of a given sum, or of passes over wide
    # sparse rows.
    in_rounds: bool = False
