"""Augmented Lagrangians with Newton steps, for linear problems in memory, one score after another in compiled code.

Problem
    minimise    ½ ‖w‖² + Σ_i c_i ℓ(f_i, y_i)
    with the scores f = X w and the dual variables β. The loss is not one of all classes.

Epochs
    of dual coordinate ascent come before envelopes (Hsieh et al. 2008), until the gap falls slowly. There is one with
    many more samples than features, where it takes as long as a Newton step.

Envelopes
    Given variables β⁰ and a ridge h, each loss is replaced by the smooth
        max over β of  - f β - c_i ℓ*(-β / c_i) - ½ h (β - β⁰_i)²
    The maximisers β at the minimum are the next β⁰ (Rockafellar 1976). The rate of convergence improves as h decreases,
    to a quarter each time. A smooth loss is its own envelope, with h = 0.

Newton steps
    The slopes -β are piecewise linear, or nearly so. If no row changes its piece, the minimum is at w - d with
        (I + X_Fᵀ S X_F) d = w - Xᵀ β,   S = 1 / (h + h_ℓ)
    for the rows F with free β, where h_ℓ is the second derivative of the conjugate (Keerthi and DeCoste 2005; Li, Sun
    and Toh 2018; Yan and Li 2020). The length of a step is searched on the slope along it.

A given sum
    of the dual variables, as of one class, has the offset as its multiplier: the weight b of a constant feature with
    the proximal term ½ (b - b⁰)² in place of a penalty. The smaller h, the larger is the feature.

Few samples
    are solved by one step, from zero: small tables to rounding error, others to the tolerance. With more features than
    samples, epochs use the Gram matrix, and Newton steps its Cholesky factor's rows, which have the same dot products.
    Where rounding errors of squares decide, the factor comes from reflections of the rows. A solution that is not
    within tolerance, as where values overflow, leaves the problem to another solver.

Cost
    4 n d multiplications an epoch, and as a Newton step 3 n d + m d² / 2 + d³ / 6 for the m free rows, or with m and d
    exchanged if m < d; without the second part where the Gram matrix is known. A copy of the rows in float64, and one
    of the free rows.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from fastsvm._compiled.compiler import jit, outlined, writeable
from fastsvm._compiled.threads import Pool, spans, stoppable
from fastsvm.linalg.cholesky import factor_of, factorise, ridge_of, solve_factorised
from fastsvm.linalg.root_finding import Bracket, RootLimits, illinois_root, slope_at
from fastsvm.linalg.sparse_products import gram_of_sparse
from fastsvm.losses import (
    MOST_STEPS,
    Demands,
    Loss,
    box,
    chosen_loss,
    conjugate,
    conjugate_curvature,
    coordinate_update,
    feasible,
    loss_value,
    nearly,
    projected_gradient,
    write_costs,
)
from fastsvm.solvers.linear_dual.problem import (
    ACCEPTED,
    PANEL,
    PIECE_VALUES,
    ROUNDING,
    Certificate,
    CertifiedSolver,
    LinearProblem,
    LinearSettings,
)
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import CSRBlock

AGAIN = 4
"""Newton steps that did not suffice are tried again after so many times the epochs so far."""

_SPEED = 8  # Products and factorisations take so many times less time for a multiplication than epochs.
_LESS = 0.25  # A ridge is this share of the one before; the first is its square, in mean squares of rows.
_LEAST_MOVE = 0.01  # The first envelope moves a variable by this share of its bound.
_FLAT = 1e-10  # A fall of the objective is small if it is this share of the sizes of its parts.
_MOST_FEATURES = 512  # A system of so many features does not take too long.
_SPARSE = 4  # Of rows of which one value in so many is not 0, a product takes less time value by value.
_EXACT = 1e-11  # So small a gap of a solution without a tolerance is rounding error.
_MOST_REFLECTED = 1 << 33  # So many multiplications of a factor without squares take some seconds.
_CANCELLED = 1e-3  # So large an error of a direction shows that differences cancelled.
_MAX_FAILURES = 3  # So many envelopes in a row without progress show that rounding errors prevent it.


class Course(NamedTuple):
    """How scores are solved, and when this ends."""

    tol: float = 0.0  # Envelopes end at this gap relative to the objective, or to `least` where that is larger.
    least: float = 0.0
    most_epochs: int = 0  # There are at most so many epochs before Newton steps.
    total: float = 0.0  # It is the sum of the dual variables; 0 if none is given.
    offset: float = 0.0  # Where the sum is given, the offset is this in the beginning.
    on_gram: bool = False  # There are epochs alone, on a Gram matrix in place of rows; weights become their scores.
    gram: np.ndarray = np.empty((0, 0))  # It is that of the rows, where it is known.
    stop: np.ndarray = np.zeros(1, np.int64)  # Once its number is not 0, steps end.


class Solution(NamedTuple):
    """Weights, shape (n_scores, n_weights), dual variables, shape (n_scores, n), and what each score's solution has.

    Objectives are zeros where a sum of the dual variables is given, and violations there and on a Gram matrix.
    """

    weights: np.ndarray
    dual: np.ndarray
    primal: np.ndarray
    dual_value: np.ndarray
    violation: np.ndarray
    n_steps: np.ndarray  # There were so many epochs and Newton steps.

    @classmethod
    def of(cls, weights: np.ndarray, dual: np.ndarray) -> "Solution":
        """Return weights and variables of which nothing is known."""
        k = len(dual)
        return cls(weights, dual, np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k, np.int64))

    def certificate(self) -> Certificate:
        """Return the certificate of these weights and variables."""
        return Certificate(self.primal, self.dual_value, float(self.violation.max()))


class _Envelope(NamedTuple):
    """The envelope of the loss in one score, with β⁰ (`center`), and by what the last weight's gradient is lowered."""

    loss: Loss
    targets: np.ndarray
    costs: np.ndarray
    center: np.ndarray
    ridge: float
    fixed: float


