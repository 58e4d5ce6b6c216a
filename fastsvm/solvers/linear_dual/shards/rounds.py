"""Rounds of dual coordinate ascent on rows in several places: CoCoA+ with a step that is measured.

Round
    Classes one against the rest are problems of their own. So each shard passes over its rows for some of them while
    others do for the rest, and they change about, as many times as a round has parts. A class then goes from shard to
    shard like an epoch over windows (`turns`), and nothing is lost by the shards.

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
    is that of ascent in one place (`coordinate_ascent`): metric, anchors and momentum, evaluations, the certificate.
    Sums are added in the order of the shards. With the same shards each bit of the answer is the same.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.solvers.linear_dual.certificate import Certificate, CertificateSums, certificate_of
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.problem import OVERFLOW, LinearProblem
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.solvers.linear_dual.proximal_point import ProximalPoint
from fastsvm.solvers.linear_dual.shards.shard import RoundOrder, RoundSums, ShardState
from fastsvm.solvers.linear_dual.shards.turns import Turns
from fastsvm.solvers.linear_dual.state import LinearDualSettings, LinearDualState
from fastsvm.solvers.outer_loop import Report

__all__ = ["RoundsMemory", "ShardedAscent", "Shards"]

_MARGIN = 1.25  # times the measured factor
_DECAY = 0.9  # the least share of the last factor that the next is: where it jumps, momentum is lost
_RISE = 0.5  # share of the best step above which the whole step raises the dual objective


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

    `factor`, `share` and `activate` are as in `RoundOrder`, for the next round, and `known` is as in `_ShardedPoint`.
    """

    factor: np.ndarray
    share: np.ndarray
    activate: bool
    known: np.ndarray
    shards: list[ShardState]


class _ShardedPoint(ProximalPoint):
    """Anchors and objectives where the shards know the dual variables.

    `known`, shape (n_shards, n_scores), is Σ c ℓ*(-β / c) over the rows of each shard, or an upper bound.
    """

    known: np.ndarray

    def conjugates(self, dual: np.ndarray) -> np.ndarray:
        """Return Σ c ℓ*(-β / c) of each score."""
        return _total(self.known)


