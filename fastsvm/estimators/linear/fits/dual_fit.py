"""From an estimator's parameters to a run of dual coordinate ascent, new or resumed, or to the fit of few samples."""

import math
import time
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from fastsvm._compiled.threads import Pool, spans, stoppable
from fastsvm._compiled.writeable import writeable
from fastsvm.estimators.fitting.session import FitSession
from fastsvm.estimators.linear.fits.linear_problem import fingerprint_of, problem_of
from fastsvm.estimators.linear.progress import DualAscentMonitor
from fastsvm.estimators.linear.training_task import Task, seed_of
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import product_type
from fastsvm.losses import Demands, Loss, is_piecewise
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.epochs.dense_epoch import PART_BYTES
from fastsvm.solvers.linear_dual.evaluation import relative_gap
from fastsvm.solvers.linear_dual.one_class.ascent import GivenSumAscent, least_objective
from fastsvm.solvers.linear_dual.problem import LinearProblem
from fastsvm.solvers.linear_dual.small.chosen_loss import chosen_loss
from fastsvm.solvers.linear_dual.small.few_samples import CERTIFICATE, EXACT_GAP, begin_scores, solve_scores
from fastsvm.solvers.linear_dual.small.wide_samples import certify_scores, solve_on_gram
from fastsvm.solvers.linear_dual.state import LinearDualSettings, LinearDualState
from fastsvm.solvers.linear_dual.wide.ascent import WideAscent, is_wide
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import DenseBlock

__all__ = ["N_SWEEPS", "DualFit", "DualFitState", "SmallFit", "block_rows_of", "small_fit"]

N_SWEEPS = 3
"""Largest number of sweeps over a block of rows."""

_BLOCK_ROWS = ((512, 192), (128, 128), (0, 64))  # of at least so many features, so many rows
_STREAMED_ROWS = 32  # of a block whose Gram matrix is computed again in each epoch
_SAMPLE_BYTES = 48, 8  # of a sample's label, weights, cost and number, and of its dual variable for each score
_GRAM_SHARE, _WINDOW_SHARE = 4, 8  # of the memory; three windows are there at once
_PART_SHARE = 64  # of the memory for a part of a window, of which six may be there at once
_DENSE_SHARE = 96  # bytes of the memory for a value: Newton steps have up to three copies in float64 beside all else
_MOST_WINDOW = 32 << 20  # bytes
_WINDOW_WORK = 1 << 31  # multiplications of rows in memory between two readings of the clock
_MOST_VALUES, _SHORTER_SIDE = 1 << 20, 320  # of few samples: with more, epochs cost less than Newton steps
_MANY = 20_000  # samples with a loss that is not piecewise quadratic
_LEAST_EPOCHS = 100  # who allows fewer wants to see them
_MOST_SAMPLES = 2048  # of a Gram matrix
_LONG, _MORE_SAMPLES = 64, 4  # of at least so many features, so many times as many samples
_EPOCHS_OF_ROWS = 60  # samples for each epoch that is taken before the Gram matrix is computed
_EPOCHS_OF_MATRIX, _MOST_EPOCHS = 120, 200  # of sparse rows: multiplications of a factorisation that take their time
_GRAM_RIDGE = 1e-13  # of its mean diagonal
_GRAM_ROWS = 96  # rows of the Gram matrix that are a piece of work
_SHORT = 1 << 14  # values, in all scores, of a fit of some milliseconds
_PART = 1 << 18  # multiplications of an epoch of few samples that are worth a thread


@storable("linear dual fit")
class DualFitState(NamedTuple):
    """Checkpoint of a fit, or its state at the end.

    Attributes
    ----------
    fingerprint : str
        Digest of its task, loss and constant feature; empty if the fit cannot be resumed.
    seed : int
        Seed of the order of the rows.
    state : LinearDualState
        State of the solver.
    windows : tuple
        Rows of a window, and whether all rows were in memory.
    finished : bool
        Whether the fit came to its end.
    consistent : bool
        Whether the fit stopped between two windows, so that no step is incomplete.
    records : list of tuple
        Records of the epochs so far.
    """

    fingerprint: str
    seed: int
    state: LinearDualState
    windows: tuple
    finished: bool
    consistent: bool
    records: list[tuple]


