"""Block-exact dual coordinate ascent with a proximal term, for linear models.

Problem
    minimise    ½ ‖W‖² + Σ_i c_i loss(W x_i, y_i)
    over the weights W, one row a score. The weight of a constant feature is the intercept, which is penalised too. One
    against the rest, each class is a problem of its own; all are learnt in the same passes over the rows.

Ascent
    In the dual variables β of the rows, W = Σ_i β_i x_i. An epoch processes all rows in random order, with an exact
    coordinate update of one row after another (`losses`): dense rows in blocks (`dense_epochs`), sparse rows one by
    one (`epochs`). Blocks change the work, which is done in products, but not the iterates.

Subproblems
    Each epoch solves a subproblem of the proximal point method: the objective plus ½ (W - V) M (W - V) near an anchor V
    (Rockafellar 1976). In weights, W = (I + M)⁻¹ (Σ_i β_i x_i + M V). With c_i x_iᵀ (I + M)⁻¹ x_i near 1, where M is
    the metric (`metric`), one epoch a subproblem suffices: the mean of its iterates is the next anchor. Where the gap
    is large and not halved for long, the metric is weakened.

Answer
    The weighted mean of the iterates of an epoch, which is nearer to the optimum than the last iterate. Its primal
    objective P is evaluated at growing intervals: by one more pass over rows in memory, or, for rows on disk, during
    the next epoch.

Slow progress
    Where features or samples are few, Newton steps replace epochs (`augmented_lagrangian`); large C and tight
    tolerances cost them little.

End
    P - D ≤ tol P for each problem, with the dual objective D of β; or the violation of the optimality conditions of β
    is at most tol. A last pass computes both in float64.

Memory
    β and some bytes a row; six arrays of the weights' shape in float64; cached Gram matrices; three windows on disk.

After
    Hsieh, Chang, Lin, Keerthi and Sundararajan 2008; Yu, Hsieh, Chang and Lin 2012, Large linear classification when
    data cannot fit in memory (blocks); Shalev-Shwartz and Zhang 2014 (proximal terms in dual ascent).
"""

import time
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.processor import VECTOR_BYTES
from fastsvm._compiled.threads import Pool
from fastsvm.files.storable import storable
from fastsvm.linalg.row_products import product_type
from fastsvm.losses import feasible
from fastsvm.solvers.linear_dual.augmented_lagrangian import AGAIN, Course, newton_applies, newton_epochs, solved_within
from fastsvm.solvers.linear_dual.dense_epochs import DenseEpochs
from fastsvm.solvers.linear_dual.epochs import Epochs, EpochState, Shrinking, SparseEpochs
from fastsvm.solvers.linear_dual.metric import Metric, metric_of, no_metric
from fastsvm.solvers.linear_dual.problem import (
    OVERFLOW,
    Certificate,
    CertificateSums,
    CertifiedSolver,
    LinearProblem,
    LinearSettings,
    explain,
    relative_gap,
)
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import Window, windows

_COARSE = 1e-3  # Above this relative gap the metric is weakened if the gap was not halved for `_CREEPING` epochs.
_CREEPING = 40
_FAR, _EARLY = 16, 0.125  # Newton steps are tried after this share of the epochs if the gap is so many tolerances.
_PATIENCE = 1000  # So many epochs without progress, beside as many as before, show that the fit has stalled.


@storable("linear dual state")
class LinearDualState(NamedTuple):
    """What the solver carries from window to window; `dual`, `path` and `losses` are modified in place.

    The dual variables have the shape (n, n_scores), weights the shape (n_scores, n_weights); `losses` has a number a
    score, other arrays one a problem.
    """

    dual: np.ndarray
    path: EpochState  # It has the weights within the epoch.
    candidate: np.ndarray | None  # The losses of these weights are summed during the epoch, for rows on disk.
    losses: np.ndarray  # The candidate has these sums so far.
    best: np.ndarray  # These weights have the lowest primal objectives so far.
    primal: np.ndarray  # `best` has these primal objectives.
    dual_value: np.ndarray  # `dual` has these dual objectives.
    epoch: int = 0  # So many epochs are complete.
    window: int = 0  # So many windows of the current epoch are complete.
    seen: int = 0  # These windows have so many rows.
    next_evaluation: int = 1  # The objective is evaluated next after so many epochs.
    last_evaluation: int = 0  # It was evaluated last after so many epochs.
    gap: float = np.inf  # No evaluation found a lower relative gap.
    progress_at: int = 0  # The last evaluation that found progress was at this epoch.
    halved_at: int = 0  # The gap was last found halved at this epoch.
    halved_gap: float = np.inf  # The gap was this then.
    next_finish: int = 0  # Newton steps are tried after so many epochs.
    passes: int = 1  # In this epoch there are so many over each window.
    in_rounds: bool = False  # Epochs are rounds of passes over wide sparse rows.


