"""Exchange of pairs and Newton steps for the linear one-class machine, whose dual variables have a given sum.

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
    Where rounds would take longer, Newton steps take turns with them, if memory holds what they need
    (`augmented_lagrangian`).

Bounds
    The dual objective is -½ ‖Σ β̂_i x_i‖², with variables of the right sum: β̂ is a multiple of β, or lies between β
    and c. The best offset for given weights is a quantile of their scores.

After
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson 2001 (problem); Chou, Lin and Lin 2020, Dual coordinate-descent
    methods for linear one-class SVM and SVDD (exchange of pairs, algorithm 3).
"""

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.cholesky import factor_of
from fastsvm.linalg.row_products import is_readable
from fastsvm.linalg.sparse_products import readable
from fastsvm.losses import MOST_STEPS, feasible, violation_of
from fastsvm.solvers.linear_dual.augmented_lagrangian import (
    AGAIN,
    Course,
    gram_of,
    newton_applies,
    newton_epochs,
    solved_within,
)
from fastsvm.solvers.linear_dual.metric import mean_square
from fastsvm.solvers.linear_dual.problem import (
    PIECE_ROWS,
    Certificate,
    CertifiedSolver,
    LinearProblem,
    LinearSettings,
    newton_direction,
)
from fastsvm.solvers.outer_loop import Limits, Report, drive
from fastsvm.sources import Block, CSRBlock, DenseBlock, MemorySource

_RIDGE, _SHARE_LEFT, _MOST_STEPS = 1e-9, 1e-4, 20  # of conjugate gradients, where w = 0 may be the optimum
_LEAST = 4e-7  # In multiples of s² times the mean ‖x‖², this is less than the objective of rows away from the origin.
_LONG = 1000  # Exchanges of rows of fewer values take less time than another solver.
_MOST_PRODUCTS = 20_000  # For each feature, as many products of two rows take less time than exchanges of some rounds.


class GivenSum(NamedTuple):
    """The constraint Σ β_i = total, 0 ≤ β_i ≤ c_i, with the costs c; the total is at most their sum."""

    costs: np.ndarray
    total: float

    @property
    def _ends(self) -> tuple[float, float]:
        """Bounds of the total as sums of costs are rounded."""
        rounding = len(self.costs) * sys.float_info.epsilon
        return (1 - rounding) * self.total, (1 + rounding) * self.total

    def corrected(self, dual: np.ndarray) -> np.ndarray:
        """Return feasible variables near others, which are within their bounds; shape (n,).

        Variables whose sum is too large are diminished in proportion. Others are moved towards the costs; those that
        are 0 stay so if the others suffice.
        """
        lack = self.total - float(dual.sum(dtype=np.float64))
        if lack <= 0:
            return self.total / (self.total - lack) * dual
        room = self.costs - dual
        of_used = np.where(dual > 0, room, 0.0)
        room = of_used if of_used.sum() >= lack else room
        most = float(room.sum())
        return dual + (lack / most if most > 0 else 0.0) * room

    def offset(self, scores: np.ndarray) -> float:
        """Return the offset ρ that minimises -total ρ + Σ c_i max(0, ρ - s_i), a weighted quantile of the scores.

        Where each offset between two scores is such, it is the middle, as in LIBSVM.
        """
        least = float(self.costs.min())
        if least == self.costs.max():  # no order is needed
            places = [min(max(math.ceil(end / least) - 1, 0), len(scores) - 1) for end in self._ends]
            low, high = np.partition(scores, places)[places]
            return float(low + (high - low) / 2)
        order = np.argsort(scores)
        order = order[self.costs[order] > 0]
        sums = np.cumsum(self.costs[order])
        low, high = np.searchsorted(sums, self._ends)
        low, high = scores[order[np.minimum((low, high), len(order) - 1)]]
        return float(low + (high - low) / 2)

    def losses(self, scores: np.ndarray, offset: float) -> float:
        """Return -total ρ + Σ c_i max(0, ρ - s_i)."""
        return float(self.costs @ np.maximum(0.0, offset - scores)) - self.total * offset


@storable("one class state")
class GivenSumState(NamedTuple):
    """What the solver carries from round to round; `dual` and `position` are modified in place.

    `dual` has the shape (n, 1). Weights have the shape (1, n_features + 1): `position` is Σ β_i x_i and 0, and `best`,
    those of the lowest primal objective so far, end with minus the offset.
    """

    dual: np.ndarray
    position: np.ndarray
    best: np.ndarray
    primal: np.ndarray  # `best` has this primal objective.
    dual_value: np.ndarray  # `dual` has this dual objective.
    epoch: int = 0  # There were so many rounds.
    gap: float = np.inf  # No round found a lower relative gap.
    halved_at: int = 0  # The gap was last found halved in this round.
    halved_gap: float = np.inf  # It was this then.
    next_newton: int = 0  # Newton steps are tried after so many rounds.


