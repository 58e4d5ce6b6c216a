"""Semismooth Newton steps on augmented Lagrangians, for linear problems with few features or few rows.

Problem
    That of `coordinate_ascent` for one score: minimise ½ ‖w‖² + Σ_i c_i ℓ(f_i, y_i), f = X w, with dual variables β.

Round
    Given the variables β⁰ and a ridge h, each loss is replaced by the smooth
        m_i(f) = max over β of  - f β - c_i ℓ*(-β / c_i) - ½ h (β - β⁰_i)²
    The sum of these and ½ ‖w‖² is minimised. The maximisers β at the minimum are the next β⁰ (Rockafellar 1976). The
    rate of convergence improves as h decreases, and h decreases from round to round.

Step
    m' = -β is piecewise linear. If no row changes its piece, the minimum is at w - d with
        (I + X_Fᵀ S X_F) d = w - Xᵀ β,   S = 1 / (h + h_ℓ)
    for the rows F with free β, where h_ℓ is the ridge of a squared loss. The line search is exact: it finds the root of
    a piecewise linear function.

Why
    Large C, long rows, or hardly more rows than features slow coordinate ascent down, but not Newton steps.

Cost
    n d + |F| d² + d³/3 multiplications a step, or with |F| and d exchanged if |F| < d; 20 to 200 steps.

Memory
    A copy of the rows in float64.

After
    Li, Sun and Toh 2018, A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso problems;
    Yan and Li 2020, An efficient augmented Lagrangian method for support vector machine.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at
from fastsvm.losses import (
    MOST_STEPS,
    Demands,
    Loss,
    box,
    conjugate,
    conjugate_curvature,
    coordinate_update,
    cost_of,
    loss_value,
)
from fastsvm.solvers.linear_dual.few_samples import LESS
from fastsvm.solvers.linear_dual.problem import (
    ACCEPTED,
    PANEL,
    ROUNDING,
    GivenSum,
    LinearProblem,
    rows_of_piece,
)

__all__ = ["NewtonSolution", "newton_applies", "newton_solve"]

_FINER = 1e-2  # A round ends at a squared gradient of this share of the gap that is asked, and of less if that fails.
_MAX_FAILURES = 3  # So many rounds in a row without progress show that rounding errors prevent it.


class NewtonSolution(NamedTuple):
    """Weights, dual variables and objectives of all scores; for one score without the dimension `n_scores`.

    Weights have the shape (n_scores, n_features + 1), with that of the constant feature last. `dual` is feasible and
    has the shape (n, n_scores).
    """

    weights: np.ndarray
    dual: np.ndarray
    primal: Any
    dual_value: Any

    @property
    def gap(self) -> Any:
        """The duality gap."""
        return self.primal - self.dual_value


def newton_applies(problem: LinearProblem, most_values: int) -> bool:
    """Return whether Newton steps apply: independent scores, and rows in memory of at most `most_values` values."""
    source = problem.source
    values = len(source) * (source.shape[1] + 1)
    return not problem.loss.of_classes and source.resident and values <= most_values


def newton_solve(
    problem: LinearProblem, dual: np.ndarray, tol: float, pool: Pool, least: float = 0.0, deadline: float = np.inf
) -> NewtonSolution:
    """Return the solution of all scores, one after another, of a problem to which `newton_applies`.

    The initial variables `dual`, shape (n, n_scores), are feasible. `tol` is the gap of each score relative to its
    objective, or to `least` where that is larger; 0 iterates until rounding ends progress. At `deadline`, a moment of
    time.perf_counter, the best solutions so far are returned.
    """
    used = np.flatnonzero(problem.demands.costs)
    demands = problem.demands.of_rows(used)
    rows = problem.dense(problem.block.take(used), problem.source.shape[1] + 1)
    found, parts = np.zeros(dual.shape), []
    for c in range(problem.n_scores):
        given = None if problem.total is None else GivenSum(demands.costs, problem.total)
        score = _Score(problem.loss, demands, c, rows, pool, given, least, deadline)
        part = _solve_score(score, dual[used, c].astype(np.float64), tol)
        found[used, c] = part.dual
        parts.append(part)
    values = (np.array([getattr(part, name) for part in parts]) for name in ("weights", "primal", "dual_value"))
    weights, primal, dual_value = values
    if problem.total is not None:
        weights[:, -1] /= problem.constant
    return NewtonSolution(weights, found, primal, dual_value)


def _solve_score(score: "_Score", dual: np.ndarray, tol: float) -> NewtonSolution:
    """Return the solution of one score, from feasible dual variables."""
    best, (ridge, least), accuracy, failures = score.initial(dual), score.ridges(), _FINER * tol, 0
    for _ in range(MOST_STEPS):
        size = max(abs(best.primal), score.least)
        if best.gap <= tol * size or failures > _MAX_FAILURES or score.is_late():
            break
        before = best.gap
        found, solved = score.round(best, ridge, accuracy)
        if found.gap <= before + ROUNDING * size:
            best = found
        failures = 0 if found.gap < before else failures + 1
        if not solved and found.gap >= before:
            ridge /= LESS  # the round was too ill-conditioned
        elif solved:
            accuracy *= 1.0 if found.gap <= before / 2 else _FINER
            ridge = max(LESS * ridge, least)
    return best


class _Score(NamedTuple):
    """One score of a problem, and the methods of a round."""

    loss: Loss
    demands: Demands
    c: int
    rows: np.ndarray
    pool: Pool
    given: GivenSum | None
    least: float
    deadline: float

    def is_late(self) -> bool:
        """Return whether the deadline is past."""
        return time.perf_counter() >= self.deadline

    def initial(self, dual: np.ndarray) -> NewtonSolution:
        """Return the weights of dual variables, and both objectives."""
        total = self._sum(dual)
        return self._evaluated(total, dual, total)

    def _evaluated(self, weights: np.ndarray, dual: np.ndarray, total: np.ndarray) -> NewtonSolution:
        """Return weights and dual variables with their objectives; `total` is Xᵀ β."""
        if self.given is not None:
            return self._evaluated_with_sum(weights, dual, self.given)
        losses, conjugates = _objectives(self.loss, self.demands, self.c, dual, self._scores(weights))
        primal = 0.5 * float(weights @ weights) + losses
        return NewtonSolution(weights, dual, primal, -conjugates - 0.5 * float(total @ total))

    def _evaluated_with_sum(self, weights: np.ndarray, dual: np.ndarray, given: GivenSum) -> NewtonSolution:
        """Return weights with the best offset, and variables of the right sum, with their objectives."""
        dual, inner = given.corrected(dual), np.append(weights[:-1], 0.0)
        scores, total = self._scores(inner), self._sum(dual)[:-1]
        offset = given.offset(scores)
        primal = 0.5 * float(inner @ inner) + given.losses(scores, offset)
        return NewtonSolution(np.append(inner[:-1], -offset), dual, primal, -0.5 * float(total @ total))

    def ridges(self) -> tuple[float, float]:
        """Return the first ridge and the least; the least is at most the ridge of a squared loss."""
        size = self.size()
        _, own = box(self.loss, float(self.demands.costs.max() * self.demands.balance.max()))
        least = ROUNDING * size
        return LESS * size, min(least, own) if own > 0 else least

    def round(self, begin: NewtonSolution, ridge: float, accuracy: float) -> tuple[NewtonSolution, bool]:
        """Minimise the augmented Lagrangian at the variables of `begin`.

        Return the weights with the next variables, and whether the squared gradient, relative to the objective, is at
        most `accuracy`.
        """
        weights, fixed = begin.weights.copy(), np.zeros_like(begin.weights)
        if self.given is not None:
            weights[-1] /= self._stretch(ridge)
            fixed[-1] = weights[-1] - self.given.total * self.rows[0, -1]
        scores = self._scores(weights)
        dual, stiffness = np.empty_like(scores), np.empty_like(scores)
        here, solved = _Round(self.loss, self.demands, self.c, begin.dual, ridge), False
        for _ in range(MOST_STEPS):
            _maximise(here, scores, dual, stiffness)
            total = self._sum(dual)
            gradient = weights - total - fixed
            allowed = max(accuracy * max(abs(begin.dual_value), self.least), ROUNDING**2 * float(weights @ weights))
            solved = bool(gradient @ gradient <= allowed)
            if solved or self.is_late():
                break
            try:
                direction = -self._newton(stiffness, gradient)
            except linalg.LinAlgError:  # numerically singular: the ridge is too small
                break
            change = self._scores(direction)
            line = _Line(here, scores, change, float((weights - fixed) @ direction), float(direction @ direction))
            length = _best_length(line)
            if length == 0:  # rounding prevents progress
                solved = True
                break
            weights, scores = weights + length * direction, scores + length * change
        return self._evaluated(weights, dual, total), solved

    def _stretch(self, ridge: float) -> float:
        """Return a new value of the constant feature, by which the offset is learnt the faster, the less the ridge is.

        Its weight has the proximal term ½ (b - b⁰)², and is -ρ divided by the value.
        """
        self.rows[:, -1] = self.size() / np.sqrt(ridge)
        return float(self.rows[0, -1])

    def size(self) -> float:
        """Return the mean ‖x‖² of the rows, without the constant feature if it has no penalty."""
        rows = self.rows if self.given is None else self.rows[:, :-1]
        return float(np.einsum("ij,ij->", rows, rows)) / len(rows) or 1.0

    def _newton(self, stiffness: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return (I + X_Fᵀ S X_F)⁻¹ gradient, from a linear system in the shorter dimension of X_F."""
        free = np.flatnonzero(stiffness)
        some = self.rows[free] * np.sqrt(stiffness[free])[:, None]
        if len(free) >= len(gradient):
            return _solved(some.T, gradient, self.pool)
        return gradient - some.T @ _solved(some, some @ gradient, self.pool)

    def _scores(self, weights: np.ndarray) -> np.ndarray:
        """Return X w."""
        found = np.empty(len(self.rows))
        parts = spans(len(found), rows_of_piece(self.rows.shape[1]))
        self.pool.run(lambda a, b: np.matmul(self.rows[a:b], weights, out=found[a:b]), parts)
        return found

    def _sum(self, dual: np.ndarray) -> np.ndarray:
        """Return Xᵀ β."""
        bounds = list(spans(len(dual), rows_of_piece(self.rows.shape[1])))
        parts = np.empty((len(bounds), self.rows.shape[1]))
        pieces = [(k, a, b) for k, (a, b) in enumerate(bounds)]
        self.pool.run(lambda k, a, b: np.matmul(dual[a:b], self.rows[a:b], out=parts[k]), pieces)
        return parts.sum(axis=0)


