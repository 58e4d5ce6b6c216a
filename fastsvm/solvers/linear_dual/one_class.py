"""Exchange of pairs and dual coordinate ascent for the linear one-class machine, whose dual variables have a given sum.

Problem
    minimise    ½ ‖w‖² - s ρ + Σ_i c_i max(0, ρ - w·x_i)
    over the weights w and the offset ρ. The dual variables are 0 ≤ β_i ≤ c_i with Σ_i β_i = s; w = Σ_i β_i x_i.

Rounds
    At the optimum, variables of rows with scores below the offset are at their bounds, and those above are 0. Rows that
    are furthest from that on both sides exchange mass in pairs: one variable grows by as much as the other shrinks, up
    to the minimum of the dual objective. A round is one
    pass over the rows for their scores, and some 10 % of the rows for the pairs, of rows on disk as many as a window.
    Two to ten rounds suffice most times. They are slow where rows vary least in the direction from the origin to them.

Newton steps
    Where ten rounds do not halve the gap, Newton steps take turns with rounds, if they apply (`augmented_lagrangian`).

Epochs
    Where Newton steps do not apply, as for rows on disk, epochs of dual coordinate ascent follow, which change more
    variables than rounds do.
    ρ = -k b, with the weight b of a constant feature of value k, which is as long as the rows. It has no penalty ½ b²,
    but a proximal term ½ (b - v)², as the other weights have (`proximal_point`). β attains its sum while the anchor v
    moves (Rockafellar 1976, Augmented Lagrangians and applications of the proximal point algorithm in convex
    programming).

Bounds
    The dual objective is -½ ‖Σ β̂_i x_i‖², with variables of the right sum: β̂ is a multiple of β, or lies between β
    and c. The best offset for given weights is a quantile of their scores.

After
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson 2001 (problem); Chou, Lin and Lin 2020, Dual coordinate-descent
    methods for linear one-class SVM and SVDD (exchange of pairs, algorithm 3).
"""

from typing import Any

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.linalg.row_products import is_readable
from fastsvm.linalg.sparse_products import readable
from fastsvm.losses import feasible, violation_of
from fastsvm.solvers.linear_dual.coordinate_ascent import AscentAfterRounds
from fastsvm.solvers.linear_dual.problem import (
    OVERFLOW,
    PIECE_ROWS,
    ROUNDING,
    Certificate,
    GivenSum,
    LinearProblem,
    all_scores,
    combination,
)
from fastsvm.solvers.linear_dual.proximal_point import recorded
from fastsvm.solvers.linear_dual.state import LinearDualSettings, LinearDualState
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import Block, CSRBlock, DenseBlock, check_finite

__all__ = ["GivenSumAscent", "exchange", "least_objective", "worst_pairs"]

_LEAST = 1e-7  # In multiples of (k s)², this is less than the objective of rows that are not all near the origin.


