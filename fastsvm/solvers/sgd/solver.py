"""Mini-batch stochastic gradient descent, for linear models.

Problem
    minimise    (1/n) Σ_i c_i loss(W x_i + b, y_i) + l2/2 ‖W‖² + l1 ‖W‖₁
    over the weights W, one row a score, and the intercepts b, which are not penalised. Sample weights c_i have mean 1.

Step
    With the mean gradient G of the loss over a batch and the rate η_t of a schedule:
        V ← momentum V + G,  W ← (1 - η_t l2) W - η_t V,  then W ← sign(W) max(0, |W| - η_t l1)
    or with a rate for each weight that depends on its gradients so far (`learning_rates`).
    Rows come in random order, a window at a time (`sources.windows`). Two products of a batch serve all scores: rows
    times weights, and slopes of the losses times rows.

Average
    The answer is Σ ω_t W_t / Σ ω_t with ω_t = t³ + t / 4, the integral of x³ from t - ½ to t + ½, which gives early
    iterates little weight (polynomial decay; Shamir and Zhang 2013).

Cost
    4 n_scores multiplications a value of each row processed, and some 5 operations a weight each step. Sparse rows of
    many features cost 4 n_scores multiplications a nonzero value.

Memory
    Some eight arrays of the weights' shape, because steps change a copy of the state; three windows of rows on disk;
    24 n bytes.

End
    The full objective of the answer is computed after epochs whose numbers double, and then grow by √2. The fit ends if
    the objective fell by no more than a tolerance an epoch, or ten in all, while the number of epochs doubled, or is no
    larger than that: it cannot fall below zero. An error of the order 1/epochs that is left then is as large as this
    fall, one of the order 1/√epochs 2.4 times as large. Such an estimate fails with a constant rate, whose error does
    not vanish: it stalls. With validation samples, the fit ends if their score stopped rising.

After
    Shalev-Shwartz, Singer, Srebro and Cotter (2011), Pegasos; Bottou (2012), Stochastic gradient descent tricks.
"""

import math
from collections.abc import Callable, Generator
from functools import cached_property
from typing import Any

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.linalg.row_products import product_type
from fastsvm.losses import Loss
from fastsvm.solvers.outer_loop import Memoryless, Report, copied
from fastsvm.solvers.sgd.dense_steps import DenseModel, DenseSteps
from fastsvm.solvers.sgd.learning_rates import BY_FEATURE, FeatureLengths, FeatureRates, averaging_weights
from fastsvm.solvers.sgd.private_features import PrivateFeatures
from fastsvm.solvers.sgd.problem import (
    OVERFLOW,
    Diverged,
    LinearFunction,
    OrderedRows,
    Penalty,
    SGDProblem,
    SGDSettings,
    SGDState,
    StepPlan,
    objective,
    objective_of_constants,
)
from fastsvm.solvers.sgd.sparse_steps import SparseModel, SparseSteps
from fastsvm.sources import Window, check_finite, whole_epochs, windows
from fastsvm.tuning import SGDTuning

_SLOWER = 5.0  # It divides the adaptive rate where progress ends, as in scikit-learn.
_FALL = 10.0  # A fit may end if the objective fell by so many tolerances while its epochs doubled.
_SLOWEST = 1e-6  # The fit ends below this adaptive rate, as in scikit-learn.
_ROWS_AT_ONCE = 1 << 16  # Several epochs have so many rows, of which each counts for each score.


