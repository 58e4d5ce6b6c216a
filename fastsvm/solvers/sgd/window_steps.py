"""The steps of a window, shared among threads by scores."""

from itertools import pairwise

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.linalg.sparse_products import readable
from fastsvm.solvers.sgd.adaptive_lazy_steps import AdaptiveSparseModel, row_steps
from fastsvm.solvers.sgd.dense_steps import Buffers, DenseModel, OrderedRows, StepPlan, steps
from fastsvm.solvers.sgd.lazy_steps import SparseModel, sparse_steps
from fastsvm.solvers.sgd.loss_choice import one_of_several
from fastsvm.solvers.sgd.problem import Model, SGDProblem, SGDSettings
from fastsvm.solvers.sgd.row_loading import stored_rows
from fastsvm.sources import CSRBlock, Window
from fastsvm.tuning import current_tuning

__all__ = ["WindowSteps", "mapping_of"]


class WindowSteps:
    """Takes the steps of windows."""

    def __init__(self, problem: SGDProblem, settings: SGDSettings, pool: Pool) -> None:
        self.problem, self.settings, self.pool = problem, settings, pool
        self.loss = one_of_several(settings.loss, settings.tuning.shared_losses)
        self._buffers: dict[tuple[int, int], Buffers] = {}

    def take(self, model: Model, window: Window, plan: StepPlan) -> np.ndarray:
        """Take the steps, and return the sums of losses of the batches and, last, of the remaining rows."""
        problem, loss = self.problem, self.loss
        targets, weights = problem.targets[window.rows], problem.weights[window.rows]
        if not isinstance(model, DenseModel):
            return self._take_lazily(model, window, plan)
        stored, places = stored_rows(window)
        shares = self._score_ranges()
        losses, dtype = np.zeros((len(shares), len(plan.rates) + 1)), model.coef.dtype
        parts = [model.part(start, stop) for start, stop in shares]

        def some(k: int, start: int, stop: int) -> None:
            rows = OrderedRows(
                places, targets - start, weights, problem.balance[start:stop], *mapping_of(problem, dtype)
            )
            steps(loss, stored, rows, parts[k], plan, self._memory(start, stop, dtype), losses[k])

        self.pool.run(some, [(k, *share) for k, share in enumerate(shares)])
        model.total[:] = parts[0].total
        return losses.sum(axis=0)

    def _take_lazily(self, model: SparseModel | AdaptiveSparseModel, window: Window, plan: StepPlan) -> np.ndarray:
        """Do what `take` does on sparse rows of many features."""
        problem, loss, k, tuning = self.problem, self.loss, len(self.problem.balance), self.settings.tuning
        targets, weights = problem.targets[window.rows], problem.weights[window.rows]
        assert isinstance(window.block, CSRBlock)  # `uses_lazy_steps`
        block, places = readable(window.block, window.places)
        rows = OrderedRows(places, targets, weights, problem.balance, *mapping_of(problem, np.dtype(np.float64)))
        apart = (
            isinstance(model, AdaptiveSparseModel) and not self.settings.loss.of_classes and (k == 1 or tuning.apart)
        )
        take = row_steps if apart and tuning.single_rows and plan.batch_size == 1 else sparse_steps
        if k == 1 or not apart:
            losses = np.zeros(len(plan.rates) + 1)
            take(loss, block, rows, model, plan, losses)
            return losses
        assert isinstance(model, AdaptiveSparseModel)
        sums, parts = np.zeros((k, len(plan.rates) + 1)), [model.part(c) for c in range(k)]

        def one(c: int) -> None:
            own = targets == c
            factors = np.where(own, problem.balance[c] * weights, weights)
            alone = rows._replace(targets=np.where(own, 1.0, -1.0), weights=factors, balance=np.ones(1))
            take(loss, block, alone, parts[c], plan, sums[c])

        self.pool.run(one, [(c,) for c in range(k)])
        model.scalars[:] = parts[0].scalars
        return sums.sum(axis=0)

    def _score_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of scores that threads work on."""
        k = len(self.problem.balance)
        settings = self.settings
        apart = settings.tuning.apart and not settings.loss.of_classes and settings.penalty.clip == np.inf
        n_shares = -(-k // settings.tuning.scores) if apart else 1
        bounds = np.linspace(0, k, n_shares + 1).astype(int).tolist()
        return list(pairwise(bounds))

    def _memory(self, start: int, stop: int, dtype: np.dtype) -> Buffers:
        if (start, stop) not in self._buffers:
            n_rows = min(self.settings.batch_size, current_tuning().products.tile)
            self._buffers[start, stop] = Buffers.of(n_rows, self.problem.source.shape[1], stop - start, dtype)
        return self._buffers[start, stop]


def mapping_of(problem: SGDProblem, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return the shift and the scale of the rows in a type."""
    return problem.shift.astype(dtype), problem.scale.astype(dtype)
