"""The problem, settings and state of gradient descent, and the objective."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import block_scores, each_piece
from fastsvm.losses import Loss, add_losses
from fastsvm.solvers.sgd.dense_steps import DenseModel, LinearFunction, Penalty
from fastsvm.solvers.sgd.lazy_steps import SparseModel
from fastsvm.solvers.sgd.learning_rates import Schedule
from fastsvm.sources import Block, Source, check_finite

__all__ = ["OVERFLOW", "Diverged", "SGDProblem", "SGDSettings", "SGDState", "objective"]

OVERFLOW = (
    "The weights diverged: floating-point overflow. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler, or lower eta0, or raise alpha."
)
"""Message of the error that weights are not finite."""


class Diverged(ValueError):
    """Weights or scores overflowed."""


class SGDProblem(NamedTuple):
    """Rows, targets and weights of a linear problem.

    Attributes
    ----------
    source : Source
        The rows; a resident source is a `MemorySource`.
    shift, scale : ndarray of float64, shape (n_features,)
        Values x are mapped to (x - shift) scale; empty for no mapping.
    targets : ndarray of float64, shape (n,)
        Targets as `losses.add_losses` takes them.
    weights : ndarray of float64, shape (n,)
        Sample weights divided by their mean, without class weights; 0 excludes a row.
    balance : ndarray of float64, shape (n_scores,)
        Class weights as `losses.add_losses` takes them.
    """

    source: Source
    shift: np.ndarray
    scale: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    balance: np.ndarray


class SGDSettings(NamedTuple):
    """Loss, penalties, schedule and stopping rule.

    Attributes
    ----------
    loss : Loss
        An instance of a class in `losses.LOSSES`.
    penalty : Penalty
        Penalties, momentum, clipping.
    schedule : Schedule
        Learning rate.
    batch_size : int
        Rows of a batch.
    average_from : float
        Steps after which averaging begins; infinite for none.
    tol : float or None
        Smallest decrease of the objective that counts as progress; None to run all epochs.
    patience : int
        Epochs without progress after which the solver decides whether to stop.
    seed : int or None
        Seed of the order of rows; None for the order of the source.
    window_rows : int
        Rows of a window.
    """

    loss: Loss
    penalty: Penalty
    schedule: Schedule
    batch_size: int
    average_from: float
    tol: float | None
    patience: int
    seed: int | None
    window_rows: int


@storable("sgd state")
class SGDState(NamedTuple):
    """What the solver carries from window to window.

    Attributes
    ----------
    model : DenseModel or SparseModel
        Weights. Steps change a copy, so that an interrupted window leaves the state valid.
    epoch, window : int
        Completed epochs, and completed windows of the current epoch.
    n_steps, seen, pending : int
        Steps taken, rows processed in this epoch, and rows of the incomplete batch.
    total, pending_loss : float
        Sum of losses in this epoch, and over the rows of the incomplete batch.
    lowest, answer_objective : float
        Lowest running objective of an epoch, and lowest full objective of the answer.
    stale : int
        Epochs since the objective last made progress.
    factor : float
        Factor of the learning rate, below 1 after reductions of the adaptive schedule.
    best : LinearFunction or None
        The weights with the best validation score; None without validation.
    best_score : float
        The best validation score.
    """

    model: DenseModel | SparseModel
    epoch: int = 0
    window: int = 0
    n_steps: int = 0
    seen: int = 0
    pending: int = 0
    total: float = 0.0
    pending_loss: float = 0.0
    lowest: float = np.inf
    answer_objective: float = np.inf
    stale: int = 0
    factor: float = 1.0
    best: LinearFunction | None = None
    best_score: float = -np.inf


def objective(problem: SGDProblem, loss: Loss, linear: LinearFunction, pool: Pool, exact: bool = False) -> float:
    """Return the mean loss over rows of positive weight, by a pass over all rows; `exact` computes scores in float64.

    Raises
    ------
    ValueError
        If a row is not finite, even one of weight 0.
    """
    coef, intercept = linear
    if problem.scale.size:
        coef = coef * problem.scale
        intercept = intercept - coef @ problem.shift
    sums: list[tuple[int, float]] = []

    def piece(block: Block, start: int) -> None:
        found = block_scores(block, coef, intercept, exact or problem.scale.size > 0).astype(np.float64, copy=False)
        part = slice(start, start + block.shape[0])
        if not np.isfinite(found).all():
            check_finite(block, start)
            raise Diverged(OVERFLOW)
        sums.append((start, _loss_of(loss, found, problem.targets[part], problem.weights[part], problem.balance)))

    each_piece(problem.source, piece, pool)
    return float(sum(value for _, value in sorted(sums)) / np.count_nonzero(problem.weights))


@jit
def _loss_of(loss, scores, targets, weights, balance):
    return add_losses(loss, scores, targets, weights, balance, np.empty_like(scores))
