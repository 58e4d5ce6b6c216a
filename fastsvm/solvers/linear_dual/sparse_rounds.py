"""Dual coordinate ascent for sparse rows of many features in memory, such as texts.

Rounds
    A round evaluates both objectives by a pass over the rows, then takes up to ten passes of coordinate ascent over the
    rows that matter. Sums over all features, of which an epoch with a proximal term has some twenty, would take
    longer than the rows themselves, and few rows share a rare feature, so that variables hardly depend on each other.

Passes
    A row is left out for the rest of the passes if no score near its own would change its variable. "Near" is the
    largest violation of the pass before, as in LIBLINEAR's shrinking (section 3.2); here the exact update is asked, so
    that no loss needs a rule of its own.

Source
    Hsieh, Chang, Lin, Keerthi and Sundararajan 2008, A dual coordinate descent method for large-scale linear SVM.
"""

from typing import NamedTuple, cast

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.row_products import product_type
from fastsvm.linalg.sparse_products import readable, unsigned
from fastsvm.losses import (
    conjugate,
    coordinate_update,
    least_curvature,
    loss_value,
    nearly,
    projected_gradient,
    write_costs,
)
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent, LinearDualState, recorded
from fastsvm.solvers.linear_dual.epochs import EpochState, Shrinking
from fastsvm.solvers.linear_dual.metric import Metric, no_metric
from fastsvm.solvers.linear_dual.problem import PIECE_ROWS, PIECE_VALUES, LinearProblem, LinearSettings
from fastsvm.solvers.outer_loop import OutOfTime, Report, check_time
from fastsvm.sources import CSRBlock

_PASSES = 10  # A round has at most so many passes, each of which costs as much as what comes before them;
_SHORT_PASSES = 20  # or so many, if they are a piece of work.


