"""Rounds of dual coordinate ascent on rows in several places: CoCoA+ with a step that is measured.

Round
    Classes one against the rest are problems of their own. So each shard passes over its rows for some of them while
    others do for the rest, and they change about, as many times as a round has parts. A class then goes from shard to
    shard like an epoch over windows, and nothing is lost by the shards.

Turns
    Scores of their own problems are cut into runs, as many as there are shards, or a score each. In every part of a
    round each run is with another shard, which processes a piece of its rows, chosen at random in each round. After all
    parts each shard has processed each run in all rows. If there are more shards than runs, some process the same run
    together. A loss of all classes has one run. In pieces, rows of all shards are mixed nearly as in one place. In
    whole shards, those that come first in each round adapt to a moved anchor as if there were no others, again and
    again.

Together
    Where there are more shards than classes, some work on the same class. Each then solves its own subproblem: the dual
    objective near the common weights, in the variables of its rows, with σ' times the quadratic term. It answers with
    its change of Σ β_i x_i, and the changes are added (Ma et al. 2015; Smith et al. 2018, CoCoA, algorithm 1, γ = 1).

Step
    With σ' = K, the number of shards together, the dual objective rises in any case. Most changes of shards are nearly
    orthogonal, so that less is enough: the next σ' is ‖Σ Δv_k‖² / Σ ‖Δv_k‖², as this round measured it, and a little
    more, but it falls slowly. If σ' was too small, a share τ of the sum is taken, the one that maximises a lower bound
    of the dual objective on the way, as conjugates are convex. Shards learn τ with the next round. Each class has its
    own σ' and τ. The metric is stronger than in one place, so that an epoch of a shard solves a subproblem as well.

All else
    is that of ascent in one place (`coordinate_ascent`): metric, anchors, evaluations, the certificate.
    Sums are added in the order of the shards. With the same shards each bit of the answer is the same.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.row_products import product_type
from fastsvm.losses import Demands, demands_of_scores
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent, LinearDualState, epochs_on
from fastsvm.solvers.linear_dual.epochs import Epochs, EpochState, Shrinking
from fastsvm.solvers.linear_dual.metric import Metric, RowMoments, moments_of
from fastsvm.solvers.linear_dual.problem import (
    OVERFLOW,
    PIECE_ROWS,
    CertificateSums,
    LinearProblem,
    LinearSettings,
    class_bounds,
    explain,
)
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import Window
from fastsvm.tuning import LinearTuning

_PIECES = 4  # The rows of a shard are so many pieces: with one, a hinge takes twice the rounds, with more not fewer.


class Turns(NamedTuple):
    """Which shard processes which scores.

    A run is its first score and the one after its last. The rows of a shard are divided into `n_pieces`.
    """

    n_shards: int
    runs: Sequence[tuple[int, int]]
    n_pieces: int

    @classmethod
    def of(cls, problem: LinearProblem, n_shards: int) -> "Turns":
        """Return the turns for a problem."""
        runs = class_bounds(problem.n_scores, 1 if problem.loss.of_classes else n_shards)
        return cls(n_shards, runs, _PIECES if n_shards > 1 else 1)

    @property
    def n_parts(self) -> int:
        """Number of parts of a round."""
        return len(self.runs) * self.n_pieces

    @property
    def n_together(self) -> int:
        """The most shards that process a run together."""
        return -(-self.n_shards // len(self.runs))

    def run(self, shard: int, part: int) -> int:
        """Return the number of the run that a shard processes."""
        return (shard + part) % len(self.runs)

    def shard(self, run: int, part: int, place: int) -> int | None:
        """Return the number of the shard at a place among those that process a run together, or None."""
        number = (run - part) % len(self.runs) + place * len(self.runs)
        return number if number < self.n_shards else None


# --- one shard -------------------------------------------------------------------------------------------


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
        conjugates = np.where(share == 1, self.conjugates, np.nan) if self.conjugates.size else self.conjugates
        return self._replace(dual=dual, before=dual, conjugates=conjugates)


class RoundOrder(NamedTuple):
    """What shards are told at the beginning of a part of a round."""

    weights: np.ndarray  # Each shard starts from these, of the scores that it processes.
    factor: np.ndarray  # σ' of these scores multiplies the quadratic term of the subproblem of a shard.
    share: np.ndarray  # This share of the last change is taken, of all scores.
    seed: tuple[int, ...]  # It decides the order of the rows.
    scores: tuple[int, int]  # The scores to process are from the first number to before the second.
    run: int  # These scores have this number among the runs of scores.
    part: int  # This part has this number among the parts of the round.
    n_parts: int
    n_pieces: int  # A part of a round processes one of so many pieces of the rows.


class RoundSums(NamedTuple):
    """What a shard answers at the end of a part of a round, of the scores that it processed.

    `change` is that of Σ β_i x_i, and `mean` the mean change of the weights over the round, without the factor σ', both
    of shape (n_own, n_weights). `conjugates`, shape (2, n_own), are Σ c ℓ*(-β / c) before and after.
    """

    change: np.ndarray
    mean: np.ndarray
    conjugates: np.ndarray


class Shard:
    """The rows of a shard, which are in memory, perhaps none.

    Each method is a pure function of its arguments and the rows: what is cached, Gram matrices, changes no bit of a
    result. So the work of a machine that is lost can be done again elsewhere.

    `block_rows` is as in `LinearSettings`. `number` is that of the shard, and `first` that of its first row among all.
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
        self._settings = LinearSettings(0.0, block_rows=block_rows, kept_blocks=kept, tuning=tuning)
        self._epochs: Epochs | None = None
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
        moments = moments_of(self.problem, width, most)
        rotated = np.zeros_like(moments.sample)
        if len(rotated):
            triangle = np.linalg.qr(moments.sample, mode="r")
            rotated[: len(triangle)] = triangle
        return moments._replace(sample=rotated)

    def round(self, state: ShardState, order: RoundOrder, metric: Metric) -> tuple[ShardState, RoundSums]:
        """Return the state after a pass over the rows in some scores, and what it changes.

        The subproblem is that of CoCoA+: the dual objective near the weights, as a function of the variables of this
        shard alone, with σ' times the quadratic term. Hence weights change by σ' times as much as without others.
        """
        last, scores, n_runs = state.settled(order.share), slice(*order.scores), order.n_parts // order.n_pieces
        due, pause, seed = last.due.copy(), last.pause.copy(), (*order.seed, self.number)
        if len(due) == 0:
            first = Shrinking.of(self.problem.demands.costs)
            due, pause = np.tile(first.due, (n_runs, 1)), np.tile(first.pause, (n_runs, 1))
        shrinking, piece = Shrinking(due[order.run], pause[order.run]), order.part // n_runs
        n, rows = len(self._every), self._piece(piece, order.n_pieces, seed)
        factors = metric._replace(kappa=(1 + metric.kappa[scores]) / order.factor - 1)
        weights, position = order.weights.copy(), np.zeros_like(order.weights)
        term = weights / (factors.damping[:, None] * factors.scaling) if self.problem.source.sparse else position
        path = EpochState(
            weights, weights.copy(), position, term, factors, shrinking,
            state.turn // order.n_parts, n * order.part / order.n_parts, n / order.n_parts / max(1, len(rows)),
        )  # fmt: skip
        demands, mine = demands_of_scores(self.problem.demands, order.scores), last.dual[:, scores].copy()
        conjugates = last.conjugates.copy() if last.conjugates.size else np.full(self.problem.n_scores, np.nan)
        earlier = self._conjugates(demands, mine) if np.isnan(conjugates[scores]).any() else conjugates[scores].copy()
        dual, following = last.dual.copy(), earlier
        if len(rows):
            before = self._conjugates(demands, mine, rows)
            self._epoch(self._epochs_on(demands, mine, metric), rows, path, seed)
            dual[rows, scores] = mine[rows]
            following = earlier + (self._conjugates(demands, mine, rows) - before)
        conjugates[scores] = following
        mean = (path.mean - order.weights) / order.factor[:, None]
        after = ShardState(dual, last.dual, due, pause, state.turn + 1, conjugates)
        return after, RoundSums(path.position, mean, np.array([earlier, following]))

    def _piece(self, piece: int, n_pieces: int, seed: tuple[int, ...]) -> np.ndarray:
        """Return the rows of a piece: blocks of a random partition, a new one in each round."""
        n, size = len(self._every), self._settings.block_rows
        number = np.random.default_rng((*seed, n_pieces)).permutation(-(-n // size)) % n_pieces
        rows = (np.flatnonzero(number == piece)[:, None] * size + np.arange(size)).ravel()
        return rows[rows < n]

    def _epoch(self, epochs: Epochs, rows: np.ndarray, path: EpochState, seed: tuple[int, ...]) -> None:
        """Process the active ones of some rows once."""
        epochs.begin(path)
        rows = rows if epochs.consecutive else np.random.default_rng(seed).permutation(rows)
        epochs.process(Window(self.problem.block, rows, rows), path, seed)
        epochs.end(path)
        with np.errstate(all="ignore"):
            finite = np.isfinite(path.weights.sum())
        if not finite:
            explain(Window(self.problem.block, self._every, self._every + self.first))  # by the numbers among all rows

    def _epochs_on(self, demands: Demands, dual: np.ndarray, metric: Metric) -> Epochs:
        """Return the epochs on dual variables of some scores; their Gram matrices are those of the metric."""
        problem = self.problem
        last = self._epochs_metric
        if last is None or not all(map(np.array_equal, metric, last)):
            most = np.empty((0, problem.n_scores), dual.dtype)  # of scores at a time
            self._epochs, self._epochs_metric = epochs_on(problem, most, self._settings, self.pool), metric
        epochs = self._epochs
        assert epochs is not None
        epochs.take(problem._replace(demands=demands), dual, self.pool)
        return epochs

    def _conjugates(self, demands: Demands, dual: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return Σ c ℓ*(-β / c) of all rows, or of some, in each score."""
        if rows is not None:
            demands, dual = demands.of_rows(rows), dual[rows]
        return self.problem._replace(demands=demands).conjugates(dual)

    def losses(self, weights: np.ndarray) -> np.ndarray:
        """Return the losses of weights, for each score."""
        return self.problem.losses(weights, PIECE_ROWS, self.pool)

    def certificate_sums(
        self, weights: Sequence[np.ndarray], state: ShardState, share: np.ndarray, position: np.ndarray
    ) -> CertificateSums:
        """Return the sums over the rows that a certificate needs."""
        return self.problem.certificate_sums(weights, state.settled(share).dual, position, self.pool)


# --- the solver ------------------------------------------------------------------------------------------

# The next factor is so many times the measured one, and at least this share of the last.
_MARGIN, _DECAY = 1.25, 0.9


class Shards(Protocol):
    """The shards, wherever they are. Answers are in the order of the shards."""

    def __len__(self) -> int:
        """Return the number of shards."""

    def round(self, orders: list[RoundOrder], metric: Metric) -> list[RoundSums]:
        """Have each shard take its part of a round from its last state. Shards with the same work share an order."""

    def losses(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return the losses of weights on each shard, for each score."""

    def certificate_sums(
        self, weights: Sequence[np.ndarray], share: np.ndarray, position: np.ndarray
    ) -> list[CertificateSums]:
        """Return the sums over the rows of each shard that a certificate needs."""

    def states(self, share: np.ndarray) -> list[ShardState]:
        """Return the states of the shards, with this share of their last change."""

    def restore(self, states: list[ShardState]) -> None:
        """Continue from states."""


@storable("rounds of shards")
class RoundsMemory(NamedTuple):
    """What decides the next rounds beside the state of the solver.

    `factor` and `share` are as in `RoundOrder`, for the next round. `known`, shape (n_shards, n_scores), is
    Σ c ℓ*(-β / c) over the rows of each shard, or an upper bound.
    """

    factor: np.ndarray
    share: np.ndarray
    known: np.ndarray
    shards: list[ShardState]


class ShardedAscent(LinearDualAscent):
    """Block-exact dual coordinate ascent by rounds.

    The source of `problem` is in memory and of the type of the shards, without rows; `shards` has them. `metric` is the
    strongest metric of the proximal term.
    """

    def __init__(self, problem: LinearProblem, settings: LinearSettings, metric: Metric, shards: Shards) -> None:
        self._strongest, self._known = metric, np.zeros((len(shards), problem.n_scores))
        super().__init__(problem, settings, Pool(1))
        self.newton_applies, self.shards = False, shards
        self.turns = Turns.of(problem, len(shards))
        self._factor = np.full(self.n_scores, float(self.turns.n_together))
        self._share = np.ones(self.n_scores)

    def _strongest_metric(self) -> Metric:
        return self._strongest

    def _conjugates(self, dual: np.ndarray) -> np.ndarray:
        """Return Σ c ℓ*(-β / c) of each score, as the shards know the dual variables."""
        return _total(self._known)

    def memory(self) -> RoundsMemory:  # type: ignore[override]  # of ascent in one place there is none
        """Return what decides the next rounds beside the state."""
        shards = self.shards.states(self._share)
        return RoundsMemory(self._factor, self._share, self._known, shards)

    def recall(self, memory: RoundsMemory) -> None:  # type: ignore[override]
        """Take what `memory` returned."""
        self._factor, self._share, known, shards = memory
        self._known = known.copy()  # it is modified
        self.shards.restore(shards)

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Take a round."""
        if most_steps == 0:
            return state, self._report(state, 0)
        for part in range(self.turns.n_parts):
            state = self._part(state, part)
        return self._end_epoch(state, most_steps == 1)

    def _part(self, state: LinearDualState, part: int) -> LinearDualState:
        """Return the state after a part of a round."""
        path, turns, seed = state.path, self.turns, (self.settings.seed, state.epoch)
        orders = [
            RoundOrder(
                path.weights[low:high], self._factor[low:high], self._share, seed, (low, high), run,
                part, turns.n_parts, turns.n_pieces,
            )
            for run, (low, high) in enumerate(turns.runs)
        ]  # fmt: skip
        runs = [turns.run(shard, part) for shard in range(len(self.shards))]
        answers = self.shards.round([orders[run] for run in runs], path.metric)
        together = [self._at_place(answers, part, place) for place in range(turns.n_together)]
        state = self._added(state, together)
        for shard, run in enumerate(runs):
            scores, (before, after) = slice(*turns.runs[run]), answers[shard].conjugates
            self._known[shard, scores] = before + self._share[scores] * (after - before)
        return state

    def _at_place(self, answers: list[RoundSums], part: int, place: int) -> RoundSums:
        """Return the answers in all scores of the shards at one place among those together."""
        answers_here = []
        for run, (low, high) in enumerate(self.turns.runs):
            shard = self.turns.shard(run, part, place)
            none = np.zeros((high - low, self.width))
            answers_here.append(RoundSums(none, none, none[:, :2].T) if shard is None else answers[shard])
        change, mean, conjugates = zip(*answers_here, strict=True)
        return RoundSums(np.concatenate(change), np.concatenate(mean), np.concatenate(conjugates, axis=1))

    def _added(self, state: LinearDualState, parts: list[RoundSums]) -> LinearDualState:
        """Return the state with the changes of all shards, as far as they raise the objective."""
        solve, by_problem, path = state.path.metric.solve, self.problem.by_problem, state.path
        change, mean = _total(part.change for part in parts), _total(part.mean for part in parts)
        before, after = _total(part.conjugates for part in parts)
        if not np.isfinite(np.sum(change)):
            raise ValueError(OVERFLOW)
        forward = solve(change)
        square = _products(change, forward)
        apart = _total(_products(part.change, solve(part.change)) for part in parts)
        slope, square, apart = map(by_problem, (before - after - _products(change, path.weights), square, apart))
        best = slope / np.where(square > 0, square, 1.0)
        share = np.where((square > 0) & (best < 0.5), np.maximum(best, 0.0), 1.0)
        measured = np.maximum(_MARGIN * square / np.where(apart > 0, apart, 1.0), _DECAY * self._factor)
        self._factor = np.clip(measured, 1.0, self.turns.n_together)
        self._share = share = np.ones(self.n_scores) * share
        path = path._replace(
            weights=path.weights + share[:, None] * forward,
            mean=path.mean + share[:, None] * mean,
            position=path.position + share[:, None] * change,
        )
        return state._replace(path=path)

    def _losses_of(self, weights: np.ndarray) -> np.ndarray:
        return _total(self.shards.losses(weights))

    def _certificate_sums(self, weights: Sequence[np.ndarray], state: LinearDualState) -> CertificateSums:
        """Return the sums over the rows of all shards."""
        parts = self.shards.certificate_sums(weights, self._share, state.path.position)
        return CertificateSums(
            _total(part.losses for part in parts), _total(part.conjugates for part in parts),
            max(part.violation for part in parts), self._padded(_total(part.position for part in parts)),
        )  # fmt: skip


def _total(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays, added in their order."""
    first, *others = parts
    total = first.copy()
    for part in others:
        total += part
    return total


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the dot product of each row of one array with that of another."""
    return np.einsum("cj,cj->c", left, right)
