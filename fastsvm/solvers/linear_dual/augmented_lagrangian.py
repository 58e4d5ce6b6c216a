"""Semismooth Newton steps on augmented Lagrangians, to finish linear problems of few features.

Problem
    That of `block_dual`, of one score: minimise ½ ‖w‖² + Σ_i c_i ℓ(f_i, y_i), f = X w, with dual variables β.

Round
    With the variables β⁰ so far and a ridge h, the losses are replaced by the smooth ones
        m_i(f) = max over β of  - f β - c_i ℓ*(-β / c_i) - ½ h (β - β⁰_i)²
    of which the sum with ½ ‖w‖² is minimised; the β that attain the maxima there are the next β⁰ (Rockafellar 1976).
    They come nearer by a factor that falls with h, which falls from round to round.

Step
    m' = -β is a clipped line. If no row changes its piece, the minimum is at w - d with
        (I + X_Fᵀ S X_F) d = w - Xᵀ β,   S = 1 / (h + h_ℓ)
    for the rows F whose β is free, h_ℓ being the ridge that a squared loss has of its own. The length of the step is
    the best one, the root of a piecewise linear function.

Why
    What makes ascent slow, large C, long rows, hardly more rows than features, costs Newton steps little.

Cost
    n d + |F| d² + d³/3 multiplications a step, 20 to 200 steps.

Memory
    The rows in float64.

After
    Li, Sun and Toh 2018, A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso problems;
    Yan and Li 2020, An efficient augmented Lagrangian method for support vector machine.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at
from fastsvm.losses import Demands, Loss, box, conjugate, coordinate_update, cost_of, loss_value
from fastsvm.solvers.linear_dual.problem import LinearProblem

__all__ = ["Finish", "finish", "is_narrow"]

_ROUNDS, _STEPS = 40, 60
_FIRST_RIDGE = 1e-1  # of the mean ‖x‖²
_NARROWED = 0.1  # of the ridge that of the next round is
_LEAST_RIDGE = 1e-12
_SOLVED = 1e-2  # of the gap that is asked for, the half square of the gradient that a round may leave
_PROGRESS, _FINER = 0.5, 1e-2  # of the gap, that a round should leave, and by how much the next is finer if it does not
_MOST_FAILURES = 3  # rounds in a row without any progress
_ENOUGH = 0.25  # of the slope at the beginning, what may be left at the end of a step of length 1
_DOUBLINGS, _STEPS_OF_ROOT, _ZERO = 8, 60, 1e-12  # of a search along the way, and share of the first slope
_ROUNDING = 1e-15
_PIECE_ROWS = 1024
_COLUMNS = 128  # of a square, that one thread computes


class Finish(NamedTuple):
    """Where it ended: of one score, or, with a dimension more, of all.

    Attributes
    ----------
    weights : ndarray of float64, shape (n_scores, n_features + 1)
        The weight of the constant feature is the last.
    dual : ndarray of float64, shape (n, n_scores)
        Feasible variables.
    primal, dual_value : ndarray of float64, shape (n_scores,)
        Objectives of both.
    """

    weights: np.ndarray
    dual: np.ndarray
    primal: Any
    dual_value: Any

    @property
    def gap(self) -> Any:
        """By how much the objective could be lower at most."""
        return self.primal - self.dual_value


def is_narrow(problem: LinearProblem, most_values: int) -> bool:
    """Return whether it is possible: scores that are learnt apart, from rows in memory of at most so many values."""
    source = problem.source
    values = len(source) * (source.shape[1] + 1)
    return not problem.loss.of_classes and source.resident and values <= most_values


def finish(problem: LinearProblem, dual: np.ndarray, tol: float, pool: Pool) -> Finish:
    """Return the end of all scores.

    Parameters
    ----------
    problem : LinearProblem
        What is to be learnt, which `is_narrow`.
    dual : ndarray of shape (n, n_scores)
        Feasible variables at which to begin.
    tol : float
        Relative gap of each score; 0 for as small a violation of the optimality conditions as there can be.
    pool : Pool
        Threads.
    """
    used = np.flatnonzero(problem.demands.costs)
    demands = problem.demands._replace(targets=problem.demands.targets[used], costs=problem.demands.costs[used])
    rows = problem.dense(problem.source.block.take(used), problem.source.shape[1] + 1)
    found, parts = np.zeros(dual.shape), []
    for c in range(problem.n_scores):
        part = _finished(_Score(problem.loss, demands, c, rows, pool), dual[used, c].astype(np.float64), tol)
        found[used, c] = part.dual
        parts.append(part)
    values = (np.array([getattr(part, name) for part in parts]) for name in ("weights", "primal", "dual_value"))
    weights, primal, dual_value = values
    return Finish(weights, found, primal, dual_value)


def _finished(score: "_Score", dual: np.ndarray, tol: float) -> Finish:
    """Return the end of one score, from dual variables that are feasible."""
    best, (ridge, least), accuracy, failures = score.begin(dual), score.ridges(), _SOLVED * tol, 0
    for _ in range(_ROUNDS):
        if best.gap <= tol * best.primal or failures > _MOST_FAILURES:
            break
        before = best.gap
        found, solved = score.round(best, ridge, accuracy)
        if found.gap <= before + _ROUNDING * best.primal:
            best = found
        failures = 0 if found.gap < before else failures + 1
        if not solved and found.gap >= before:
            ridge /= _NARROWED  # that was too hard
        elif solved:
            accuracy *= 1.0 if found.gap <= _PROGRESS * before else _FINER
            ridge = max(_NARROWED * ridge, least)
    return best


class _Score(NamedTuple):
    """One score of a problem."""

    loss: Loss
    demands: Demands
    c: int
    rows: np.ndarray
    pool: Pool

    def begin(self, dual: np.ndarray) -> Finish:
        """Return the weights of dual variables, and what both are worth."""
        total = self._sum(dual)
        return self._worth(total, dual, total)

    def _worth(self, weights: np.ndarray, dual: np.ndarray, total: np.ndarray) -> Finish:
        """Return the objectives of weights and of dual variables, whose rows have the sum `total`."""
        losses, conjugates = _objectives(self.loss, self.demands, self.c, dual, self._scores(weights))
        primal = 0.5 * float(weights @ weights) + losses
        return Finish(weights, dual, primal, -conjugates - 0.5 * float(total @ total))

    def ridges(self) -> tuple[float, float]:
        """Return the first ridge, and the least, which need not be larger than that of the loss."""
        size = float(np.einsum("ij,ij->", self.rows, self.rows)) / len(self.rows)
        _, own = box(self.loss, float(self.demands.costs.max() * self.demands.balance.max()))
        least = _LEAST_RIDGE * size
        return _FIRST_RIDGE * size, min(least, own) if own > 0 else least

    def round(self, begin: Finish, ridge: float, accuracy: float) -> tuple[Finish, bool]:
        """Return the weights that minimise the augmented Lagrangian of the variables of `begin`, and the next ones.

        And whether that was possible to the accuracy, the square of the gradient relative to the objective.
        """
        weights, scores = begin.weights, self._scores(begin.weights)
        dual, stiffness = np.empty_like(scores), np.empty_like(scores)
        here, solved = _Round(self.loss, self.demands, self.c, begin.dual, ridge), False
        for _ in range(_STEPS):
            _respond(here, scores, dual, stiffness)
            total = self._sum(dual)
            gradient = weights - total
            allowed = max(accuracy * abs(begin.dual_value), _ROUNDING**2 * float(weights @ weights))
            solved = bool(gradient @ gradient <= allowed)
            if solved:
                break
            try:
                direction = -self._newton(stiffness, gradient)
            except linalg.LinAlgError:  # as good as singular, with so small a ridge
                break
            change = self._scores(direction)
            line = _Line(here, scores, change, float(weights @ direction), float(direction @ direction))
            length = _best_length(line)
            if length == 0:  # rounding allows no more
                solved = True
                break
            weights, scores = weights + length * direction, scores + length * change
        return self._worth(weights, dual, total), solved

    def _newton(self, stiffness: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return (I + X_Fᵀ S X_F)⁻¹ gradient, by the shorter side of X_F."""
        free = np.flatnonzero(stiffness)
        some = self.rows[free] * np.sqrt(stiffness[free])[:, None]
        if len(free) >= len(gradient):
            return _solved(some.T, gradient, self.pool)
        return gradient - some.T @ _solved(some, some @ gradient, self.pool)

    def _scores(self, weights: np.ndarray) -> np.ndarray:
        """Return X w."""
        found = np.empty(len(self.rows))
        parts = spans(len(found), _PIECE_ROWS)
        self.pool.run(lambda a, b: np.matmul(self.rows[a:b], weights, out=found[a:b]), parts)
        return found

    def _sum(self, dual: np.ndarray) -> np.ndarray:
        """Return Xᵀ β."""
        bounds = list(spans(len(dual), _PIECE_ROWS))
        parts = np.empty((len(bounds), self.rows.shape[1]))
        pieces = [(k, a, b) for k, (a, b) in enumerate(bounds)]
        self.pool.run(lambda k, a, b: np.matmul(dual[a:b], self.rows[a:b], out=parts[k]), pieces)
        return parts.sum(axis=0)