def _solved(rows: np.ndarray, vector: np.ndarray, pool: Pool) -> np.ndarray:
    """Return (I + R Rᵀ)⁻¹ v for rows R and a vector v."""
    square = np.empty((len(rows), len(rows)))
    parts = spans(len(rows), PANEL)
    pool.run(lambda a, b: np.matmul(rows[a:b], rows.T, out=square[a:b]), parts)
    square[np.diag_indices_from(square)] += 1
    # Not linalg.solve, which warns of a bad condition: the line search and the gap check each step.
    return linalg.cho_solve(linalg.cho_factor(square, overwrite_a=True, check_finite=False), vector, check_finite=False)


class _Round(NamedTuple):
    """The augmented Lagrangian of score `c`, with β⁰ (`before`) and the ridge h of the round."""

    loss: Loss
    demands: Demands
    c: int
    before: np.ndarray
    ridge: float


class _Line(NamedTuple):
    """Scores along a direction, and ½ ‖w‖² there, which is slope t + curvature t² / 2 up to a constant."""

    round: _Round
    scores: np.ndarray
    change: np.ndarray
    slope: float
    curvature: float


@jit
def _maximiser(here, i, score):
    """Return the variable of row `i` that attains the maximum at a score."""
    target, cost = cost_of(here.demands, i, here.c)
    if cost == 0:  # of a class that the score leaves out
        return 0.0
    return coordinate_update(here.loss, here.before[i], score, target, cost, here.ridge)


