"""The fit of few samples in one compiled call: on their Gram matrix, or on the weights of a small table."""

import time
from typing import Any

import numpy as np
from scipy import linalg, sparse

from fastsvm._compiled.compiler import writeable
from fastsvm._compiled.threads import Pool, spans, stoppable
from fastsvm.estimators.linear.fits.linear_problem import problem_of
from fastsvm.estimators.linear.progress import DualAscentMonitor
from fastsvm.estimators.linear.training_task import Task
from fastsvm.losses import Demands, Loss, is_piecewise
from fastsvm.solvers.linear_dual.chosen_loss import chosen_loss
from fastsvm.solvers.linear_dual.few_samples import CERTIFICATE, MOST_EPOCHS, SPEED, begin_scores, solve_scores
from fastsvm.solvers.linear_dual.gram_ascent import certify_scores, solve_on_gram
from fastsvm.solvers.linear_dual.problem import PANEL, PIECE_VALUES, ROUNDING, LinearProblem
from fastsvm.solvers.linear_dual.proximal_point import relative_gap
from fastsvm.sources import DenseBlock
from fastsvm.tuning import LinearTuning

__all__ = ["SmallFit", "small_fit"]


class SmallFit:
    """A solution, and what is said of it.

    Weights have the shape (n_scores, n_features + 1), with that of the constant feature last; `dual` is passed in the
    shape (n_scores, n_samples) and kept transposed. `certificate` has the columns of `CERTIFICATE`, with a number a
    score.
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


def small_fit(
    estimator: Any,
    task: Task,
    loss: Loss,
    on_gram: bool,
    accepted: float,
    deadline: float,
    pool: Pool,
    tuning: LinearTuning,
) -> SmallFit | None:
    """Return the solution for rows in memory; None if it is not within the tolerance, as where values overflow.

    Steps are taken on the weights, or if `on_gram` on the dual variables, with the Gram matrix of the rows unless
    epochs alone come to the relative gap `accepted`. `deadline` is a moment of time.perf_counter.
    """
    begin, (n, d) = time.perf_counter(), task.source.shape
    problem = problem_of(estimator, task, chosen_loss(loss))
    problem = problem._replace(demands=Demands(*(writeable(each) for each in problem.demands)))

    @np.errstate(all="ignore")
    def solve(stop: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _solve_wide(problem, accepted, stop, pool, tuning) if on_gram else _solve_few(problem, stop, pool)

    is_short = len(task.balance) * n * (d + 1) <= tuning.short_values  # starting a thread would take as long as the fit
    weights, found, dual = solve(np.zeros(1, np.int64)) if is_short else stoppable(solve, deadline)
    certificate = {name: np.ascontiguousarray(column) for name, column in zip(CERTIFICATE, found.T, strict=True)}
    fit = SmallFit(weights, certificate, dual, time.perf_counter() - begin)
    is_finite = np.isfinite(found).all() and np.isfinite(weights).all()
    return fit if is_finite and fit.is_within(estimator.tol, estimator.criterion) else None


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
    problem: LinearProblem, accepted: float, stop: np.ndarray, pool: Pool, tuning: LinearTuning
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weights, the certificate and the dual variables of each score, by steps on the latter.

    Where epochs alone come to the relative gap `accepted`, no Gram matrix is computed.
    """
    block, k, loss, demands = problem.with_constant(), problem.n_scores, problem.loss, problem.demands
    n, d = block.shape
    (weights, dual, found), size = _empty(n, d, k), block.stored.size
    most = int((n * size / 2 + k * n**3 / 6) / (4 * SPEED * k * size))  # together they take the time of Newton steps
    limits = max(1, min(most, MOST_EPOCHS)), accepted
    found[:], found[:, 3], dual[:] = np.inf, 0.0, 0.0
    if tuning.first_epochs and is_piecewise(type(loss)):
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
    scores = np.ascontiguousarray((rows @ weights.T).T)
    certify_scores(loss, demands, weights, scores, dual, found)
    if not np.isfinite(scores).all():  # of rows that cost nothing too
        found[:, :-1] = np.nan
    return weights, found, dual


def _solve_factor(problem: LinearProblem, gram: np.ndarray, stop: np.ndarray, out: tuple, pool: Pool) -> None:
    """Write the dual variables and the certificate, by steps on weights of fewer features with the same Gram matrix."""
    n, (dual, found) = len(gram), out
    gram.flat[:: n + 1] += ROUNDING * gram.trace() / n  # equal rows make it singular
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
    return list(spans(k, max(1, PIECE_VALUES // n_values)))


def _gram(rows: Any, pool: Pool) -> np.ndarray:
    """Return the Gram matrix of rows, an array or a CSR matrix."""
    if sparse.issparse(rows):
        return (rows @ rows.T).toarray()
    gram: np.ndarray = np.empty((len(rows), len(rows)))

    @np.errstate(all="ignore")  # as in the thread that calls: overflow is looked for in the certificate
    def fill(a: int, b: int) -> None:
        np.matmul(rows[a:b], rows[:b].T, out=gram[a:b, :b])
        gram[:a, a:b] = gram[a:b, :a].T

    pool.run(fill, list(spans(len(rows), PANEL))[::-1])  # the longest first
    return gram
