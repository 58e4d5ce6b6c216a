"""Block-exact dual coordinate ascent with acceleration, for linear models.

Problem
    minimise    ½ ‖W‖² + Σ_i c_i loss(W x_i, y_i)
    over the weights W, one row a score. The weight of a constant feature is the intercept, which is penalised too. One
    against the rest, each class is a problem of its own; all are learnt in the same passes over the rows.

Ascent
    In the dual variables β of the rows, W = Σ_i β_i x_i. An epoch processes all rows in random order, with an exact
    coordinate update of one row after another (`losses`): dense rows in blocks (`dense_epoch`), sparse rows one by one
    (`sparse_epoch`). Blocks change the work, which is done in products, but not the iterates.

Acceleration
    Epochs solve the subproblems of an accelerated proximal point method (`proximal_point`). With c_i x_iᵀ (I + M)⁻¹ x_i
    near 1, where M is the metric of the proximal term (`proximal_metric`), one epoch a subproblem suffices most times.

Answer
    The weighted mean of the iterates of an epoch, which is nearer to the optimum than the last iterate. Its primal
    objective P is evaluated at growing intervals: by one more pass over rows in memory, or, for rows on disk, during
    the next epoch.

Slow progress
    Where the gap is not halved for long, the metric is made weaker, or, if that was slower, stronger. Where an epoch is
    cheap because features or samples are few, Newton steps replace epochs (`augmented_lagrangian`); large C and tight
    tolerances cost them little.

End
    P - D ≤ tol P for each problem, with the dual objective D of β; or the violation of the optimality conditions of β
    is at most tol. A last pass computes both in float64.

Memory
    β and some bytes a row; six arrays of the weights' shape in float64; kept Gram matrices; on disk three windows.

After
    Hsieh, Chang, Lin, Keerthi and Sundararajan 2008; Yu, Hsieh, Chang and Lin 2012, Large linear classification when
    data cannot fit in memory (blocks); Shalev-Shwartz and Zhang 2014 (acceleration of dual ascent).
"""

import time
from collections.abc import Generator

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import feasible
from fastsvm.solvers.linear_dual.augmented_lagrangian import finish, is_narrow
from fastsvm.solvers.linear_dual.certificate import Certificate, certify, combination, primal_of
from fastsvm.solvers.linear_dual.curvature import metric_of
from fastsvm.solvers.linear_dual.dense_epoch import BlockVisits, Layout
from fastsvm.solvers.linear_dual.epoch import Visits
from fastsvm.solvers.linear_dual.problem import OVERFLOW, LinearProblem, explain
from fastsvm.solvers.linear_dual.proximal_metric import Metric
from fastsvm.solvers.linear_dual.proximal_point import STRICTER, ProximalPoint
from fastsvm.solvers.linear_dual.sparse_epoch import RowVisits
from fastsvm.solvers.linear_dual.state import MOST_INEXACT, LinearDualSettings, LinearDualState
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import Window, windows

__all__ = ["LinearDualAscent"]

_LEAST_INEXACT = 1.0  # times the proximal term, up to which a gap is small where there is no progress
_SOON = 8  # epochs until the next objective, if the last two found no progress
_COARSE = 3e-4  # gap, above which the metric is made weaker where an evaluation finds no progress
_CREEPING = 100  # epochs in which the gap should be halved
_LAXER = 1.5  # what the inexactness is multiplied by when there is progress
_WIDTH = 16  # weights are padded to a multiple of
_GROWTH = 3  # the next objective is computed after at most one more epoch for each `_GROWTH` done
_MOST_VISITS = 4
_FINISH_EPOCHS, _FINISH_FACTOR = 20, 2  # and times the shorter side of the rows: epochs before Newton steps
_AGAIN = 4  # times the epochs, after which they are tried once more
_WITHIN = 0.9  # of the tolerance, for the certificate to find the same
_FITTING = 0.5  # of variables to begin with, the multiple that is best, at least
_CLOSE = 0.1  # gap from which on the violation is looked at
_PROGRESS = 0.98  # of the gap, that a look should find
_PATIENCE = 1000  # epochs without progress, beside as many as before, after which floating point allows none