def _solved(rows: np.ndarray, vector: np.ndarray, pool: Pool) -> np.ndarray:
    """Return (I + R Rᵀ)⁻¹ times a vector."""
    square = np.empty((len(rows), len(rows)))
    parts = spans(len(rows), _COLUMNS)
    pool.run(lambda a, b: np.matmul(rows[a:b], rows.T, out=square[a:b]), parts)
    square[np.diag_indices_from(square)] += 1
    # Not linalg.solve, which warns of a bad condition: how good a step is, the search along it and the gap say.
    return linalg.cho_solve(linalg.cho_factor(square, overwrite_a=True, check_finite=False), vector, check_finite=False)


class _Round(NamedTuple):
    """The augmented Lagrangian of one score: loss, demands, the score, and β⁰ and the ridge h of the round."""

    loss: Loss
    demands: Demands
    c: int
    before: np.ndarray
    ridge: float


class _Line(NamedTuple):
    """Scores along a direction, and the penalty there, slope t + curvature t² / 2 but for a constant."""

    round: _Round
    scores: np.ndarray
    change: np.ndarray
    slope: float
    curvature: float


@jit
def _response(here, i, score):
    """Return the variable of a row that attains the maximum at a score."""
    target, cost = cost_of(here.demands, i, here.c)
    return coordinate_update(here.loss, here.before[i], score, target, cost, here.ridge)