class SGD(Memoryless):
    """Gradient descent on mini-batches.

    `validate` returns the validation score of a `LinearFunction`, the higher the better. It replaces the running
    objective in the stopping rule. `score` is the last validation score; NaN without validation. Unless somebody
    `sees_each` epoch, several of few rows are one step, with the same bits.
    """

    def __init__(
        self,
        problem: SGDProblem,
        settings: SGDSettings,
        pool: Pool,
        validate: Callable[[LinearFunction], float] | None = None,
        sees_each: bool = True,
    ) -> None:
        self.problem, self.settings, self.pool, self.validate = problem, settings, pool, validate
        self.sees_each, self._n_epochs = sees_each, 1
        self._ended: list[tuple[int, int, float, float]] = []
        self.rows = np.flatnonzero(problem.weights > 0)
        self._losses: list[np.ndarray] = []
        self.score = np.nan
        self._windows: Generator[Window, None, None] | None = None
        kind: type[DenseSteps | SparseSteps] = SparseSteps if settings.sparse else DenseSteps
        self._steps: Any = kind(problem, settings, pool)
        self._features: tuple[FeatureLengths, FeatureRates] | None = None
        self._read_to: list[np.ndarray | None] = []
        self._examined: SGDState | None = None  # The objective of this state was examined last.
        self._copies: list[DenseModel | SparseModel] = []
        self._shape = len(problem.balance), problem.source.shape[1]
        self._sums, self._totals = np.zeros((1, 3)), np.zeros(1)  # Of epochs they are `StepPlan.ends`, and the losses.

    def init(self, begin: LinearFunction | None = None) -> SGDState:
        """Return the state at the weights `begin`, by default zero."""
        zero = LinearFunction(np.zeros(self._shape), np.zeros(self._shape[0]))
        return SGDState(self._steps.model(begin or zero, zero, 0.0))

    def continued(self, state: SGDState, private: PrivateFeatures | None = None) -> SGDState:
        """Return the state with which to resume on other rows; it begins an epoch.

        `private` restores the weights of all features, if some were merged where the state is from.
        """
        model, lengths = state.model, state.lengths  # with its velocity
        if private is not None or not self.accepts(state):
            last, (mean, total) = model.last(), model.averaged()
            if private is not None:
                last, mean = private.whole(last), private.whole(mean)
            model, lengths = self._steps.model(last, mean, total), None
        if self.settings.penalty.intercept_rate == 0:  # an earlier epoch may have fitted one
            arrays = {name: getattr(model, name) for name in model._fields if "intercept" in name}
            model = model._replace(**{name: np.zeros(array.shape, array.dtype) for name, array in arrays.items()})
        return SGDState(model, epoch=state.epoch, n_steps=state.n_steps, factor=state.factor, lengths=lengths)

    def accepts(self, state: SGDState) -> bool:
        """Return whether this solver can resume a state: its arrays have the right shapes and types."""
        new = self.init().model
        return type(new) is type(state.model) and all(
            a.shape == b.shape and a.dtype == b.dtype for a, b in zip(new, state.model, strict=True)
        )

    def with_weights(self, state: SGDState, last: LinearFunction, mean: LinearFunction) -> SGDState:
        """Return the state with other weights and another average, after as many steps and with the same rates."""
        model = copied(state.model)
        model.write(last, mean)
        return state._replace(model=model)

    def step(self, state: SGDState, most_steps: int) -> tuple[SGDState, Report]:
        """Process one window. The last window of an epoch completes a step and checks the stopping rule."""
        if most_steps == 0:
            return state, self._report(0.0)
        if self._windows is None:
            self._n_epochs = self._epochs_at_once(state, most_steps)
            self._windows = self._epoch(state)
        window = next(self._windows, None)
        if window is not None:
            state = self._process(state, window)
        if state.seen < self._n_epochs * len(self.rows):
            return state, self._report(state.total / max(1, state.seen))
        self._windows = None
        running = self._end_epochs(state)
        state = state._replace(epoch=state.epoch + self._n_epochs, window=0, seen=0, total=0.0)
        return self._decide(state, running)

    def _epochs_at_once(self, state: SGDState, most: int) -> int:
        """Return how many epochs are one window: those until the objective is examined, of few rows in memory."""
        settings, n = self.settings, len(self.rows)
        is_alone = self.sees_each or self.validate is not None or not settings.tuning.together
        if is_alone or state.window > 0 or state.seen > 0 or self.problem.source.stored_bytes > 0:
            return 1  # also of an epoch that was interrupted
        most = max(1, min(most, settings.window_rows // n, _ROWS_AT_ONCE // (n * len(self.problem.balance))))
        begin = state.epoch - state.origin
        return most if settings.tol is None else min(most, next_examined(begin, settings.patience) - begin)

    def take_epochs(self) -> list[tuple[int, int, float, float]]:
        """Return the epochs that ended since the last call: number, steps so far, objective in its course, last rate.

        If rates are by feature, this is their harmonic mean over the weights.
        """
        ended, self._ended = self._ended, []
        return ended

    def take_losses(self) -> list[np.ndarray]:
        """Return the mean losses of the batches since the last call, one array per window."""
        losses, self._losses = self._losses, []
        return losses

    def close(self) -> None:
        """Stop reading ahead, if the fit ends within an epoch."""
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _epoch(self, state: SGDState) -> Generator[Window, None, None]:
        source, settings = self.problem.source, self.settings
        seed = None if settings.seed is None else (settings.seed, state.epoch)
        if self._n_epochs > 1:
            return (window for window in [whole_epochs(source, self.rows, seed, self._n_epochs)])
        return windows(source, self.rows, seed, settings.window_rows, state.window, self._read_to)

    def _process(self, state: SGDState, window: Window) -> SGDState:
        """Return the state after the steps of a window."""
        problem, settings, n = self.problem, self.settings, len(window.rows)
        n_epochs, once = self._n_epochs, n // self._n_epochs
        n_batches, rest = divmod(state.pending + once, settings.batch_size)
        if rest and (settings.sparse or state.seen + once == len(self.rows)):
            n_batches, rest = n_batches + 1, 0
        last = once + state.pending - (n_batches - 1) * settings.batch_size - rest  # rows of the last batch
        n_batches *= n_epochs
        before = state.n_steps + np.arange(n_batches)
        rates = state.factor * settings.schedule.rates(state.n_steps, n_batches)
        model, (stored, numbers) = self._copy(state.model), self._steps.rows(window)
        targets, weights = problem.targets[window.rows], problem.weights[window.rows]
        mapping = problem.mapping(self._steps.dtype)
        state, features = self._with_rates(state, model, window, (stored, numbers), weights[:once])
        ends = np.zeros((len(problem.balance), n_epochs, 3))
        plan = StepPlan(
            settings.batch_size, rates, averaging_weights(before + 1 - settings.average_from), settings.penalty,
            state.pending, state.n_steps, features, max(1, once), ends,
        )  # fmt: skip
        rows = OrderedRows(numbers, targets, weights, problem.balance, *mapping)
        losses = self._steps.take(model, stored, rows, plan)
        total = float(losses.sum())
        if not np.isfinite(total):
            self._raise_not_finite(window)
        losses[0] += state.pending_loss
        sizes = np.full(n_batches, settings.batch_size)
        if n_batches:
            sizes[n_batches // n_epochs - 1 :: n_batches // n_epochs] = last
        self._losses.append(losses[:n_batches] / sizes)
        self._sums = ends.sum(axis=0)
        if n_epochs > 1:
            self._totals = losses[:n_batches].reshape(n_epochs, -1).sum(axis=1)
        return state._replace(
            model=model, window=state.window + 1, n_steps=state.n_steps + n_batches, seen=state.seen + n, pending=rest,
            total=state.total + total, pending_loss=float(losses[n_batches]),
        )  # fmt: skip

    def _end_epochs(self, state: SGDState) -> float:
        """Record the epochs that end, and return the objective in the course of the last one."""
        settings, n_epochs, sums = self.settings, self._n_epochs, self._sums
        if not np.isfinite(sums[:, 1]).all():
            raise Diverged(OVERFLOW)
        running = (self._totals if n_epochs > 1 else np.array([state.total])) / len(self.rows)
        for factor, penalties in ((settings.penalty.l2 / 2, sums[:, 0]), (settings.penalty.l1, sums[:, 1])):
            running += factor * penalties if factor > 0 else 0.0  # as sums may overflow
        last = np.arange(1 - n_epochs, 1)
        steps = state.n_steps + last * -(-len(self.rows) // settings.batch_size)
        if settings.schedule.name == BY_FEATURE:
            rates = 1 / np.maximum(sums[:, 2] / max(1, math.prod(self._shape)) + settings.penalty.l2 * steps, 1e-300)
        else:
            rates = state.factor * settings.schedule.rates(max(0, int(steps[0]) - 1), int(steps[-1] - steps[0]) + 1)
            rates = rates[steps - steps[0]]
        columns = state.epoch + n_epochs + last, steps, running, rates
        self._ended += zip(*(column.tolist() for column in columns), strict=True)
        return self._ended[-1][2]

    def _copy(self, model: DenseModel | SparseModel) -> DenseModel | SparseModel:
        """Return a copy that steps may change, in the memory of the copy before the last one: new memory is slow."""
        if len(self._copies) < 2:
            self._copies.append(copied(model))
            return self._copies[-1]
        copy = self._copies[self._copies[0] is model]
        for to, array in zip(copy, model, strict=True):
            np.copyto(to, array)
        return copy

    def _with_rates(
        self, state: SGDState, model: DenseModel | SparseModel, window: Window, stored: Any, weights: np.ndarray
    ) -> tuple[SGDState, FeatureRates]:
        """Return the state and the rates that the rows of a window suggest; later epochs have the same rates."""
        settings, dtype = self.settings, self._steps.dtype
        if settings.schedule.name != BY_FEATURE:
            model.prepare(settings.penalty, state.n_steps, None, False)
            return state, FeatureRates.none(dtype)
        begins = state.lengths is None
        if begins or settings.partial or state.epoch == 0:
            lengths = self._steps.lengths(state.lengths, window, stored, weights)
            if not np.isfinite(lengths.squares).all():
                self._raise_not_finite(window)
            state = state._replace(lengths=lengths)
        assert state.lengths is not None
        is_other = self._features is None or self._features[0] is not state.lengths
        if is_other:
            rates = state.lengths.rates(settings.schedule.first, settings.score, dtype)
            self._features = state.lengths, rates if self.problem.private is None else self.problem.private.rates(rates)
        assert self._features is not None
        features = self._features[1]
        model.prepare(settings.penalty, state.n_steps, features if is_other else None, begins)
        return state, features

    def _raise_not_finite(self, window: Window) -> None:
        """Raise the error for scores that are not finite: a bad value of a row, or overflow."""
        for place, row in zip(window.places, window.rows, strict=True):
            check_finite(window.block.slice(place, place + 1), row)
        raise Diverged(OVERFLOW)

    def _decide(self, state: SGDState, running: float) -> tuple[SGDState, Report]:
        """Return the state after an epoch, and whether the fit has converged."""
        settings, report = self.settings, self._report(running, n_steps=self._n_epochs)
        state, ended = self._ends(state)
        if not ended:
            return state, report
        if settings.schedule.name == "adaptive" and settings.schedule.first * state.factor > _SLOWEST:
            lower = state._replace(factor=state.factor / _SLOWER, origin=state.epoch)
            return lower._replace(answer_objective=np.inf, earlier_objective=np.inf), report
        is_noisy = np.isfinite(settings.schedule.steps_per_epoch)  # else steps follow the exact gradient
        if settings.schedule.name == "constant" and is_noisy and self.validate is None:
            return state, report._replace(stalled=True)
        return state, report._replace(within=True, converged=True)

    def _ends(self, state: SGDState) -> tuple[SGDState, bool]:
        """Return the state after a look at the validation set or the objective, and whether this stopped improving."""
        tol, patience = self.settings.tol, self.settings.patience
        if self.validate is not None:
            answer = self.answer(state)
            self.score = self.validate(self._whole(answer))
            if self.score > state.best_score:
                state = state._replace(best=answer, best_score=self.score)
            if tol is None:
                return state, False
            stale = state.stale + 1 if -self.score > state.lowest - tol else 0
            state = state._replace(stale=stale, lowest=min(-self.score, state.lowest))
            return (state, False) if stale < patience else (state._replace(stale=0), True)
        epochs = state.epoch - state.origin
        if tol is None or next_examined(epochs - 1, patience) > epochs:
            return state, False
        objective = self.objective(self.answer(state))
        fall = (state.answer_objective if epochs <= 2 * patience else state.earlier_objective) - objective
        if 2 * patience < epochs < 4 * patience:
            fall /= 2  # The epochs are three times as many, not twice.
        state = state._replace(answer_objective=objective, earlier_objective=state.answer_objective)
        self._examined = state
        fall = min(abs(fall), objective) if epochs >= patience else fall  # It cannot fall below zero.
        return state, has_settled(fall, tol * self.unit, epochs)

    @cached_property
    def unit(self) -> float:
        """The least objective of constant scores, or a score if it is zero, as that of the perceptron is."""
        return objective_of_constants(self.problem, self.settings.loss) or self.settings.score

    def _report(self, value: float, n_steps: int = 0) -> Report:
        return Report(np.nan, value, n_steps, within=False, converged=False, stalled=False)

    def answer(self, state: SGDState) -> LinearFunction:
        """Return the averaged weights, or the last if nothing is averaged yet."""
        mean, total = state.model.averaged()
        return mean if total > 0 else state.model.last()

    def finish(self, state: SGDState) -> LinearFunction:
        """Return the weights with the best validation score; without validation, the answer.

        Weights that overflowed raise Diverged.
        """
        return self._whole(self._final(state))

    def final_objective(self, state: SGDState) -> float:
        """Return the objective of what `finish` returns, from scores in float64."""
        if self._examined is state and product_type(self.problem.source.dtype) == np.float64:
            return state.answer_objective
        return self.objective(self._final(state), exact=True)

    def _final(self, state: SGDState) -> LinearFunction:
        linear = self.answer(state) if state.best is None else state.best
        if not (np.isfinite(linear.coef).all() and np.isfinite(linear.intercept).all()):
            raise Diverged(OVERFLOW)
        return linear

    def _whole(self, linear: LinearFunction) -> LinearFunction:
        """Return the weights of all features."""
        return linear if self.problem.private is None else self.problem.private.whole(linear)

    def objective(self, linear: LinearFunction, exact: bool = False) -> float:
        """Return the objective, by a pass over the rows; `exact` computes scores in float64."""
        penalty, coef = self.settings.penalty, linear.coef
        length = float(np.abs(coef).sum()) if penalty.l1 > 0 else 0.0
        square = float(np.vdot(coef, coef)) if penalty.l2 > 0 else 0.0  # which may overflow
        loss = objective(self.problem, self.settings.loss, linear, self.pool, exact)
        return loss + (penalty.l2 / 2 * square + penalty.l1 * length)


def uses_sparse_steps(problem: SGDProblem, loss: Loss, penalty: Penalty, tuning: SGDTuning) -> bool:
    """Return whether rows have so few nonzero values that steps touch only their columns, however they are stored."""
    source = problem.source
    if not tuning.lazy or penalty.momentum > 0 or penalty.clip < np.inf or problem.scale.size:
        return False
    least = tuning.features_of_classes if loss.of_classes else tuning.features_of_value
    return source.shape[1] > least * source.nonzeros_per_row


# --- when the descent ends ---------------------------------------------------------------------------------


def has_settled(fall: float, tolerance: float, epochs: int) -> bool:
    """Return whether an objective that fell so much while the epochs doubled to `epochs` is near its least value."""
    return abs(fall) <= max(_FALL, epochs / 2) * tolerance or (tolerance == 0 and fall <= 0)


def next_examined(epoch: int, patience: int) -> int:
    """Return the next of the epochs `patience` / 2, `patience`, and twice that, whose numbers then grow by √2."""
    if epoch < 2 * patience:
        first = max(1, patience // 2)
        return first if epoch < first else patience if epoch < patience else 2 * patience
    return math.ceil(patience * 2 ** ((math.floor(2 * math.log2(epoch / patience)) + 1) / 2))
