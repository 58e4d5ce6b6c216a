"""The dual problems of kernel SVMs by groups of rows: constraints, optimality, objective, offset and certificate.

Problem
    minimise    ½ αᵀQα − Σ_i y_i t_i α_i        with Q_ij = y_i y_j K_ij
    subject to  0 ≤ α_i ≤ C_i, and a sum in each group,   y_i = ±1

    The targets t are what tells the machines apart (Chang and Lin 2011, LIBSVM, section 4, where p = −y ∘ t).
    Classification has t = y. Regression has two multipliers for each sample, y = 1 with the target z − ε and y = −1
    with z + ε. The one-class SVM has y = 1 and t = 0 (Schölkopf et al. 2001). ν-classification has t = 0, and
    ν-regression has two multipliers for each sample with the target of the sample (Schölkopf et al. 2000).

Groups
    Rows exchange multipliers within their group only.
        0   no intercept: no sum is given, and each multiplier moves by itself
        1   an intercept: Σ_i y_i α_i = s, with s = 0, or of the one-class SVM a given total
        2   one group a class, for machines with a parameter ν: Σ_{y_i = 1} α_i = Σ_{y_i = −1} α_i = s

Optimality
    F_i = Σ_j α_j y_j K_ij − t_i is the gradient times y_i. Let U = {α_i < C_i, y_i = 1} ∪ {α_i > 0, y_i = −1} be the
    rows whose y_i α_i may rise, and L = {α_i > 0, y_i = 1} ∪ {α_i < C_i, y_i = −1} those whose y_i α_i may fall. α is
    optimal if and only if in no group the gap max_L F − min_U F is positive (Keerthi et al. 2001, equation 2.11; Chang
    and Lin 2001, Training ν-support vector classifiers, Neural Computation 13, for two groups). Without an intercept, 0
    is an element of both sets of values.

Offset
    F equals the level ρ of its group on the free rows; minus ρ is the intercept. With two groups it is ρ + r for y = 1
    and ρ − r for y = −1, with the margin r.

Certificate
    F is known up to errors, of which there are bounds. Whatever F is within them, the primal objective exceeds neither
    the dual one nor `objective`, which is the dual one rounded, by more than `duality_gap`, and no row violates the
    optimality conditions by more than `violation`.
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit, jit_in_order, outlined
from fastsvm._compiled.scalars import maximum, minimum
from fastsvm.files.storable import storable
from fastsvm.kernel_matrix.rounding import BALANCED, RETURNED, ROUNDING, SEEN, SEEN_OBJECTIVE, UNIT


class KernelProblem(NamedTuple):
    """What a machine asks of its multipliers; arrays are float64 of shape (n,), and the signs `y` ±1.

    `target` is what the sum of kernel values is to reach, and `total` the sum s of each group.
    """

    y: np.ndarray
    upper: np.ndarray
    target: np.ndarray
    total: float = 0.0
    groups: int = 1

    def take(self, rows: np.ndarray) -> "KernelProblem":
        """Return the problem of some multipliers, the others fixed; `total` is that of all."""
        return self._replace(y=self.y[rows], upper=self.upper[rows], target=self.target[rows])


class Problems(NamedTuple):
    """The problems of a fit, one after the other: the multipliers of each begin at its entry of `starts`.

    `samples` are their numbers, each with `multipliers_per_sample` multipliers. If these are 2, there is one problem,
    which has the first ones of all samples before the second ones. `classes`, shape (n_problems, 2), has the positive
    and the negative class.
    """

    starts: np.ndarray
    samples: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    target: np.ndarray
    totals: np.ndarray
    classes: np.ndarray
    multipliers_per_sample: int = 1
    groups: int = 1

    @classmethod
    def of_pairs(cls, labels: np.ndarray, upper: np.ndarray, n_classes: int) -> "Problems":
        """Return the problems of all pairs of classes, the first class positive; samples labelled -1 are in none."""
        starts, samples, y, bounds, classes = _samples_of_pairs(labels, upper, n_classes)
        return cls(starts, samples, y, bounds, y, np.zeros(len(classes)), classes)

    @classmethod
    def only(
        cls, samples: np.ndarray, y: np.ndarray, upper: np.ndarray, target: np.ndarray, total: float, groups: int
    ) -> "Problems":
        """Return one problem."""
        starts, classes = np.array([0, len(y)]), np.zeros((1, 2), np.int64)
        per_sample = len(y) // max(1, len(samples))
        return cls(starts, samples, y, upper, target, np.array([total]), classes, per_sample, groups)

    @property
    def n_problems(self) -> int:
        """Number of problems."""
        return len(self.totals)

    @property
    def sizes(self) -> np.ndarray:
        """Number of samples of each problem."""
        return (self.starts[1:] - self.starts[:-1]) // self.multipliers_per_sample

    def samples_of(self, number: int) -> np.ndarray:
        """Return the numbers of the samples of a problem."""
        part = slice(self.starts[number], self.starts[number + 1])
        return self.samples if self.multipliers_per_sample > 1 else self.samples[part]

    def problem(self, number: int) -> KernelProblem:
        """Return a problem by itself."""
        part = slice(self.starts[number], self.starts[number + 1])
        return KernelProblem(self.y[part], self.upper[part], self.target[part], float(self.totals[number]), self.groups)

    def places(self, n: int) -> np.ndarray:
        """Return the places of the multipliers of an only problem among those of all n samples."""
        return self.samples if self.multipliers_per_sample == 1 else np.concatenate([self.samples, n + self.samples])

    def per_sample(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the values of each sample's multipliers."""
        n = len(self.samples)
        return values if self.multipliers_per_sample == 1 else values[:n] + values[n:]

    def take(self, numbers: np.ndarray) -> "Problems":
        """Return some of the problems."""
        if len(numbers) == self.n_problems:
            return self
        sizes = (self.starts[1:] - self.starts[:-1])[numbers]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], sizes)
        totals, classes = self.totals[numbers], self.classes[numbers]
        return self._at(places)._replace(starts=starts, totals=totals, classes=classes)

    def among(self, is_chosen: np.ndarray) -> "Problems":
        """Return the problems of the samples in a mask of all; totals stay."""
        ends = np.concatenate([[0], np.cumsum(is_chosen[self.samples])])
        chosen = np.flatnonzero(is_chosen[self.samples])
        starts = self.multipliers_per_sample * ends[self.starts // self.multipliers_per_sample]
        return self._at(chosen)._replace(starts=starts)

    def sorted_by(self, key: np.ndarray) -> "Problems":
        """Return the problems with the samples of each, to which `key` has an entry, in rising order of the key."""
        order = np.lexsort((key, np.repeat(np.arange(self.n_problems), self.sizes)))
        return self._at(order)

    def _at(self, chosen: np.ndarray) -> "Problems":
        """Return the problems with some of the samples, by their places in `samples`; `starts` stay."""
        places = (chosen + len(self.samples) * np.arange(self.multipliers_per_sample)[:, None]).ravel()
        y, is_same = self.y[places], self.target is self.y
        return self._replace(
            samples=self.samples[chosen], y=y, upper=self.upper[places], target=y if is_same else self.target[places]
        )


@jit
def _samples_of_pairs(labels, upper, n_classes):
    """Return where each pair of classes starts, the rows of all with signs and bounds, and its classes, in a call."""
    ends = np.zeros(n_classes + 1, np.int64)
    for i in range(labels.size):
        if labels[i] >= 0:
            ends[labels[i] + 1] += 1
    for c in range(n_classes):
        ends[c + 1] += ends[c]
    order, place = np.empty(ends[-1], np.int64), ends.copy()
    for i in range(labels.size):
        if labels[i] >= 0:
            order[place[labels[i]]] = i
            place[labels[i]] += 1
    n = ends[-1] * (n_classes - 1)
    n_pairs = n_classes * (n_classes - 1) // 2
    starts, classes = np.zeros(n_pairs + 1, np.int64), np.empty((n_pairs, 2), np.int64)
    rows, y, bounds = np.empty(n, np.int64), np.empty(n), np.empty(n)
    _merge_classes(order, ends, upper, (starts, classes), (rows, y, bounds))
    return starts, rows, y, bounds, classes


@jit
def _merge_classes(order, ends, upper, pairs, out):
    """Write the rows of each pair of classes as they rise, their signs and bounds; `order` has them class by class."""
    k, place, pair, (starts, classes), (rows, y, bounds) = ends.size - 1, 0, 0, pairs, out
    for a in range(k):
        for b in range(a + 1, k):
            i, j = ends[a], ends[b]
            while i < ends[a + 1] or j < ends[b + 1]:
                is_first = j == ends[b + 1] or (i < ends[a + 1] and order[i] < order[j])
                row = order[i] if is_first else order[j]
                rows[place], y[place], bounds[place] = row, 1.0 if is_first else -1.0, upper[row]
                place += 1
                if is_first:
                    i += 1
                else:
                    j += 1
            classes[pair, 0], classes[pair, 1] = a, b
            pair += 1
            starts[pair] = place


@storable("kernel dual state")
class KernelDualState(NamedTuple):
    """Multipliers α, the gradient times y, which is F, and the last working set."""

    alpha: np.ndarray
    gradient: np.ndarray
    working_set: np.ndarray


@storable("kernel solution")
class KernelSolution(NamedTuple):
    """Multipliers, rows on or within the margin, intercept, certificate, and half of the distance of two levels."""

    alpha: np.ndarray
    within: np.ndarray
    intercept: float
    objective: float
    duality_gap: float
    kkt_violation: float
    margin: float = 0.0


# --- constraints ---------------------------------------------------------------------------------------------


def feasible(problem: KernelProblem, alpha: np.ndarray) -> np.ndarray:
    """Return multipliers near `alpha` that satisfy the constraints: clipped, and a class scaled or groups filled."""
    alpha, positive = np.clip(alpha, 0, problem.upper), problem.y > 0
    if problem.total > 0:
        fill(problem, alpha)
        return alpha
    if problem.groups == 0 or abs(alpha @ problem.y) <= BALANCED * alpha.sum():
        return alpha  # scaling would move multipliers off their bounds
    rise, fall = alpha[positive].sum(), alpha[~positive].sum()
    if rise > fall:
        alpha[positive] *= fall / rise
    elif fall > rise:
        alpha[~positive] *= rise / fall
    return alpha


@jit
def _is_in(problem, group, i):
    """Return whether row i is in a group."""
    return problem.groups < 2 or (problem.y[i] > 0) == (group == 0)


@jit_in_order
def fill(problem, alpha):
    """Have multipliers within their bounds reach the given sums: scale them down, or raise the first ones."""
    upper, total = problem.upper, problem.total
    for group in range(problem.groups):
        held = 0.0
        for i in range(alpha.size):
            held += alpha[i] if _is_in(problem, group, i) else 0.0
        factor, lacking = min(1.0, total / max(held, total)), total - held
        for i in range(alpha.size if abs(lacking) > BALANCED * total else 0):
            if _is_in(problem, group, i):
                more = minimum(maximum(lacking, 0.0), upper[i] - alpha[i])
                alpha[i] = factor * alpha[i] + more
                lacking -= more


def followed(problem: KernelProblem, state: KernelDualState, before: KernelProblem) -> tuple[np.ndarray, float]:
    """Return multipliers from which to begin, and a factor of the old ones near which they are.

    `state` is the solution of the problem `before`, which differs in bounds and targets. All multipliers grow as much
    as the bounds do if that raises the objective all the way. Else those at a bound take the new one, in one class
    fewer, the rows that violate their margin most, so that the sum stays.
    """
    y, (alpha, gradient, _) = problem.y, state
    at_bound = alpha >= before.upper
    step = np.where(at_bound, problem.upper - before.upper, 0.0)
    if problem.total > 0 or (alpha > problem.upper).any():
        return _refilled(problem, alpha + step, y * gradient), 1.0
    used = at_bound & (before.upper > 0)
    if used.any():
        growth = float((problem.upper[used] / before.upper[used]).min())
        square = (alpha * y) @ (gradient + before.target)
        is_same = np.array_equal(problem.upper, growth * before.upper)
        if is_same and growth * square <= (alpha * y) @ problem.target:
            return np.where(at_bound, problem.upper, growth * alpha), growth
    if problem.groups > 0:
        classes = y > 0, y < 0
        least = min(float(step[rows].sum()) for rows in classes)
        for rows in classes:
            raised = np.flatnonzero(rows & at_bound)
            raised = raised[np.argsort((y * gradient)[raised], kind="stable")]
            earlier = np.cumsum(step[raised]) - step[raised]
            step[raised] = np.clip(least - earlier, 0.0, step[raised])
    return alpha + step, 1.0


def _refilled(problem: KernelProblem, alpha: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return multipliers within their bounds, whose sums are restored by few rows.

    Of a class that lacks some, rows with the least score rise: they violate their margin most. Where a sum is given and
    exceeded, those with the largest score fall.
    """
    alpha = np.clip(alpha, 0, problem.upper)
    classes = [np.flatnonzero(problem.y > 0), np.flatnonzero(problem.y < 0)] if problem.groups > 0 else []
    most = problem.total or max((float(alpha[rows].sum()) for rows in classes), default=0.0)
    for rows in classes:
        lacking = most - float(alpha[rows].sum())
        order = rows[np.argsort(np.sign(lacking) * score[rows], kind="stable")]
        room = (problem.upper - alpha if lacking > 0 else alpha)[order]
        change = np.clip(abs(lacking) - (np.cumsum(room) - room), 0, room)
        alpha[order] += np.sign(lacking) * change
    return alpha


@jit
def freedom(y, alpha, upper):
    """Return whether y α may rise and whether it may fall."""
    above, below = alpha > 0, alpha < upper
    if y > 0:
        return below, above
    return above, below


@jit_in_order
def _excess(problem, group, alpha):
    """Return by how much the sum of a group exceeds the given one, in twice the digits of a float."""
    high, low = -problem.total, 0.0
    for i in range(alpha.size):
        if _is_in(problem, group, i):
            term = alpha[i] if problem.groups == 2 else alpha[i] * problem.y[i]
            total = high + term
            added = total - high
            low += (high - (total - added)) + (term - added)
            high = total
    return high + low


# --- optimality ----------------------------------------------------------------------------------------------


@jit
def group_ends(problem, group, alpha, gradient):
    """Return the least F of a group that may rise and the greatest that may fall, 0 among both if there is no group."""
    y, upper = problem.y, problem.upper
    low, high = np.inf, -np.inf
    for i in range(y.size):
        rises, falls = freedom(y[i], alpha[i], upper[i])
        is_in = _is_in(problem, group, i)
        low = minimum(low, gradient[i] if rises and is_in else np.inf)
        high = maximum(high, gradient[i] if falls and is_in else -np.inf)
    if problem.groups == 0:
        return minimum(low, 0.0), maximum(high, 0.0)
    return low, high


@jit
def worst_ends(problem, alpha, gradient):
    """Return the least F that may rise and the greatest that may fall, in the group whose gap is largest."""
    low, high = np.inf, -np.inf
    for group in range(max(1, problem.groups)):
        bottom, top = group_ends(problem, group, alpha, gradient)
        if group == 0 or top - bottom > high - low:
            low, high = bottom, top
    return low, high


@jit
def violation(problem, alpha, gradient):
    """Return the violation of the optimality conditions: the gap if it is positive, else 0; NaN stays."""
    low, high = worst_ends(problem, alpha, gradient)
    return 0.0 if high <= low else high - low


@jit
def violation_bound(problem, alpha, gradient, error):
    """Return a bound on the violation where F may err by `error`."""
    worst, below, above = 0.0, gradient - error, gradient + error
    for group in range(max(1, problem.groups)):
        low, _ = group_ends(problem, group, alpha, below)
        _, high = group_ends(problem, group, alpha, above)
        worst = max(worst, high - low)
    return worst


def levelled(problem: KernelProblem, alpha: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return F and its worst ends; if there are two groups, each is shifted so that its middle is 0."""
    if problem.groups < 2:
        return gradient, *worst_ends(problem, alpha, gradient)
    (low, high), (bottom, top) = (group_ends(problem, group, alpha, gradient) for group in range(2))
    above, below = _middle(low, high), _middle(bottom, top)
    level_of_row = np.where(problem.y > 0, above, below)
    return gradient - level_of_row, min(low - above, bottom - below), max(high - above, top - below)


def _middle(low: float, high: float) -> float:
    """Return the middle of two ends, or the one that is finite, or 0."""
    finite = [end for end in (low, high) if abs(end) < np.inf]
    return sum(finite) / len(finite) if finite else 0.0


# --- objective, offset and certificate -----------------------------------------------------------------------


@jit
def objective(problem, alpha, gradient):
    """Return the dual objective Σ y t α − ½ αᵀQα = ½ Σ y_i α_i (t_i − F_i)."""
    total = 0.0
    for i in range(alpha.size):
        total += alpha[i] * (problem.y[i] * (problem.target[i] - gradient[i]))
    return total / 2


def primal_objective(problem: KernelProblem, state: KernelDualState, rho: float) -> float:
    """Return the primal objective with the intercept −ρ, where the margin is 0."""
    y, F = problem.y, state.gradient
    loss = float(problem.upper @ np.maximum(0, -y * (F - rho)))  # of y_i (f(x_i) − ρ − t_i) < 0
    return float(state.alpha @ (y * (F + problem.target))) / 2 + loss


def duality_gap_is_within(problem: KernelProblem, state: KernelDualState, tol: float) -> bool:
    """Return whether the duality gap is within tolerance, relative to the primal objective.

    With an intercept, or given totals, the gap of F decides, and the duality gap is only reported.
    """
    if problem.groups > 0:
        return True
    primal = primal_objective(problem, state, 0.0)
    return primal - objective(problem, state.alpha, state.gradient) <= max(tol, ROUNDING) * primal


@jit
def group_level(problem, group, alpha, gradient):
    """Return the mean of F over the free rows of a group, else the middle of the interval that is optimal.

    An interval with one end is represented by its number nearest to 0, or by its end where totals are given.
    """
    n_free, total = 0, 0.0
    for i in range(alpha.size):
        if 0 < alpha[i] < problem.upper[i] and _is_in(problem, group, i):
            n_free += 1
            total += gradient[i]
    if n_free > 0:
        return total / n_free
    low, high = group_ends(problem, group, alpha, gradient)
    if low < np.inf and high > -np.inf:
        return (low + high) / 2
    nearest = min(max(0.0, high), low)
    if problem.total == 0 or (low == np.inf and high == -np.inf):
        return nearest
    return low if low < np.inf else high


class Certificate(NamedTuple):
    """The offset, the objective, rounded, and bounds that hold for the arrays of a solution.

    `seen_in_violation` and `seen_in_gap` say whether rounding is a visible part of them.
    """

    rho: float
    margin: float
    objective: float
    duality_gap: float
    violation: float
    seen_in_violation: bool
    seen_in_gap: bool


@outlined
def certify(problem, alpha, gradient, error, tol):
    """Return the certificate of multipliers whose F is known up to `error`; `tol` is the largest violation at the end.

    Rows that are on the right side for certain have no share in the gap. The margin, or minus half of the width of a
    tube, is not less than 0, where rounding or an early end may lead to less.
    """
    y, upper, target = problem.y, problem.upper, problem.target
    levels, is_tube, sum_error = np.zeros(2), False, 16 * UNIT
    for group in range(problem.groups):
        levels[group] = group_level(problem, group, alpha, gradient)
    last = levels[1] if problem.groups == 2 else levels[0]
    for i in range(alpha.size):
        is_tube = is_tube or target[i] != 0  # of the machines with two groups, regression alone has targets
        sum_error += UNIT * (alpha[i] != 0)  # relative to the absolute values of the terms
    rho, margin = (levels[0] + last) / 2, (levels[0] - last) / 2
    margin = min(0.0, margin) if is_tube else max(0.0, margin)
    coef_error = RETURNED * (problem.groups == 2)
    raw, duality_gap, slack = 0.0, 0.0, 0.0
    for i in range(alpha.size):
        missing = y[i] * (target[i] - gradient[i])
        away, doubt = -y[i] * (gradient[i] - rho - margin * y[i]), error[i] + 2 * UNIT * (abs(rho) + abs(margin))
        raw += upper[i] * max(0.0, away) - alpha[i] * away
        duality_gap += max((upper[i] - alpha[i]) * (away + doubt), alpha[i] * (doubt - away)) * (1 + sum_error)
        slack += alpha[i] * (error[i] + sum_error * abs(missing)) / 2 + coef_error * alpha[i] * (abs(away) + doubt)
    for group in range(problem.groups):
        duality_gap += abs((rho + margin if group == 0 else rho - margin) * _excess(problem, group, alpha))
    dual = objective(problem, alpha, gradient)
    worst = violation_bound(problem, alpha, gradient, error)
    seen_in_gap = duality_gap + slack - raw > SEEN * raw + SEEN_OBJECTIVE * abs(dual)
    seen_in_violation = worst - violation(problem, alpha, gradient) > SEEN * tol
    return Certificate(rho, margin, dual, duality_gap + slack, worst, seen_in_violation, seen_in_gap)


def solution_at_zero(problem: KernelProblem) -> KernelSolution:
    """Return multipliers that are zero, with a certificate, of which nothing is known where totals are given."""
    alpha, none = np.zeros(len(problem.y)), np.empty(0, np.int64)
    if problem.total > 0:
        return KernelSolution(alpha, none, 0.0, 0.0, np.inf, np.inf)
    state = KernelDualState(alpha, -problem.target, none)
    return KernelSolution(alpha, none, 0.0, 0.0, primal_objective(problem, state, 0.0), violation(problem, *state[:2]))


def solution_of(problem: KernelProblem, state: KernelDualState, error: np.ndarray, tol: float) -> KernelSolution:
    """Return the solution of a problem; arguments are as for `certify`."""
    judged = certify(problem, state.alpha, state.gradient, error, tol)
    return KernelSolution(
        state.alpha, state.alpha > 0, -judged.rho, judged.objective, judged.duality_gap, judged.violation, judged.margin
    )
