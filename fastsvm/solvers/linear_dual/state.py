"""Settings and state of dual coordinate ascent, and the interface of its epochs."""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.solvers.linear_dual.metric import Metric
from fastsvm.solvers.linear_dual.problem import Certificate, LinearProblem, relative_gap
from fastsvm.solvers.outer_loop import Memoryless
from fastsvm.sources import Block
from fastsvm.tuning import LinearTuning

__all__ = [
    "MAX_INEXACTNESS",
    "MOST_AHEAD",
    "PART_BYTES",
    "CertifiedSolver",
    "EpochState",
    "Epochs",
    "LinearDualState",
    "LinearSettings",
    "Shrinking",
    "weight_left",
]

PART_BYTES = 1 << 22
"""Largest size of a part of a window. It stays in the processor's cache."""

MOST_AHEAD = 8
"""A window has so many of the largest parts, and at most so many are prepared at once."""

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


class Epochs(ABC, Generic[BlockKind]):
    """Runs epochs of coordinate updates, on windows of rows of a problem.

    The dual variables, shape (n, n_scores), are modified. If `consecutive`, windows must be runs of consecutive rows,
    in order.
    """

    consecutive: bool

    def __init__(self, problem: LinearProblem, dual: np.ndarray, settings: "LinearSettings", pool: Pool) -> None:
        self.settings, self.constant = settings, problem.constant
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


def weight_left(done: np.ndarray) -> np.ndarray:
    """Return the factor of a change of the weights in their mean, when the share `done` of the epoch is over.

    The mean weights iterates in proportion to their time in the epoch (Lacoste-Julien, Schmidt and Bach 2012, A simpler
    approach to obtaining an O(1/t) convergence rate for the projected stochastic subgradient method).
    """
    return 1.0 - done**2


# --- the solver ------------------------------------------------------------------------------------------

MAX_INEXACTNESS = 30.0
"""Largest gap of a solved subproblem, in multiples of the proximal term; the smallest is one."""


class LinearSettings(NamedTuple):
    """Tolerance, order of rows and sizes of windows and blocks."""

    tol: float  # It bounds the relative duality gap, or the largest violation if `criterion` is "gradient".
    seed: int = 0  # It decides the order of rows.
    block_rows: int = 1  # A block of dense rows has at most so many.
    kept_blocks: int = 0  # The Gram matrices of so many blocks are cached.
    window_rows: int = 1  # A window has so many rows.
    n_passes: int = 1  # A window on disk is passed so often while in memory; 0 chooses by the time of reading.
    most_values: int = 0  # Newton steps are allowed if the rows in memory have at most so many values.
    criterion: str = "gap"  # It is "gradient" if `tol` bounds the violation of the optimality conditions.
    least: float = 1e-300  # The gap of an objective below this absolute value is relative to it.
    # So many bytes of converted rows, or of Gram matrices that are not cached, are prepared together. Few parts are
    # there at once.
    part_bytes: int = PART_BYTES
    deadline: float = np.inf  # Long steps end early at this moment of time.perf_counter.
    tuning: LinearTuning = LinearTuning()


class CertifiedSolver(Memoryless):
    """What solvers of linear problems have in common. `certificate` is that of the last state that has one, or None."""

    certificate: Certificate | None = None

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool) -> None:
        self.problem, self.settings, self.pool = problem, settings, pool
        self.n_scores = problem.n_scores

    def gap_of(self, found: Certificate) -> float:
        """Return the relative duality gap of a certificate."""
        return relative_gap(found.primal, found.dual, self.settings.least)

    def is_within(self, found: Certificate) -> bool:
        """Return whether a certificate is within tolerance."""
        bounded = self.gap_of(found) if self.settings.criterion == "gap" else found.violation
        return bool(bounded <= self.settings.tol)

    def adopted(self, state: Any) -> Any:
        """Return a state that was saved between two steps, to resume with the same bits."""
        return state

    def kept(self, state: Any, finished: bool) -> Any:
        """Return what the next fit may begin with, None if there is nothing."""
        return state

    def dual_of(self, state: Any) -> np.ndarray:
        """Return the dual variables of a state, shape (n, n_scores)."""
        found: np.ndarray = state.dual
        return found

    def close(self) -> None:
        """Stop what works in the background, if the fit ends within a step."""


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
    in_rounds: bool = False  # Epochs are rounds of passes over wide sparse rows.