@jit
def _maximise(here, scores, dual, stiffness):
    """Write the variables that attain the maxima, and the sizes of their derivatives by the scores."""
    for i in range(scores.size):
        cost = cost_of(here.demands, i, here.c)[1]
        dual[i] = _maximiser(here, i, scores[i])
        is_free = 0 < abs(dual[i]) < box(here.loss, cost)[0]
        stiffness[i] = 1 / (here.ridge + conjugate_curvature(here.loss, dual[i], cost)) if is_free else 0.0


@slope_at.register(_Line)
def _slope(line, t):
    here, scores, change, slope, curvature = line
    total = 0.0
    for i in range(scores.size):
        total += change[i] * _maximiser(here, i, scores[i] + t * change[i])
    return slope + t * curvature - total


@jit
def _best_length(line):
    """Return the step length that minimises the augmented Lagrangian, or 1 if its slope there is small enough."""
    begin, at_end = slope_at(line, 0.0), slope_at(line, 1.0)
    if begin >= 0:
        return 0.0
    if abs(at_end) <= -ACCEPTED * begin:
        return 1.0
    limits = RootLimits(MOST_STEPS, MOST_STEPS, -ROUNDING * begin, 0.0)
    return illinois_root(line, Bracket(0.0, begin, 1.0, at_end), limits)


@jit
def _objectives(loss, demands, c, dual, scores):
    """Return the sum of the losses and the sum of their conjugates."""
    losses = conjugates = 0.0
    for i in range(scores.size):
        target, cost = cost_of(demands, i, c)
        losses += cost * loss_value(loss, scores[i], target)
        if dual[i] != 0:
            conjugates += conjugate(loss, dual[i], target, cost)
    return losses, conjugates