class LinearDualAscent:
    """Block-exact dual coordinate ascent.

    Parameters
    ----------
    problem : LinearProblem
        What is to be learnt.
    settings : LinearDualSettings
        How.
    pool : Pool
        Threads.

    Attributes
    ----------
    certificate : Certificate or None
        What the last pass found of the weights that are the answer.
    """

    def __init__(self, problem: LinearProblem, settings: LinearDualSettings, pool: Pool) -> None:
        self.problem, self.settings, self.pool = problem, settings, pool
        self.rows = np.arange(len(problem.source))
        self.n_scores = len(problem.demands.balance)
        n_features = problem.source.shape[1]
        self.width = -(-(n_features + 1) // _WIDTH) * _WIDTH
        self.proximal = ProximalPoint(problem, metric_of(problem, self.width))
        self.certificate: Certificate | None = None
        self.is_narrow = is_narrow(problem, settings.most_values)
        self._busy, self._read_seconds = 0.0, problem.source.reads.seconds
        self._visits: Visits | None = None
        self._metric: Metric | None = None  # of the visits
        self._windows: Generator[Window, None, None] | None = None
        self._read_to: list = []

    # --- states ------------------------------------------------------------------------------------------

    def init(self, dual: np.ndarray | None = None) -> LinearDualState:
        """Return the state at zero, or near given dual variables, which takes a pass over the rows.

        They are forgotten where others, less than half as large, would be better: they are of other rows, or of rows
        that were scaled otherwise, and worse than none.
        """
        real, position = product_type(self.problem.source.dtype), np.zeros((self.n_scores, self.width))
        if dual is None:
            dual = np.zeros((len(self.rows), self.n_scores), real)
        else:
            dual = feasible(self.problem.loss, self.problem.demands, dual)
            position = self._padded(combination(self.problem, dual, self.pool))
            kept = np.broadcast_to(self.proximal.best_share(dual, position) > _FITTING, self.n_scores)
            dual, position = np.ascontiguousarray(dual * kept, real), position * kept[:, None]
        n_problems = self.problem.by_problem(np.zeros(self.n_scores)).size
        return LinearDualState(
            dual=dual, anchor=position, last=position, momentum=np.ones(n_problems),
            path=self.proximal.path(position, position), candidate=None, losses=np.zeros(self.n_scores), best=position,
            primal=np.full(n_problems, np.inf), dual_value=np.zeros(n_problems),
            begun=self.proximal.near_value(self.proximal.conjugates(dual), position, position),
        )  # fmt: skip

    def memory(self) -> None:
        """Return what a resumed run needs beside the state: nothing."""

    def recall(self, memory: None) -> None:
        """Take what `memory` returned."""

    def adopted(self, state: LinearDualState) -> LinearDualState:
        """Return a state that was saved between two windows, for a run that resumes with the same bits."""
        self.proximal.take_metric(state.path.metric)
        return state

    def resumed(self, state: LinearDualState, same_windows: bool) -> LinearDualState:
        """Return a state with Σ β x formed anew: some steps may have been taken by half.

        It takes a pass over the rows. With other windows the epoch begins again, and objectives are forgotten.
        """
        self.proximal.take_metric(state.path.metric)
        position = self._padded(combination(self.problem, state.dual, self.pool))
        path = self.proximal.path(position, state.anchor, state.path)
        if same_windows:
            return state._replace(path=path)
        return state._replace(
            path=path, window=0, seen=0, candidate=None, losses=np.zeros(self.n_scores),
            primal=np.full_like(state.primal, np.inf), gap=np.inf, next_evaluation=state.epoch + 1,
        )  # fmt: skip

    def _padded(self, weights: np.ndarray) -> np.ndarray:
        """Return weights of the features and the constant one with zeros between them."""
        found = np.zeros((len(weights), self.width))
        found[:, : weights.shape[1] - 1], found[:, -1] = weights[:, :-1], weights[:, -1]
        return found

    def _visits_of(self, state: LinearDualState) -> Visits:
        known = self._visits is not None and self._visits.dual is state.dual
        if not known or self._metric is not self.proximal.metric:  # whose Gram matrices are those of the metric
            self._metric = self.proximal.metric
            problem, settings = self.problem, self.settings
            source = problem.source
            same = problem.loss, problem.demands, state.dual
            if source.sparse:
                held = source.nbytes / (source.dtype.itemsize + 4) / max(1, len(source))
                self._visits = RowVisits(*same, held, problem.constant, self.pool)
            else:
                layout = Layout(
                    settings.block_rows, settings.n_sweeps, settings.kept_blocks, problem.shift, problem.scale
                )
                self._visits = BlockVisits(*same, source.shape[1], problem.constant, self.pool, layout, source.dtype)
        return self._visits

    # --- epochs ------------------------------------------------------------------------------------------

    def step(self, state: LinearDualState, most_steps: int) -> tuple[LinearDualState, Report]:
        """Visit one window; after the last, which is what counts as a step, end the epoch."""
        if most_steps == 0:
            return state, self._report(state, 0)
        visits = self._visits_of(state)
        if self._windows is None:
            visits.begin(state.path)
            self._windows = self._epoch(state, visits)
        window = next(self._windows, None)
        if window is not None:
            state = self._visit(state, visits, window)
            if state.seen < len(self.rows):
                return state, self._report(state, 0)
        self._windows = None
        visits.end(state.path)
        state, report = self._end_epoch(state, most_steps == 1)
        return state, report

    def close(self) -> None:
        """Stop reading ahead, at an end before that of an epoch."""
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _epoch(self, state: LinearDualState, visits: Visits) -> Generator[Window, None, None]:
        settings = self.settings
        seed = settings.seed, state.epoch
        return windows(
            self.problem.source, self.rows, seed, settings.window_rows, state.window, self._read_to,
            visits.consecutive,
        )  # fmt: skip

    def _visit(self, state: LinearDualState, visits: Visits, window: Window) -> LinearDualState:
        begin = time.perf_counter()
        if not self.problem.source.resident:
            self.problem.source.check_unchanged()
        if state.candidate is not None:
            primal_of(self.problem, state.candidate, window, self.pool, state.losses)
        for visit in range(state.visits):
            self._meet(state, visits, window, visit)
        with np.errstate(all="ignore"):
            finite = np.isfinite(state.path.weights.sum())
        if not finite:
            explain(window)
        self._busy += time.perf_counter() - begin
        return state._replace(window=state.window + 1, seen=state.seen + len(window.rows))

    def _meet(self, state: LinearDualState, visits: Visits, window: Window, visit: int) -> None:
        """Take the steps of a window once more."""
        path, n = state.path, len(window.rows)
        path = path._replace(
            seen=state.seen + n * visit / state.visits, row_share=1 / state.visits, turn=path.turn + visit,
            gaps=path.gaps if visit == 0 else np.zeros(self.n_scores),
        )  # fmt: skip
        seed = self.settings.seed, state.epoch, state.window, visit
        visits.visit(window.block, window.places, window.rows, path, seed)

    def _visits_next(self, state: LinearDualState) -> int:
        """Return how often windows are visited in the next epoch: while the next one is read, there is time for it."""
        if self.settings.n_visits or self.problem.source.resident:
            return self.settings.n_visits or 1
        reads = self.problem.source.reads
        reading, self._read_seconds = reads.seconds - self._read_seconds, reads.seconds
        busy, self._busy = self._busy / state.visits, 0.0
        return int(np.clip(reading / max(busy, 1e-9), 1, _MOST_VISITS))

    def _end_epoch(self, state: LinearDualState, last: bool) -> tuple[LinearDualState, Report]:
        """Move the anchor, and compute objectives if it is time."""
        position, mean, conjugates = state.path.position, state.path.mean, self.proximal.conjugates(state.dual)
        anchor, before, momentum = self.proximal.moved(state, conjugates)
        moved = (anchor != state.anchor).any()
        state = state._replace(
            anchor=anchor, last=before, momentum=momentum,
            path=self.proximal.path(position, anchor, state.path._replace(turn=state.path.turn + state.visits)),
            visits=self._visits_next(state), epoch=state.epoch + 1, window=0, seen=0,
            dual_value=-self.problem.by_problem(conjugates) - self.proximal.sizes(position),
            begun=self.proximal.near_value(conjugates, position, anchor),
        )  # fmt: skip
        if moved:
            state.path.shrinking.wake()
        if self.problem.source.resident:
            if state.epoch < state.next_evaluation and not last:
                return state, self._report(state, 1)
            losses = np.zeros(self.n_scores)
            for window in self.problem.windows_in_memory(self.settings.window_rows):
                primal_of(self.problem, mean, window, self.pool, losses)
            return self._evaluate(state, mean, losses, last)
        candidate, losses = state.candidate, state.losses
        ride = last or state.epoch >= state.next_evaluation - 1
        state = state._replace(candidate=mean.copy() if ride else None, losses=np.zeros(self.n_scores))
        if candidate is None:
            return state, self._report(state, 1)
        return self._evaluate(state, candidate, losses, last)

    def _evaluate(
        self, state: LinearDualState, weights: np.ndarray, losses: np.ndarray, last: bool
    ) -> tuple[LinearDualState, Report]:
        """Compare the objective of weights with the best, and decide whether that is good enough."""
        primal = self.problem.by_problem(losses) + self.proximal.sizes(weights)
        if not np.isfinite(primal).all():
            raise ValueError(OVERFLOW)
        better = primal < state.primal
        by_score = np.broadcast_to(better, self.n_scores)[:, None]
        best = np.where(by_score, weights, state.best)
        primal = np.where(better, primal, state.primal)
        gap = _relative(primal, state.dual_value)
        progress = state.epoch if gap < _PROGRESS * state.gap else state.progress
        change = 1 / STRICTER if progress < state.epoch else _LAXER
        state = state._replace(
            best=best, primal=primal, gap=min(gap, state.gap), progress=progress,
            inexact=float(np.clip(state.inexact * change, _LEAST_INEXACT, MOST_INEXACT)),
            next_evaluation=state.epoch + self._pause(state, gap), last_evaluation=state.epoch,
        )  # fmt: skip
        if gap <= state.half / 2:
            state = state._replace(halved=state.epoch, half=gap)
        if progress < state.epoch and state.inexact <= _LEAST_INEXACT and gap > _COARSE:
            state = self.proximal.at_level(state, 1)
        elif state.epoch > state.halved + _CREEPING:
            state = self.proximal.with_other_metric(state)
        report = self._report(state, 1)._replace(stalled=state.epoch > 2 * progress + _PATIENCE)
        by_gap = self.settings.criterion == "gap"
        if gap <= (self.settings.tol if by_gap else _CLOSE):
            state, report = self._judged(state, report)
        if report.converged or not self._should_finish(state, last, report.stalled):
            return state, report
        return self._judged(*self._finished(state, report))

    def _judged(self, state: LinearDualState, report: Report) -> tuple[LinearDualState, Report]:
        """Return the report of whether the best weights and the variables are within tolerance, by a certificate."""
        self.certificate = self.certify(state)
        if not self.is_within(self.certificate):
            return state, report
        gap = _relative(self.certificate.primal, self.certificate.dual)
        return state, report._replace(gap=gap, within=True, converged=True)

    def is_within(self, found: Certificate) -> bool:
        """Return whether what a certificate says is within tolerance."""
        if self.settings.criterion == "gap":
            return _relative(found.primal, found.dual) <= self.settings.tol
        return found.violation <= self.settings.tol

    def _should_finish(self, state: LinearDualState, last: bool, stalled: bool) -> bool:
        """Return whether Newton steps are worth a try: they take about as long as the epochs so far.

        They may take longer where nothing else leads on, and are tried again where no epoch follows.
        """
        shorter = min(self.problem.source.shape[1], len(self.rows))
        if stalled:
            return self.is_narrow and state.epoch >= shorter / _FINISH_FACTOR
        epochs = _FINISH_EPOCHS + _FINISH_FACTOR * shorter
        return self.is_narrow and state.epoch >= (epochs if last else max(epochs, state.next_finish))

    def _finished(self, state: LinearDualState, report: Report) -> tuple[LinearDualState, Report]:
        """Return the state after Newton steps, which go on where ascent is slow."""
        tol = _WITHIN * self.settings.tol if self.settings.criterion == "gap" else 0.0
        found = finish(self.problem, state.dual, tol, self.pool)
        better = found.primal < state.primal
        state.dual[:] = found.dual
        position = self._padded(combination(self.problem, state.dual, self.pool))
        best = np.where(better[:, None], self._padded(found.weights), state.best)
        state = state._replace(
            best=best, primal=np.where(better, found.primal, state.primal),
            dual_value=-self.proximal.conjugates(state.dual) - self.proximal.sizes(position),
            next_finish=_AGAIN * state.epoch,
        )  # fmt: skip
        state = self.proximal.placed(state, position, best)
        state = state._replace(gap=_relative(state.primal, state.dual_value))
        return state, report._replace(gap=state.gap, objective=float(state.dual_value.sum()))

    def _pause(self, state: LinearDualState, gap: float) -> int:
        """Return after how many epochs to look again: not before the gap may be small enough."""
        most = 1 + state.epoch // _GROWTH
        if state.progress < state.last_evaluation:  # what is done about it should not have to wait
            most = min(most, _SOON)
        known = np.isfinite(state.gap) and 0 < gap < state.gap
        rate = np.log(state.gap / gap) / max(1, state.epoch - state.last_evaluation) if known else 0.0
        if rate == 0 or gap <= self.settings.tol or self.settings.criterion != "gap":
            return most
        return int(np.clip(np.log(gap / self.settings.tol) / rate, 1, most))

    def certify(self, state: LinearDualState) -> Certificate:
        """Return both objectives and the violation of the optimality conditions, by a pass in float64."""
        found = certify(self.problem, [self._weights(state)], state.dual, state.path.position, self.pool)
        return found._replace(primal=found.primal[0])

    def concluded(self, state: LinearDualState) -> tuple[LinearDualState, Certificate]:
        """Return the state at the end of a fit and its certificate.

        The last weights of rows on disk were not scored yet: they are now, and taken if they are the best.
        """
        if state.candidate is None:
            return state, self.certify(state)
        choices = [self._weights(state), state.candidate]
        found = certify(self.problem, choices, state.dual, state.path.position, self.pool)
        better = found.primal[1] < found.primal[0]
        by_score = np.broadcast_to(better, self.n_scores)[:, None]
        primal = found.primal.min(axis=0)
        state = state._replace(best=np.where(by_score, choices[1], choices[0]), primal=primal)
        return state, found._replace(primal=primal)

    def _weights(self, state: LinearDualState) -> np.ndarray:
        """Return the best weights whose objective is known, or the last that there are."""
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


def _relative(primal: np.ndarray, dual: np.ndarray) -> float:
    """Return the largest gap of a problem relative to its objective."""
    return float(np.max((primal - dual) / np.maximum(np.abs(primal), 1e-300)))