class GivenSumAscent(AscentAfterRounds):
    """Rounds of pairs with Newton steps or, where these do not apply, dual coordinate ascent, for a given sum."""

    def __init__(self, problem: LinearProblem, settings: LinearDualSettings, pool: Pool) -> None:
        super().__init__(problem, settings, pool)
        if problem.total is None:
            raise ValueError("The problem gives no sum of the dual variables.")
        self.given = GivenSum(problem.demands.costs, problem.total)
        self._whole: np.ndarray | None = None

    def _begins_in_rounds(self) -> bool:
        return self.settings.tuning.pairs

    @property
    def whole(self) -> np.ndarray:
        """Σ c_i x_i, from a pass over the rows."""
        if self._whole is None:
            self._whole = self._padded(combination(self.problem, self.given.costs[:, None], self.pool))
        return self._whole

    def init(self, dual: np.ndarray | None = None) -> LinearDualState:
        """Return the state at variables in proportion to the costs, or at given ones if these are better."""
        real, share = product_type(self.problem.source.dtype), self.given.total / float(self.given.costs.sum())
        is_new = dual is None or not dual.any()
        if is_new:
            begin = self._lowest(self._mean_direction()).astype(real)
            position = self._position_of(begin)
        else:
            position, begin = share * self.whole, (share * self.given.costs[:, None]).astype(real)
        if dual is not None and not is_new:
            given = self._corrected(dual)
            found = self._position_of(given)
            if np.vdot(found[:, :-1], found[:, :-1]) < np.vdot(position[:, :-1], position[:, :-1]):
                position, begin = found, given.astype(real)
        position[:, -1] = self._excess(begin)
        anchor = position.copy()
        anchor[:, -1] = -np.einsum("cj,cj->c", position[:, :-1], position[:, :-1]) / (
            self.given.total * self.problem.constant
        )
        return LinearDualState(
            dual=begin, anchor=anchor, last=anchor, momentum=np.ones(1), path=self.proximal.path(position, anchor),
            candidate=None, losses=np.zeros(1), best=anchor, primal=np.full(1, np.inf), dual_value=np.zeros(1),
            initial_value=self.proximal.near_value(np.zeros(1), position, anchor),
            in_rounds=self._begins_in_rounds(),
        )  # fmt: skip

    def _mean_direction(self) -> np.ndarray:
        """Return the sum of some rows times their costs, which suffices to tell which scores are low."""
        problem, rows = self.problem, np.arange(0, len(self.rows), max(1, len(self.rows) // PIECE_ROWS))
        some = problem._replace(source=problem.source.take(rows), demands=problem.demands.of_rows(rows))
        return self._padded(combination(some, some.demands.costs[:, None], self.pool))

    def _lowest(self, weights: np.ndarray) -> np.ndarray:
        """Return variables that are at their bounds for the rows of the lowest scores."""
        scores, costs = self._scores(weights), self.given.costs
        order = np.argsort(scores)
        before = np.cumsum(costs[order]) - costs[order]
        found = np.empty((len(scores), 1))
        found[order, 0] = np.clip(self.given.total - before, 0.0, costs[order])
        return found

    def _scores(self, weights: np.ndarray) -> np.ndarray:
        """Return w·x of all rows, in the type of products."""
        inner = weights.copy()
        inner[:, -1] = 0
        found = all_scores(self.problem, inner, self.pool, exact=False)[0]
        if not np.isfinite(found).all():
            for start, block in self.problem.source.blocks():
                check_finite(block, start)
            raise ValueError(OVERFLOW)
        return found

    # --- rounds of pairs ---------------------------------------------------------------------------------

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Take a round, and Newton steps after it where rounds are slow; where these do not apply, process a window."""
        if most_steps == 0 or not (state.in_rounds and self.newton_applies):
            return super().step(state, most_steps)
        state, report = self.round(state)
        if report.converged or not self._is_slow(state, report) or state.epoch < state.next_finish:
            return state, report
        before = state.gap
        state, report = self._newton_step(state, report._replace(stalled=False))
        if state.gap <= before / 2:
            state = state._replace(halved_at=state.epoch, halved_gap=state.gap, next_finish=state.epoch)
        return self._certified(state, report)

    def round(self, state: LinearDualState) -> tuple[LinearDualState, Report]:
        """Take a round of pairs, which evaluates the weights before."""
        position, (dual,) = state.path.position, state.dual.T
        scores = self._scores(position)
        offset = self.given.offset(scores)
        weights = position.copy()
        weights[:, -1] = -offset / self.problem.constant
        primal = 0.5 * np.vdot(position[0, :-1], position[0, :-1]) + self.given.losses(scores, offset)
        state = state._replace(epoch=state.epoch + 1, dual_value=self._dual_value(state.dual, np.zeros(1), position))
        state, gap = recorded(state, weights, np.full(1, primal), self.settings)
        report = self._report(state, 1)
        if gap <= self.settings.tol:
            state, report = self._certified(state, report)
            if report.converged:
                return state, report
        most = len(dual) if self.problem.source.resident else max(1, self.settings.window_rows // 2)
        pairs = worst_pairs(scores, offset, dual, self.given.costs, most)
        n_changed = exchange(self.problem, pairs, dual, position[0])
        position[:, -1] = self._excess(state.dual)
        return state, report._replace(stalled=n_changed == 0)

    def _corrected(self, dual: np.ndarray) -> np.ndarray:
        """Return feasible variables near others."""
        found = feasible(self.problem.loss, self.problem.demands, dual.astype(np.float64))
        return self.given.corrected(found[:, 0])[:, None]

    def _excess(self, dual: np.ndarray) -> np.ndarray:
        """Return k (Σ β_i - s)."""
        return self.problem.constant * (dual.sum(axis=0, dtype=np.float64) - self.given.total)

    def _position_of(self, dual: np.ndarray) -> np.ndarray:
        found = super()._position_of(dual)
        found[:, -1] = self._excess(dual)
        return found

    def _dual_value(self, dual: np.ndarray, conjugates: np.ndarray, position: np.ndarray) -> np.ndarray:
        found, most = float(dual.sum(dtype=np.float64)), float(self.given.costs.sum())
        lack = 1 - found / self.given.total
        if abs(lack) <= np.sqrt(ROUNDING):  # which a certificate corrects
            inner = position[:, :-1]
        elif lack < 0:
            inner = position[:, :-1] / (1 - lack)
        else:
            share = (self.given.total - found) / (most - found) if most > found else 0.0
            inner = (1 - share) * position[:, :-1] + share * self.whole[:, :-1]
        return -0.5 * np.einsum("cj,cj->c", inner, inner)

    def finish(self, state: LinearDualState) -> np.ndarray:
        """Return the weights of the features and, last, minus the offset."""
        found = super().finish(state)
        found[:, -1] *= self.problem.constant
        return found

    # --- certificate -------------------------------------------------------------------------------------

    def _certified(self, state: LinearDualState, report: Report) -> tuple[LinearDualState, Report]:
        weights = self._weights(state)
        is_position = np.array_equal(weights[:, :-1], state.path.position[:, :-1])  # which is a choice in any case
        state, self.certificate = self._best_offset(state, [] if is_position else [weights])
        return self._judged(state, report, self.certificate)

    def concluded(self, state: LinearDualState) -> tuple[LinearDualState, Certificate]:
        """Return the state at the end of a fit, with the best offset, and its certificate."""
        choices = [self._weights(state)]
        return self._best_offset(state, choices if state.candidate is None else [*choices, state.candidate])

    def _best_offset(self, state: LinearDualState, choices: list[np.ndarray]) -> tuple[LinearDualState, Certificate]:
        """Return the state with the best of some weights and Σ β_i x_i, with the best offset, and its certificate."""
        problem, given, dual = self.problem, self.given, self._corrected(state.dual)
        position = self._padded(combination(problem, dual, self.pool))
        every = np.concatenate([*choices, position])
        every[:, -1] = 0
        scores, found = all_scores(problem, every, self.pool), []
        for own, weights in zip(scores, every, strict=True):
            offset = given.offset(own)
            value = 0.5 * float(weights @ weights) + given.losses(own, offset)
            found.append((value, -offset / problem.constant, weights))
        primal, last, weights = min(found, key=lambda each: each[0])
        best = weights.copy()[None]
        best[:, -1] = last
        of_dual = scores[-1:] - given.offset(scores[-1])
        violation = violation_of(problem.loss, problem.demands, 0, dual, of_dual)
        value = -0.5 * np.einsum("cj,cj->c", position[:, :-1], position[:, :-1])
        return state._replace(best=best, primal=np.array([primal])), Certificate(np.array([primal]), value, violation)


def least_objective(problem: LinearProblem) -> float:
    """Return the absolute value of the objective below which the gap is relative to this."""
    return max(_LEAST * (problem.constant * (problem.total or 0.0)) ** 2, np.finfo(np.float64).tiny)


# --- exchange of pairs -----------------------------------------------------------------------------------

Pairs = tuple[np.ndarray, np.ndarray]

_SHARE = 0.1  # Of the rows, a round exchanges mass in so large a share of pairs.
_LEAST_PAIRS = 1000  # There are at least so many exchanges in a round, those of rows that meet several others included.
_FEW_ROWS = 32  # If fewer rows violate the optimality conditions, so many take part: others may have to move too.


def worst_pairs(
    scores: np.ndarray, offset: float, dual: np.ndarray, costs: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows whose variables should grow, and as many that should shrink, the most urgent first."""
    grow = np.flatnonzero((scores < offset) & (dual < costs))
    shrink = np.flatnonzero((scores > offset) & (dual > 0))
    if min(len(grow), len(shrink)) < _FEW_ROWS:  # those that do not violate the conditions yet may have to move too
        grow, shrink = np.flatnonzero(dual < costs), np.flatnonzero(dual > 0)
        n = min(len(grow), len(shrink), _FEW_ROWS)
        return _first(grow, scores[grow], n), _first(shrink, -scores[shrink], n)
    n = min(len(grow), len(shrink), max(_LEAST_PAIRS, int(_SHARE * len(scores))), most)
    return _first(grow, scores[grow], n), _first(shrink, -scores[shrink], n)


def _first(rows: np.ndarray, keys: np.ndarray, n: int) -> np.ndarray:
    """Return the `n` rows with the smallest keys, in rising order."""
    if n < len(rows):
        some = np.argpartition(keys, n)[:n]
        rows, keys = rows[some], keys[some]
    return rows[np.argsort(keys)]


def exchange(
    problem: LinearProblem, pairs: tuple[np.ndarray, np.ndarray], dual: np.ndarray, weights: np.ndarray
) -> int:
    """Exchange mass within pairs of rows, whose variables should grow and shrink; return how many pairs changed.

    The variables `dual` and the weights Σ β_i x_i are modified. Rows that are not in memory as compiled code takes them
    are gathered first.
    """
    n, rows, costs = len(pairs[0]), np.concatenate(pairs), problem.demands.costs
    turns = max(1, min(n, _LEAST_PAIRS // max(n, 1)))  # of few pairs: each row meets others
    if _is_at_hand(problem):
        return _exchange(problem.block, (rows, turns), costs, dual, weights)
    every, places = np.unique(rows, return_inverse=True)
    block: Block = problem.source.take(every).in_memory().block
    if not isinstance(block, CSRBlock):
        d = block.shape[1]
        block = DenseBlock(np.ascontiguousarray(problem.dense(block, d + 1)[:, :d]))
    some = dual[every]
    n_changed = _exchange(block, (places, turns), costs[every], some, weights)
    dual[every] = some
    return n_changed


def _is_at_hand(problem: LinearProblem) -> bool:
    """Return whether rows are in memory, in a form that compiled code takes."""
    source = problem.source
    if not source.resident or problem.scale.size:
        return False
    block: Any = problem.block
    return source.sparse or is_readable(block.values)


def _exchange(
    block: Block, plan: tuple[np.ndarray, int], costs: np.ndarray, dual: np.ndarray, weights: np.ndarray
) -> int:
    if isinstance(block, CSRBlock):
        block, places = readable(block, plan[0])
        return int(_exchange_sparse(block, places, plan, costs, dual, weights))
    return int(_exchange_dense(block.values, plan, costs, dual, weights))


@jit
def _exchange_dense(values, plan, costs, dual, weights):
    rows, turns = plan
    n, n_changed = rows.size // 2, 0
    for u in range(turns * n):
        i, j = rows[u % n], rows[n + (u + u // n) % n]
        difference, square = 0.0, 0.0
        for k in range(values.shape[1]):
            step = float(values[j, k]) - float(values[i, k])
            difference += weights[k] * step
            square += step * step
        more, less = _changes(difference, square, (i, j), costs, dual)
        if more != 0 or less != 0:
            n_changed += 1
            for k in range(values.shape[1]):
                weights[k] += more * float(values[i, k]) + less * float(values[j, k])
    return n_changed


@jit
def _exchange_sparse(block, places, plan, costs, dual, weights):
    rows, turns = plan
    data, indices, indptr = block.data, block.indices, block.indptr
    n, n_changed, first = rows.size // 2, 0, np.zeros(weights.size)
    for u in range(turns * n):
        t, other = u % n, n + (u + u // n) % n
        a, b = places[t], places[other]
        difference, square = 0.0, 0.0
        for p in range(indptr[a], indptr[a + 1]):
            value = float(data[p])
            first[indices[p]] += value
            difference -= weights[indices[p]] * value
        for p in range(indptr[b], indptr[b + 1]):
            value = float(data[p])
            difference += weights[indices[p]] * value
            square += value * (value - 2 * first[indices[p]])
        for p in range(indptr[a], indptr[a + 1]):
            square += float(data[p]) * first[indices[p]]
        for p in range(indptr[a], indptr[a + 1]):
            first[indices[p]] = 0.0
        more, less = _changes(difference, square, (rows[t], rows[other]), costs, dual)
        if more != 0 or less != 0:
            n_changed += 1
            for p in range(indptr[a], indptr[a + 1]):
                weights[indices[p]] += more * float(data[p])
            for p in range(indptr[b], indptr[b + 1]):
                weights[indices[p]] += less * float(data[p])
    return n_changed


@jit
def _changes(difference, square, pair, costs, dual):
    """Change the variables of a pair, whose scores differ by `difference`, and return both changes as they are stored.

    `square` is ‖x_i - x_j‖².
    """
    i, j = pair
    own, other = float(dual[i]), float(dual[j])
    if i == j or square <= 0:  # of a row and itself, rounding may leave more than 0
        return 0.0, 0.0
    step = min(difference / square, costs[i] - own, other)
    step = max(step, -own, other - costs[j])
    real = dual.dtype.type
    dual[i], dual[j] = real(own + step), real(other - step)
    return float(dual[i]) - own, float(dual[j]) - other