@jit
def _respond(here, scores, dual, stiffness):
    """Write the variables that attain the maxima, and their derivatives by the scores."""
    for i in range(scores.size):
        cost = cost_of(here.demands, i, here.c)[1]
        bound, own = box(here.loss, cost)
        dual[i] = _response(here, i, scores[i])
        stiffness[i] = 1 / (here.ridge + own) if 0 < abs(dual[i]) < bound else 0.0


@slope_at.register(_Line)
def _slope(line, t):
    here, scores, change, slope, curvature = line
    total = 0.0
    for i in range(scores.size):
        total += change[i] * _response(here, i, scores[i] + t * change[i])
    return slope + t * curvature - total


@jit
def _best_length(line):
    """Return where the augmented Lagrangian is least along the way, or 1 if its slope there is small."""
    begin, at_end = slope_at(line, 0.0), slope_at(line, 1.0)
    if begin >= 0:
        return 0.0
    if abs(at_end) <= -_ENOUGH * begin:
        return 1.0
    limits = RootLimits(_DOUBLINGS, _STEPS_OF_ROOT, -_ZERO * begin, 0.0)
    return illinois_root(line, Bracket(0.0, begin, 1.0, at_end), limits)


@jit
def _objectives(loss, demands, c, dual, scores):
    """Return the sums of losses and of their conjugates."""
    losses = conjugates = 0.0
    for i in range(scores.size):
        target, cost = cost_of(demands, i, c)
        losses += cost * loss_value(loss, scores[i], target)
        if dual[i] != 0:
            conjugates += conjugate(loss, dual[i], target, cost)
    return losses, conjugates
