"""Weights of a part of the rows, from which Newton's method begins.

Of many rows for each weight, a tenth have nearly the same minimum, and steps there cost a tenth. Newton's method
converges quadratically from it, so that few steps with all rows remain (dynamic sample sizes, as in Daneshmand, Lucchi
and Hofmann 2016, Starting small: learning with adaptive sample sizes).
"""

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.losses import MOST_STEPS
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.solvers.linear_primal.proximal_newton import LinearPrimalSettings, ProximalNewton
from fastsvm.solvers.outer_loop import Limits, drive

__all__ = ["weights_of_some_rows"]

_EACH = 10
"""One row of so many is taken, if these are so many for each weight, up to a gap of one such part."""


def weights_of_some_rows(problem: LinearProblem, settings: LinearPrimalSettings, pool: Pool) -> np.ndarray | None:
    """Return the weights for each tenth row, shape (n_scores, n_weights); None if there are too few rows for that.

    Rows on disk are too few.
    """
    n, d = problem.source.shape
    is_small = n * (d + 1) <= settings.tuning.small_values
    if is_small or not (settings.tuning.some_rows and problem.source.resident) or n < _EACH**2 * (d + 1):
        return None
    rows = np.arange(0, n, _EACH)
    demands, total = problem.demands.of_rows(rows), float(problem.demands.costs.sum())
    share = float(demands.costs.sum()) / total if total > 0 else 0.0
    if share == 0:
        return None
    some = problem._replace(source=problem.source.take(rows), demands=demands._replace(costs=demands.costs / share))
    solver = ProximalNewton(some, settings._replace(tol=1 / _EACH, criterion="gap"), pool)
    state, _, _ = drive(solver, solver.init(), Limits(MOST_STEPS, settings.deadline), lambda state, report: False)
    return state.weights
