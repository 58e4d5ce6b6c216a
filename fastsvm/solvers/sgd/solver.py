"""Mini-batch stochastic gradient descent, for linear models.

Problem
    minimise    (1/n) Σ_i ω_i loss(W x_i + b, y_i) + l2/2 ‖W‖² + l1 ‖W‖₁
    over the weights W, one row a score, and offsets b, which are not penalised. Weights ω_i of rows have mean 1.

Step
    With the mean gradient G of the loss over a batch and the rate η_t of a schedule:
        V ← momentum V + G,  W ← (1 - η_t l2) W - η_t V,  then W ← sign(W) max(0, |W| - η_t l1)
    Rows come in random order, a window at a time (`sources.epochs`). All scores are learnt in the same two products of
    the batch's rows, with the weights and with the slopes of the losses.

Average
    The answer is Σ t W_t / Σ t, in which early weights count for little (Lacoste-Julien, Schmidt and Bach 2012).

End
    The objective as it passes by, each batch's before its step, is watched from epoch to epoch. When it has not fallen
    by `tol` for some epochs, the full objective of the answer decides: if that fell since it was last computed, on.

Cost
    4 n_scores multiplications a value of each row visited, and some 5 operations a weight each step; sparse rows of
    many features cost 4 n_scores multiplications a value that they hold.

Memory
    Some eight arrays of the weights' shape (a state has three or four, and a window is visited with a copy), three
    windows of rows on disk, 24 n bytes.

After
    Shalev-Shwartz, Singer, Srebro and Cotter (2011), Pegasos; Bottou (2012), Stochastic gradient descent tricks.
"""

from collections.abc import Callable, Generator
from itertools import pairwise

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.linalg.sparse_products import readable
from fastsvm.solvers.outer_loop import Report
from fastsvm.solvers.sgd.dense_steps import Buffers, Course, Linear, Model, Penalty, Rows, steps
from fastsvm.solvers.sgd.lazy_steps import SparseModel, settle, sparse_steps
from fastsvm.solvers.sgd.problem import OVERFLOW, Diverged, SGDProblem, SGDSettings, SGDState, objective
from fastsvm.sources import Block, CSRBlock, DenseBlock, Window, check_finite, windows

__all__ = ["SGD", "touches_columns"]

_BUFFERED_ROWS = 128
_SCORES_AT_ONCE = 8  # one thread's share of many classes
_SPARSE = 8  # times as many features as a row has values, from which on only the columns of a batch are touched
_SLOWER = 5.0  # the adaptive rate is divided by, when progress ends
_SLOWEST = 1e-6


