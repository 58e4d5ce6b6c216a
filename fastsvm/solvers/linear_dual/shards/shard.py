"""What is done with the rows of one shard: an epoch of a round, and sums over the rows.

Each method is a pure function of its arguments and the rows: what is cached, Gram matrices, changes no bit of a result.
So the work of a machine that is lost can be done again elsewhere.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Demands, demands_of_scores, dual_losses
from fastsvm.solvers.linear_dual.certificate import CertificateSums, primal_of, sums_of
from fastsvm.solvers.linear_dual.curvature import RowMoments, moments_of
from fastsvm.solvers.linear_dual.epochs.dense_epoch import DenseEpochs
from fastsvm.solvers.linear_dual.epochs.epoch import Epochs, EpochState, Layout, Shrinking
from fastsvm.solvers.linear_dual.epochs.sparse_epoch import SparseEpochs
from fastsvm.solvers.linear_dual.problem import LinearProblem, explain
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.sources import Window
from fastsvm.tuning import LinearTuning

__all__ = ["RoundOrder", "RoundSums", "Shard", "ShardState"]

_WINDOW_ROWS = 1 << 15  # of an evaluation


@storable("shard of a linear dual")
class ShardState(NamedTuple):
    """What a shard carries from round to round.

    `dual` and `before`, shape (n, n_scores), are the dual variables after the last round, and before it. The next round
    says which share of the way is taken. `due` and `pause`, shape (n_parts, n), are as in `Shrinking`, for the scores
    of each part; without rows before the first. `turn` counts parts of rounds. `conjugates` are Σ c ℓ*(-β / c) of
    `dual`; not a number where it has to be computed. They are empty if all have to be.
    """

    dual: np.ndarray
    before: np.ndarray
    due: np.ndarray
    pause: np.ndarray
    turn: int
    conjugates: np.ndarray = np.empty(0)

    def settled(self, share: np.ndarray) -> "ShardState":
        """Return the state after the last round with a share of its change, as if this was the whole change."""
        some = np.flatnonzero(share != 1)
        if not some.size:
            return self._replace(before=self.dual)
        dual, part = self.dual.copy(), share[some].astype(self.dual.dtype)
        dual[:, some] = self.before[:, some] + part * (dual[:, some] - self.before[:, some])
        known = np.where(share == 1, self.conjugates, np.nan) if self.conjugates.size else self.conjugates
        return self._replace(dual=dual, before=dual, conjugates=known)


class RoundOrder(NamedTuple):
    """What shards are told at the beginning of a part of a round."""

    weights: np.ndarray  # Each shard starts from these, of the scores that it processes.
    factor: np.ndarray  # σ' of these scores multiplies the quadratic term of the subproblem of a shard.
    share: np.ndarray  # This share of the last change is taken, of all scores.
    activate: bool  # Skipped rows become active.
    seed: tuple[int, ...]  # It decides the order of the rows.
    scores: tuple[int, int]  # The scores to process are from the first number to before the second.
    run: int  # These scores have this number among the runs of scores.
    part: int  # This part has this number among the parts of the round.
    n_parts: int
    n_pieces: int  # A part of a round processes one of so many pieces of the rows.


class RoundSums(NamedTuple):
    """What a shard answers at the end of a part of a round, of the scores that it processed.

    `change` is that of Σ β_i x_i, and `mean` the mean change of the weights over the round, without the factor σ', both
    of shape (n_own, n_weights). `conjugates`, shape (2, n_own), are Σ c ℓ*(-β / c) before and after. `gaps` are the
    sums of the duality gaps of the rows before their updates.
    """

    change: np.ndarray
    mean: np.ndarray
    conjugates: np.ndarray
    gaps: np.ndarray


class Shard:
    """The rows of a shard, which are in memory, perhaps none.

    `block_rows` is as in `Layout`. `number` is that of the shard, and `first` that of its first row among all.
    `gram_bytes` of Gram matrices are kept from round to round; None keeps all.
    """

    def __init__(
        self,
        problem: LinearProblem,
        block_rows: int,
        tuning: LinearTuning,
        number: int,
        first: int,
        gram_bytes: int | None = None,
    ) -> None:
        self.problem, self.number, self.first = problem, number, first
        self.pool = Pool(1)
        n = len(problem.source)
        self._every = np.arange(n)
        kept = -(-n // block_rows)
        if gram_bytes is not None:
            kept = min(kept, gram_bytes // (block_rows**2 * product_type(problem.source.dtype).itemsize))
        self._layout = Layout(block_rows, kept, tuning.sweeps, tuning.longest_pause)
        self._epochs: Epochs[Any] | None = None
        self._epochs_metric: Metric | None = None  # of the Gram matrices of `_epochs`

    def start(self) -> ShardState:
        """Return the state at zero."""
        dual = np.zeros((len(self._every), self.problem.n_scores), product_type(self.problem.source.dtype))
        none = np.empty((0, len(dual)))
        return ShardState(dual, dual, none, none, 0)

    def moments(self, width: int, most: int) -> RowMoments:
        """Return the moments of the rows, with a sample of at most `most` of them that is no row any more.

        The sample is rotated: all that matters, its Gram matrix between features, stays the same.
        """
        if len(self._every) == 0:
            squares = np.zeros(width if self.problem.source.sparse else 0)
            return RowMoments(0, 0.0, np.zeros(self.problem.n_scores), 0, squares, np.zeros((0, width)))
        found = moments_of(self.problem, width, most)
        rotated = np.zeros_like(found.sample)
        if len(rotated):
            triangle = np.linalg.qr(found.sample, mode="r")
            rotated[: len(triangle)] = triangle
        return found._replace(sample=rotated)

    def round(self, state: ShardState, order: RoundOrder, metric: Metric) -> tuple[ShardState, RoundSums]:
        """Return the state after a pass over the rows in some scores, and what it changes.

        The subproblem is that of CoCoA+: the dual objective near the weights, as a function of the variables of this
        shard alone, with σ' times the quadratic term. Hence weights change by σ' times as much as without others.
        """
        last, own, n_runs = state.settled(order.share), slice(*order.scores), order.n_parts // order.n_pieces
        due, pause, seed = last.due.copy(), last.pause.copy(), (*order.seed, self.number)
        if len(due) == 0:
            first = Shrinking.of(self.problem.demands.costs)
            due, pause = np.tile(first.due, (n_runs, 1)), np.tile(first.pause, (n_runs, 1))
        shrinking, piece = Shrinking(due[order.run], pause[order.run]), order.part // n_runs
        if order.activate and piece == 0:
            shrinking.activate_all()
        n, rows = len(self._every), self._piece(piece, order.n_pieces, seed)
        factors = metric._replace(kappa=(1 + metric.kappa[own]) / order.factor - 1)
        weights, position = order.weights.copy(), np.zeros_like(order.weights)
        term = weights / (factors.damping[:, None] * factors.scaling) if self.problem.source.sparse else position
        path = EpochState(
            weights, weights.copy(), position, term, np.zeros(len(weights)), factors, shrinking,
            state.turn // order.n_parts, n * order.part / order.n_parts, n / order.n_parts / max(1, len(rows)),
        )  # fmt: skip
        demands, mine = demands_of_scores(self.problem.demands, order.scores), last.dual[:, own].copy()
        conjugates = last.conjugates.copy() if last.conjugates.size else np.full(self.problem.n_scores, np.nan)
        known = self._conjugates(demands, mine) if np.isnan(conjugates[own]).any() else conjugates[own].copy()
        dual, following = last.dual.copy(), known
        if len(rows):
            before = self._conjugates(demands, mine, rows)
            self._epoch(self._epochs_on(demands, mine, metric), rows, path, seed)
            dual[rows, own] = mine[rows]
            following = known + (self._conjugates(demands, mine, rows) - before)
        conjugates[own] = following
        mean = (path.mean - order.weights) / order.factor[:, None]
        after = ShardState(dual, last.dual, due, pause, state.turn + 1, conjugates)
        return after, RoundSums(path.position, mean, np.array([known, following]), path.gaps)

    def _piece(self, piece: int, n_pieces: int, seed: tuple[int, ...]) -> np.ndarray:
        """Return the rows of a piece: blocks of a random partition, a new one in each round."""
        n, size = len(self._every), self._layout.block_rows
        number = np.random.default_rng((*seed, n_pieces)).permutation(-(-n // size)) % n_pieces
        rows = (np.flatnonzero(number == piece)[:, None] * size + np.arange(size)).ravel()
        return rows[rows < n]

    def _epoch(self, epochs: Epochs[Any], rows: np.ndarray, path: EpochState, seed: tuple[int, ...]) -> None:
        """Process the active ones of some rows once."""
        epochs.begin(path)
        rows = rows if epochs.consecutive else np.random.default_rng(seed).permutation(rows)
        epochs.process(self.problem.block, rows, rows, path, seed)
        epochs.end(path)
        with np.errstate(all="ignore"):
            finite = np.isfinite(path.weights.sum())
        if not finite:
            explain(self._window(0, len(self._every)))

    def _window(self, start: int, stop: int) -> Window:
        """Return some rows in order, with their numbers among the rows of all shards."""
        places = self._every[start:stop]
        return Window(self.problem.block, places, places + self.first)

    def _epochs_on(self, demands: Demands, dual: np.ndarray, metric: Metric) -> Epochs[Any]:
        """Return the epochs on dual variables of some scores; their Gram matrices are those of the metric."""
        problem, source = self.problem, self.problem.source
        known = self._epochs_metric
        if known is None or not all(map(np.array_equal, metric, known)):
            most = np.empty((0, problem.n_scores), dual.dtype)  # of scores at a time
            kind: Any = SparseEpochs if source.sparse else DenseEpochs
            self._epochs, self._epochs_metric = kind(problem, most, self._layout, self.pool), metric
        epochs = self._epochs
        assert epochs is not None
        epochs.take(problem._replace(demands=demands), dual, self.pool)
        return epochs

    def _conjugates(self, demands: Demands, dual: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return Σ c ℓ*(-β / c) of all rows, or of some, in each score."""
        found = np.zeros(dual.shape[1])
        if rows is not None:
            demands, dual = demands.of_rows(rows), dual[rows]
        dual_losses(self.problem.loss, demands, dual, found)
        return found

    def losses(self, weights: np.ndarray) -> np.ndarray:
        """Return the losses of weights, for each score."""
        found = np.zeros(self.problem.n_scores)
        for start in range(0, len(self._every), _WINDOW_ROWS):
            places = self._every[start : start + _WINDOW_ROWS]
            primal_of(self.problem, weights, Window(self.problem.block, places, places), self.pool, found)
        return found

    def certificate_sums(
        self, weights: Sequence[np.ndarray], state: ShardState, share: np.ndarray, position: np.ndarray
    ) -> CertificateSums:
        """Return the sums over the rows that a certificate needs."""
        return sums_of(self.problem, weights, state.settled(share).dual, position, self.pool)
