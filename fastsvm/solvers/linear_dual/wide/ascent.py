"""Dual coordinate ascent for sparse rows of many features in memory, such as texts.

Rounds
    A round evaluates both objectives by a pass over the rows, then takes up to ten passes of coordinate ascent over the
    rows that matter (`passes`). Sums over all features, of which an accelerated epoch has some twenty, would take
    longer than the rows themselves, and few rows share a rare feature, so that variables hardly depend on each other.

After
    Accelerated epochs follow where rounds are slow (`coordinate_ascent`).

Source
    Hsieh, Chang, Lin, Keerthi and Sundararajan 2008, A dual coordinate descent method for large-scale linear SVM.
"""

from typing import cast

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.linalg.sparse_products import readable, unsigned
from fastsvm.solvers.linear_dual.certificate import all_scores
from fastsvm.solvers.linear_dual.epochs.epoch import EpochState, Shrinking
from fastsvm.solvers.linear_dual.evaluation import recorded
from fastsvm.solvers.linear_dual.problem import LinearProblem, explain
from fastsvm.solvers.linear_dual.rounds import AscentAfterRounds
from fastsvm.solvers.linear_dual.state import LinearDualSettings, LinearDualState
from fastsvm.solvers.linear_dual.wide.passes import COLUMNS, PassPlan, take_passes, write_squares
from fastsvm.solvers.outer_loop import OutOfTime, Report, check_time
from fastsvm.sources import CSRBlock

__all__ = ["WideAscent"]

_SEEDS = 1 << 20  # more than rounds
_PASSES, _WORK = 10, 1 << 30  # of a round: at most, and multiplications


class WideAscent(AscentAfterRounds):
    """Rounds of dual coordinate ascent for sparse rows of many features, then accelerated epochs.

    The loss is one of each score, not of all classes.
    """

    def __init__(self, problem: LinearProblem, settings: LinearDualSettings, pool: Pool) -> None:
        super().__init__(problem, settings, pool)
        block = unsigned(readable(cast(CSRBlock, problem.block), self.rows)[0])
        squares = np.empty(len(self.rows))
        write_squares(block, problem.constant, squares)
        self._rows, self._scores = (block, squares, problem.constant), np.zeros((self.n_scores, len(squares)))
        n_passes = _WORK // max(1, 4 * len(block.data))
        by_violation = settings.criterion != "gap"
        self._plan = PassPlan(settings.tol, by_violation, int(np.clip(n_passes, 1, _PASSES)))

    def init(self, dual: np.ndarray | None = None) -> LinearDualState:
        """Return the state at zero, or at given variables as in accelerated epochs."""
        if dual is not None and dual.any():
            return super().init(dual)._replace(in_rounds=True)
        k, real = self.n_scores, product_type(self.problem.source.dtype)
        position, metric = np.zeros((k, self.width)), self.proximal.metric
        path = EpochState(  # one array for all, since rounds have no anchor
            position, position, position, position, np.zeros(k), metric, Shrinking.of(self.problem.demands.costs), 0
        )
        return LinearDualState(
            dual=np.zeros((len(self.rows), k), real), anchor=position, last=position, momentum=np.ones(k), path=path,
            candidate=None, losses=np.zeros(k), best=np.zeros_like(position), primal=np.full(k, np.inf),
            dual_value=np.zeros(k), initial_value=np.zeros(k), in_rounds=True,
        )  # fmt: skip

    def round(self, state: LinearDualState) -> tuple[LinearDualState, Report]:
        """Take some passes in each score that is not within tolerance; certify the weights if there is none."""
        problem, path = self.problem, state.path
        is_zero = not path.position.any()
        self._scores[:] = 0.0 if is_zero else all_scores(problem, path.position, self.pool, exact=False)
        found = np.zeros((self.n_scores, len(COLUMNS)))
        plan = self._plan._replace(seed=self.settings.seed * _SEEDS + state.epoch)
        changing = state.dual, path.position, state.best, state.primal.copy()

        def some(c: int) -> None:
            check_time(self.settings.deadline)
            scores, own = self._scores[c], plan._replace(score=c)
            take_passes(problem.loss, problem.demands, self._rows, scores, own, changing, found[c])

        try:
            self.pool.run(some, [(c,) for c in range(self.n_scores)])
        except OutOfTime:  # the variables and their sums fit together, of scores with and without passes
            return state, self._report(state, 0)
        primal, value, changed = found.T
        if not np.isfinite(primal).all():
            explain(next(problem.windows_in_memory(len(self.rows))))
        state, _ = recorded(state._replace(epoch=state.epoch + 1, dual_value=value), state.best, primal, self.settings)
        report = self._report(state, 1)
        return (state, report) if changed.any() else self._certified(state, report._replace(stalled=True))