class WideAscent(LinearDualAscent):
    """Rounds of dual coordinate ascent for sparse rows of many features; epochs follow where they are slow.

    The loss is one of each score, not of all classes.
    """

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool) -> None:
        super().__init__(problem, settings, pool)
        block = unsigned(readable(cast(CSRBlock, problem.block), self.rows)[0])
        with np.errstate(over="ignore"):  # which is looked for below
            norms = [problem.block.slice(a, b).sq_norms() for a, b in spans(len(self.rows), PIECE_ROWS)]
        squares = np.concatenate(norms) + problem.constant**2
        if not np.isfinite(squares).all():  # of rows that cost nothing too
            problem.explain()
        self._rows, self._scores = (block, squares, problem.constant), np.zeros((self.n_scores, len(squares)))
        n_passes, most = (work // max(1, len(block.data)) for work in (settings.tuning.step_work // 8, PIECE_VALUES))
        by_violation = settings.criterion != "gap"
        most = min(max(most, _PASSES), _SHORT_PASSES)
        self._plan = PassPlan(settings.tol, by_violation, min(max(n_passes, 1), most))

    def init(self, dual: np.ndarray | None = None) -> LinearDualState:
        """Return the state at zero, or at given variables as in epochs."""
        if dual is not None and dual.any():
            return super().init(dual)._replace(in_rounds=True)
        k, real = self.n_scores, product_type(self.problem.source.dtype)
        position = np.zeros((k, self.width))
        shared = position, position, position, position  # rounds have no anchor
        path = EpochState(*shared, self.metric, Shrinking.of(self.problem.demands.costs), 0)
        return LinearDualState(
            dual=np.zeros((len(self.rows), k), real), path=path, candidate=None, losses=np.zeros(k),
            best=np.zeros_like(position), primal=np.full(k, np.inf), dual_value=np.zeros(k), in_rounds=True,
        )  # fmt: skip

    def _first_metric(self) -> Metric:
        """Return no metric: rounds have none, and may suffice."""
        return no_metric(self.n_scores, self.width)

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Process a window, or take a round."""
        if not state.in_rounds or most_steps == 0:
            return super().step(state, most_steps)
        state, report = self._round(state)
        is_slow = report.stalled or state.epoch > state.halved_at + self.settings.tuning.slow_rounds
        if is_slow and not report.converged:
            state = self.with_metric(state, self._strongest_metric())._replace(in_rounds=False)
        return state, report._replace(stalled=False)

    def _round(self, state: LinearDualState) -> tuple[LinearDualState, Report]:
        """Take some passes in each score that is not within tolerance; certify the weights if there is none."""
        problem, path = self.problem, state.path
        is_zero = not path.position.any()
        self._scores[:] = 0.0 if is_zero else problem.scores(path.position, self.pool, exact=False)
        columns = np.zeros((self.n_scores, len(COLUMNS)))
        plan = self._plan._replace(seed=self.settings.seed, epoch=state.epoch)
        changing = state.dual, path.position, state.best, state.primal.copy()

        def some(a: int, b: int) -> None:
            check_time(self.settings.deadline)
            of_scores = plan._replace(first=a, last=b)
            take_passes(problem.loss, problem.demands, self._rows, self._scores, of_scores, changing, columns)

        try:
            self.pool.run(some, spans(self.n_scores, max(1, PIECE_VALUES // self._rows[0].data.size)))
        except OutOfTime:  # the variables and their sums fit together, of scores with and without passes
            return state, self._report(state, 0)
        primal, value, changed = columns.T
        if not np.isfinite(primal).all():
            problem.explain()
        rise = float(((value - state.dual_value) / np.maximum(value, self.settings.least)).max())
        state, _ = recorded(state._replace(epoch=state.epoch + 1, dual_value=value), state.best, primal, self.settings)
        if 0 < rise <= state.halved_gap / 2:  # the dual converges, though weights that are not the best hide it
            state = state._replace(halved_at=state.epoch, halved_gap=rise)
        report = self._report(state, 1)
        return (state, report) if changed.any() else self._certified(state, report._replace(stalled=True))


# --- passes -----------------------------------------------------------------------------------------------

COLUMNS = ("primal", "dual", "changed")
"""What `take_passes` finds of a score: both objectives before its passes, and whether these changed a variable."""

_LESS = 0.1  # Passes end when the rows that are left have no more than this share of the gap.
# Of the linear congruential generator MMIX (Knuth, The Art of Computer Programming, volume 2, section 3.3.4).
_FACTOR, _INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)


class PassPlan(NamedTuple):
    """Where passes are taken, and when they end."""

    tol: float  # A score with this relative gap needs none.
    by_violation: bool  # If so, `tol` bounds the largest violation instead.
    n_passes: int  # Passes over the rows that are left take at most the time of so many.
    seed: int = 0  # It decides the order of rows, with the number of epochs.
    epoch: int = 0
    first: int = 0  # Passes are taken in the scores from this one on.
    last: int = 1  # They are taken in those before this one.


@jit
def take_passes(loss, demands, rows, scores, plan, state, columns):
    """Take passes in some scores, unless they are within tolerance, and write `COLUMNS` to `columns`.

    `rows` are a CSRBlock of a type that compiled functions take; the squared lengths, with the constant feature; and
    the value of this feature. `scores` are the products of the rows with the weights. `state` is modified: variables β,
    shape (n, n_scores); Σ β_i x_i, shape (n_scores, n_weights); and the weights and the primal objectives of the lowest
    objectives so far.
    """
    for c in range(plan.first, plan.last):
        _take_passes_in(c, loss, demands, (*rows, scores[c]), plan, state, columns[c])


@jit
def _take_passes_in(c, loss, demands, rows, plan, state, columns):
    """Take passes in one score, as above."""
    (block, squares, constant, scores), (dual, position, best, lowest) = rows, state
    n, weights, active, size = squares.size, position[c], np.empty(squares.size, np.int64), 0.0
    for k in range(weights.size):
        size += weights[k] * weights[k] / 2
    losses, conjugates, violation, near = 0.0, 0.0, 0.0, 0.0
    targets, costs = np.empty(n), np.empty(n)
    write_costs(demands, 0, c, targets, costs)
    for i in range(n):
        target, cost = targets[i], costs[i]
        if cost > 0:
            beta, score = float(dual[i, c]), scores[i]
            losses += cost * loss_value(loss, score, target)
            conjugates += conjugate(loss, beta, target, cost)
            new = coordinate_update(loss, beta, score, target, cost, least_curvature(squares[i]))
            near = max(near, abs(new - beta) * squares[i])
            if plan.by_violation:
                violation = max(violation, projected_gradient(loss, beta, score, target, nearly(cost, dual)))
    gap, value = losses + conjugates + 2 * size, -conjugates - size
    columns[0], columns[1], columns[2] = losses + size, value, 0.0
    if losses + size < lowest[c]:
        lowest[c] = losses + size
        for k in range(weights.size):  # assigning the whole row would take two seconds more to compile
            best[c, k] = weights[k]
    if (violation <= plan.tol) if plan.by_violation else (gap <= plan.tol * (losses + size)):
        return
    m = 0
    for i in range(n):
        target, cost = targets[i], costs[i]
        if cost > 0 and not _is_idle(loss, dual, (i, c), scores[i], (target, cost, squares[i]), near):
            active[m] = i
            m += 1
    random = ((np.uint64(plan.seed) * _FACTOR) + np.uint64(plan.epoch)) * _FACTOR + np.uint64(c)
    left = plan.n_passes * n
    while left > 0 and m > 0:
        left -= m
        for u in range(m - 1, 0, -1):
            random = random * _FACTOR + _INCREMENT
            other = np.int64((random >> np.uint64(33)) % np.uint64(u + 1))
            active[u], active[other] = active[other], active[u]
        excess, worst, t = 0.0, 0.0, 0
        while t < m:
            i = active[t]
            target, cost = targets[i], costs[i]
            beta, product = float(dual[i, c]), 0.0
            for p in range(block.indptr[i], block.indptr[i + 1]):
                product += block.data[p] * weights[block.indices[p]]
            score = constant * weights[weights.size - 1] + product
            before = conjugate(loss, beta, target, cost)
            excess += cost * loss_value(loss, score, target) + before + beta * score
            new = coordinate_update(loss, beta, score, target, cost, least_curvature(squares[i]))
            change = float(dual.dtype.type(new)) - beta
            if change == 0:
                if _is_idle(loss, dual, (i, c), score, (target, cost, squares[i]), near):
                    m -= 1
                    active[t], active[m] = active[m], i
                    continue
            else:
                columns[2] = 1.0
                dual[i, c] = new
                worst = max(worst, abs(change) * squares[i])
                value -= conjugate(loss, new, target, cost) - before + change * (score + change * squares[i] / 2)
                for p in range(block.indptr[i], block.indptr[i + 1]):
                    weights[block.indices[p]] += change * block.data[p]
                weights[weights.size - 1] += change * constant
            t += 1
        near = worst
        if excess <= max(_LESS * gap, 0.0 if plan.by_violation else plan.tol * value / 2) or worst == 0:
            return


@outlined
def _is_idle(loss, dual, place, score, of_row, near):
    """Return whether no score within `near` of a row's would change its variable."""
    target, cost, square = of_row
    beta, curvature, real = dual[place], least_curvature(square), dual.dtype.type
    above = coordinate_update(loss, float(beta), score + near, target, cost, curvature)
    below = coordinate_update(loss, float(beta), score - near, target, cost, curvature)
    return real(above) == beta and real(below) == beta
