"""Linear problems of few samples, which one step solves to rounding error, in compiled calls.

Method
    That of `augmented_lagrangian`, from zero. With fewer samples than features it takes, in place of the rows, those of
    the Cholesky factor of their Gram matrix: they have the same dot products, and fewer features.

End
    A solution that is not within tolerance, as where values overflow, leaves the problem to another solver.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from fastsvm._compiled.compiler import jit, writeable
from fastsvm._compiled.threads import Pool, spans, stoppable
from fastsvm.losses import Demands, sums_of_rows
from fastsvm.solvers.linear_dual.augmented_lagrangian import MOST_EPOCHS, Course, chosen_loss, solved
from fastsvm.solvers.linear_dual.problem import PANEL, Certificate, LinearProblem
from fastsvm.solvers.linear_dual.state import CertifiedSolver, LinearSettings
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import CSRBlock

__all__ = ["FewSamples", "FewSamplesState"]


class FewSamplesState(NamedTuple):
    """Weights, dual variables, and the number of epochs and Newton steps; the problem is solved or not begun."""

    weights: np.ndarray
    dual: np.ndarray
    primal: np.ndarray
    epoch: int = 0


class FewSamples(CertifiedSolver):
    """The solver of problems of few samples; `on_gram` for fewer samples than features."""

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool, on_gram: bool) -> None:
        demands = Demands(*map(writeable, problem.demands))
        super().__init__(problem._replace(loss=chosen_loss(problem.loss), demands=demands), settings, pool)
        self._on_gram = on_gram

    def init(self, dual: np.ndarray | None = None) -> FewSamplesState:
        """Return the state at zero."""
        (n, d), k = self.problem.source.shape, self.n_scores
        return FewSamplesState(np.zeros((k, d + 1)), np.zeros((n, k)), np.full(k, np.inf))

    def start_of(self, state: Any) -> None:
        """Return None: a solution takes no more time from zero."""

    def kept(self, state: FewSamplesState, finished: bool) -> None:
        """Return None, for the same reason."""

    def step(self, state: FewSamplesState, most_steps: int) -> tuple[FewSamplesState, Report]:
        """Solve the problem, or return the state as it is if the solution is not within tolerance."""
        (n, d), settings = self.problem.source.shape, self.settings
        is_short = self.n_scores * n * (d + 1) <= settings.tuning.short_values
        if is_short:  # starting a thread would take as long as the fit
            after, found = self._solved(np.zeros(1, np.int64))
        else:
            after, found = stoppable(self._solved, settings.deadline)
        gap = self.gap_of(found)
        is_within = (gap if settings.criterion == "gap" else found.violation) <= settings.tol
        if not (is_within and np.isfinite(found.primal).all() and np.isfinite(found.dual).all()):
            return state, Report(np.inf, 0.0, 1, within=False, converged=False, stalled=True)
        self.certificate = found
        return after, Report(gap, float(found.dual.sum()), 1, True, True, False)

    @np.errstate(all="ignore")
    def _solved(self, stop: np.ndarray) -> tuple[FewSamplesState, Certificate]:
        """Return the solution and its certificate; steps end once the number in `stop` is not 0."""
        problem, k = self.problem, self.n_scores
        rows = self._with_constant()
        n = rows.shape[0]
        try:
            used = _factor_of_gram(rows, self.pool) if self._on_gram else rows
        except linalg.LinAlgError:  # values overflow
            return self.init(), self._unknown()
        course = Course(stop, most_epochs=MOST_EPOCHS)
        weights, dual, n_steps = solved(problem, used, np.zeros((k, n)), course, self.pool)
        position = np.ascontiguousarray(dual @ rows)
        if self._on_gram:
            weights = _with_scores(used @ weights.T, rows, used)
        every = np.concatenate([weights, position, position] if self._on_gram else [weights, position])
        scores, beta = np.ascontiguousarray(every @ rows.T), np.ascontiguousarray(dual.T)
        objectives = np.zeros((len(every) // k, k))
        violation = _certify(problem.loss, problem.demands, every, scores, beta, objectives)
        primal = objectives[0]
        if self._on_gram:  # rounding errors decide, and the factor may be singular
            is_lower = primal <= objectives[1]
            primal, weights = np.where(is_lower, primal, objectives[1]), np.where(is_lower[:, None], weights, position)
        state = FewSamplesState(weights, beta, primal, int(n_steps.max()))
        return state, Certificate(primal, objectives[-1], violation)

    def _unknown(self) -> Certificate:
        """Return what is known of a solution where values overflow."""
        none = np.full(self.n_scores, np.nan)
        return Certificate(none, none, np.inf)

    def _with_constant(self) -> Any:
        """Return all rows in float64 with the constant feature last, an array or a CSR matrix where there are many."""
        problem, width = self.problem, self.problem.source.shape[1] + 1
        block = problem.block
        if not (self._on_gram and isinstance(block, CSRBlock)):
            return problem.dense(block, width)
        n, ends = block.shape[0], block.indptr[1:]
        data = np.insert(block.data.astype(np.float64, copy=False), ends, problem.constant)
        indices = np.insert(block.indices, ends, width - 1)
        return sparse.csr_matrix((data, indices, block.indptr + np.arange(n + 1)), (n, width))

    def concluded(self, state: FewSamplesState) -> tuple[FewSamplesState, Certificate]:
        """Return the state at the end of a fit and its certificate."""
        unknown = np.full(self.n_scores, np.finfo(np.float64).max), np.zeros(self.n_scores), np.inf
        return state, self.certificate or Certificate(*unknown)

    def finish(self, state: FewSamplesState) -> np.ndarray:
        """Return the weights of the features and, last, of the constant feature."""
        return state.weights


@jit
def _certify(loss, demands, every, scores, dual, objectives):
    """Write the primal objectives of some weights and, last, the dual one; return the violation.

    `every` has the weights with Σ β_i x_i last, and `scores` theirs. This is one call, as in `sums_of_rows`. The dual
    objective is NaN if a score of the variables is not finite, of rows that cost nothing too.
    """
    (n, k), last = dual.shape, objectives.shape[0] - 1
    conjugates = np.zeros(k)
    violation = sums_of_rows(loss, demands, scores, dual, dual, objectives[:last], conjugates)
    for place in range(every.shape[0]):
        square = 0.0
        for j in range(every.shape[1]):
            square += every[place, j] ** 2
        objectives[place // k, place % k] += square / 2
    for c in range(k):
        objectives[last, c] = max(0.0, -conjugates[c] - objectives[last, c])  # losses are not negative
        for i in range(n):
            if not np.isfinite(scores[last * k + c, i]):
                objectives[last, c] = np.nan
    return violation


def _with_scores(scores: np.ndarray, rows: Any, factor: np.ndarray) -> np.ndarray:
    """Return the least weights Xᵀ α with some scores X w, for rows X and the factor of their Gram matrix."""
    coef = np.zeros_like(scores)
    for _ in range(2):  # the second time corrects what the ridge of the factor changes
        rest = scores - rows @ (rows.T @ coef)
        coef += linalg.cho_solve((factor, True), rest, check_finite=False)
    return np.ascontiguousarray((rows.T @ coef).T)


def _factor_of_gram(rows: Any, pool: Pool) -> np.ndarray:
    """Return the lower Cholesky factor of the Gram matrix of rows, an array or a CSR matrix."""
    n = rows.shape[0]
    if sparse.issparse(rows):
        gram = (rows @ rows.T).toarray()
    else:
        gram = np.empty((n, n))

        @np.errstate(all="ignore")  # as in the thread that calls: overflow is looked for in the certificate
        def fill(a: int, b: int) -> None:
            np.matmul(rows[a:b], rows[:b].T, out=gram[a:b, :b])

        pool.run(fill, list(spans(n, PANEL))[::-1])  # the longest first
    gram.flat[:: n + 1] += np.finfo(np.float64).eps * gram.trace()  # equal rows make it singular
    factor = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(factor)
