"""Block-exact dual coordinate ascent with acceleration, for linear models.

Problem
    minimise    ½ ‖W‖² + Σ_i c_i loss(W x_i, y_i)
    over the weights W, one row a score. The weight of a constant feature is the intercept, which is penalised too. One
    against the rest, each class is a problem of its own; all are learnt in the same passes over the rows.

Ascent
    In the dual variables β of the rows, W = Σ_i β_i x_i. An epoch processes all rows in random order, with an exact
    coordinate update of one row after another (`losses`): dense rows in blocks (`dense_epochs`), sparse rows one by
    one (`sparse_epochs`). Blocks change the work, which is done in products, but not the iterates.

Acceleration
    Epochs solve the subproblems of an accelerated proximal point method (`proximal_point`). With c_i x_iᵀ (I + M)⁻¹ x_i
    near 1, where M is the metric of the proximal term (`metric`), one epoch a subproblem suffices most times.

Answer
    The weighted mean of the iterates of an epoch, which is nearer to the optimum than the last iterate. Its primal
    objective P is evaluated at growing intervals: by one more pass over rows in memory, or, for rows on disk, during
    the next epoch.

Slow progress
    Where the gap is not halved for long, the metric is weakened, or strengthened if weakening was slower. Where
    features or samples are few, Newton steps replace epochs (`augmented_lagrangian`); large C and tight tolerances
    cost them little.

End
    P - D ≤ tol P for each problem, with the dual objective D of β; or the violation of the optimality conditions of β
    is at most tol. A last pass computes both in float64.

Memory
    β and some bytes a row; six arrays of the weights' shape in float64; cached Gram matrices; three windows on disk.

After
    Hsieh, Chang, Lin, Keerthi and Sundararajan 2008; Yu, Hsieh, Chang and Lin 2012, Large linear classification when
    data cannot fit in memory (blocks); Shalev-Shwartz and Zhang 2014 (acceleration of dual ascent).
"""

import time
from collections.abc import Generator
from typing import Any

import numpy as np

from fastsvm._compiled.threads import Pool, stoppable
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import feasible
from fastsvm.solvers.linear_dual.augmented_lagrangian import AGAIN, Course, Solution, newton_applies, solved
from fastsvm.solvers.linear_dual.dense_epochs import DenseEpochs
from fastsvm.solvers.linear_dual.metric import Metric, metric_of, no_metric
from fastsvm.solvers.linear_dual.problem import (
    OVERFLOW,
    Certificate,
    LinearProblem,
    explain,
    relative_gap,
)
from fastsvm.solvers.linear_dual.proximal_point import ProximalPoint, newton_is_due, recorded
from fastsvm.solvers.linear_dual.sparse_epochs import SparseEpochs
from fastsvm.solvers.linear_dual.state import CertifiedSolver, Epochs, LinearDualState, LinearSettings
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import Window, windows

__all__ = ["LinearDualAscent"]

_WIDTH = 16  # The number of weights is padded to a multiple of this, so that vectors have no rest.
_COARSE = 3e-4  # Above this relative gap the metric is weakened after an evaluation without progress.
_CLOSE = 0.1  # Below this relative gap the violation is computed, if it decides the end.
_CREEPING = 100  # Within so many epochs the gap should be halved, or the metric changes.
_PATIENCE = 1000  # So many epochs without progress, beside as many as before, show that the fit has stalled.


