"""Newton's method for smooth losses, with an L1 penalty on a working set of features.

Problem
    minimise    ‖w‖₁ or ½‖w‖² + Σ_i c_i ℓ(w·x_i, y_i)
    for each score, with a smooth loss ℓ. The weight of a constant feature is the intercept, which is penalised too.

Step
    The loss is replaced by its second-order model at w (Lee, Sun and Saunders 2014, Proximal Newton-type methods;
    newGLMNET, Yuan, Ho and Lin 2012). The minimum of model and penalty gives a direction, and a line search the length.
    Steps of all scores are taken together, so that they share the passes over the rows.

Working set
    The features with a weight other than 0, and those that violate their optimality condition most (as in celer,
    Massias, Gramfort and Salmon 2018): at most as many as there are weights already. Where features are few, they are
    all in it.

Model
    The Hessian is kept as a matrix (`quadratic_model`), and the minimum is found without the rows (`model_minimum`).

Many features
    With the penalty ½‖w‖² and many features, directions come from conjugate gradients (`newton_direction`).

Certificate
    The variables β_i = -c_i ℓ'(f_i), divided by max(1, ‖Xᵀβ‖∞), are feasible in the dual problem
        maximise    -Σ_i c_i ℓ*(-β_i / c_i)    where ‖Xᵀβ‖∞ ≤ 1.
    With ½‖w‖² all β are feasible, and -½‖Xᵀβ‖² is added.
    Their objective D bounds the minimum from below. Scores, gradients and objectives are in float64.

Cost
    2 n d multiplications a step and score, and those of the Hessian: m² / 2 for each row whose curvature changed much,
    for m features in the working set. 5 to 50 steps.

Memory
    Three numbers in float64 a row and score, and the Hessians, m² numbers a score.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.linalg.linear_predictor import scores as scores_of
from fastsvm.losses import cost_of, dual_losses, loss_curvature, loss_slope, primal_losses
from fastsvm.solvers.linear_dual.certificate import Certificate, combination
from fastsvm.solvers.linear_dual.evaluation import relative_gap
from fastsvm.solvers.linear_dual.problem import OVERFLOW, LinearProblem
from fastsvm.solvers.linear_primal.newton_direction import NewtonDirections
from fastsvm.solvers.linear_primal.penalties import Penalty
from fastsvm.solvers.linear_primal.quadratic_model import QuadraticModel, empty_model, update_models
from fastsvm.solvers.linear_primal.step_length import Line, best_length
from fastsvm.solvers.outer_loop import Memoryless, Report
from fastsvm.sources import check_finite

__all__ = ["LinearPrimalSettings", "LinearPrimalState", "ProximalNewton"]

_ALL_FEATURES = 256  # of at most so many features, all are in the working set
_LEAST_ADDED = 512  # features
_NEAR = 0.8  # of the bound of its gradient, from which on a feature may be added
_MOST_FEATURES = 4096  # of a working set
_HESSIAN_FEATURES = 1024  # with the penalty ½‖w‖²: for more, products with the Hessian take less time than itself
_LARGEST_RESIDUAL = 0.1  # of a truncated Newton direction, as a share of the gradient
_LEAST_CURVATURE = 1e-3  # of a loss, relative to its slope
_ROUNDING = 1e-13  # relative error of an objective
_ROWS = 4096  # of a piece of work


class LinearPrimalSettings(NamedTuple):
    """When to stop, and how large working sets may be.

    Attributes
    ----------
    tol : float
        Relative duality gap, or largest violation if `criterion` is "gradient".
    criterion : str
        "gap", or "gradient" if `tol` bounds the violation of the optimality conditions.
    memory : int
        Bytes for the Hessians of all scores.
    penalty : Penalty
        ‖w‖₁ or ½‖w‖².
    """

    tol: float
    criterion: str
    memory: int
    penalty: Penalty


@storable("linear primal state")
class LinearPrimalState(NamedTuple):
    """What the solver carries from step to step.

    Attributes
    ----------
    weights : ndarray of float64, shape (n_scores, n_features + 1)
        Weights; that of the constant feature is last.
    scores : ndarray of float64, shape (n_scores, n)
        Scores of the rows.
    gradient : ndarray of float64, shape (n_scores, n_features + 1)
        Gradients of the losses.
    primal, dual_value : ndarray of float64, shape (n_scores,)
        Objectives of the weights, and the largest lower bounds so far.
    models : tuple of QuadraticModel
        One a score; none in the beginning.
    epoch : int
        Completed steps.
    """

    weights: np.ndarray
    scores: np.ndarray
    gradient: np.ndarray
    primal: np.ndarray
    dual_value: np.ndarray
    models: tuple = ()
    epoch: int = 0


class ProximalNewton(Memoryless):
    """Newton's method for smooth losses with an L1 or L2 penalty.

    Parameters
    ----------
    problem : LinearProblem
        Rows, loss, targets and costs.
    settings : LinearPrimalSettings
        When to stop, and how large working sets may be.
    pool : Pool
        Threads.

    Attributes
    ----------
    certificate : Certificate or None
        The certificate of the last state.
    """

    def __init__(self, problem: LinearProblem, settings: LinearPrimalSettings, pool: Pool) -> None:
        self.problem, self.settings, self.pool = problem, settings, pool
        self.n_scores, self.n_weights = problem.n_scores, problem.source.shape[1] + 1
        most = int(np.sqrt(settings.memory / (8 * self.n_scores)))
        self._most_features = max(1, min(most, _MOST_FEATURES))
        self.certificate: Certificate | None = None
        few = min(self._most_features, _HESSIAN_FEATURES, len(problem.source))
        too_many = settings.penalty.l1_ratio == 0 and self.n_weights > few
        self._directions = NewtonDirections(problem, pool) if too_many else None

    # --- states ------------------------------------------------------------------------------------------

    def init(self, weights: np.ndarray | None = None) -> LinearPrimalState:
        """Return the state at given weights, or at zero."""
        if weights is None:
            weights = np.zeros((self.n_scores, self.n_weights))
        return self._evaluated(weights, self._products(weights), np.zeros(self.n_scores))

    def _products(self, weights: np.ndarray) -> np.ndarray:
        """Return the products of weights with all rows in float64, shape (n_scores, n)."""
        problem = self.problem
        coef, intercept = weights[:, :-1], problem.constant * weights[:, -1]
        if problem.scale.size:
            coef = coef * problem.scale
            intercept = intercept - coef @ problem.shift
        if not weights.any():
            return np.zeros((len(weights), len(problem.source)))
        return np.ascontiguousarray(scores_of(problem.source, coef, intercept, self.pool, exact=True).T)

    def _evaluated(self, weights: np.ndarray, scores: np.ndarray, bound: np.ndarray) -> LinearPrimalState:
        """Return the state at weights, with objectives and gradients by a pass over the rows."""
        loss, demands = self.problem.loss, self.problem.demands
        dual = np.empty(scores.shape[::-1])
        pieces = list(spans(len(dual), _ROWS))
        losses, conjugates = np.zeros((len(pieces), self.n_scores)), np.zeros((len(pieces), self.n_scores))

        def add_losses(a: int, b: int) -> None:
            _write_slopes(loss, demands, scores, dual, (a, b))
            primal_losses(loss, demands, a, np.ascontiguousarray(scores[:, a:b]), losses[a // _ROWS])

        def add_conjugates(a: int, b: int) -> None:
            some = demands.of_rows(slice(a, b))
            dual_losses(loss, some, dual[a:b] * factors, conjugates[a // _ROWS])

        self.pool.run(add_losses, pieces)
        combined = combination(self.problem, dual, self.pool)
        primal = losses.sum(axis=0) + self.settings.penalty.values(weights)
        if not (np.isfinite(primal).all() and np.isfinite(combined).all()):
            self._explain()
        factors = self.settings.penalty.factors(combined)
        self.pool.run(add_conjugates, pieces)
        value = -conjugates.sum(axis=0) - self.settings.penalty.conjugates(factors[:, None] * combined)
        return LinearPrimalState(weights, scores, -combined, primal, np.maximum(bound, value))

    def _explain(self) -> None:
        """Raise the error for a result that is not finite: a bad value of a row, or overflow."""
        for start, block in self.problem.source.blocks():
            check_finite(block, start)
        raise ValueError(OVERFLOW)

    # --- steps -------------------------------------------------------------------------------------------

    def step(self, state: LinearPrimalState, most_steps: int) -> tuple[LinearPrimalState, Report]:
        """Take a Newton step in every score that is not solved."""
        found = self.certify(state)
        if self.is_within(found) or most_steps == 0:
            return state, self._report(state, found, 0)
        if not self.problem.source.resident:
            self.problem.source.check_unchanged()
        active, direction, models = self._unsolved(state), np.zeros_like(state.weights), state.models
        if self._directions is not None:
            for c in active:
                direction[c] = self._truncated(self._directions, state, c)
        else:
            models = self._models(state, active)
            self.pool.run(lambda c: self._aim(state, models[c], c, direction[c]), [(c,) for c in active])
        after = self._moved(state, direction)._replace(models=models, epoch=state.epoch + 1)
        certificate = self.certify(after)
        stalled = bool((after.weights == state.weights).all())
        return after, self._report(after, certificate, 1)._replace(stalled=stalled)

    def _unsolved(self, state: LinearPrimalState) -> np.ndarray:
        """Return the scores that are not within tolerance."""
        if self.settings.criterion == "gap":
            return np.flatnonzero(state.primal - state.dual_value > self.settings.tol * state.primal)
        return np.flatnonzero(
            self.settings.penalty.violations(state.gradient, state.weights).max(axis=1) > self.settings.tol
        )

    def _models(self, state: LinearPrimalState, active: np.ndarray) -> tuple[QuadraticModel, ...]:
        """Return models at the weights of a state, those of `active` scores updated by a pass over the rows."""
        models = list(state.models) or [empty_model(np.empty(0, np.int64), 0)] * self.n_scores
        loss, demands, scores = self.problem.loss, self.problem.demands, state.scores
        curvatures = np.empty((len(active), scores.shape[1]))
        for k, c in enumerate(active):
            features = self._working_set(state.weights[c], state.gradient[c], models[c].features)
            if features is not models[c].features:
                models[c] = empty_model(features, scores.shape[1])
            _write_curvatures(loss, demands, scores[c], (c, _LEAST_CURVATURE, loss.curvature), curvatures[k])
        updated = update_models(self.problem, [models[c] for c in active], curvatures, self.pool)
        for c, model in zip(active, updated, strict=True):
            models[c] = model
        return tuple(models)

    def _working_set(self, weights: np.ndarray, gradient: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return the features of the next model; `known` itself if it has all that violate their conditions."""
        n, most = len(weights) - (self.problem.constant == 0), self._most_features
        if n <= min(_ALL_FEATURES, most) or self.settings.penalty.l1_ratio == 0:
            return known if len(known) else np.arange(n)
        violation, used = self.settings.penalty.violations(gradient, weights), weights != 0
        if len(known):
            outside = np.ones(len(weights), bool)
            outside[known] = False
            if not (outside & ((violation > self.settings.tol) | used)).any():
                return known
        near = np.flatnonzero(~used & (np.abs(gradient) > _NEAR))
        n_added = min(len(near), max(_LEAST_ADDED, int(used.sum())))
        near = near[np.argsort(-np.abs(gradient[near]), kind="stable")[:n_added]]
        found = np.concatenate([np.flatnonzero(used), near])
        if len(found) > most:  # blocks of features in turn, those with the largest violations first
            found = found[np.argsort(-violation[found], kind="stable")[:most]]
        return np.sort(found)

    def _aim(self, state: LinearPrimalState, model: QuadraticModel, c: int, out: np.ndarray) -> None:
        """Write the direction to the minimum of a model with the penalty."""
        weights, gradient = state.weights[c, model.features], state.gradient[c, model.features]
        out[model.features] = self.settings.penalty.target(model.hessian, gradient, weights) - weights

    def _truncated(self, directions: NewtonDirections, state: LinearPrimalState, c: int) -> np.ndarray:
        """Return a Newton direction of one score, the more exact the nearer the minimum is."""
        loss, curvatures = self.problem.loss, np.empty(state.scores.shape[1])
        which = c, _LEAST_CURVATURE, loss.curvature
        _write_curvatures(loss, self.problem.demands, state.scores[c], which, curvatures)
        gap = max(float(state.primal[c] - state.dual_value[c]), 0.0) / max(float(state.primal[c]), 1e-300)
        share = min(_LARGEST_RESIDUAL, float(np.sqrt(gap)))
        return directions.direction(curvatures, state.gradient[c] + state.weights[c], share)

    def _moved(self, state: LinearPrimalState, direction: np.ndarray) -> LinearPrimalState:
        """Return the state after a line search in each score; a step that does not lead downhill is not taken."""
        change, length, problem = self._products(direction), np.zeros(self.n_scores), self.problem

        def search(c: int) -> None:
            along = state.scores[c], change[c], state.weights[c], direction[c]
            slope = float(state.gradient[c] @ direction[c])
            length[c] = best_length(
                Line(problem.loss, problem.demands, c, *along, self.settings.penalty.l1_ratio), slope
            )

        self.pool.run(search, [(c,) for c in np.flatnonzero(direction.any(axis=1))])
        weights = state.weights + length[:, None] * direction
        scores = state.scores + length[:, None] * change
        after = self._evaluated(weights, scores, state.dual_value)
        worse = ~self._is_better(after, state)
        if not worse.any():
            return after
        rows = worse[:, None]
        return after._replace(
            weights=np.where(rows, state.weights, after.weights),
            scores=np.where(rows, state.scores, after.scores),
            gradient=np.where(rows, state.gradient, after.gradient),
            primal=np.where(worse, state.primal, after.primal),
        )

    def _is_better(self, after: LinearPrimalState, before: LinearPrimalState) -> np.ndarray:
        """Return for each score whether its objective fell, or its violation within rounding error of the objective."""
        violation = [
            self.settings.penalty.violations(each.gradient, each.weights).max(axis=1) for each in (after, before)
        ]
        same = after.primal <= before.primal * (1 + _ROUNDING)
        return (after.primal < before.primal * (1 - _ROUNDING)) | (same & (violation[0] < violation[1]))

    # --- the end -----------------------------------------------------------------------------------------

    def certify(self, state: LinearPrimalState) -> Certificate:
        """Return both objectives, and the largest violation of an optimality condition."""
        worst = float(self.settings.penalty.violations(state.gradient, state.weights).max())
        self.certificate = Certificate(state.primal, state.dual_value, worst)
        return self.certificate

    def concluded(self, state: LinearPrimalState) -> tuple[LinearPrimalState, Certificate]:
        """Return the state at the end of a fit and its certificate."""
        return state, self.certify(state)

    def is_within(self, found: Certificate) -> bool:
        """Return whether a certificate is within tolerance."""
        if self.settings.criterion == "gap":
            return relative_gap(found.primal, found.dual) <= self.settings.tol
        return found.violation <= self.settings.tol

    def finish(self, state: LinearPrimalState) -> np.ndarray:
        """Return the weights of the features and, last, of the constant feature."""
        return state.weights

    def _report(self, state: LinearPrimalState, found: Certificate, n_steps: int) -> Report:
        gap = relative_gap(found.primal, found.dual)
        gap = gap if self.settings.criterion == "gap" else found.violation
        within = self.is_within(found)
        return Report(gap, float(found.dual.sum()), n_steps, within, within, False, n_newton=n_steps)


@jit
def _write_slopes(loss, demands, scores, dual, bounds):
    """Write -c ℓ'(f) for some rows in all scores."""
    for c in range(scores.shape[0]):
        for i in range(bounds[0], bounds[1]):
            target, cost = cost_of(demands, i, c)
            dual[i, c] = -cost * loss_slope(loss, scores[c, i], target) if cost > 0 else 0.0


@jit
def _write_curvatures(loss, demands, scores, which, out):
    """Write c ℓ''(f) for all rows in one score; it is raised where the loss is almost linear, or steps would be long.

    `which` has the number of the score, the least share of the slope, and the largest curvature of the loss.
    """
    c, least, most = which
    for i in range(scores.size):
        target, cost = cost_of(demands, i, c)
        if cost > 0:
            floor = min(most, least * abs(loss_slope(loss, scores[i], target)))
            out[i] = cost * max(floor, loss_curvature(loss, scores[i], target))
        else:
            out[i] = 0.0