class DualFit:
    """A run of dual coordinate ascent for an estimator.

    Parameters
    ----------
    estimator : LinearSVC, LinearSVR, LogisticRegression or LinearOneClassSVM
        Its parameters are valid.
    task : Task
        Samples, targets and weights.
    loss : Loss
        Loss of a sample.
    pool : Pool
        Threads.
    last : DualFitState or None
        Checkpoint or end of an earlier fit.
    session : FitSession
        The fit. If it may be resumed, or resumes, a fingerprint is computed.
    """

    def __init__(
        self, estimator: Any, task: Task, loss: Loss, pool: Pool, last: DualFitState | None, session: FitSession
    ) -> None:
        memory = estimator._memory_left()
        problem = problem_of(estimator, task, loss)
        source = problem.source
        self._fingerprint = fingerprint_of(task, problem) if session.can_be_resumed else ""
        seed = seed_of(estimator) if last is None else last.seed
        self._deadline, self._last = session.deadline, last
        self._settings = _settings(estimator, problem, memory, seed)._replace(deadline=session.deadline)
        self._windows = self._settings.window_rows, source.resident
        self._finished = self._consistent = False
        kind: Any = GivenSumAscent if problem.total is not None else LinearDualAscent
        if kind is LinearDualAscent and is_wide(source, loss):
            kind = WideAscent
        self.solver = kind(problem, self._settings, pool)

    def initial_state(self) -> LinearDualState:
        """Return the state of the last fit if its problem was the same and it did not finish.

        Else begin at its dual variables if there are as many, or at zero.
        """
        last = self._last
        if last is None or last.state.dual.shape != (len(self.solver.rows), self.solver.n_scores):
            return self.solver.init()
        if last.finished or last.fingerprint != self._fingerprint:
            return self.solver.init(last.state.dual)
        if last.consistent and last.windows == self._windows:
            return self.solver.adopted(last.state)
        return self.solver.resumed(last.state, last.windows == self._windows)

    def run(
        self, state: LinearDualState, n_epochs: int, monitor: DualAscentMonitor
    ) -> tuple[LinearDualState, StopReason]:
        """Return the state after at most `n_epochs` epochs in all, and why it stopped there."""
        try:
            limits = Limits(max(0, n_epochs - state.epoch), self._deadline)
            state, reason, _ = drive(self.solver, state, limits, monitor.observe)
        finally:
            self.solver.close()
        self._consistent = True
        self._finished = reason not in (StopReason.MAX_TIME, StopReason.CALLBACK, StopReason.MAX_ITER)
        return state, reason

    def checkpoint(self, state: LinearDualState, records: list[tuple]) -> DualFitState:
        """Return a checkpoint between two windows."""
        return DualFitState(self._fingerprint, self._settings.seed, state, self._windows, False, True, records)

    def last_state(self, state: LinearDualState, records: list[tuple]) -> DualFitState | None:
        """Return what the next fit resumes after this one ended or was interrupted.

        Nothing is resumed if a bad value or overflow has spread to the variables, which change in place.
        """
        if not (np.isfinite(state.dual).all() and np.isfinite(state.path.position).all()):
            return None
        return self.checkpoint(state, records)._replace(finished=self._finished, consistent=self._consistent)


def block_rows_of(n_features: int) -> int:
    """Return the number of rows of a block whose Gram matrix is kept."""
    return next(rows for least, rows in _BLOCK_ROWS if n_features >= least)