class LinearDualAscent(CertifiedSolver):
    """Block-exact dual coordinate ascent."""

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool) -> None:
        super().__init__(problem, settings, pool)
        self.rows = np.arange(len(problem.source))
        self.width = self.width_of(problem.source.shape[1])
        self.proximal = ProximalPoint(problem, self._first_metric(), settings.tuning)
        self.newton_applies = settings.tuning.lagrangian and newton_applies(problem, settings.most_values)
        self.shorter_side = min(problem.source.shape[1], len(self.rows))
        self._busy, self._read_seconds = 0.0, problem.source.reads.seconds
        self._epochs: Epochs[Any] | None = None
        self._epochs_metric: Metric | None = None  # of `_epochs`
        self._windows: Generator[Window, None, None] | None = None
        self._read_to: list = []

    def _first_metric(self) -> Metric:
        """Return the metric with which epochs begin, the strongest."""
        if self.settings.tuning.proximal:
            return metric_of(self.problem, self.width)
        return no_metric(self.n_scores, self.width)

    def _conjugates(self, dual: np.ndarray) -> np.ndarray:
        """Return Σ_i c_i ℓ*(-β_i / c_i) of each score."""
        return self.problem.conjugates(dual)

    @staticmethod
    def width_of(n_features: int) -> int:
        """Return the number of weights of a score, with that of the constant feature and padding."""
        return -(-(n_features + 1) // _WIDTH) * _WIDTH

    # --- states ------------------------------------------------------------------------------------------

    def init(self, dual: np.ndarray | None = None) -> LinearDualState:
        """Return the state at zero, or at given dual variables, which takes a pass over the rows.

        Given variables are dropped for each problem in which half of them or less would be better. Such variables stem
        from other rows or another scaling, and are worse than zero.
        """
        real, position = product_type(self.problem.source.dtype), np.zeros((self.n_scores, self.width))
        if dual is None:
            dual = np.zeros((len(self.rows), self.n_scores), real)
        else:
            dual = feasible(self.problem.loss, self.problem.demands, dual)
            position = self._position_of(dual)
            usable = np.broadcast_to(self.proximal.best_share(dual, position) > 0.5, self.n_scores)
            dual, position = np.ascontiguousarray(dual * usable, real), position * usable[:, None]
        n_problems = self.problem.by_problem(np.zeros(self.n_scores)).size
        return LinearDualState(
            dual=dual, anchor=position, last=position, momentum=np.ones(n_problems),
            path=self.proximal.path(position, position), candidate=None, losses=np.zeros(self.n_scores), best=position,
            primal=np.full(n_problems, np.inf), dual_value=np.zeros(n_problems),
            initial_value=self.proximal.near_value(self._conjugates(dual), position, position),
        )  # fmt: skip

    def start_of(self, state: Any) -> np.ndarray | None:
        """Return the dual variables of another fit, None if there are not as many."""
        is_known = isinstance(state, LinearDualState) and state.dual.shape == (len(self.rows), self.n_scores)
        return state.dual if is_known else None

    def kept(self, state: LinearDualState, finished: bool) -> LinearDualState | None:
        """Return the state, None if a bad value or overflow has spread to the variables, which change in place."""
        return state if np.isfinite(state.dual).all() and np.isfinite(state.path.position).all() else None

    def adopted(self, state: LinearDualState) -> LinearDualState:
        """Return a state that was saved between two windows, to resume with the same bits."""
        self.proximal.take_metric(state.path.metric)
        return state

    def resumed(self, state: LinearDualState, same_windows: bool) -> LinearDualState:
        """Return a state that was interrupted within a window, with Σ β_i x_i computed anew by a pass over the rows.

        With other windows the epoch begins again, and objectives are discarded.
        """
        self.proximal.take_metric(state.path.metric)
        position = self._position_of(state.dual)
        path = self.proximal.path(position, state.anchor, state.path)
        if same_windows:
            return state._replace(path=path)
        return state._replace(
            path=path, window=0, seen=0, candidate=None, losses=np.zeros(self.n_scores),
            primal=np.full_like(state.primal, np.inf), gap=np.inf, next_evaluation=state.epoch + 1,
        )  # fmt: skip

    def _position_of(self, dual: np.ndarray) -> np.ndarray:
        """Return Σ β_i x_i, by a pass over the rows."""
        return self._padded(self.problem.combination(dual, self.pool))

    def _dual_value(self, conjugates: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the dual objectives."""
        return -self.problem.by_problem(conjugates) - self.problem.penalty(position)

    def _padded(self, weights: np.ndarray) -> np.ndarray:
        """Return weights with zero padding between those of the features and of the constant feature."""
        found = np.zeros((len(weights), self.width))
        found[:, : weights.shape[1] - 1], found[:, -1] = weights[:, :-1], weights[:, -1]
        return found

    def _epochs_of(self, state: LinearDualState) -> Epochs[Any]:
        """Return the epochs on the variables of a state; their Gram matrices are those of the current metric."""
        known, metric = self._epochs, self.proximal.metric
        if known is not None and known.dual is state.dual and self._epochs_metric is metric:
            return known
        kind: Any = SparseEpochs if self.problem.source.sparse else DenseEpochs
        found: Epochs[Any] = kind(self.problem, state.dual, self.settings, self.pool)
        self._epochs, self._epochs_metric = found, metric
        return found

    # --- epochs ------------------------------------------------------------------------------------------

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Process one window. The last window of an epoch completes a step."""
        if most_steps == 0:
            return state, self._report(state, 0)
        epochs = self._epochs_of(state)
        if self._windows is None:
            epochs.begin(state.path)
            self._windows = self._epoch(state, epochs)
        window = next(self._windows, None)
        if window is not None:
            state = self._process(state, epochs, window)
            if state.seen < len(self.rows):
                return state, self._report(state, 0)
        self._windows = None
        epochs.end(state.path)
        state, report = self._end_epoch(state, most_steps == 1)
        return state, report

    def close(self) -> None:
        """Stop reading ahead, if the fit ends within an epoch."""
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _epoch(self, state: LinearDualState, epochs: Epochs[Any]) -> Generator[Window, None, None]:
        settings = self.settings
        seed = settings.seed, state.epoch
        return windows(
            self.problem.source, self.rows, seed, settings.window_rows, state.window, self._read_to,
            epochs.consecutive,
        )  # fmt: skip

    def _process(self, state: LinearDualState, epochs: Epochs[Any], window: Window) -> LinearDualState:
        begin = time.perf_counter()
        self.problem.source.check_unchanged()
        if state.candidate is not None:
            self.problem.add_losses(state.candidate, window, self.pool, state.losses)
        for k in range(state.passes):
            self._process_once(state, epochs, window, k)
        with np.errstate(all="ignore"):
            finite = np.isfinite(state.path.weights.sum())
        if not finite:
            explain(window)
        self._busy += time.perf_counter() - begin
        return state._replace(window=state.window + 1, seen=state.seen + len(window.rows))

    def _process_once(self, state: LinearDualState, epochs: Epochs[Any], window: Window, k: int) -> None:
        """Pass over a window once."""
        path, n = state.path, len(window.rows)
        path = path._replace(
            seen=state.seen + n * k / state.passes, row_share=1 / state.passes, turn=path.turn + k,
            gaps=path.gaps if k == 0 else np.zeros(self.n_scores),
        )  # fmt: skip
        seed = self.settings.seed, state.epoch, state.window, k
        epochs.process(window.block, window.places, window.rows, path, seed)

    def _passes_next(self, state: LinearDualState) -> int:
        """Return the passes over each window of the next epoch, which fill the time of reading."""
        if self.settings.n_passes:
            return self.settings.n_passes
        reads = self.problem.source.reads
        reading, self._read_seconds = reads.seconds - self._read_seconds, reads.seconds
        busy, self._busy = self._busy / state.passes, 0.0
        return int(np.clip(reading / max(busy, 1e-9), 1, self.settings.tuning.most_visits))

    def _end_epoch(self, state: LinearDualState, last: bool) -> tuple[LinearDualState, Report]:
        """Move the anchor, and evaluate the objective if that is due."""
        position, mean, conjugates = state.path.position, state.path.mean, self._conjugates(state.dual)
        anchor, before, momentum = self.proximal.moved(state, conjugates)
        moved = (anchor != state.anchor).any()
        state = state._replace(
            anchor=anchor, last=before, momentum=momentum,
            path=self.proximal.path(position, anchor, state.path._replace(turn=state.path.turn + state.passes)),
            passes=self._passes_next(state), epoch=state.epoch + 1, window=0, seen=0,
            dual_value=self._dual_value(conjugates, position),
            initial_value=self.proximal.near_value(conjugates, position, anchor),
        )  # fmt: skip
        if moved:
            state.path.shrinking.activate_all()
        if self.problem.source.resident:
            if state.epoch < state.next_evaluation and not last:
                return state, self._report(state, 1)
            return self._evaluate(state, mean, self._losses_of(mean), last)
        candidate, losses = state.candidate, state.losses
        evaluate = last or state.epoch >= state.next_evaluation - 1
        state = state._replace(candidate=mean.copy() if evaluate else None, losses=np.zeros(self.n_scores))
        if candidate is None:
            return state, self._report(state, 1)
        return self._evaluate(state, candidate, losses, last)

    def _losses_of(self, weights: np.ndarray) -> np.ndarray:
        """Return the losses of weights in each score, by a pass over rows in memory."""
        losses = np.zeros(self.n_scores)
        for window in self.problem.windows_in_memory(self.settings.window_rows):
            self.problem.add_losses(weights, window, self.pool, losses)
        return losses

    def _evaluate(
        self, state: LinearDualState, weights: np.ndarray, losses: np.ndarray, last: bool
    ) -> tuple[LinearDualState, Report]:
        """Record the objective of weights, adapt the metric, and check convergence."""
        primal = self.problem.by_problem(losses) + self.problem.penalty(weights)
        if not np.isfinite(primal).all():
            raise ValueError(OVERFLOW)
        state, gap = recorded(state, weights, primal, self.settings)
        progress_at = state.progress_at
        if progress_at < state.epoch and state.inexactness <= 1.0 and gap > _COARSE:
            state = self.proximal.at_level(state, 1, self._conjugates(state.dual))
        elif state.epoch > state.halved_at + _CREEPING:
            state = self.proximal.with_other_metric(state, self._conjugates(state.dual))
        report = self._report(state, 1)._replace(stalled=state.epoch > 2 * progress_at + _PATIENCE)
        if gap <= (self.settings.tol if self.settings.criterion == "gap" else _CLOSE):
            state, report = self._certified(state, report)
        due = self.newton_applies and newton_is_due(state, self.shorter_side, last, report.stalled)
        if report.converged or not due:
            return state, report
        return self._certified(*self._newton_step(state, report))

    def _certified(self, state: LinearDualState, report: Report) -> tuple[LinearDualState, Report]:
        """Certify the best weights and the variables, and report whether they are within tolerance."""
        self.certificate = found = self.certify(state)
        if not self.is_within(found):
            return state, report
        return state, report._replace(gap=self.gap_of(found), within=True, converged=True)

    def _newton_step(self, state: LinearDualState, report: Report) -> tuple[LinearDualState, Report]:
        """Return the state after Newton steps to the tolerance, where these lead nearer."""
        problem, settings = self.problem, self.settings
        tol = settings.tol / 2 if settings.criterion == "gap" else 0.0  # with a margin
        rows = problem.dense(problem.block, problem.source.shape[1] + 1)

        def steps(stop: np.ndarray) -> Solution:
            before = np.ascontiguousarray(state.dual.T, np.float64)
            return solved(problem, rows, before, Course(stop, tol, settings.least), self.pool)

        found = stoppable(steps, settings.deadline)
        dual = np.ascontiguousarray(found.dual.T)
        after = problem.certify([found.weights], dual, found.weights, self.pool)
        higher, better = after.dual > state.dual_value, after.primal[0] < state.primal
        state.dual[:, higher] = dual[:, higher]
        position, conjugates = self._position_of(state.dual), self._conjugates(state.dual)
        best = np.where(better[:, None], self._padded(found.weights), state.best)
        state = state._replace(
            best=best, primal=np.where(better, after.primal[0], state.primal),
            dual_value=self._dual_value(conjugates, position),
            next_finish=AGAIN * state.epoch,
        )  # fmt: skip
        state = self.proximal.placed(state, position, best, conjugates)
        state = state._replace(gap=relative_gap(state.primal, state.dual_value, self.settings.least))
        return state, report._replace(gap=state.gap, objective=float(state.dual_value.sum()))

    def certify(self, state: LinearDualState) -> Certificate:
        """Return both objectives and the violation of the optimality conditions, by a pass in float64."""
        found = self.problem.certify([self._weights(state)], state.dual, state.path.position, self.pool)
        return found._replace(primal=found.primal[0])

    def concluded(self, state: LinearDualState) -> tuple[LinearDualState, Certificate]:
        """Return the state at the end of a fit and its certificate.

        For rows on disk the last weights were not evaluated yet. They are now, and replace the best if they are better.
        """
        if state.candidate is None:
            return state, self.certify(state)
        choices = [self._weights(state), state.candidate]
        found = self.problem.certify(choices, state.dual, state.path.position, self.pool)
        better = found.primal[1] < found.primal[0]
        by_score = np.broadcast_to(better, self.n_scores)[:, None]
        primal = found.primal.min(axis=0)
        state = state._replace(best=np.where(by_score, choices[1], choices[0]), primal=primal)
        return state, found._replace(primal=primal)

    def _weights(self, state: LinearDualState) -> np.ndarray:
        """Return the best evaluated weights, or the last if none was evaluated."""
        if np.isfinite(state.primal).all():
            return state.best
        return state.path.mean if state.candidate is None else state.candidate

    def finish(self, state: LinearDualState) -> np.ndarray:
        """Return the weights of the features and, last, of the constant feature."""
        weights = self._weights(state)
        d = self.problem.source.shape[1]
        return np.concatenate([weights[:, :d], weights[:, -1:]], axis=1)

    def _report(self, state: LinearDualState, n_steps: int) -> Report:
        return Report(state.gap, float(state.dual_value.sum()), n_steps, False, False, False)