class ShardedAscent(LinearDualAscent):
    """Block-exact dual coordinate ascent by rounds.

    The source of `problem` is in memory and of the type of the shards, without rows; `shards` has them. `metric` is the
    strongest metric of the proximal term.
    """

    def __init__(self, problem: LinearProblem, settings: LinearDualSettings, metric: Metric, shards: Shards) -> None:
        self._given_metric = metric
        super().__init__(problem, settings, Pool(1))
        self.newton_applies, self.shards = False, shards
        self.proximal: _ShardedPoint = _ShardedPoint(problem, metric, settings.tuning)
        self.proximal.known = np.zeros((len(shards), self.n_scores))
        self.turns = Turns.of(problem, len(shards))
        self._factor = np.full(self.n_scores, float(self.turns.n_together))
        self._share, self._activate = np.ones(self.n_scores), False

    def _first_metric(self) -> Metric:
        return self._given_metric

    def memory(self) -> RoundsMemory:  # type: ignore[override]  # of ascent in one place there is none
        """Return what decides the next rounds beside the state."""
        shards = self.shards.states(self._share)
        return RoundsMemory(self._factor, self._share, self._activate, self.proximal.known, shards)

    def recall(self, memory: RoundsMemory) -> None:  # type: ignore[override]
        """Take what `memory` returned."""
        self._factor, self._share, self._activate, known, shards = memory
        self.proximal.known = known.copy()  # it is modified
        self.shards.restore(shards)

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Take a round."""
        if most_steps == 0:
            return state, self._report(state, 0)
        anchor = state.anchor
        for part in range(self.turns.n_parts):
            state = self._part(state, part)
        state, report = self._end_epoch(state, most_steps == 1)
        self._activate = bool((state.anchor != anchor).any())
        return state, report

    def _part(self, state: LinearDualState, part: int) -> LinearDualState:
        """Return the state after a part of a round."""
        path, turns, seed = state.path, self.turns, (self.settings.seed, state.epoch)
        told = self._share, self._activate, seed
        parts = part, turns.n_parts, turns.n_pieces
        orders = [
            RoundOrder(path.weights[slice(*own)], self._factor[slice(*own)], *told, own, run, *parts)
            for run, own in enumerate(turns.runs)
        ]
        own = [turns.run(shard, part) for shard in range(len(self.shards))]
        answers = self.shards.round([orders[run] for run in own], path.metric)
        held = self._held(answers, own)
        together = [self._at_place(answers, part, place) for place in range(turns.n_together)]
        state = self._added(state, together, held)
        for shard, run in enumerate(own):
            scores, (before, after) = slice(*turns.runs[run]), answers[shard].conjugates
            self.proximal.known[shard, scores] = before + self._share[scores] * (after - before)
        return state

    def _held(self, answers: list[RoundSums], own: list[int]) -> np.ndarray:
        """Return by how much less the conjugates were than what was known, for each score."""
        found = np.zeros(self.n_scores)
        for shard, run in enumerate(own):
            scores = slice(*self.turns.runs[run])
            found[scores] += answers[shard].conjugates[0] - self.proximal.known[shard, scores]
        return found

    def _at_place(self, answers: list[RoundSums], part: int, place: int) -> RoundSums:
        """Return the answers in all scores of the shards at one place among those together."""
        found = []
        for run, (low, high) in enumerate(self.turns.runs):
            shard = self.turns.shard(run, part, place)
            none = np.zeros((high - low, self.width))
            found.append(RoundSums(none, none, none[:, :2].T, none[:, 0]) if shard is None else answers[shard])
        change, mean, conjugates, gaps = zip(*found, strict=True)
        return RoundSums(
            np.concatenate(change), np.concatenate(mean), np.concatenate(conjugates, axis=1), np.concatenate(gaps)
        )

    def _added(self, state: LinearDualState, parts: list[RoundSums], late: np.ndarray) -> LinearDualState:
        """Return the state with the changes of all shards, as far as they raise the objective.

        With a share of the changes before, only a bound of the conjugates was known: they are `late` more.
        """
        solve, by_problem, path = state.path.metric.solve, self.problem.by_problem, state.path
        change, mean = _total(part.change for part in parts), _total(part.mean for part in parts)
        before, after = _total(part.conjugates for part in parts)
        if not np.isfinite(np.sum(change)):
            raise ValueError(OVERFLOW)
        forward = solve(change)
        square = _products(change, forward)
        own = _total(_products(part.change, solve(part.change)) for part in parts)
        slope, square, own = map(by_problem, (before - after - _products(change, path.weights), square, own))
        best = slope / np.where(square > 0, square, 1.0)
        share = np.where((square > 0) & (best < _RISE), np.maximum(best, 0.0), 1.0)
        measured = np.maximum(_MARGIN * square / np.where(own > 0, own, 1.0), _DECAY * self._factor)
        self._factor = np.clip(measured, 1.0, self.turns.n_together)
        self._share = share = np.ones(self.n_scores) * share
        path = path._replace(
            weights=path.weights + share[:, None] * forward,
            mean=path.mean + share[:, None] * mean,
            position=path.position + share[:, None] * change,
            gaps=path.gaps + _total(part.gaps for part in parts),
        )  # fmt: skip
        return state._replace(path=path, initial_value=state.initial_value - by_problem(late))

    def _losses_of(self, weights: np.ndarray) -> np.ndarray:
        return _total(self.shards.losses(weights))

    def certify(self, state: LinearDualState) -> Certificate:
        """Return both objectives and the violation of the optimality conditions, by a pass in float64."""
        weights = [self._weights(state)]
        parts = self.shards.certificate_sums(weights, self._share, state.path.position)
        sums = CertificateSums(
            _total(part.losses for part in parts), _total(part.conjugates for part in parts),
            max(part.violation for part in parts), self._padded(_total(part.position for part in parts)),
        )  # fmt: skip
        found = certificate_of(self.problem, weights, sums)
        return found._replace(primal=found.primal[0])


def _total(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays, added in their order."""
    first, *others = parts
    found = first.copy()
    for part in others:
        found += part
    return found


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the dot product of each row of one array with that of another."""
    return np.einsum("cj,cj->c", left, right)