def _settings(estimator: Any, problem: LinearProblem, memory: int, seed: int) -> LinearDualSettings:
    source, k = problem.source, problem.n_scores
    n, d = source.shape
    item = product_type(source.dtype).itemsize
    if source.resident:
        size = block_rows_of(d)
        per_row = max(1, round(source.values_per_row)) * k
        window = max(size, _WINDOW_WORK // per_row // size * size)
    else:
        beside, of_score = _SAMPLE_BYTES
        memory = max(memory // 2, memory - n * (beside + of_score * k))
        size = _STREAMED_ROWS
        window = max(1, min(memory // _WINDOW_SHARE, _MOST_WINDOW) * n // max(1, source.nbytes))
    kept = memory // _GRAM_SHARE // (size * size * item)
    if not source.resident and kept * size < n:  # a few would save little
        kept = 0
    n_visits = 0 if estimator.window_visits == "auto" else int(estimator.window_visits)
    values = memory // _DENSE_SHARE
    found = LinearDualSettings(
        estimator.tol, seed, size, N_SWEEPS, kept, window, n_visits, values, estimator.criterion,
        part_bytes=min(PART_BYTES, memory // _PART_SHARE),
    )  # fmt: skip
    return found if problem.total is None else found._replace(least=least_objective(problem))


# --- few samples ---------------------------------------------------------------------------------------------


class SmallFit:
    """A solution, and what is said of it.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_scores, n_features + 1)
        Weights; that of the constant feature is last.
    certificate : dict of str to ndarray of float64, shape (n_scores,)
        The columns of `CERTIFICATE`.
    dual : ndarray of float64, shape (n_scores, n_samples)
        Dual variables.
    seconds : float
        Time taken.
    """

    def __init__(
        self, weights: np.ndarray, certificate: dict[str, np.ndarray], dual: np.ndarray, seconds: float
    ) -> None:
        self.weights, self.dual, self._certificate, self._seconds = weights, dual.T, certificate, seconds
        self.epoch = int(certificate["n_epochs"].max())

    def is_within(self, tol: float, criterion: str) -> bool:
        """Return whether the solution is within tolerance."""
        found = self._certificate
        if criterion == "gradient":
            return bool(found["kkt_violation"].max() <= tol)
        return relative_gap(found["primal"], found["dual"]) <= tol

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes of the certificate."""
        found = self._certificate
        primal, dual = float(found["primal"].sum()), float(found["dual"].sum())
        return {
            "objective_": primal,
            "dual_objective_": dual,
            "duality_gap_": max(primal - dual, 0.0),
            "kkt_violation_": float(found["kkt_violation"].max()),
            "converged_": True,
            "stop_reason_": "converged",
        }

    def history(self) -> dict[str, np.ndarray]:
        """Return the columns of the record of a fit, with one entry."""
        found = self._certificate
        gap = relative_gap(found["primal"], found["dual"])
        record = self.epoch, self._seconds, found["primal"].sum(), found["dual"].sum(), gap, 0
        return {name: np.array([value]) for name, value in zip(DualAscentMonitor.COLUMNS, record, strict=True)}

    def close(self) -> None:
        """Do nothing: nothing is shown."""


def small_fit(estimator: Any, task: Task, loss: Loss, session: FitSession, pool: Pool) -> SmallFit | None:
    """Return the solution of a problem of few rows in memory with a loss of each score; None if it is another.

    Fits that may be resumed, are observed or allow few epochs are others too, and those whose values overflow.
    """
    source, (n, d) = task.source, task.source.shape
    is_ours = source.resident and not loss.of_classes and estimator.max_iter >= _LEAST_EPOCHS
    if not is_ours or session.can_be_resumed or session.has_callbacks:
        return None
    is_few = n * (d + 1) <= _MOST_VALUES and min(n, d + 1) <= _SHORTER_SIDE
    if not is_piecewise(type(loss)) and n >= _MANY:  # Newton's method has threads, and begins with some rows
        return None
    is_wide = is_piecewise(type(loss)) and n < _least_samples(loss, d + 1) and n <= _MOST_SAMPLES
    if is_wide and not is_few:
        needed = 8 * (n * (d + 1) if not source.sparse else 2 * source.nbytes) + 4 * 8 * n * n
        is_wide = estimator.max_time is None and needed <= parse_memory(estimator.memory, needed)
    if not (is_wide or is_few):
        return None
    begin = time.perf_counter()
    problem = problem_of(estimator, task, chosen_loss(loss))
    problem = problem._replace(demands=Demands(*(writeable(each) for each in problem.demands)))
    is_enough = source.sparse and not is_few and estimator.criterion == "gap"
    accepted = estimator.tol if is_enough else EXACT_GAP

    @np.errstate(all="ignore")
    def solve(stop: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _solve_wide(problem, accepted, stop, pool) if is_wide else _solve_few(problem, stop, pool)

    is_short = len(task.balance) * n * (d + 1) <= _SHORT  # starting a thread would take as long as the fit
    weights, found, dual = solve(np.zeros(1, np.int64)) if is_short else stoppable(solve, session.deadline)
    certificate = {name: np.ascontiguousarray(column) for name, column in zip(CERTIFICATE, found.T, strict=True)}
    fit = SmallFit(weights, certificate, dual, time.perf_counter() - begin)
    is_finite = np.isfinite(found).all() and np.isfinite(weights).all()
    return fit if is_finite and fit.is_within(estimator.tol, estimator.criterion) else None


def _least_samples(loss: Loss, width: int) -> int:
    """Return the number of samples with which steps on the weights cost no more than steps on the dual variables."""
    is_smooth = math.isfinite(loss.curvature)  # more variables than features are free then
    return width if width < _LONG or is_smooth else _MORE_SAMPLES * width


def _solve_few(problem: LinearProblem, stop: np.ndarray, pool: Pool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weights, the certificate and the dual variables of each score, by steps on the weights."""
    rows, k = problem.dense(problem.block, problem.source.shape[1] + 1), problem.n_scores
    weights, dual, found = _empty(len(rows), rows.shape[1], k)
    pool.run(
        lambda a, b: solve_scores(problem.loss, problem.demands, rows, (a, b, stop), dual, weights, found),
        _parts(k, rows.size),
    )
    return weights, found, dual


def _solve_wide(
    problem: LinearProblem, accepted: float, stop: np.ndarray, pool: Pool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weights, the certificate and the dual variables of each score, by steps on the latter.

    Where epochs alone come to the relative gap `accepted`, no Gram matrix is computed.
    """
    block, k, loss, demands = problem.with_constant(), problem.n_scores, problem.loss, problem.demands
    n, d = block.shape
    (weights, dual, found), size = _empty(n, d, k), block.stored.size
    most = n // (_EPOCHS_OF_ROWS * k) if isinstance(block, DenseBlock) else n**3 // (_EPOCHS_OF_MATRIX * size)
    limits = max(1, min(most, _MOST_EPOCHS)), accepted
    found[:] = np.inf
    if is_piecewise(type(loss)):
        parts = _parts(k, size)
        pool.run(lambda a, b: begin_scores(loss, demands, block, (a, b, stop, *limits), dual, weights, found), parts)
    rows: Any = block.values if isinstance(block, DenseBlock) else sparse.csr_matrix(block[:3], block.shape)
    if not found[:, 0].max() <= accepted:
        gram, epochs = _gram(rows, pool), found[:, 3].copy()
        if is_piecewise(type(loss)):
            pool.run(lambda a, b: solve_on_gram(loss, demands, gram, (a, b, stop), dual, epochs), _parts(k, n * n))
            found[:, 3] = epochs
        else:
            _solve_factor(problem, gram, stop, (dual, found), pool)
    weights = np.ascontiguousarray((rows.T @ dual.T).T)
    certify_scores(loss, demands, weights, np.ascontiguousarray((rows @ weights.T).T), dual, found)
    return weights, found, dual


def _solve_factor(problem: LinearProblem, gram: np.ndarray, stop: np.ndarray, out: tuple, pool: Pool) -> None:
    """Write the dual variables and the certificate, by steps on weights of fewer features with the same Gram matrix."""
    n, (dual, found) = len(gram), out
    gram.flat[:: n + 1] += _GRAM_RIDGE * gram.trace() / n  # equal rows make it singular
    factor = np.ascontiguousarray(linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False))
    weights = np.empty((len(dual), n))
    pool.run(
        lambda a, b: solve_scores(problem.loss, problem.demands, factor, (a, b, stop), dual, weights, found),
        _parts(len(dual), n * n),
    )


def _empty(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return room for weights, dual variables and the certificate."""
    return np.empty((k, d)), np.empty((k, n)), np.empty((k, len(CERTIFICATE)))


def _parts(k: int, n_values: int) -> list[tuple[int, int]]:
    """Return parts of the scores that are worth a thread."""
    return list(spans(k, max(1, _PART // n_values)))


def _gram(rows: Any, pool: Pool) -> np.ndarray:
    """Return the Gram matrix of rows, an array or a CSR matrix."""
    if sparse.issparse(rows):
        return (rows @ rows.T).toarray()
    gram: np.ndarray = np.empty((len(rows), len(rows)))

    @np.errstate(all="ignore")  # as in the thread that calls: overflow is looked for in the certificate
    def fill(a: int, b: int) -> None:
        np.matmul(rows[a:b], rows[:b].T, out=gram[a:b, :b])
        gram[:a, a:b] = gram[a:b, :a].T

    pool.run(fill, list(spans(len(rows), _GRAM_ROWS))[::-1])  # the longest first
    return gram