class SGD:
    """Gradient descent on mini-batches.

    Parameters
    ----------
    problem : SGDProblem
        What is to be learnt.
    settings : SGDSettings
        How.
    pool : Pool
        Threads.
    validate : callable or None
        Returns the score of a `Linear`, the higher the better. If given, it is what is watched.

    Attributes
    ----------
    score : float
        The last validation score, NaN if there is none.
    """

    def __init__(
        self,
        problem: SGDProblem,
        settings: SGDSettings,
        pool: Pool,
        validate: Callable[[Linear], float] | None = None,
    ) -> None:
        self.problem, self.settings, self.pool, self.validate = problem, settings, pool, validate
        self.rows = np.flatnonzero(problem.weights > 0)
        self._losses: list[np.ndarray] = []
        self.score = np.nan
        self.lazy = settings.batch_size <= settings.window_rows and touches_columns(problem, settings.penalty)
        self._windows: Generator[Window, None, None] | None = None
        self._buffers: dict[tuple[int, int], Buffers] = {}
        self._read_to: list[np.ndarray | None] = []

    def init(self, begin: Linear | None = None) -> SGDState:
        """Return the state at some weights, or at zero."""
        k, d = len(self.problem.balance), self.problem.source.shape[1]
        zero = Linear(np.zeros((k, d)), np.zeros(k))
        return SGDState(self._model(begin or zero, zero, 0.0))

    def continued(self, state: SGDState) -> SGDState:
        """Return the state after an epoch on other rows, on which it is gone on."""
        if self.accepts(state):
            model = state.model  # with its velocity
        else:
            mean, total = state.model.averaged()
            model = self._model(state.model.last(), mean, total)
        return SGDState(model, epoch=state.epoch, n_steps=state.n_steps, factor=state.factor)

    def accepts(self, state: SGDState) -> bool:
        """Return whether a state is of this problem and these settings, so that it can be gone on with."""
        own = self.init().model
        return type(own) is type(state.model) and all(
            a.shape == b.shape and a.dtype == b.dtype for a, b in zip(own, state.model, strict=True)
        )

    def _model(self, last: Linear, mean: Linear, total: float) -> Model | SparseModel:
        if self.lazy:
            return SparseModel.of(last, mean, total)
        dtype = product_type(self.problem.source.dtype)
        return Model.of(last, mean, total, dtype, self.settings.penalty.momentum > 0)

    def step(self, state: SGDState, most_steps: int) -> tuple[SGDState, Report]:
        """Visit one window; at the end of an epoch, which is what counts as a step, decide whether to go on."""
        if most_steps == 0:
            return state, self._report(0.0)
        if self._windows is None:
            self._windows = self._epoch(state)
        window = next(self._windows, None)
        if window is not None:
            state = self._visit(state, window)
        if state.seen < len(self.rows):
            return state, self._report(state.total / max(1, state.seen))
        self._windows = None
        running = state.total / len(self.rows) + self._penalty(_finite(state.model.last()).coef)
        state = state._replace(epoch=state.epoch + 1, window=0, seen=0, total=0.0)
        return self._decide(state, running)

    def memory(self) -> None:
        """Return what a resumed run needs beside the state: nothing."""

    def recall(self, memory: None) -> None:
        """Take what `memory` returned."""

    def take_losses(self) -> list[np.ndarray]:
        """Return the mean losses of the batches since the last call, an array for each window."""
        losses, self._losses = self._losses, []
        return losses

    def close(self) -> None:
        """Stop reading ahead, at an end before that of an epoch."""
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _epoch(self, state: SGDState) -> Generator[Window, None, None]:
        settings = self.settings
        seed = None if settings.seed is None else (settings.seed, state.epoch)
        return windows(self.problem.source, self.rows, seed, settings.window_rows, state.window, self._read_to)

    def _visit(self, state: SGDState, window: Window) -> SGDState:
        """Take the steps of a window."""
        settings, n = self.settings, len(window.rows)
        n_batches, rest = divmod(state.pending + n, settings.batch_size)
        if rest and (self.lazy or state.seen + n == len(self.rows)):
            n_batches, rest = n_batches + 1, 0
        before = state.n_steps + np.arange(n_batches)
        course = Course(
            settings.batch_size,
            state.factor * settings.schedule.rates(state.n_steps, n_batches),
            np.maximum(0.0, before + 1 - settings.average_from),
            settings.penalty,
            state.pending,
        )
        model = state.model.copied()
        losses = self._take(model, window, course)
        total = float(losses.sum())
        if not np.isfinite(total):
            self._explain(window)
        losses[0] += state.waiting
        sizes = np.full(n_batches, settings.batch_size)
        if n_batches:
            sizes[-1] -= n_batches * settings.batch_size + rest - state.pending - n
        self._losses.append(losses[:n_batches] / sizes)
        return state._replace(
            model=model, window=state.window + 1, n_steps=state.n_steps + n_batches, seen=state.seen + n, pending=rest,
            total=state.total + total, waiting=float(losses[n_batches]),
        )  # fmt: skip

    def _take(self, model: Model | SparseModel, window: Window, course: Course) -> np.ndarray:
        """Take steps and return the batches' sums of losses, and that of the rows that wait."""
        problem, loss = self.problem, self.settings.loss
        block, places = _readable(window)
        targets, weights = problem.targets[window.rows], problem.weights[window.rows]
        if self.lazy:
            losses = np.zeros(len(course.rates) + 1)
            rows = Rows(places, targets, weights, problem.balance, *_map(problem, np.float64))
            sparse_steps(loss, block, rows, model, course, losses)
            return losses
        shares = self._shares()
        losses, dtype = np.zeros((len(shares), len(course.rates) + 1)), model.coef.dtype
        parts = [model.part(start, stop) for start, stop in shares]

        def some(k: int, start: int, stop: int) -> None:
            rows = Rows(places, targets - start, weights, problem.balance[start:stop], *_map(problem, dtype))
            steps(loss, block, rows, parts[k], course, self._memory(start, stop, dtype), losses[k])

        self.pool.run(some, [(k, *share) for k, share in enumerate(shares)])
        model.total[:] = parts[0].total
        return losses.sum(axis=0)

    def _shares(self) -> list[tuple[int, int]]:
        """Return which scores are learnt by one thread at a time."""
        k = len(self.problem.balance)
        apart = not self.settings.loss.of_classes and self.settings.penalty.clip == np.inf
        n_shares = -(-k // _SCORES_AT_ONCE) if apart else 1
        bounds = np.linspace(0, k, n_shares + 1).astype(int).tolist()
        return list(pairwise(bounds))

    def _memory(self, start: int, stop: int, dtype: np.dtype) -> Buffers:
        if (start, stop) not in self._buffers:
            n_rows = min(self.settings.batch_size, _BUFFERED_ROWS)
            self._buffers[start, stop] = Buffers.of(n_rows, self.problem.source.shape[1], stop - start, dtype)
        return self._buffers[start, stop]

    def _explain(self, window: Window) -> None:
        """Raise the error that says why scores are not finite."""
        for place, row in zip(window.places, window.rows, strict=True):
            check_finite(window.block.slice(place, place + 1), row)
        raise Diverged(OVERFLOW)

    def _decide(self, state: SGDState, running: float) -> tuple[SGDState, Report]:
        """Return whether an epoch was the last."""
        settings, report = self.settings, self._report(running, n_steps=1)
        if self.validate is not None:
            answer = self.answer(state)
            self.score = self.validate(answer)
            watched = -self.score
            if self.score > state.best_score:
                state = state._replace(best=answer, best_score=self.score)
        else:
            watched = running
        if settings.tol is None:
            return state, report
        stale = state.stale + 1 if watched > state.lowest - settings.tol else 0
        state = state._replace(stale=stale, lowest=min(watched, state.lowest))
        if stale < settings.patience:
            return state, report
        state = state._replace(stale=0)
        if self.validate is None:
            full = self.objective(self.answer(state))
            if full < state.answered - settings.tol:
                return state._replace(answered=full), report
        if settings.schedule.name == "adaptive" and settings.schedule.first * state.factor > _SLOWEST:
            return state._replace(factor=state.factor / _SLOWER), report
        return state, report._replace(within=True, converged=True)

    def _report(self, value: float, n_steps: int = 0) -> Report:
        return Report(np.nan, value, n_steps, False, False, False)

    def answer(self, state: SGDState) -> Linear:
        """Return the weights, averaged if they are to be."""
        model = state.model
        if self.lazy and self.settings.penalty.l1 > 0:
            model = model.copied()
            settle(model)
        mean, total = model.averaged()
        return mean if total > 0 else model.last()

    def finish(self, state: SGDState) -> Linear:
        """Return the weights of the best validation score, if there is one, else the answer.

        Raises
        ------
        Diverged
            If they overflowed.
        """
        return _finite(self.answer(state) if state.best is None else state.best)

    def objective(self, linear: Linear, exact: bool = False) -> float:
        """Return the objective, by a pass over the rows; `exact` in float64 whatever the type of the rows."""
        return objective(self.problem, self.settings.loss, linear, self.pool, exact) + self._penalty(linear.coef)

    def _penalty(self, coef: np.ndarray) -> float:
        penalty = self.settings.penalty
        return float(penalty.l2 / 2 * np.vdot(coef, coef) + penalty.l1 * np.abs(coef).sum())


def _finite(linear: Linear) -> Linear:
    """Return weights that did not overflow."""
    if not (np.isfinite(linear.coef).all() and np.isfinite(linear.intercept).all()):
        raise Diverged(OVERFLOW)
    return linear


def touches_columns(problem: SGDProblem, penalty: Penalty) -> bool:
    """Return whether steps are to touch only the columns in which a batch has values."""
    source = problem.source
    if not source.sparse or penalty.momentum > 0 or penalty.clip < np.inf or problem.scale.size:
        return False
    held = source.nbytes / (source.dtype.itemsize + 4) / max(1, len(source))
    return source.shape[1] > _SPARSE * held


def _map(problem: SGDProblem, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    return problem.shift.astype(dtype), problem.scale.astype(dtype)


def _readable(window: Window) -> tuple[Block, np.ndarray]:
    """Return a block in one of the types for which there is machine code, and where in it the window's rows are.

    What has to be converted for it are the window's rows only, for the block may be all rows in memory.
    """
    block, places = window.block, window.places
    if isinstance(block, CSRBlock):
        return readable(block, places)
    kind = product_type(block.values.dtype)
    if block.values.dtype in (np.uint8, kind):
        return block, places
    return DenseBlock(block.values[places].astype(kind)), np.arange(len(places))
