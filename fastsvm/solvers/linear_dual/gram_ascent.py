"""Linear problems of few samples with more features than samples, solved in the Gram matrix of the samples.

Problem
    That of `few_samples`. With G = X Xᵀ the scores are f = G β, and the weights Xᵀ β are needed at the end only.

Method
    Epochs of dual coordinate ascent (Hsieh et al. 2008) that keep the scores. Then Newton steps on the free variables
    F, those between the bounds of their pieces: on its piece the conjugate is -m β + h β² / 2, so that
        (G_FF + h) Δ = m - f - h β.
    A step ends at the first bound. The variable that reaches it is fixed there and deleted from the factor, and the
    step is taken again for the others: a primal active-set method (Nocedal and Wright, Numerical Optimization, section
    16.5), which does not release variables. Epochs do. Both only increase the dual objective.

Certificate
    The weights are those of the variables, so that the gap is the sum of the Fenchel-Young losses of the scores,
    each of which is positive: nothing cancels.

Cost
    n² multiplications an epoch at most: those for rows whose variables do not change are spared. m³ / 6 + n m for a
    step on m free variables, and 3 m² for each that reaches a bound.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm.linalg.cholesky_rows import delete_row, factorise, solve_factorised
from fastsvm.losses import (
    MOST_STEPS,
    box,
    conjugate,
    coordinate_update,
    cost_of,
    loss_value,
    projected_gradient,
    write_costs,
)
from fastsvm.solvers.linear_dual.few_samples import MOST_EPOCHS, SPEED, stride_of
from fastsvm.solvers.linear_dual.problem import ROUNDING

__all__ = ["certify_scores", "solve_on_gram"]

_EPS = float(np.finfo(np.float64).eps)
_NEAR_EXACT = float(np.sqrt(ROUNDING))  # At this gap, steps that do not halve it have come to rounding error.


@jit
def solve_on_gram(loss, demands, gram, which, dual, n_epochs):
    """Solve the problems of some scores, whose losses are piecewise quadratic or linear, not of all classes.

    `gram` is the Gram matrix of the samples with the constant feature, in float64, and `which` is as for
    `few_samples.solve_scores`. The feasible variables `dual`, shape (n_scores, n), are overwritten by the solution.
    Epochs and Newton steps are added to `n_epochs`.
    """
    n = gram.shape[0]
    scores, targets, costs = np.empty(n), np.empty(n), np.empty(n)
    for c in range(which[0], which[1]):
        write_costs(demands, 0, c, targets, costs)
        n_epochs[c] += _solve(loss, (targets, costs), gram, which[2], dual[c], scores)


@jit
def _solve(loss, asked, gram, stop, dual, scores):
    """Solve one problem; return the number of epochs and steps."""
    n, since, n_steps, best, wait = dual.size, 0, 0, np.inf, 1.0
    _sum_rows(gram, dual, scores)
    for epoch in range(MOST_STEPS * MOST_EPOCHS):
        n_changed = _epoch(loss, asked, gram, epoch, dual, scores)
        since += 1
        gap, primal, rounding = _gap(loss, asked, gram, dual, scores)
        if gap <= ROUNDING * primal + rounding:
            return epoch + 1 + n_steps
        if since < wait and n_changed > 0 and stop[0] == 0:
            continue
        if n_steps >= MOST_STEPS or stop[0] != 0:
            return epoch + 1 + n_steps
        m = _step(loss, asked, gram, dual, scores)
        _sum_rows(gram, dual, scores)
        n_steps, since, before, gap_before = n_steps + 1, 0, best, gap
        gap, primal, rounding = _gap(loss, asked, gram, dual, scores)
        best = min(best, gap)
        if gap <= ROUNDING * primal + rounding or (gap <= _NEAR_EXACT * primal and not gap < before / 2):
            return epoch + 1 + n_steps
        wait = max(1.0, m * m * m / (SPEED * n * n), 2 * wait if gap > gap_before / 10 else 0.0)
    return MOST_STEPS * MOST_EPOCHS + n_steps


@jit
def _epoch(loss, asked, gram, epoch, dual, scores):
    """Maximise the objective in each variable; return how many came to a bound or left it."""
    targets, costs = asked
    n, n_changed = dual.size, 0
    stride, i = stride_of(n, epoch), epoch % n
    for _ in range(n):
        row = gram[i]
        if costs[i] > 0 and row[i] > 0:
            old = dual[i]
            new = coordinate_update(loss, old, scores[i], targets[i], costs[i], row[i])
            change = new - old
            if change != 0:
                most = box(loss, costs[i])[0]
                n_changed += (0 < abs(old) < most) != (0 < abs(new) < most)
                dual[i] = new
                for k in range(n):
                    scores[k] += change * row[k]
        i = (i + stride) % n
    return n_changed


@jit
def _sum_rows(gram, dual, scores):
    """Write the scores of the variables."""
    n = dual.size
    for k in range(n):
        scores[k] = 0.0
    for i in range(n):
        if dual[i] != 0:
            row, value = gram[i], dual[i]
            for k in range(n):
                scores[k] += value * row[k]


@jit
def _gap(loss, asked, gram, dual, scores):
    """Return the duality gap, the primal objective, and the rounding error of the gap."""
    targets, costs = asked
    gap, primal, rounding, square, lengths = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(dual.size):
        if costs[i] > 0:
            most = box(loss, costs[i])[0]
            slope = most if most < np.inf else abs(dual[i])  # of the loss, at most
            rounding += slope * abs(targets[i])
            lengths += slope * np.sqrt(gram[i, i])
            square += dual[i] ** 2 * gram[i, i]
            value, product = costs[i] * loss_value(loss, scores[i], targets[i]), dual[i] * scores[i]
            primal += value + product / 2
            gap += value + product + (conjugate(loss, dual[i], targets[i], costs[i]) if dual[i] != 0 else 0.0)
    return gap, primal, _EPS * (rounding + lengths * np.sqrt(square))


@jit
def _step(loss, asked, gram, dual, scores):
    """Take a Newton step on the free variables, and on fewer of them as long as one reaches a bound.

    Return the number of free variables. The scores are not changed.
    """
    targets, costs = asked
    n, m = dual.size, np.int64(0)  # a literal would be a type of its own
    free, rest, step, ends = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty((n, 2))
    for i in range(n):
        value, (most, own) = dual[i], box(loss, costs[i])
        if 0 < abs(value) < most:
            level = own * value / 2 - conjugate(loss, value, targets[i], costs[i]) / value
            # Without a kink at 0 the piece goes on beyond: the opposite variable is optimal at its score.
            other = coordinate_update(loss, -value, level + own * value, targets[i], costs[i], 1.0)
            is_smooth = abs(other + value) <= _NEAR_EXACT * abs(value)
            ends[m, 0] = -most if value < 0 or is_smooth else 0.0
            ends[m, 1] = most if value > 0 or is_smooth else 0.0
            free[m], rest[m] = i, level - scores[i] - own * value
            m += 1
    found = m
    if m == 0:
        return found
    factor, none, trace = np.empty((m, m)), np.zeros(m), 0.0
    for s in range(m):
        row, target = gram[free[s]], factor[s]
        for t in range(s, m):
            target[t] = row[free[t]]
        target[s] += box(loss, costs[free[s]])[1]
        trace += target[s]
    if not factorise(factor, ROUNDING * trace / m):
        return found
    while m > 0:
        for s in range(m):
            step[s] = rest[s]
        solve_factorised(factor, step[:m], none[:m])
        first, reach = np.int64(-1), 1.0
        for s in range(m):
            room = ends[s, 1] - dual[free[s]] if step[s] > 0 else dual[free[s]] - ends[s, 0]
            if abs(step[s]) * reach > room:
                first, reach = s, room / abs(step[s])
        for s in range(m):
            value, low, high = dual[free[s]] + reach * step[s], ends[s, 0], ends[s, 1]
            dual[free[s]] = low if value < low else high if value > high else value
            rest[s] -= reach * rest[s]
        if first < 0 or m <= found / 2:
            break
        dual[free[first]] = ends[first, 1] if step[first] > 0 else ends[first, 0]
        delete_row(factor, m, first)
        m -= 1
        for s in range(first, m):
            free[s], rest[s], ends[s, 0], ends[s, 1] = free[s + 1], rest[s + 1], ends[s + 1, 0], ends[s + 1, 1]
    return found


@jit
def certify_scores(loss, demands, weights, scores, dual, certificate):
    """Write the objectives of the variables, of which these are the weights and scores, and the violation.

    The last column of `certificate`, the number of epochs, is not changed.
    """
    for c in range(dual.shape[0]):
        primal, value, worst, square = 0.0, 0.0, 0.0, 0.0
        for k in range(weights.shape[1]):
            square += weights[c, k] ** 2
        for i in range(dual.shape[1]):
            target, cost = cost_of(demands, i, c)
            if cost > 0:
                primal += cost * loss_value(loss, scores[c, i], target)
                value -= conjugate(loss, dual[c, i], target, cost) if dual[c, i] != 0 else 0.0
                worst = max(worst, projected_gradient(loss, dual[c, i], scores[c, i], target, cost))
        certificate[c, 0], certificate[c, 1] = primal + square / 2, max(0.0, value - square / 2)
        certificate[c, 2] = worst
