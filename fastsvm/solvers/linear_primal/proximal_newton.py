"""Newton's method for smooth losses, with an L1 penalty on a working set of features.

Problem
    minimise    ‖w‖₁ or ½‖w‖² + Σ_i c_i ℓ(w·x_i, y_i)
    for each score, with a smooth loss ℓ. The weight of a constant feature is the intercept, which is penalised too.

Step
    The loss is replaced by its second-order model at w (Lee, Sun and Saunders 2014, Proximal Newton-type methods;
    newGLMNET, Yuan, Ho and Lin 2012). The minimum of model and penalty gives a direction. Its end is evaluated at once,
    as the gradient there says whether the whole step suits; a line search gives the length of a step that does not.
    Steps of all scores are taken together, so that they share the passes over the rows.

Working set
    The features with a weight other than 0, and those that violate their optimality condition most (as in celer,
    Massias, Gramfort and Salmon 2018): at most as many as there are weights already. Where features are few, they are
    all in it.

Model
    The Hessian is kept as a matrix (`quadratic_model`), and the minimum is found without the rows (`penalties`). With
    an L1 penalty on rows in memory, steps sweep over their columns first (`sweeps`), each in one compiled call. The
    folds of a cross-validation share the mean of their Hessians in the first steps.

Many features
    With the penalty ½‖w‖² and many features, the direction δ comes from conjugate gradients: a product with the matrix
    of (I + Xᵀ D X) δ = -g is two passes over the rows (Lin, Weng and Keerthi 2008, Trust region Newton method for
    large-scale logistic regression, section 2). The system is scaled by its diagonal (Hsia, Chiang and Lin 2018,
    Preconditioned conjugate gradient methods in truncated Newton frameworks for large-scale linear classification).

Certificate
    The variables β_i = -c_i ℓ'(f_i), divided by max(1, ‖Xᵀβ‖∞), are feasible in the dual problem
        maximise    -Σ_i c_i ℓ*(-β_i / c_i)    where ‖Xᵀβ‖∞ ≤ 1.
    With ½‖w‖² all β are feasible, and -½‖Xᵀβ‖² is added. As β is a slope, c ℓ*(-β / c) = -β f - c ℓ(f) (Fenchel's
    equality), which takes no logarithms.
    Their objective D bounds the minimum from below. Scores, gradients and objectives are in float64. The bound of
    β_i - c_i ℓ''(f_i) x_i·δ is often higher, for the direction δ to the minimum of a model: these variables satisfy
    |x_jᵀβ| ≤ 1 as exactly as the model is minimised, where it has the feature j.

Cost
    2 n d multiplications a step and score, and those of the Hessian: m² / 2 for each row whose curvature changed much,
    for m features in the working set. 5 to 50 steps.

Memory
    Three numbers in float64 a row and score, and the Hessians, m² numbers a score.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable
from fastsvm.linalg.row_products import readable_rows
from fastsvm.linalg.sparse_products import readable
from fastsvm.losses import (
    box,
    conjugate,
    dual_losses,
    feasible,
    loss_curvature,
    loss_slope,
    loss_value,
    primal_losses,
    targets_and_costs,
    write_costs,
)
from fastsvm.solvers.linear_dual.problem import (
    PANEL,
    PIECE_ROWS,
    ROUNDING,
    Certificate,
    CertifiedSolver,
    LinearProblem,
    LinearSettings,
    newton_direction,
)
from fastsvm.solvers.linear_primal.penalties import FLAT, L1, L2, Line, best_length, suits
from fastsvm.solvers.linear_primal.quadratic_model import (
    QuadraticModel,
    empty_model,
    update_models,
)
from fastsvm.solvers.linear_primal.sweeps import (
    DenseColumns,
    SparseColumns,
    add,
    columns_of,
    minimise,
    product,
    violation_of,
    wanted_of,
)
from fastsvm.solvers.outer_loop import OutOfTime, Report
from fastsvm.sources import CSRBlock, DenseBlock, MemorySource

_LEAST_CURVATURE = 1e-3  # The curvature of a loss is at least this share of its slope, or steps would be too long.
_ACCEPTED = 0.1  # A whole step over columns is taken if it lowers the objective by this share of what was foreseen.
# A model is minimised to this share of the violation at its centre, or of its square below 1 (Dembo, Eisenstat and
# Steihaug 1982, Inexact Newton methods); the second share is for a step over columns.
_INNER, _INNER_OF_COLUMNS = 0.03, 0.3
_FIRST, _MORE = 9, 2  # A step over columns has so many sweeps, and so many more for each step before.
_LEAST_WORK = 1 << 22  # A model of columns that needs sweeps of more multiplications is left to a Hessian.
_WORK, _MOST_SWEEPS = 1 << 28, 400  # A model with a Hessian is minimised by so many multiplications, or sweeps.
_NEAR = 0.8  # A feature may be added from this share of the bound of its gradient on, before it violates its condition.
# A minimum has at most as many weights as rows with a curvature. A working set grows up to this share of their number,
# and by at least so many features, or an eighth of the rows.
_SHARE_OF_ROWS, _LEAST_ADDED = 0.9, 64
_NEARLY_SAME = 0.9  # A step that leaves this share of the objective may be the last one.
_MOST_FEATURES = 4096  # A working set has at most so many features: factors of larger Hessians take seconds.
_TRUNCATED = 0.1  # Conjugate gradients end at this share of the first residual, or at the root of the gap.


Models = Sequence[QuadraticModel]


@storable("linear primal state")
class LinearPrimalState(NamedTuple):
    """What the solver carries from step to step.

    `weights` and `gradient`, that of the losses, have the shape (n_scores, n_features + 1), with the constant feature
    last. `scores` has the shape (n_scores, n). `dual_value` has the largest lower bounds so far. `models` has one a
    score; none in the beginning. `epoch` counts completed steps.
    """

    weights: np.ndarray
    scores: np.ndarray
    gradient: np.ndarray
    primal: np.ndarray
    dual_value: np.ndarray
    models: tuple = ()
    epoch: int = 0


class ProximalNewton(CertifiedSolver[LinearPrimalState]):
    """Newton's method for smooth losses with an L1 or L2 penalty; the Hessians of all scores take `memory` bytes."""

    def __init__(
        self, problem: LinearProblem, settings: LinearSettings, pool: Pool, penalty: L1 | L2, memory: int
    ) -> None:
        super().__init__(problem, settings, pool)
        self.penalty, self.n_weights = penalty, problem.source.shape[1] + 1
        most = int(np.sqrt(memory / (8 * self.n_scores)))
        self._most_features = max(1, min(most, _MOST_FEATURES))
        whole = settings.tuning.shared_features if len(problem.demands.folds) else settings.tuning.hessian_features
        few = min(self._most_features, whole + 1, len(problem.source))
        too_many = penalty.l1_ratio == 0 and self.n_weights > few
        self._of_directions = _with_readable_rows(problem) if too_many else None
        by_columns = penalty.l1_ratio and settings.tuning.columns
        n_features, tuning = self.n_weights - (problem.constant == 0), settings.tuning
        is_short = n_features <= whole + 1 or not tuning.working_sets
        self._is_whole = n_features <= self._most_features and is_short  # all features are in a working set
        self._columns = columns_of(problem, memory, tuning.small_values) if by_columns else None
        self._certified: LinearPrimalState | None = None  # `certificate` is that of this state.
        n = len(problem.source)  # fresh memory costs more than what is computed in it
        self._dual, self._curvatures = np.empty((n, self.n_scores)), np.empty((self.n_scores, n))
        size = max(PIECE_ROWS // self.n_scores, PIECE_ROWS // PANEL)
        self._pieces = [(k, a, b) for k, (a, b) in enumerate(spans(n, size))]
        self._n_curved = np.zeros(self.n_scores, np.int64)  # So many rows have a curvature in the last model.
        is_alike = penalty.l1_ratio == 0 and n >= settings.tuning.rows_of_weight * self.n_weights
        self._n_shared = settings.tuning.shared_steps if is_alike and len(problem.demands.folds) else 0

    # --- states ------------------------------------------------------------------------------------------

    def init(self, weights: np.ndarray | None = None) -> LinearPrimalState:
        """Return the state at given weights, or at zero."""
        weights = np.zeros((self.n_scores, self.n_weights)) if weights is None else weights.copy()
        if self.problem.constant == 0:
            weights[:, -1] = 0.0  # an intercept of an earlier fit would change no score, and be penalised
        state = self._evaluated(weights, self._products(weights), np.zeros(self.n_scores))
        if self.penalty.l1_ratio:
            value = self._scaled_value(self._dual, np.abs(state.gradient).max(axis=1))
            state = state._replace(dual_value=np.maximum(state.dual_value, value))
        return state

    def start_of(self, state: object) -> np.ndarray | None:
        """Return the weights of another fit, None if there are not as many."""
        if isinstance(state, LinearPrimalState) and state.weights.shape == (self.n_scores, self.n_weights):
            return state.weights
        return None

    def resumed(self, state: LinearPrimalState, same_windows: bool) -> LinearPrimalState:
        """Return the state at the weights of one that was interrupted within a step."""
        return self.init(state.weights)._replace(epoch=state.epoch)

    def kept(self, state: LinearPrimalState, finished: bool) -> LinearPrimalState:
        """Return what the next fit may begin with: after one that finished, the weights alone."""
        return state._replace(models=(), scores=state.scores[:, :0]) if finished else state

    def dual_of(self, state: LinearPrimalState) -> np.ndarray:
        """Return the variables -c_i ℓ'(f_i) of a state."""
        self._evaluated(state.weights, state.scores, state.dual_value)
        return self._dual

    def _products(self, weights: np.ndarray) -> np.ndarray:
        """Return the products of weights with all rows in float64, shape (n_scores, n)."""
        if not weights.any():
            return np.zeros((len(weights), len(self.problem.source)))
        return self.problem.scores(weights, self.pool)

    def _evaluated(self, weights: np.ndarray, scores: np.ndarray, bound: np.ndarray) -> LinearPrimalState:
        """Return the state at weights, with objectives and gradients by a pass over the rows.

        The lower bounds are raised at once with ½‖w‖², for which they cost nothing.
        """
        loss, demands, dual = self.problem.loss, self.problem.demands, self._dual
        losses = np.zeros((len(self._pieces), self.n_scores))

        def add_losses(k: int, a: int, b: int) -> None:
            some = np.ascontiguousarray(scores[:, a:b])
            _write_slopes(loss, *targets_and_costs(demands.of_rows(slice(a, b))), some, dual[a:b])
            primal_losses(loss, demands, a, some, losses[k])

        self.pool.run(add_losses, self._pieces)
        combined = self.problem.weighted_sum(dual, self.pool)
        primal = losses.sum(axis=0) + self.penalty.values(weights)
        if not (np.isfinite(primal).all() and np.isfinite(combined).all()):
            self.problem.explain()
        if self.penalty.l1_ratio == 0:
            value = np.einsum("ic,ci->c", dual, scores) + losses.sum(axis=0) - self.penalty.values(combined)
            bound = np.maximum(bound, value)
        return LinearPrimalState(weights, scores, -combined, primal, bound)

    def _scaled_value(self, dual: np.ndarray, largest: np.ndarray) -> np.ndarray:
        """Return the dual objectives of variables β, scaled so that they are feasible; `largest` are their ‖Xᵀβ‖∞."""
        loss, demands, factors = self.problem.loss, self.problem.demands, 1 / np.maximum(1.0, largest)
        conjugates = np.zeros((len(self._pieces), self.n_scores))

        def add_conjugates(k: int, a: int, b: int) -> None:
            dual_losses(loss, demands.of_rows(slice(a, b)), dual[a:b] * factors, conjugates[k])

        self.pool.run(add_conjugates, self._pieces)
        value: np.ndarray = -conjugates.sum(axis=0)
        return value

    def _foreseen(self, state: LinearPrimalState, models: Models, change: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Return the feasible variables nearest to those of the models at their minima.

        Where a model is minimised exactly, they are feasible but for what the model leaves out.
        """
        loss, demands, foreseen = self.problem.loss, self.problem.demands, np.empty_like(self._dual)

        def write(_: int, a: int, b: int) -> None:
            some = np.ascontiguousarray(state.scores[:, a:b])
            _write_slopes(loss, *targets_and_costs(demands.of_rows(slice(a, b))), some, foreseen[a:b])
            for c in active:
                foreseen[a:b, c] -= models[c].curvatures[a:b] * change[c, a:b]
            foreseen[a:b] = feasible(loss, demands.of_rows(slice(a, b)), foreseen[a:b])

        self.pool.run(write, self._pieces)
        return foreseen

    # --- steps -------------------------------------------------------------------------------------------

    def step(self, state: LinearPrimalState, most_steps: int) -> tuple[LinearPrimalState, Report]:
        """Take a Newton step in every score that is not solved."""
        before = self.certify(state) if self._certified is not state or self.certificate is None else self.certificate
        if self.is_within(before) or most_steps == 0:
            return state, self._certified_report(state, before, 0)
        self.problem.source.check_unchanged()
        active, direction, models = self._unsolved(state), np.zeros_like(state.weights), state.models
        if self._columns is not None and not models:
            return self._along_columns(self._columns, state, before, active)
        if self._of_directions is not None:
            for c in active:
                direction[c] = self._truncated(self._of_directions, state, c)
                if not np.isfinite(direction[c]).all():
                    self.problem.explain()
        else:
            try:
                models = self._models(state, active)
            except OutOfTime:  # the Hessians are incomplete
                return state._replace(models=()), self._certified_report(state, before, 0)
            if not all(np.isfinite(models[c].hessian.diagonal()).all() for c in active):
                self.problem.explain()
            self.pool.run(lambda c: self._aim(state, models[c], c, direction[c]), [(c,) for c in active])
        after = self._moved(state, direction, models, active)._replace(models=models, epoch=state.epoch + 1)
        certificate = self.certify(after)
        stalled = bool((after.weights == state.weights).all())
        return after, self._certified_report(after, certificate, 1)._replace(stalled=stalled)

    def _along_columns(
        self, columns: DenseColumns | SparseColumns, state: LinearPrimalState, before: Certificate, active: np.ndarray
    ) -> tuple[LinearPrimalState, Report]:
        """Take a step by sweeps over columns; the next one has a Hessian if they take long."""
        if time.perf_counter() >= self.settings.deadline:
            return state, self._certified_report(state, before, 0)
        wanted = (
            float(self.problem.loss.curvature), self.settings.criterion == "gap", self.settings.tol / 4,
            _FIRST + _MORE * state.epoch,
        )  # fmt: skip
        arrays: Any = tuple(each.copy() for each in state[:5])
        within = np.ones(self.n_scores, bool)

        def take(c: int) -> None:
            own = columns._replace(curvatures=self._curvatures[c])
            within[c] = _step_of_score(self.problem.loss, self.problem.demands, own, arrays, c, wanted)

        self.pool.run(take, [(int(c),) for c in active])
        after = LinearPrimalState(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], epoch=state.epoch + 1)
        m = np.count_nonzero(after.weights, axis=1).max()
        n_values = self.problem.source.values_per_row * len(self._dual)
        is_cheaper = m <= self._most_features and m * m < 2 * n_values and n_values * wanted[-1] > _LEAST_WORK
        is_same = (after.weights == state.weights).all()  # a Hessian may be exacter, or show what overflows
        if is_same or (is_cheaper and not within.all()):
            after = after._replace(models=(empty_model(np.empty(0, np.int64), 0),) * self.n_scores)
        return after, self._certified_report(after, self.certify(after), 1)

    def _unsolved(self, state: LinearPrimalState) -> np.ndarray:
        """Return the scores that are not within tolerance."""
        if self.settings.criterion == "gap":
            return np.flatnonzero(state.primal - state.dual_value > self.settings.tol * state.primal)
        return np.flatnonzero(self.penalty.violations(state.gradient, state.weights).max(axis=1) > self.settings.tol)

    def _models(self, state: LinearPrimalState, active: np.ndarray) -> tuple[QuadraticModel, ...]:
        """Return models at the weights of a state, those of `active` scores updated by a pass over the rows."""
        models = list(state.models)
        if not models or state.epoch == self._n_shared:  # from now on, each fold has a Hessian of its own
            models = [empty_model(np.empty(0, np.int64), 0)] * self.n_scores
        scores, curvatures = state.scores, self._curvatures[: len(active)]
        for k, c in enumerate(active):
            self._write_curvatures(scores[c], c, curvatures[k])
            self._n_curved[c] = np.count_nonzero(curvatures[k])
            features = self._working_set(state, c, models[c].features)
            if features is not models[c].features:
                models[c] = empty_model(features, scores.shape[1])
        labels = self.problem.demands.folds[:, 1] if state.epoch < self._n_shared else np.arange(self.n_scores)
        kinds, first = np.unique(labels[active], return_index=True)
        if len(kinds) < len(active):
            curvatures = np.array([curvatures[labels[active] == kind].mean(axis=0) for kind in kinds])
        some, settings = [models[c] for c in active[first]], self.settings
        updated = update_models(self.problem, some, curvatures, self.pool, settings.tuning, settings.deadline)
        for kind, model in zip(kinds, updated, strict=True):
            for c in np.flatnonzero(labels == kind):
                models[c] = model
        return tuple(models)

    def _write_curvatures(self, scores: np.ndarray, c: int, out: np.ndarray) -> None:
        """Write the curvatures of the losses of all rows in one score."""
        loss, demands = self.problem.loss, self.problem.demands

        def write(a: int, b: int) -> None:
            _write_curvatures(loss, demands.of_rows(slice(a, b)), c, scores[a:b], loss.curvature, out[a:b])

        self.pool.run(write, list(spans(len(out), PIECE_ROWS)))

    def _working_set(self, state: LinearPrimalState, c: int, last: np.ndarray) -> np.ndarray:
        """Return the features of the next model; `last` itself if it has all that violate their conditions."""
        weights, gradient = state.weights[c], state.gradient[c]
        n, most, tuning = len(weights) - (self.problem.constant == 0), self._most_features, self.settings.tuning
        if self._is_whole or self.penalty.l1_ratio == 0:
            return last if len(last) else np.arange(n)
        violation, used = self.penalty.violations(gradient, weights), weights != 0
        if len(last):
            outside = np.ones(len(weights), bool)
            outside[last] = False
            if not (outside & ((violation > self.settings.tol) | used)).any():
                return last
        near = np.flatnonzero(~used & (np.abs(gradient) > _NEAR))
        n_used = np.count_nonzero(used)
        n_curved = int(self._n_curved[c])
        fitting = max(_LEAST_ADDED, n_curved // 8, int(_SHARE_OF_ROWS * n_curved) - n_used)
        n_added = min(len(near), max(tuning.hessian_features, n_used), fitting)
        near = near[np.argsort(-np.abs(gradient[near]), kind="stable")[:n_added]]
        features = np.concatenate([np.flatnonzero(used), near])
        if len(features) > most:  # blocks of features in turn, those with the largest violations first
            features = features[np.argsort(-violation[features], kind="stable")[:most]]
        return np.sort(features)

    def _aim(self, state: LinearPrimalState, model: QuadraticModel, c: int, out: np.ndarray) -> None:
        """Write the direction to the minimum of a model with the penalty."""
        weights, gradient = state.weights[c, model.features], state.gradient[c, model.features]
        worst = float(self.penalty.violations(gradient[None], weights[None]).max())
        size = float(np.abs(weights).sum()) * (self.settings.criterion == "gap")
        most = max(_FIRST, min(_MOST_SWEEPS, _WORK // len(weights) ** 2))
        wanted = wanted_of(worst, float(state.primal[c]), size, self.settings.tol / 4, _INNER, most)
        target = self.penalty.target(model, gradient, weights, wanted)
        out[model.features] = target - weights

    def _truncated(self, problem: LinearProblem, state: LinearPrimalState, c: int) -> np.ndarray:
        """Return a Newton direction of one score, the more exact the nearer the minimum is."""
        curvatures = self._curvatures[c]
        self._write_curvatures(state.scores[c], c, curvatures)
        gap = max(float(state.primal[c] - state.dual_value[c]), 0.0) / max(float(state.primal[c]), 1e-300)
        share = min(_TRUNCATED, float(np.sqrt(gap)))
        gradient = state.gradient[c] + state.weights[c]
        return newton_direction(problem, curvatures, gradient, share, self.pool, self.settings.deadline)

    def _moved(
        self, state: LinearPrimalState, direction: np.ndarray, models: Models, active: np.ndarray
    ) -> LinearPrimalState:
        """Return the state after the best step in each score; one that does not lead downhill is not taken."""
        change, length, loss = self._products(direction), np.ones(self.n_scores), self.problem.loss
        l1_ratio, demands = self.penalty.l1_ratio, self.problem.demands

        def search(c: int, flat: float) -> None:
            targets, costs = np.empty((2, len(self._dual)))
            write_costs(demands, 0, c, targets, costs)
            line = Line(loss, targets, costs, state.scores[c], change[c], state.weights[c], direction[c], l1_ratio)
            length[c] = best_length(line, begins[c], flat)

        after = self._evaluated(state.weights + direction, state.scores + change, state.dual_value)
        begins, ends = (np.einsum("cj,cj->c", each.gradient, direction) for each in (state, after))
        slopes = zip(begins, ends, strict=True)
        suited = [suits(*each, l1_ratio) for each in zip(state.weights, direction, slopes, strict=True)]
        others = direction.any(axis=1) & ~np.array(suited)
        for flat in FLAT:
            if others.any():
                self.pool.run(search, [(c, flat) for c in np.flatnonzero(others)])
                weights = state.weights + length[:, None] * direction
                scores = state.scores + length[:, None] * change
                after = self._evaluated(weights, scores, after.dual_value)
            others = after.primal > state.primal * (1 + ROUNDING)
        if l1_ratio:
            after = self._bounded(state, after, models, change, active)
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

    def _bounded(
        self, state: LinearPrimalState, after: LinearPrimalState, models: Models, change: np.ndarray, active: np.ndarray
    ) -> LinearPrimalState:
        """Return the state after a step with raised lower bounds, of its own variables or those of the models."""
        dual, largest = self._dual, np.abs(after.gradient).max(axis=1)
        is_near = (after.primal[active] > _NEARLY_SAME * state.primal[active]).any()
        if is_near and self.settings.criterion == "gap":  # else it is a wasted pass
            foreseen = self._foreseen(state, models, change, active)
            others = np.abs(self.problem.weighted_sum(foreseen, self.pool)).max(axis=1)
            is_nearer = others < largest
            dual, largest = np.where(is_nearer, foreseen, dual), np.where(is_nearer, others, largest)
        return after._replace(dual_value=np.maximum(after.dual_value, self._scaled_value(dual, largest)))

    def _is_better(self, after: LinearPrimalState, before: LinearPrimalState) -> np.ndarray:
        """Return for each score whether its objective fell, or its violation within rounding error of the objective."""
        lower, same = after.primal < before.primal * (1 - ROUNDING), after.primal <= before.primal * (1 + ROUNDING)
        if lower.all():
            return lower
        violation = [self.penalty.violations(each.gradient, each.weights).max(axis=1) for each in (after, before)]
        return lower | (same & (violation[0] < violation[1]))

    # --- the end -----------------------------------------------------------------------------------------

    def certify(self, state: LinearPrimalState) -> Certificate:
        """Return both objectives, and the largest violation of an optimality condition."""
        worst = float(self.penalty.violations(state.gradient, state.weights).max())
        self._certified, self.certificate = state, Certificate(state.primal, state.dual_value, worst)
        return self.certificate

    def _certified_end(self, state: LinearPrimalState) -> tuple[LinearPrimalState, Certificate]:
        return state, self.certify(state)

    def weights(self, state: LinearPrimalState) -> np.ndarray:
        """Return the weights of the features and, last, of the constant feature."""
        return state.weights

    def _certified_report(self, state: LinearPrimalState, certificate: Certificate, n_steps: int) -> Report:
        gap, within = self.gap_of(certificate), self.is_within(certificate)
        return Report(gap, float(certificate.dual.sum()), n_steps, within, within, False, n_newton=n_steps)


@jit
def _write_slopes(loss, targets, costs, scores, dual):
    """Write -c ℓ'(f) for some rows in all scores; loops without `cost_of` are of vectors."""
    for c in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            slope = -costs[i, c] * loss_slope(loss, scores[c, i], targets[i, c])
            dual[i, c] = slope if costs[i, c] > 0 else 0.0


@jit
def _write_curvatures(loss, demands, c, scores, most, out):
    """Write c ℓ''(f) for some rows in score `c`; it is raised where the loss is almost linear, or steps would be long.

    `most` is the largest curvature of the loss.
    """
    targets, costs = np.empty(scores.size), np.empty(scores.size)
    write_costs(demands, 0, c, targets, costs)
    for i in range(scores.size):
        floor = min(most, _LEAST_CURVATURE * abs(loss_slope(loss, scores[i], targets[i])))
        curvature = costs[i] * max(floor, loss_curvature(loss, scores[i], targets[i]))
        out[i] = curvature if costs[i] > 0 else 0.0


# --- steps over columns ----------------------------------------------------------------------------------


@jit
def _step_of_score(loss, demands, columns, at, c, wanted):
    """Take a step in score `c`; return whether its model was minimised, and the step taken.

    `at` are arrays of the state, modified in place. `wanted` are the largest curvature of the loss, whether the gap is
    the criterion rather than violations, the tolerance of a model, and the most sweeps.
    """
    most_curved, by_gap, tol, most_sweeps = wanted
    weights, start, gradient, primal, curvatures = at[0][c], at[1][c], at[2][c], at[3][c], columns.curvatures
    n, m = start.size, weights.size
    targets, costs, pull, violations = np.empty(n), np.empty(n), np.zeros(n), np.empty(m)
    _write_curvatures(loss, demands, c, start, most_curved, curvatures)
    write_costs(demands, 0, c, targets, costs)
    for j in range(m):
        violations[j] = violation_of(weights[j], gradient[j])
    active, z, size = np.flatnonzero((weights != 0) | (np.abs(gradient) > _NEAR)), weights.copy(), np.abs(weights).sum()
    how = wanted_of(violations.max(), primal, size * by_gap, tol, _INNER_OF_COLUMNS, most_sweeps)
    within = minimise(columns, active, z, gradient, pull, how)
    dual, before, curvatures[:] = np.empty(n), pull.copy(), 1.0
    direction, change = z - weights, np.zeros(n)
    for j in active:
        if direction[j] != 0:
            add(columns, j, direction[j], change)
    begin, length, lowest = (gradient * direction).sum(), 1.0, np.inf
    line = Line(loss, targets, costs, start, change, weights, direction, 1.0)
    enough = primal + _ACCEPTED * (begin + np.abs(z).sum() - size)
    for flat in (1.0, *FLAT):
        if flat < 1:
            length, enough = best_length(line, begin, flat), primal * (1 + ROUNDING)
        z, scores = weights + length * direction, start + length * change
        lowest = np.abs(z).sum()
        for i in range(n):
            lowest += costs[i] * loss_value(loss, scores[i], targets[i]) if costs[i] > 0 else 0.0
        for i in range(n):
            dual[i] = -costs[i] * loss_slope(loss, scores[i], targets[i]) if costs[i] > 0 else 0.0
        if lowest <= enough:
            break
    value, combined = _bound(line, columns, dual)
    if lowest > _NEARLY_SAME * primal and by_gap:  # else it is a wasted pass
        most = box(loss, 1.0)[0]
        for i in range(n):
            alpha = -targets[i] * (costs[i] * loss_slope(loss, start[i], targets[i]) + before[i])
            before[i] = targets[i] * max(0.0, min(alpha, most * costs[i])) if costs[i] > 0 else 0.0
        value = max(value, _bound(line, columns, before)[0])
    at[4][c] = max(at[4][c], value)
    worst = 0.0
    for j in range(m):
        worst = max(worst, violation_of(z[j], -combined[j]))
    is_same = lowest <= primal * (1 + ROUNDING) and worst < violations.max()
    if not (is_same or lowest < primal * (1 - ROUNDING)):
        return False
    weights[:], start[:], gradient[:], at[3][c] = z, scores, -combined, lowest
    return within


@jit
def _bound(line, columns, dual):
    """Return the dual objective of variables, scaled so that they are feasible, and Xᵀ β before."""
    combined, value = np.empty(line.weights.size), 0.0
    for j in range(combined.size):
        combined[j] = product(columns, j, dual)
    largest = max(1.0, np.abs(combined).max())
    for i in range(dual.size):
        if dual[i] != 0:
            value -= conjugate(line.loss, dual[i] / largest, line.targets[i], line.costs[i])
    return value, combined


# --- directions without a Hessian ------------------------------------------------------------------------


def _with_readable_rows(problem: LinearProblem) -> LinearProblem:
    """Return a problem in memory with rows of a type that compiled functions take, so that no product converts them."""
    block = problem.block
    if isinstance(block, CSRBlock):
        return problem._replace(source=MemorySource(readable(block, np.arange(block.shape[0]))[0]))
    return problem._replace(source=MemorySource(DenseBlock(readable_rows(block.values))))