class LinearDualAscent(CertifiedSolver[LinearDualState]):
    """Block-exact dual coordinate ascent."""

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool) -> None:
        super().__init__(problem, settings, pool)
        self.rows = np.arange(len(problem.source))
        self.width = self.width_of(problem.source.shape[1])
        self.metric = self._first_metric()
        self.newton_applies = settings.tuning.lagrangian and newton_applies(problem, settings.most_values)
        self.shorter_side = min(problem.source.shape[1], len(self.rows))
        self._busy, self._read_seconds = 0.0, problem.source.reads.seconds
        self._epochs: Epochs | None = None
        self._windows: Generator[Window, None, None] | None = None
        self._read_to: list = []

    def _first_metric(self) -> Metric:
        """Return the metric with which epochs begin."""
        return self._strongest_metric()

    def _strongest_metric(self) -> Metric:
        """Return the strongest metric of the proximal term."""
        if self.settings.tuning.proximal:
            return metric_of(self.problem, self.width)
        return no_metric(self.n_scores, self.width)

    def _conjugates(self, dual: np.ndarray) -> np.ndarray:
        """Return Σ_i c_i ℓ*(-β_i / c_i) of each score."""
        return self.problem.conjugates(dual)

    @staticmethod
    def width_of(n_features: int) -> int:
        """Return the number of weights of a score: that of the constant feature, and padding for vectors of float32."""
        lanes = VECTOR_BYTES // np.dtype(np.float32).itemsize
        return -(-(n_features + 1) // lanes) * lanes

    # --- states ------------------------------------------------------------------------------------------

    def init(self, dual: np.ndarray | None = None) -> LinearDualState:
        """Return the state at zero, or at given dual variables, which takes a pass over the rows.

        Given variables are dropped for each problem in which zero is better: they stem from other rows or another
        scaling.
        """
        real, position = product_type(self.problem.source.dtype), np.zeros((self.n_scores, self.width))
        if dual is None:
            dual = np.zeros((len(self.rows), self.n_scores), real)
        else:
            dual = feasible(self.problem.loss, self.problem.demands, dual)
            position = self._position_of(dual)
            usable = np.broadcast_to(self._dual_value(self._conjugates(dual), position) > 0, self.n_scores)
            dual, position = np.ascontiguousarray(dual * usable, real), position * usable[:, None]
        n_problems = self.problem.by_problem(np.zeros(self.n_scores)).size
        return LinearDualState(
            dual=dual, path=self.path(position, position), candidate=None, losses=np.zeros(self.n_scores),
            best=position, primal=np.full(n_problems, np.inf), dual_value=np.zeros(n_problems),
        )  # fmt: skip

    def start_of(self, state: object) -> np.ndarray | None:
        """Return the dual variables of another fit, None if there are not as many."""
        if isinstance(state, LinearDualState) and state.dual.shape == (len(self.rows), self.n_scores):
            return state.dual
        return None

    def kept(self, state: LinearDualState, finished: bool) -> LinearDualState | None:
        """Return the state, None if a bad value or overflow has spread to the variables, which change in place."""
        return state if np.isfinite(state.dual).all() and np.isfinite(state.path.position).all() else None

    def adopted(self, state: LinearDualState) -> LinearDualState:
        """Return a state that was saved between two windows, to resume with the same bits."""
        self.metric = state.path.metric
        return state

    def resumed(self, state: LinearDualState, same_windows: bool) -> LinearDualState:
        """Return a state that was interrupted within a window, with Σ β_i x_i computed anew by a pass over the rows.

        With other windows the epoch begins again, and objectives are discarded.
        """
        self.metric = state.path.metric
        position, term = self._position_of(state.dual), state.path.anchor_term
        weights = self.metric.solve(position + term)
        path = state.path._replace(weights=weights, mean=weights.copy(), position=position)
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
        padded = np.zeros((len(weights), self.width))
        padded[:, : weights.shape[1] - 1], padded[:, -1] = weights[:, :-1], weights[:, -1]
        return padded

    def path(self, position: np.ndarray, anchor: np.ndarray, before: EpochState | None = None) -> EpochState:
        """Return the state of a new epoch at Σ β_i x_i = position, with the shrinking of the epoch `before`."""
        anchor_term = self.metric.times(anchor)
        weights = self.metric.solve(position + anchor_term)
        fresh = Shrinking.of(self.problem.demands.costs), 0
        shrinking, turn = fresh if before is None else (before.shrinking, before.turn)
        return EpochState(weights, weights.copy(), position.copy(), anchor_term, self.metric, shrinking, turn)

    def with_metric(self, state: LinearDualState, metric: Metric) -> LinearDualState:
        """Return the state with another metric, anchored at the best weights."""
        self.metric, self._epochs = metric, None  # whose Gram matrices are those of the metric before
        return state._replace(
            path=self.path(state.path.position, state.best, state.path), halved_at=state.epoch, halved_gap=state.gap
        )

    # --- epochs ------------------------------------------------------------------------------------------

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Process one window. The last window of an epoch completes a step."""
        if most_steps == 0:
            return state, self._report(state, 0)
        if self._epochs is None or self._epochs.dual is not state.dual:
            self._epochs = epochs_on(self.problem, state.dual, self.settings, self.pool)
        epochs = self._epochs
        if self._windows is None:
            epochs.begin(state.path)
            settings, seed = self.settings, (self.settings.seed, state.epoch)
            self._windows = windows(
                self.problem.source, self.rows, seed, settings.window_rows, state.window, self._read_to,
                epochs.consecutive,
            )  # fmt: skip
        window = next(self._windows, None)
        if window is not None:
            state = self._process(state, epochs, window)
            if state.seen < len(self.rows):
                return state, self._report(state, 0)
        self._windows = None
        epochs.end(state.path)
        return self._end_epoch(state, most_steps == 1)

    def close(self) -> None:
        """Stop reading ahead, if the fit ends within an epoch."""
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _process(self, state: LinearDualState, epochs: Epochs, window: Window) -> LinearDualState:
        begin = time.perf_counter()
        self.problem.source.check_unchanged()
        if state.candidate is not None:
            self.problem.add_losses(state.candidate, window, self.pool, state.losses)
        for k in range(state.passes):
            seen = state.seen + len(window.rows) * k / state.passes
            path = state.path._replace(seen=seen, row_share=1 / state.passes, turn=state.path.turn + k)
            epochs.process(window, path, (self.settings.seed, state.epoch, state.window, k))
        with np.errstate(all="ignore"):
            finite = np.isfinite(state.path.weights.sum())
        if not finite:
            explain(window)
        self._busy += time.perf_counter() - begin
        return state._replace(window=state.window + 1, seen=state.seen + len(window.rows))

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
        position, mean = state.path.position, state.path.mean
        state = state._replace(
            path=self.path(position, mean, state.path._replace(turn=state.path.turn + state.passes)),
            passes=self._passes_next(state), epoch=state.epoch + 1, window=0, seen=0,
            dual_value=self._dual_value(self._conjugates(state.dual), position),
        )  # fmt: skip
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
        return self.problem.losses(weights, self.settings.window_rows, self.pool)

    def _evaluate(
        self, state: LinearDualState, weights: np.ndarray, losses: np.ndarray, last: bool
    ) -> tuple[LinearDualState, Report]:
        """Record the objective of weights, and check convergence."""
        primal = self.problem.by_problem(losses) + self.problem.penalty(weights)
        if not np.isfinite(primal).all():
            raise ValueError(OVERFLOW)
        state, gap = recorded(state, weights, primal, self.settings)
        is_stalled = state.epoch > 2 * state.progress_at + _PATIENCE
        report = self._report(state, 1)._replace(stalled=is_stalled)
        is_slow = gap > _COARSE and state.epoch > state.halved_at + _CREEPING
        if is_slow and self.settings.tuning.metric_changes and not self.metric.vanishes:
            state = self.with_metric(state, self.metric.weaker())
        if gap <= self.settings.tol or self.settings.criterion != "gap":
            state, report = self._certified(state, report)
        # Newton steps take about as long as the epochs so far, and may take longer where ascent has stalled or is far
        # from the tolerance. In the last epoch they are tried even if they failed before.
        share = _EARLY if gap > _FAR * self.settings.tol else 1.0
        least = max(share * newton_epochs(self.shorter_side), 0 if last else state.next_finish)
        is_due = state.epoch >= (self.shorter_side / 2 if report.stalled else least)
        if report.converged or not (self.newton_applies and is_due):
            return state, report
        return self._certified(*self._newton_step(state, report))

    def _certified(self, state: LinearDualState, report: Report) -> tuple[LinearDualState, Report]:
        """Certify the best weights and the variables, and report whether they are within tolerance."""
        self.certificate = certificate = self.certify(state)
        if not self.is_within(certificate):
            return state, report
        return state, report._replace(gap=self.gap_of(certificate), within=True, converged=True)

    def _newton_step(self, state: LinearDualState, report: Report) -> tuple[LinearDualState, Report]:
        """Return the state after Newton steps to the tolerance, where these lead nearer."""
        settings = self.settings
        course = Course(settings.tol / 2 if settings.criterion == "gap" else 0.0, settings.least)  # with a margin
        solution = solved_within(self.problem, state.dual, course, self.pool, settings.deadline)
        dual = np.ascontiguousarray(solution.dual.T)
        after = solution.certificate()
        higher, better = after.dual > state.dual_value, after.primal < state.primal
        state.dual[:, higher] = dual[:, higher]
        position = self._position_of(state.dual)
        best = np.where(better[:, None], self._padded(solution.weights), state.best)
        state = state._replace(
            best=best, primal=np.where(better, after.primal, state.primal),
            dual_value=self._dual_value(self._conjugates(state.dual), position),
            next_finish=AGAIN * state.epoch, path=self.path(position, best, state.path),
        )  # fmt: skip
        state = state._replace(gap=relative_gap(state.primal, state.dual_value, self.settings.least))
        return state, report._replace(gap=state.gap, objective=float(state.dual_value.sum()))

    def certify(self, state: LinearDualState) -> Certificate:
        """Return both objectives and the violation of the optimality conditions, by a pass in float64."""
        weights = [self._best(state)]
        return self.problem.certificate(weights, self._certificate_sums(weights, state))[1]

    def _certificate_sums(self, weights: Sequence[np.ndarray], state: LinearDualState) -> CertificateSums:
        """Return the sums over the rows that a certificate needs."""
        return self.problem.certificate_sums(weights, state.dual, state.path.position, self.pool)

    def _certified_end(self, state: LinearDualState) -> tuple[LinearDualState, Certificate]:
        """Return the state and its certificate.

        For rows on disk the last weights were not evaluated yet. They are now, and replace the best if they are better.
        """
        if state.candidate is None:
            return state, self.certify(state)
        choices = [self._best(state), state.candidate]
        best, certificate = self.problem.certificate(choices, self._certificate_sums(choices, state))
        return state._replace(best=best, primal=certificate.primal), certificate

    def _best(self, state: LinearDualState) -> np.ndarray:
        """Return the best evaluated weights, or the last if none was evaluated."""
        if np.isfinite(state.primal).all():
            return state.best
        return state.path.mean if state.candidate is None else state.candidate

    def weights(self, state: LinearDualState) -> np.ndarray:
        """Return the best weights of the features and, last, of the constant feature."""
        weights = self._best(state)
        d = self.problem.source.shape[1]
        return np.concatenate([weights[:, :d], weights[:, -1:]], axis=1)


def epochs_on(problem: LinearProblem, dual: np.ndarray, settings: LinearSettings, pool: Pool) -> Epochs:
    """Return epochs on dual variables of a problem."""
    kind = SparseEpochs if problem.source.sparse else DenseEpochs
    return kind(problem, dual, settings, pool)


# --- evaluations -----------------------------------------------------------------------------------------

_PROGRESS = 0.98  # An evaluation finds progress if the gap is at most this share of the least before.
_GROWTH = 3  # Evaluations are at most one epoch apart, and one more for each so many epochs that are done.


def recorded(
    state: LinearDualState, weights: np.ndarray, primal: np.ndarray, settings: LinearSettings
) -> tuple[LinearDualState, float]:
    """Return the state after an evaluation of weights, and the relative gap of the best weights.

    `primal` are the primal objectives of the weights. Weights that are `state.best` itself are those of the lowest
    objectives, those of this evaluation included.
    """
    better = primal < state.primal
    by_score = np.broadcast_to(better, len(weights))[:, None]
    best = weights if weights is state.best else np.where(by_score, weights, state.best)
    primal = np.where(better, primal, state.primal)
    gap = relative_gap(primal, state.dual_value, settings.least)
    progress_at = state.epoch if gap < _PROGRESS * state.gap else state.progress_at
    state = state._replace(
        best=best, primal=primal, gap=min(gap, state.gap), progress_at=progress_at,
        next_evaluation=state.epoch + _epochs_until_next(state, gap, settings), last_evaluation=state.epoch,
    )  # fmt: skip
    if gap <= state.halved_gap / 2:
        state = state._replace(halved_at=state.epoch, halved_gap=gap)
    return state, gap


def _epochs_until_next(state: LinearDualState, gap: float, settings: LinearSettings) -> int:
    """Return the number of epochs until the next evaluation: not before the gap may be within tolerance."""
    most = 1 + state.epoch // _GROWTH
    falls = np.isfinite(state.gap) and 0 < gap < state.gap
    rate = np.log(state.gap / gap) / max(1, state.epoch - state.last_evaluation) if falls else 0.0
    if rate == 0 or gap <= settings.tol or settings.criterion != "gap":
        return most
    return int(np.clip(np.log(gap / settings.tol) / rate, 1, most))