class GivenSumAscent(CertifiedSolver[GivenSumState]):
    """Rounds of pairs, and Newton steps where they are slow, for a given sum of the dual variables."""

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool) -> None:
        if problem.total is None:
            raise ValueError("The problem gives no sum of the dual variables.")
        least = max(_LEAST * problem.total**2 * mean_square(problem), np.finfo(np.float64).tiny)
        super().__init__(problem, settings._replace(least=least), pool)
        self._sum = GivenSum(problem.demands.costs, problem.total)
        self._newton_applies = settings.tuning.lagrangian and newton_applies(problem, settings.most_values)
        n, d = problem.source.shape
        length = problem.source.values_per_row
        self._is_few = self._newton_applies and n < d and length >= _LONG and n * n * length <= _MOST_PRODUCTS * d

    # --- states ------------------------------------------------------------------------------------------

    def init(self, dual: np.ndarray | None = None) -> GivenSumState:
        """Return the state at given variables, or at some for which |Σ β_i x_i| is small; the best weights are 0."""
        if dual is not None and dual.any():
            choices = [self._corrected(dual)]
        else:
            choices = (self._of_few() if self._is_few else None) or self._first()
        pairs = [(each, self.problem.combination(each, self.pool)) for each in choices]
        begin, position = min(pairs, key=lambda pair: float(np.vdot(pair[1], pair[1])))
        return GivenSumState(begin, position, np.zeros_like(position), np.zeros(1), -self.problem.penalty(position))

    def _of_few(self) -> list[np.ndarray] | None:
        """Return the solution for rows with the same dot products and as few features, None if values overflow."""
        problem, settings = self.problem, self.settings
        block, d = problem.block, problem.source.shape[1]
        has_zeros = problem.source.values_per_row < d and not problem.scale.size
        factor = factor_of(gram_of(block if has_zeros else problem.dense(block, d + 1), self.pool))
        if factor is None:
            return None
        source, nothing = MemorySource(DenseBlock(factor)), np.empty(0)
        few = problem._replace(source=source, shift=nothing, scale=nothing)
        solver = GivenSumAscent(few, settings._replace(tol=settings.tol / 2), self.pool)  # with a margin
        state, _, _ = drive(solver, solver.init(), Limits(MOST_STEPS, settings.deadline), lambda *_: False)
        return [self._corrected(state.dual)]

    def _first(self) -> list[np.ndarray]:
        """Return variables at bounds for the rows of the lowest scores by their mean.

        If their sum of these scores is not positive, w = 0 may be the optimum: `_balanced` is another choice.
        """
        problem, costs, n = self.problem, self._sum.costs, len(self.problem.source)
        even = (self._sum.total / costs.sum() * costs)[:, None]
        rows = np.arange(0, n, max(1, n // PIECE_ROWS))  # some suffice for the mean
        if len(rows) < n:
            some = problem._replace(source=problem.source.take(rows), demands=problem.demands.of_rows(rows))
            mean = some.combination(even[rows], self.pool)
        else:
            mean = problem.combination(even, self.pool)
            if self._is_zero(mean):
                return [even]
        scores = self._scores(mean)
        order = np.argsort(scores)
        before = np.cumsum(costs[order]) - costs[order]
        dual = np.empty((n, 1))
        dual[order, 0] = np.clip(self._sum.total - before, 0.0, costs[order])
        return [dual] if scores @ dual[:, 0] > 0 else [dual, self._balanced(even)]

    def _is_zero(self, position: np.ndarray) -> bool:
        """Return whether |Σ β_i x_i| is so small that weights of zero are within tolerance."""
        return float(np.vdot(position, position)) / 2 <= self.settings.tol * self.settings.least

    def _balanced(self, even: np.ndarray) -> np.ndarray:
        """Return variables c_i (t + v·(x_i - x̄)) whose sum of the rows is nearly 0, or those within bounds.

        The costs times t, `even`, have the given sum. A constant feature preserves it.
        """
        problem, pool, costs, least = self.problem, self.pool, self._sum.costs, self.settings.least
        gradient = problem.combination(even, pool)[0]
        if self._is_zero(gradient):
            return even
        size = least / (_LEAST * self._sum.total**2)  # the mean ‖x‖²
        curvatures = costs / (_RIDGE * size * costs.sum())
        problem, deadline, most = problem._replace(constant=size**0.5), self.settings.deadline, _MOST_STEPS
        direction = newton_direction(problem, curvatures, gradient, _SHARE_LEFT, pool, deadline, most)
        return self._corrected(even + curvatures[:, None] * problem.scores(direction[None], pool).T)

    def _scores(self, weights: np.ndarray) -> np.ndarray:
        """Return w·x of all rows, in the type of products."""
        scores: np.ndarray = self.problem.scores(weights, self.pool, exact=False)[0]
        if not np.isfinite(scores).all():
            self.problem.explain()
        return scores

    def _corrected(self, dual: np.ndarray) -> np.ndarray:
        """Return feasible variables near others."""
        within_bounds = feasible(self.problem.loss, self.problem.demands, dual.astype(np.float64))
        return self._sum.corrected(within_bounds[:, 0])[:, None]

    def start_of(self, state: object) -> np.ndarray | None:
        """Return the dual variables of another fit, None if there are not as many."""
        return state.dual if isinstance(state, GivenSumState) and len(state.dual) == len(self._sum.costs) else None

    def resumed(self, state: GivenSumState, same_windows: bool) -> GivenSumState:
        """Return a state that was interrupted within a round, with Σ β_i x_i computed anew."""
        return state._replace(position=self.problem.combination(state.dual, self.pool))

    # --- steps -------------------------------------------------------------------------------------------

    def step(self, state: GivenSumState, most_steps: int) -> tuple[GivenSumState, Report]:
        """Take a round, and Newton steps after it where rounds are slow."""
        if most_steps == 0:
            return state, self._report(state, 0)
        state, report = self._round(state)
        if report.converged or not self._newton_is_due(state, report.stalled):
            return state, report
        return self._newton(state)

    def _newton_is_due(self, state: GivenSumState, stalled: bool) -> bool:
        """Return whether Newton steps take less time than the rounds so far, or those that are left at a slow rate."""
        slow, worse = self.settings.tuning.slow_rounds, max(state.gap / self.settings.tol, 1.0)
        n_rounds = max(state.epoch, slow * np.log2(worse) if state.epoch > state.halved_at + slow else 0.0)
        is_worth = stalled or n_rounds >= newton_epochs(min(self.problem.source.shape))
        return self._newton_applies and is_worth and state.epoch >= state.next_newton

    def _round(self, state: GivenSumState) -> tuple[GivenSumState, Report]:
        """Take a round of pairs, which evaluates the weights before."""
        position, (dual,) = state.position, state.dual.T
        scores = self._scores(position)
        offset = self._sum.offset(scores)
        primal = self.problem.penalty(position) + self._sum.losses(scores, offset)
        best = position.copy()
        best[:, -1] = -offset
        state = state._replace(epoch=state.epoch + 1, dual_value=-self.problem.penalty(position))
        state = self._recorded(state, best, primal)
        if state.gap <= self.settings.tol:
            state, report = self._certified(state, self._report(state, 1))
            if report.converged:
                return state, report
        most = len(dual) if self.problem.source.resident else max(1, self.settings.window_rows // 2)
        pairs = worst_pairs(scores, offset, dual, self._sum.costs, most)
        n_changed = exchange(self.problem, pairs, dual, position[0])
        return state, self._report(state, 1)._replace(stalled=n_changed == 0)

    def _recorded(self, state: GivenSumState, weights: np.ndarray, primal: np.ndarray) -> GivenSumState:
        """Return the state after an evaluation of weights."""
        if primal < state.primal:
            state = state._replace(best=weights, primal=primal)
        gap = self.gap_of(Certificate(state.primal, state.dual_value, 0.0))
        if gap <= state.halved_gap / 2:
            state = state._replace(halved_at=state.epoch, halved_gap=gap)
        return state._replace(gap=min(gap, state.gap))

    def _newton(self, state: GivenSumState) -> tuple[GivenSumState, Report]:
        """Take Newton steps to the tolerance."""
        problem, settings = self.problem, self.settings
        total, offset, before = self._sum.total, -float(state.best[0, -1]), state.gap
        course = Course(settings.tol / 2, settings.least, total=total, offset=offset)
        solution = solved_within(problem, state.dual, course, self.pool, settings.deadline)
        after = self._corrected(solution.dual.T)
        position = problem.combination(after, self.pool)
        value = -problem.penalty(position)
        if value > state.dual_value:
            state.dual[:] = after
            state = state._replace(position=position, dual_value=value)
        state, report = self._certified(state, self._report(state, 1), [solution.weights])
        if state.gap <= before / 2:
            return state._replace(next_newton=state.epoch), report
        return state._replace(next_newton=AGAIN * state.epoch), report

    # --- certificates ------------------------------------------------------------------------------------

    def _certified(
        self, state: GivenSumState, report: Report, others: Sequence[np.ndarray] = ()
    ) -> tuple[GivenSumState, Report]:
        """Certify the best weights, or others if they are better, and report whether they are within tolerance."""
        state, certificate = self._certified_end(state, others)
        self.certificate = certificate
        state = self._recorded(state._replace(dual_value=certificate.dual), state.best, state.primal)
        is_within = self.is_within(certificate)
        return state, report._replace(gap=self.gap_of(certificate), within=is_within, converged=is_within)

    def _certified_end(
        self, state: GivenSumState, others: Sequence[np.ndarray] = ()
    ) -> tuple[GivenSumState, Certificate]:
        """Return the state with the best of its weights, others and Σ β_i x_i, and its certificate, by exact scores."""
        problem, given_sum, dual = self.problem, self._sum, self._corrected(state.dual)
        position = problem.combination(dual, self.pool)
        is_choice = not state.best.any() or np.array_equal(state.best[:, :-1], state.position[:, :-1])  # in any case
        every = np.concatenate([*others, position] if is_choice else [*others, state.best, position])
        every[:, -1] = 0.0
        scores = problem.scores(every, self.pool)
        best, lowest = np.zeros_like(state.best), 0.0
        for of_weights, weights in zip(scores, every, strict=True):
            offset = given_sum.offset(of_weights)
            primal = 0.5 * float(weights @ weights) + given_sum.losses(of_weights, offset)
            if primal < lowest:
                lowest, best = primal, np.append(weights[:-1], -offset)[None]
        violation = violation_of(problem.loss, problem.demands, 0, dual, scores[-1:] - offset)  # those of the variables
        state = state._replace(best=best, primal=np.array([lowest]))
        return state, Certificate(state.primal, -problem.penalty(position), violation)

    def weights(self, state: GivenSumState) -> np.ndarray:
        """Return the best weights of the features and, last, minus the offset."""
        return state.best


# --- exchange of pairs -----------------------------------------------------------------------------------

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
        grow, shrink, most = np.flatnonzero(dual < costs), np.flatnonzero(dual > 0), _FEW_ROWS
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
    source = problem.source
    is_plain = source.resident and problem.scale.size == 0
    is_plain = is_plain and (source.sparse or is_readable(cast(DenseBlock, problem.block).values))
    used, places = (slice(None), rows) if is_plain else np.unique(rows, return_inverse=True)
    block: Block = problem.block if is_plain else source.take(cast(np.ndarray, used)).in_memory().block
    of_used, costs = dual[used], costs[used]
    if isinstance(block, CSRBlock):
        block, stored = readable(block, places)
        n_changed = _exchange_sparse(block, stored, (places, turns), costs, of_used, weights)
    else:
        d = block.shape[1]
        values = block.values if is_plain else np.ascontiguousarray(problem.dense(block, d + 1)[:, :d])
        n_changed = _exchange_dense(values, (places, turns), costs, of_used, weights)
    dual[used] = of_used
    return int(n_changed)


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
    n, n_changed, step = rows.size // 2, 0, np.zeros(weights.size)
    for u in range(turns * n):
        t, other = u % n, n + (u + u // n) % n
        a, b = places[t], places[other]
        for p in range(indptr[a], indptr[a + 1]):
            step[indices[p]] -= float(data[p])
        for p in range(indptr[b], indptr[b + 1]):
            step[indices[p]] += float(data[p])
        difference, square = 0.0, 0.0
        for row in (a, b):
            for p in range(indptr[row], indptr[row + 1]):
                difference += weights[indices[p]] * step[indices[p]]
                square += step[indices[p]] ** 2
                step[indices[p]] = 0.0
        more, less = _changes(difference, square, (rows[t], rows[other]), costs, dual)
        if more != 0 or less != 0:
            n_changed += 1
            for row, change in ((a, more), (b, less)):
                for p in range(indptr[row], indptr[row + 1]):
                    weights[indices[p]] += change * float(data[p])
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