class _Line(NamedTuple):
    """Scores along a direction, and ½ ‖w‖² there, which is slope t + curvature t² / 2 up to a constant."""

    envelope: _Envelope
    scores: np.ndarray
    change: np.ndarray
    slope: float
    curvature: float


def newton_applies(problem: LinearProblem, most_values: int) -> bool:
    """Return whether Newton steps apply: independent scores, and rows in memory of at most `most_values` values."""
    source = problem.source
    values = len(source) * (source.shape[1] + 1)
    return not problem.loss.of_classes and source.resident and values <= most_values


def newton_epochs(shorter_side: int) -> int:
    """Return the epochs whose time Newton steps take, from the smaller of the numbers of features and of rows."""
    return 20 + 2 * shorter_side


def solved(problem: LinearProblem, rows: np.ndarray, dual: np.ndarray, course: Course, pool: Pool) -> Solution:
    """Return the solution from feasible dual variables, shape (n_scores, n), which are overwritten.

    `rows` are those of the problem in float64 with the constant feature last, or others with the same dot products.
    """
    k = len(dual)
    solution = Solution.of(np.empty((k, rows.shape[1])), dual)
    loss, demands = chosen_loss(problem.loss), Demands(*map(writeable, problem.demands))
    values = rows.size // (1 + int(demands.pairs.max(initial=0)))  # of a score, half of them of a pair of classes
    parts = spans(k, max(1, PIECE_VALUES // max(1, values)))  # those of the scores that are worth a thread
    pool.run(lambda a, b: solve_scores(loss, demands, rows, course, (a, b), solution), parts)
    return solution


def solved_within(problem: LinearProblem, dual: np.ndarray, course: Course, pool: Pool, deadline: float) -> Solution:
    """Return the solution for all rows from feasible dual variables, shape (n, n_scores); steps end at a deadline."""
    rows, before = problem.dense(problem.block, problem.source.shape[1] + 1), np.array(dual.T, np.float64, order="C")
    return stoppable(lambda stop: solved(problem, rows, before, course._replace(stop=stop), pool), deadline)


@jit
def solve_scores(loss, demands, rows, course, bounds, solution):
    """Solve the problems of the scores within `bounds`; `solution` is modified, and `rows` where a sum is given."""
    n, d = rows.shape
    squares, targets, costs, center = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    columns = np.zeros(d)
    for i in range(n):
        squares[i] = _dot(rows[i], rows[i])
        for k in range(d):
            columns[k] += rows[i, k] ** 2
    largest = columns.max()
    columns[columns.argmax()] = 0.0  # the largest feature may be in another unit than the others
    size = max((columns.sum() if columns.any() else largest) / n, 1e-300)
    for c in range(bounds[0], bounds[1]):
        write_costs(demands, 0, c, targets, costs)
        own = np.flatnonzero(costs > 0) if len(demands.pairs) > 0 and not course.on_gram else np.empty(0, np.int64)
        if own.size == 0:
            here = _Envelope(loss, targets, costs, center, 0.0, 0.0)
            _solve_score(here, course, rows, squares, size, solution, c)
            continue
        # Of a pair of classes, the rows of all others would take most of the time.
        here = _Envelope(loss, targets[own], costs[own], center[own], 0.0, 0.0)
        weights, dual, primal, dual_value, violation, n_steps = solution
        a, b, some = c, c + 1, dual[c][own].reshape((1, own.size))
        part = Solution(weights[a:b], some, primal[a:b], dual_value[a:b], violation[a:b], n_steps[a:b])
        _solve_score(here, course, rows[own], squares[own], size, part, 0)
        for s in range(own.size):
            dual[c, own[s]] = some[0, s]


@outlined
def _solve_score(here, course, rows, squares, size, solution, c):
    """Solve the problem of score c of a solution; `size` is as for `_envelopes`."""
    dual, weights, scores = solution.dual[c], solution.weights[c], np.empty(squares.size)
    _sum_rows(rows, dual, weights)
    if course.on_gram:
        solution.n_steps[c] = _ascent(here, course, rows, np.diag(rows), dual, weights, weights)
        gap, losses = _gap(here, dual, weights)
        solution.primal[c] = losses + _dot(dual, weights) / 2
        solution.dual_value[c] = solution.primal[c] - gap
        return
    is_fresh = course.most_epochs > 0  # else Newton steps on a smooth loss itself may be many too, and short
    if is_fresh and box(here.loss, 1.0)[1] > 0:  # The loss is smooth.
        _write_scores(rows, weights, scores)
        solution.n_steps[c] = _newton(here, course, rows, dual, weights, scores)
    else:
        solution.n_steps[c] = _ascent(here, course, rows, squares, dual, weights, scores)
        if not is_fresh:
            _write_scores(rows, weights, scores)
        solution.n_steps[c] += _envelopes(here, course, rows, size, dual, weights, scores)
    if course.total == 0:
        position, others = np.empty(weights.size), np.empty(squares.size)
        _write_scores(rows, weights, scores)
        _sum_rows(rows, dual, position)
        _write_scores(rows, position, others)
        _certify_score(here, solution, c, scores, position, others)


@outlined  # A product by BLAS takes half a second to compile, at each place that calls it.
def _sum_rows(rows, dual, weights):
    """Write Xᵀ β."""
    np.dot(dual, rows, weights)


@outlined
def _write_scores(rows, weights, scores):
    np.dot(rows, weights, scores)


@jit
def certify_scores(loss, demands, solution, scores, position, others):
    """Certify a solution whose weights have some scores, and its variables, where Xᵀ β = position has others."""
    k, n = solution.dual.shape
    targets, costs = np.empty(n), np.empty(n)
    for c in range(k):
        write_costs(demands, 0, c, targets, costs)
        here = _Envelope(loss, targets, costs, targets, 0.0, 0.0)
        _certify_score(here, solution, c, scores[c], position[c], others[c])


@jit
def _gap(here, dual, scores):
    """Return the duality gap of variables whose weights have these scores, and the sum of the losses.

    The gap of each row is positive: nothing cancels.
    """
    loss, targets, costs = here.loss, here.targets, here.costs
    gap = losses = 0.0
    for i in range(dual.size):
        if costs[i] > 0:
            value = costs[i] * loss_value(loss, scores[i], targets[i])
            losses += value
            gap += value + dual[i] * scores[i]
            gap += conjugate(loss, dual[i], targets[i], costs[i]) if dual[i] != 0 else 0.0
    return gap, losses


@outlined
def _certify_score(here, solution, c, scores, position, others):
    """Write both objectives and the largest violation of a score, whose weights have `scores` and Xᵀ β has `others`.

    The dual objective is NaN if one of the others is not finite, of rows that cost nothing too.
    """
    (loss, targets, costs, _, _, _), weights, dual = here, solution.weights[c], solution.dual[c]
    solution.primal[c] = _gap(here, dual, scores)[1] + _dot(weights, weights) / 2
    value, worst, is_finite = -_dot(position, position) / 2, 0.0, True
    for i in range(dual.size):
        is_finite &= np.isfinite(others[i])
        if costs[i] > 0:
            value -= conjugate(loss, dual[i], targets[i], costs[i]) if dual[i] != 0 else 0.0
            cost = nearly(costs[i], dual)
            worst = max(worst, projected_gradient(loss, dual[i], others[i], targets[i], cost))
    solution.dual_value[c] = value if is_finite else np.nan
    if value < 0:
        solution.dual_value[c] = 0.0  # losses are not negative: this is a bound too
    solution.violation[c] = worst


@outlined
def _ascent(here, course, rows, squares, dual, weights, scores):
    """Take epochs of coordinate ascent until the gap is within tolerance or falls slowly; return their number."""
    loss, targets, costs, (n, d), before = here.loss, here.targets, here.costs, rows.shape, 0.0
    most_slow = 1 + min(n, d) ** 2 // (_SPEED * n)
    for epoch in range(course.most_epochs):
        stride, i = _stride_of(n, epoch), epoch % n
        for _ in range(n):
            if costs[i] > 0 and squares[i] > 0:
                row, old = rows[i], dual[i]
                score = weights[i] if course.on_gram else _dot(row, weights)
                new = coordinate_update(loss, old, score, targets[i], costs[i], squares[i])
                change = new - old
                if change != 0:
                    dual[i] = new
                    for k in range(d):
                        weights[k] += change * row[k]
            i = (i + stride) % n
        if not course.on_gram:
            _write_scores(rows, weights, scores)
        gap, losses = _gap(here, dual, scores)
        objective = losses + _dot(dual if course.on_gram else weights, weights) / 2
        is_slow = gap > before / 2 and epoch + 1 >= most_slow
        if gap <= max(course.tol, ROUNDING) * objective or is_slow or course.stop[0] != 0:
            return epoch + 1
        before = gap
    return course.most_epochs


@jit
def _stride_of(n, epoch):
    """Return a number near a golden share of n that has no divisor in common with n: rows in steps of it are mixed."""
    stride = max(1, int(n * (0.382 + 0.05 * (epoch % 5))))
    while math.gcd(n, stride) > 1:
        stride += 1
    return stride


@outlined
def _envelopes(here, course, rows, size, dual, weights, scores):
    """Minimise envelopes of the loss until the gap is within tolerance; return the number of Newton steps.

    `size` is the mean square of the lengths of rows without their largest feature.
    """
    loss, targets, costs, center, _, _ = here
    last, n_steps, failures, ridge, before, best = weights.size - 1, 0, 0, _LESS**2 * size, np.inf, np.inf
    constant = fixed = 0.0
    if course.total > 0:
        constant = _stretch(rows, size, ridge)
        weights[last] = -course.offset / constant
        _write_scores(rows, weights, scores)
    else:
        most = 0.0
        for i in range(dual.size):
            if costs[i] > 0:
                value = coordinate_update(loss, 0.0, scores[i], targets[i], costs[i], ridge)
                most = max(most, abs(value) / costs[i], abs(dual[i]) / costs[i])
        if most > 0:  # with rows as long as numbers allow, variables would hardly move for many envelopes
            size *= min(most / _LEAST_MOVE, 1.0)
            ridge = _LESS**2 * size
    for k in range(MOST_STEPS):
        gap, objective = _gap(here, dual, scores)
        square = _dot(weights, weights) / 2
        if course.total > 0:
            objective = square - weights[last] ** 2 / 2
            gap += abs(weights[last] * constant * (dual.sum() - course.total))
        else:
            objective += square
        failures = failures + 1 if gap >= best else 0
        best = min(best, gap)
        is_within = gap <= max(course.tol, ROUNDING) * max(objective, course.least)
        if is_within or failures > _MAX_FAILURES or course.stop[0] != 0:
            break
        if k > 0:
            is_too_small = ridge < np.sqrt(ROUNDING) * size and gap > before / 2
            ridge *= 1 / _LESS if is_too_small else _LESS
        before = gap
        if course.total > 0:
            offset = weights[last] * constant
            constant = _stretch(rows, size, ridge)
            weights[last] = offset / constant
            fixed = weights[last] - course.total * constant
        for i in range(dual.size):
            center[i] = dual[i]
        envelope = _Envelope(loss, targets, costs, center, ridge, fixed)
        n_steps += _newton(envelope, course, rows, dual, weights, scores)
        _write_scores(rows, weights, scores)  # without the errors of the steps
    if course.total > 0:
        weights[last] *= constant
    for i in range(dual.size):
        center[i] = 0.0
    return n_steps


@jit
def _stretch(rows, size, ridge):
    """Write the value of the constant feature that suits a ridge, and return it."""
    constant = size / np.sqrt(ridge)
    for i in range(rows.shape[0]):
        rows[i, rows.shape[1] - 1] = constant
    return constant


@outlined
def _newton(here, course, rows, dual, weights, scores):
    """Take Newton steps to rounding error on an envelope of the loss; return their number.

    The variables become those of the scores, which are those of the weights.
    """
    (n, d), (loss, targets, costs, center, ridge, fixed) = rows.shape, here
    change, direction, gradient = np.empty(n), np.empty(d), np.empty(d)
    piece, length, before, fall = np.full(n, 3), 0.0, np.inf, np.inf
    for step in range(MOST_STEPS):
        for k in range(d):
            gradient[k] = weights[k]
        gradient[d - 1] -= fixed
        others, scale = 0, _dot(weights, weights)
        for i in range(n):
            value = coordinate_update(loss, center[i], scores[i], targets[i], costs[i], ridge) if costs[i] > 0 else 0.0
            dual[i] = value
            scale += abs(value * scores[i])
            now = 0 if value == 0 else 1 if abs(value) < box(loss, costs[i])[0] else 2
            now = now if value > 0 else -now
            others += now != piece[i]
            piece[i] = now
            if value != 0:
                row = rows[i]
                for k in range(d):
                    gradient[k] -= value * row[k]
        size = _dot(gradient, gradient)
        # On the same quadratic piece as before, what is left is rounding error; the next envelope corrects it. A loss
        # without pieces is nearly quadratic once steps hardly lower it.
        is_end = fall <= ROUNDING * scale or (others == 0 and fall <= _FLAT * scale)
        is_rounding = length == 1.0 and ((others == 0 and ridge > 0) or (size > before / 4 and is_end))
        # Without a ridge, half of `size` is the duality gap.
        enough = ROUNDING**2 if ridge > 0 else max(ROUNDING**2, course.tol)
        if size <= enough * _dot(weights, weights) or is_rounding or course.stop[0] != 0:
            return step
        before = size
        for k in range(d):
            direction[k] = -gradient[k]
        _precondition(here, course.gram, rows, dual, direction)
        _write_scores(rows, direction, change)
        slope, fall = _dot(weights, direction) - fixed * direction[d - 1], -_dot(gradient, direction)
        line = _Line(here, scores, change, slope, _dot(direction, direction))
        length = 1.0 if fall <= ROUNDING * scale else _best_length(line, -fall)  # slopes would be rounding errors
        if not 0 < length < np.inf:
            return step
        for k in range(d):
            weights[k] += length * direction[k]
        for i in range(n):
            scores[i] += length * change[i]
    return MOST_STEPS


@outlined
def _precondition(here, gram, rows, dual, vector):
    """Replace a vector v by (I + X_Fᵀ S X_F)⁻¹ v; the system has the order of the free rows or of the features."""
    n, d = rows.shape
    loss, costs, ridge = here.loss, here.costs, here.ridge
    m, free = 0, np.empty(n, np.int64)
    for i in range(n):
        if 0 < abs(dual[i]) < box(loss, costs[i])[0]:
            free[m] = i
            m += 1
    scaled, shares, n_values = np.empty((m, d)), np.empty(m), 0
    for s in range(m):
        i, target = free[s], scaled[s]
        row, share = rows[i], np.sqrt(1 / (conjugate_curvature(loss, dual[i], costs[i]) + ridge))
        shares[s] = share
        for k in range(d):
            target[k] = share * row[k]
            n_values += row[k] != 0
    if m < d or gram.size > 0:
        short = np.empty((m, m)) if gram.size > 0 else np.dot(scaled, scaled.T)
        for s in range(m if gram.size > 0 else 0):
            for t in range(s, m):
                short[s, t] = shares[s] * shares[t] * gram[free[s], free[t]]
        if _has_short_solution(scaled, short, vector) or d > _MOST_FEATURES:
            return
    square, places = np.zeros((d, d)), np.empty(d, np.int64)
    if _SPARSE * n_values > m * d:
        np.dot(scaled.T, scaled, square)
    for row in scaled[: m if _SPARSE * n_values <= m * d else 0]:
        count = 0
        for k in range(d):
            places[count] = k
            count += row[k] != 0
        for a in range(count):
            for b in range(a, count):
                square[places[a], places[b]] += row[places[a]] * row[places[b]]
    if factorise(square, 1.0):  # else minus the gradient is a direction of descent too
        solve_factorised(square, vector)


@jit
def _has_short_solution(rows, square, vector):
    """Replace v by (I + RᵀR)⁻¹ v, with the square RRᵀ, unless the difference that it is has cancelled."""
    right, found = np.dot(rows, vector), vector.copy()
    if not factorise(square, 1.0):
        return False
    solve_factorised(square, right)
    found -= np.dot(right, rows)
    curvature, slope, image = _dot(found, found), _dot(found, vector), np.dot(rows, found)
    if abs(curvature + _dot(image, image) - slope) > _CANCELLED * slope and vector.size <= _MOST_FEATURES:
        return False
    vector[:] = found
    return True


@slope_at.register(_Line)
def _slope(line, t):
    (loss, targets, costs, center, ridge, _), scores, change, slope, curvature = line
    total = 0.0
    for i in range(scores.size):
        if costs[i] > 0:
            score = scores[i] + t * change[i]
            total += change[i] * coordinate_update(loss, center[i], score, targets[i], costs[i], ridge)
    return slope + t * curvature - total


@jit
def _best_length(line, begin):
    """Return the length of the best step, or one at which the slope is small enough; 0 if none leads downhill.

    `begin` is the slope at 0, of the gradient.
    """
    at_end = slope_at(line, 1.0)
    if abs(at_end) > -ACCEPTED * begin:
        begin = slope_at(line, 0.0)  # with rounding errors as large as those of the other slopes
        if not begin < 0:
            return 0.0
    enough = -ACCEPTED * begin
    if abs(at_end) <= enough:
        return 1.0
    return illinois_root(line, Bracket(0.0, begin, 1.0, at_end), RootLimits(MOST_STEPS, MOST_STEPS, enough, 0.0))


@jit
def _dot(a, b):
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


# --- few samples -----------------------------------------------------------------------------------------


class FewSamplesState(NamedTuple):
    """Weights, dual variables, and the number of epochs and Newton steps; the problem is solved or not begun."""

    weights: np.ndarray
    dual: np.ndarray
    primal: np.ndarray
    epoch: int = 0


class FewSamples(CertifiedSolver[FewSamplesState]):
    """The solver of problems of few samples; `on_gram` for fewer samples than features."""

    def __init__(self, problem: LinearProblem, settings: LinearSettings, pool: Pool, on_gram: bool) -> None:
        super().__init__(problem, settings, pool)
        self._on_gram = on_gram
        values = self.n_scores * len(problem.source) * (problem.source.shape[1] + 1)
        is_exact = settings.criterion != "gap" or values <= settings.tuning.small_values
        self._tol = 0.0 if is_exact else settings.tol / 2  # with a margin

    def init(self, dual: np.ndarray | None = None) -> FewSamplesState:
        """Return the state at zero, or at given dual variables."""
        (n, d), k = self.problem.source.shape, self.n_scores
        dual = np.zeros((n, k)) if dual is None else feasible(self.problem.loss, self.problem.demands, dual)
        return FewSamplesState(np.zeros((k, d + 1)), dual, np.full(k, np.inf))

    def start_of(self, state: object) -> np.ndarray | None:
        """Return the dual variables of a fit of the same rows, None where a solution takes no more time from zero."""
        if not isinstance(state, FewSamplesState) or self._tol == 0 or self._on_gram:
            return None
        return state.dual if state.dual.shape == (len(self.problem.source), self.n_scores) else None

    def kept(self, state: FewSamplesState, finished: bool) -> FewSamplesState | None:
        """Return the state if a fit along a path begins there."""
        return state if len(self.problem.demands.folds) else None

    def step(self, state: FewSamplesState, most_steps: int) -> tuple[FewSamplesState, Report]:
        """Solve the problem, or return the state as it is if the solution is not within tolerance."""
        (n, d), settings = self.problem.source.shape, self.settings
        width = n if self._on_gram else d + 1
        work = self.n_scores * n * width * newton_epochs(min(n, width))
        if work <= settings.tuning.short_work:  # starting a thread would take as long
            after, certificate = self._solved(state.dual, np.zeros(1, np.int64))
        else:
            after, certificate = stoppable(lambda stop: self._solved(state.dual, stop), settings.deadline)
        gap = self.gap_of(certificate)
        if not (self.is_within(certificate) and math.isfinite(gap)):
            return state, Report(np.inf, 0.0, 1, within=False, converged=False, stalled=True)
        self.certificate = certificate
        return after, Report(gap, float(certificate.dual.sum()), 1, True, True, False)

    @np.errstate(all="ignore")
    def _solved(self, start: np.ndarray, stop: np.ndarray) -> tuple[FewSamplesState, Certificate]:
        """Return the solution from a start, and its certificate; steps end once the number in `stop` is not 0."""
        rows, course = self._with_constant(), Course(self._tol, most_epochs=MOST_STEPS, stop=stop)
        dual = np.array(start.T, np.float64, order="C")
        if self._on_gram:
            solution, certificate = self._solved_on_gram(rows, dual, course)
        else:
            solution = solved(self.problem, rows, dual, course, self.pool)
            certificate = solution.certificate()
        n_steps = int(solution.n_steps.max())
        return FewSamplesState(solution.weights, solution.dual.T, certificate.primal, n_steps), certificate

    def _solved_on_gram(self, rows: Any, dual: np.ndarray, course: Course) -> tuple[Solution, Certificate]:
        """Return the solution by epochs, or where they do not suffice or are not asked for, by Newton steps."""
        problem, gram = self.problem, gram_of(rows, self.pool)
        if course.tol > 0:
            solution = solved(problem, gram, dual, course._replace(on_gram=True), self.pool)
            if self.is_within(solution.certificate()):  # else rows would tell the same
                solution, certificate = _certified(problem, rows, solution)
                if self.is_within(certificate):
                    return solution, certificate
            course = course._replace(most_epochs=0)
        if not problem.demands.pairs.size:  # a pair has rows of its own
            course = course._replace(gram=gram)
        ridge, used = ridge_of(gram), factor_of(gram)
        if used is None:
            nothing = np.full(self.n_scores, np.nan)
            return Solution.of(np.zeros((self.n_scores, rows.shape[1])), dual), Certificate(nothing, nothing, np.inf)
        found = _certified(problem, rows, solved(problem, used, dual, course, self.pool))
        work = rows.shape[0] ** 2 * rows.shape[1]
        if self.gap_of(found[1]) <= max(_EXACT, 2 * self._tol) or work > _MOST_REFLECTED:
            return found
        # Squares of long rows hide features, which reflections of the rows themselves do not.
        gram.flat[:: len(gram) + 1] -= ridge
        dense = problem.dense(problem.block, rows.shape[1])
        basis, factor = linalg.qr(dense.T, mode="economic", check_finite=False)
        for most in (0, MOST_STEPS) if self._tol > 0 else (MOST_STEPS,):
            course = course._replace(most_epochs=most)
            start = np.zeros_like(dual) if most > 0 else dual
            solution = solved(problem, np.ascontiguousarray(factor.T), start, course, self.pool)
            other = _certified(problem, rows, solution, np.ascontiguousarray(solution.weights @ basis.T))
            found = min(found, other, key=lambda each: np.nan_to_num(self.gap_of(each[1]), nan=np.inf))
            if self.is_within(found[1]):
                break
        return found

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

    def _certified_end(self, state: FewSamplesState) -> tuple[FewSamplesState, Certificate]:
        """Return the state at zero, of which nothing is known."""
        k, most = self.n_scores, np.finfo(np.float64).max / 2  # a sum of which does not overflow
        return state, Certificate(np.full(k, most / k), np.zeros(k), np.inf)

    def weights(self, state: FewSamplesState) -> np.ndarray:
        """Return the weights of the features and, last, of the constant feature."""
        return state.weights


def _certified(
    problem: LinearProblem, rows: Any, solution: Solution, weights: np.ndarray | None = None
) -> tuple[Solution, Certificate]:
    """Return a solution for rows, an array or a CSR matrix, with the weights Xᵀ β or others, and its certificate."""
    position = np.ascontiguousarray(solution.dual @ rows)
    solution = solution._replace(weights=position if weights is None else weights)
    loss, demands = chosen_loss(problem.loss), Demands(*map(writeable, problem.demands))
    others = np.ascontiguousarray(position @ rows.T)
    scores = others if weights is None else np.ascontiguousarray(weights @ rows.T)
    here = Solution.of(solution.weights, solution.dual)
    certify_scores(loss, demands, here, scores, position, others)
    return solution, here.certificate()


def gram_of(rows: Any, pool: Pool) -> np.ndarray:
    """Return the Gram matrix of rows, an array, a CSR matrix or a block in that form."""
    if not isinstance(rows, np.ndarray):
        return gram_of_sparse(CSRBlock(rows.data, rows.indices, rows.indptr, rows.shape[1]))
    n = rows.shape[0]
    gram = np.empty((n, n))

    @np.errstate(all="ignore")  # as in the thread that calls: overflow is looked for in the certificate
    def fill(a: int, b: int) -> None:
        np.matmul(rows[a:b], rows[:b].T, out=gram[a:b, :b])
        gram[:a, a:b] = gram[a:b, :a].T

    pool.run(fill, list(spans(n, PANEL))[::-1])  # the longest first
    return gram
