"""What gradient descent is to learn and how, the state of a fit, and the objective of weights."""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import block_scores, each_piece
from fastsvm.losses import Loss, add_losses
from fastsvm.solvers.sgd.dense_steps import Linear, Model, Penalty
from fastsvm.solvers.sgd.lazy_steps import SparseModel
from fastsvm.solvers.sgd.learning_rates import Schedule
from fastsvm.sources import Block, Source, check_finite

__all__ = ["OVERFLOW", "Diverged", "SGDProblem", "SGDSettings", "SGDState", "objective"]

OVERFLOW = (
    "The weights grew beyond all bounds: floating-point overflow. Scale the features, for example with "
    "sklearn.preprocessing.StandardScaler, or lower eta0, or raise alpha."
)
"""What an error says of weights that are not finite."""


class Diverged(ValueError):
    """Scores overflowed."""


class SGDProblem(NamedTuple):
    """What is to be learnt.

    Attributes
    ----------
    source : Source
        Rows; one that is resident is a `MemorySource`.
    shift, scale : ndarray of float64, shape (n_features,)
        A value x is taken for (x - shift) scale; empty if for itself.
    targets : ndarray of float64, shape (n,)
        As `losses.add_losses` takes them.
    weights : ndarray of float64, shape (n,)
        In multiples of the mean weight of rows, classes left aside; 0 for rows that are not learnt from.
    balance : ndarray of float64, shape (n_scores,)
        As `losses.add_losses` takes it.
    """

    source: Source
    shift: np.ndarray
    scale: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    balance: np.ndarray


class SGDSettings(NamedTuple):
    """How it is learnt.

    Attributes
    ----------
    loss : Loss
        One of `losses.LOSSES`.
    penalty : Penalty
        Penalties, momentum, clipping.
    schedule : Schedule
        Learning rate.
    batch_size : int
        Rows of a batch.
    average_from : float
        Steps after which averaging begins; infinite for none.
    tol : float or None
        Least fall of the objective, None to run all epochs.
    patience : int
        Epochs without it.
    seed : int or None
        Of the order of rows, None for that of the source.
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
    """All that is remembered from window to window.

    Attributes
    ----------
    model : Model or SparseModel
        Weights; a window is visited with a copy, so that a state is always whole.
    epoch, window : int
        Where in the data: epochs completed, and windows of this one.
    n_steps, seen, pending : int
        Steps taken; rows of this epoch visited; rows of a batch that waits for more.
    total, waiting : float
        Sum of losses in this epoch, and of the rows of that batch.
    lowest, answered : float
        Least objective of an epoch, and least full objective of the answer.
    stale : int
        Epochs since the objective fell.
    factor : float
        Of the rate.
    best : Linear or None
        The weights of the best validation score, if there is one.
    best_score : float
        That score.
    """

    model: Model | SparseModel
    epoch: int = 0
    window: int = 0
    n_steps: int = 0
    seen: int = 0
    pending: int = 0
    total: float = 0.0
    waiting: float = 0.0
    lowest: float = np.inf
    answered: float = np.inf
    stale: int = 0
    factor: float = 1.0
    best: Linear | None = None
    best_score: float = -np.inf


def objective(problem: SGDProblem, loss: Loss, linear: Linear, pool: Pool, exact: bool = False) -> float:
    """Return the mean loss of the rows that are learnt from, by a pass over all rows; `exact` by scores in float64.

    Raises
    ------
    ValueError
        If a row is not finite, also one that is not learnt from.
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
