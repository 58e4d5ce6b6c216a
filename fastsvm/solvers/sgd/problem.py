"""The problem, settings and state of gradient descent, and the objective."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import block_scores, each_piece
from fastsvm.losses import Loss, add_losses
from fastsvm.solvers.sgd.learning_rates import FeatureLengths, FeatureRates, Schedule
from fastsvm.sources import Block, Source, check_finite
from fastsvm.tuning import SGDTuning, current_tuning

OVERFLOW = (
    "The weights diverged: floating-point overflow. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler, or lower eta0, or raise alpha."
)
"""Message of the error that weights are not finite."""


class Diverged(ValueError):
    """Weights or scores overflowed."""


@storable("linear function")
class LinearFunction(NamedTuple):
    """Scores W x + b: `coef` of shape (n_scores, n_features), `intercept` of shape (n_scores,), float64."""

    coef: np.ndarray
    intercept: np.ndarray


class SGDProblem(NamedTuple):
    """Rows, targets and weights of a linear problem; a resident source is a `MemorySource`.

    Values x are mapped to (x - shift) scale; empty arrays for no mapping. `targets` and `balance`, the class weights,
    are as `losses.add_losses` takes them. `weights` are sample weights divided by their mean, without class weights; 0
    excludes a row. `private` restores the weights of all features, if some are merged.
    """

    source: Source
    shift: np.ndarray
    scale: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    balance: np.ndarray
    private: Any = None  # It is a `PrivateFeatures`.

    def mapping(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Return shift and scale in the type of the products."""
        return self.shift.astype(dtype), self.scale.astype(dtype)


class Penalty(NamedTuple):
    """Penalties, momentum, clipping and the intercept's rate."""

    l2: float  # It is the factor of ½ ‖w‖² in the objective.
    l1: float  # It is that of ‖w‖₁.
    momentum: float  # It multiplies the velocity in each step; 0 for none.
    clip: float  # It is the largest norm of a mean gradient of a batch; infinite for none.
    intercept_rate: float  # It is in multiples of the rate of the weights; 0 for no intercept.


class SGDSettings(NamedTuple):
    """Loss, penalties, schedule and stopping rule."""

    loss: Loss
    penalty: Penalty
    schedule: Schedule
    batch_size: int
    average_from: float  # Averaging begins after so many steps; infinite for none.
    score: float  # It is the size of a score.
    tol: float | None  # It is the tolerance of the objective; None to run all epochs.
    patience: int  # So many epochs pass before the objective is first examined, or without progress of validation.
    seed: int | None  # It is of the order of rows; None for the order of the source.
    window_rows: int
    partial: bool  # The rows are new ones in each epoch.
    sparse: bool  # Steps touch only the columns in which a batch has nonzero values.
    tuning: SGDTuning = SGDTuning()


class OrderedRows(NamedTuple):
    """Rows of a window in the order of the steps, with targets, weights and class weights as of the problem."""

    numbers: np.ndarray  # They are the indices of the rows among the stored ones.
    targets: np.ndarray
    weights: np.ndarray
    balance: np.ndarray
    shift: np.ndarray
    scale: np.ndarray


class StepPlan(NamedTuple):
    """What decides the steps on a window beside its rows."""

    batch_size: int
    rates: np.ndarray  # Each step has a learning rate, in multiples of that of a feature if rates are by feature.
    averaging: np.ndarray  # The iterate after each step has such a weight in the average.
    penalty: Penalty
    pending: int  # So many rows of the first batch were processed with the window before.
    before: int  # So many steps were taken before.
    features: FeatureRates
    epoch_rows: int  # A batch ends where so many rows end, if the window has several epochs.
    ends: np.ndarray  # Each score gets Σ w², Σ |w| and Σ h at the end of each of these epochs, shape (n_scores, n, 3).


@storable("sgd progress")
class SGDState(NamedTuple):
    """What the solver carries from window to window.

    Steps change a copy of the model, so that an interrupted window leaves the state valid.
    """

    model: Any  # It is the model of `dense_steps` or of `sparse_steps`.
    epoch: int = 0  # So many epochs are complete.
    window: int = 0  # So many windows of the current epoch are complete.
    n_steps: int = 0
    seen: int = 0  # So many rows were processed in this epoch.
    pending: int = 0  # The incomplete batch has so many rows.
    total: float = 0.0  # It is the sum of losses in this epoch.
    pending_loss: float = 0.0  # It is that over the rows of the incomplete batch.
    lowest: float = np.inf  # It is the lowest negative validation score.
    answer_objective: float = np.inf  # It is the objective of the answer when it was last examined.
    stale: int = 0  # The validation score last made progress so many epochs ago.
    factor: float = 1.0  # It multiplies the learning rate, below 1 after reductions of the adaptive schedule.
    best: LinearFunction | None = None  # These weights have the best validation score; None without validation.
    best_score: float = -np.inf
    earlier_objective: float = np.inf  # It is the objective of the answer when it was examined before the last time.
    origin: int = 0  # The adaptive schedule was last reduced in this epoch.
    lengths: FeatureLengths | None = None  # They are the lengths of the features, if rates are by feature.


def objective(problem: SGDProblem, loss: Loss, linear: LinearFunction, pool: Pool, exact: bool = False) -> float:
    """Return the mean loss over rows of positive weight, by a pass over all rows; `exact` computes scores in float64.

    A row that is not finite, even one of weight 0, raises ValueError.
    """
    coef, intercept = linear
    if problem.scale.size:
        coef = coef * problem.scale
        intercept = intercept - coef @ problem.shift
    sums: list[tuple[int, float]] = []

    def piece(block: Block, start: int) -> None:
        scores = block_scores(block, coef, intercept, exact or problem.scale.size > 0).astype(np.float64, copy=False)
        part = slice(start, start + block.shape[0])
        if not np.isfinite(scores).all():
            check_finite(block, start)
            raise Diverged(OVERFLOW)
        sums.append((start, _loss_of(loss, scores, problem.targets[part], problem.weights[part], problem.balance)))

    each_piece(problem.source, piece, pool)
    return float(sum(value for _, value in sorted(sums)) / np.count_nonzero(problem.weights))


def objective_of_constants(problem: SGDProblem, loss: Loss) -> float:
    """Return the mean loss over rows of positive weight where all scores are one number: the least of a few numbers."""
    used = problem.weights > 0
    numbers = 0.0, -1.0, 1.0, float(problem.targets @ (problem.weights / problem.weights.sum()))
    totals, k = np.zeros(len(numbers)), len(problem.balance)
    for start, stop in spans(len(problem.targets), current_tuning().products.piece_rows):
        part = slice(start, stop)
        for place, number in enumerate(numbers):
            scores = np.full((stop - start, k), number)
            totals[place] += _loss_of(loss, scores, problem.targets[part], problem.weights[part], problem.balance)
    return float(totals.min() / np.count_nonzero(used))


@jit
def _loss_of(loss, scores, targets, weights, balance):
    return add_losses(loss, scores, targets, weights, balance, np.empty_like(scores))
