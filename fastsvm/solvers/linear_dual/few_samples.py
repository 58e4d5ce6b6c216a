"""Linear problems of few samples, solved to rounding error in one compiled call.

Method
    Epochs of dual coordinate ascent (Hsieh et al. 2008) until the gap is small. Then Newton steps in the primal with an
    exact line search (Keerthi and DeCoste 2005): they end after few, as a smooth loss is piecewise quadratic or, if it
    is logistic, nearly quadratic near the optimum. With more samples than features they begin after one epoch.
    Another loss is replaced by its Moreau envelope around the dual variables β⁰,
        max_β  -β f - conjugate(β) - (q / 2) (β - β⁰)²,
    which is smooth too, and whose maximisers are the next β⁰ (augmented Lagrangian; Rockafellar 1976). With q divided
    by ten each time this ends after few problems as well.

Certificate
    With the variables β at which each loss and its conjugate are equal, the duality gap is ½ ‖w - Σ_i β_i x_i‖².

Cost
    4 n d multiplications an epoch, and as a Newton step 3 n d + m d² / 2 + d³ / 6 for m rows whose variables are not at
    a bound, or with m and d exchanged if m < d.
"""

import numpy as np

from fastsvm._compiled.compiler import jit, outlined
from fastsvm.linalg.cholesky_rows import factorise, solve_factorised
from fastsvm.linalg.single_rows import add_row, row_score, sq_norm
from fastsvm.losses import (
    MOST_STEPS,
    box,
    conjugate,
    conjugate_curvature,
    coordinate_update,
    loss_value,
    projected_gradient,
    write_costs,
)
from fastsvm.solvers.linear_dual.problem import ACCEPTED, ROUNDING
from fastsvm.sources import DenseBlock

__all__ = ["CERTIFICATE", "LESS", "MOST_EPOCHS", "SPEED", "begin_scores", "solve_scores", "stride_of"]

CERTIFICATE = ("primal", "dual", "kkt_violation", "n_epochs")
"""Columns of what is known of each score."""

MOST_EPOCHS = 200
"""Epochs that reduce the gap fast end after at most so many; each takes little time."""

SPEED = 8
"""Products and factorisations of matrices take so many times less time for a multiplication than epochs."""


LESS = 0.1
"""The curvature of the first envelope, in mean squares of the lengths of rows, and its factor after each."""


@jit
def solve_scores(loss, demands, rows, which, dual, weights, certificate):
    """Solve the problems of some scores, and write their variables, weights and certificates.

    The loss is not one of all classes. `rows` are samples in float64, shape (n, d), with the constant feature as one of
    the features. `which` is the first score to solve, the first after them, and an array of one number: once it is not
    0, steps end early. `dual` has the shape (n_scores, n), `weights` the shape (n_scores, d), and `certificate` the
    columns of `CERTIFICATE`.
    """
    n, d = rows.shape
    sq_norms, scores, targets, costs, center = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    for i in range(n):
        sq_norms[i] = _dot(rows[i], rows[i])
    smooth, most = box(loss, 1.0)[1] > 0, 1 + min(n, d) // SPEED
    limits = ROUNDING, 1 if smooth and n > d else most, np.int64(MOST_EPOCHS)  # smooth: few Newton steps
    for c in range(which[0], which[1]):
        _begin_at_zero(demands, c, targets, costs, dual, weights)
        asked = targets, costs, center, which[2]
        n_epochs = _ascent(loss, asked, (DenseBlock(rows), sq_norms), limits, dual[c], weights[c], scores)[0]
        if smooth:
            n_epochs += _newton(loss, asked, 0.0, rows, dual[c], weights[c], scores)
        else:
            n_epochs += _envelopes(loss, asked, sq_norms.mean(), rows, dual[c], weights[c], scores)
        certificate[c, 3] = n_epochs
        _certify(loss, asked, rows, dual[c], weights[c], scores, certificate[c])


@jit
def begin_scores(loss, demands, rows, which, dual, weights, certificate):
    """Take epochs of coordinate ascent only.

    The arguments are those of `solve_scores`, but `rows` is a Block in float64, `which` ends with the most epochs and
    the relative gap at which they end, and only the relative gaps in the first column of `certificate` and the numbers
    of epochs in the last are written.
    """
    n = dual.shape[1]
    sq_norms, scores, targets, costs, center = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    for i in range(n):
        sq_norms[i] = sq_norm(rows, i)
    for c in range(which[0], which[1]):
        _begin_at_zero(demands, c, targets, costs, dual, weights)
        asked = targets, costs, center, which[2]
        limits = which[4], which[3], which[3]
        n_epochs, gap = _ascent(loss, asked, (rows, sq_norms), limits, dual[c], weights[c], scores)
        certificate[c, 0], certificate[c, 3] = gap, n_epochs


@jit
def _begin_at_zero(demands, c, targets, costs, dual, weights):
    """Write the targets and costs of a score, and zeros as its variables and weights."""
    write_costs(demands, 0, c, targets, costs)
    for i in range(targets.size):
        dual[c, i] = 0.0
    for k in range(weights.shape[1]):
        weights[c, k] = 0.0


@outlined
def _envelopes(loss, asked, mean_square, rows, dual, weights, scores):
    """Solve problems with envelopes of the loss until the gap is rounding error; return the number of Newton steps."""
    targets, costs, center, stop = asked
    curvature, n_steps, before = LESS * mean_square, 0, np.inf
    for _ in range(MOST_STEPS):
        for i in range(center.size):
            center[i] = dual[i]
        n_steps += _newton(loss, asked, curvature, rows, dual, weights, scores)
        gap, size = 0.0, 0.0
        for i in range(center.size):
            if costs[i] > 0:
                value = costs[i] * loss_value(loss, scores[i], targets[i])
                gap += value + conjugate(loss, dual[i], targets[i], costs[i]) + dual[i] * scores[i]
                size += value
        if gap <= ROUNDING * (size + _dot(weights, weights) / 2) or stop[0] != 0:
            break
        is_too_small = curvature < np.sqrt(ROUNDING) * mean_square and gap > before / 2
        curvature *= 1 / LESS if is_too_small else LESS
        before = gap
    for i in range(center.size):
        center[i] = 0.0
    return n_steps


@outlined
def _ascent(loss, asked, given, limits, dual, weights, scores):
    """Take epochs of coordinate ascent until the gap is small and no longer falls fast.

    Return their number and the relative gap.
    """
    (targets, costs, _, stop), (rows, sq_norms) = asked, given
    n = dual.size
    accepted, most_slow, most_epochs = limits
    before, share = np.inf, np.inf
    for epoch in range(most_epochs):
        stride, i = stride_of(n, epoch), epoch % n
        for _ in range(n):
            if costs[i] > 0 and sq_norms[i] > 0:
                score = row_score(rows, i, weights)
                new = coordinate_update(loss, dual[i], score, targets[i], costs[i], sq_norms[i])
                change = new - dual[i]
                if change != 0:
                    dual[i] = new
                    add_row(rows, i, change, weights)
            i = (i + stride) % n
        for i in range(n):
            scores[i] = row_score(rows, i, weights)
        primal = _objective(loss, asked, weights, scores)
        value = -_dot(weights, weights) / 2
        for i in range(n):
            if dual[i] != 0:
                value -= conjugate(loss, dual[i], targets[i], costs[i])
        gap = primal - value
        is_slow, share = gap > before / 2, gap / primal if primal > 0 else 0.0
        if gap <= accepted * primal or stop[0] != 0 or (is_slow and epoch + 1 >= most_slow):
            return epoch + 1, share
        before = gap
    return most_epochs, share


@jit
def stride_of(n, epoch):
    """Return a number near a golden share of n that has no divisor in common with n: rows in steps of it are mixed."""
    stride = max(1, int(n * (0.382 + 0.05 * (epoch % 5))))
    while True:
        a, b = n, stride
        while b:
            a, b = b, a % b
        if a == 1:
            return stride
        stride += 1


@jit
def _primal(loss, asked, rows, weights, scores):
    """Write the scores and return the primal objective."""
    for i in range(scores.size):
        scores[i] = _dot(weights, rows[i])
    return _objective(loss, asked, weights, scores)


@jit
def _objective(loss, asked, weights, scores):
    targets, costs = asked[:2]
    total = _dot(weights, weights) / 2
    for i in range(scores.size):
        total += costs[i] * loss_value(loss, scores[i], targets[i]) if costs[i] > 0 else 0.0
    return total


@outlined
def _newton(loss, asked, curvature, rows, dual, weights, scores):
    """Take Newton steps to rounding error on the loss, or on its envelope of some curvature; return their number."""
    n, d = rows.shape
    change, direction, gradient = np.empty(n), np.empty(d), np.empty(d)
    piece, length, before = np.full(n, 3), 0.0, np.inf
    _primal(loss, asked, rows, weights, scores)
    for step in range(MOST_STEPS):
        for k in range(d):
            gradient[k] = weights[k]
        others = 0
        for i in range(n):
            dual[i] = _variable(loss, asked, curvature, i, scores[i])
            now = 0 if dual[i] == 0 else 1 if abs(dual[i]) < box(loss, asked[1][i])[0] else 2
            now = now if dual[i] > 0 else -now
            others += now != piece[i]
            piece[i] = now
            if dual[i] != 0:
                row = rows[i]
                for k in range(d):
                    gradient[k] -= dual[i] * row[k]
        size = _dot(gradient, gradient)
        # On the same quadratic piece as before, what is left is rounding error; the next envelope corrects it.
        is_rounding = others == 0 and length == 1.0 and (size > before / 4 or curvature > 0)
        if size <= ROUNDING**2 * _dot(weights, weights) or is_rounding or asked[3][0] != 0:
            return step
        before = size
        for k in range(d):
            direction[k] = -gradient[k]
        _precondition(loss, asked[1], curvature, rows, dual, direction)
        for i in range(n):
            change[i] = _dot(direction, rows[i])
        line = _dot(weights, direction), _dot(direction, direction)
        length = _best_length(loss, asked, curvature, scores, change, line)
        if not 0 < length < np.inf:
            return step
        for k in range(d):
            weights[k] += length * direction[k]
        for i in range(n):
            scores[i] += length * change[i]
    return MOST_STEPS


@jit
def _variable(loss, asked, curvature, i, score):
    """Return the dual variable of row i at which the loss of a score, or its envelope, and the conjugate are equal."""
    targets, costs, center, _ = asked
    return coordinate_update(loss, center[i], score, targets[i], costs[i], curvature) if costs[i] > 0 else 0.0


@outlined
def _precondition(loss, costs, curvature, rows, dual, vector):
    """Replace a vector v by (I + Σ_i s_i x_i x_iᵀ)⁻¹ v, where s_i is the second derivative of the loss of row i.

    The system has the order of the rows that count, or of the features, whichever are fewer.
    """
    n, d = rows.shape
    m, free = 0, np.empty(n, np.int64)
    for i in range(n):
        if 0 < abs(dual[i]) < box(loss, costs[i])[0]:
            free[m] = i
            m += 1
    scaled = np.empty((m, d))
    for s in range(m):
        i, target = free[s], scaled[s]
        row, share = rows[i], np.sqrt(1 / (conjugate_curvature(loss, dual[i], costs[i]) + curvature))
        for k in range(d):
            target[k] = share * row[k]
    size = min(m, d)
    right, rest = np.empty(size), np.zeros(size)
    if m < d:
        square = np.dot(scaled, scaled.T)
        for s in range(m):
            right[s] = _dot(scaled[s], vector)
    else:
        square = np.dot(scaled.T, scaled)
        for a in range(d):
            right[a] = vector[a]
    if not factorise(square, 1.0):
        return  # minus the gradient is a direction of descent too
    solve_factorised(square, right, rest)
    if m < d:
        for s in range(m):
            row, factor = scaled[s], right[s]
            for k in range(d):
                vector[k] -= factor * row[k]
    else:
        for a in range(d):
            vector[a] = right[a]


@outlined
def _slope_of_line(loss, asked, curvature, scores, change, line, t):
    """Return the derivative of the objective by the length t of a step."""
    total = line[0] + t * line[1]
    for i in range(scores.size):
        total -= change[i] * _variable(loss, asked, curvature, i, scores[i] + t * change[i])
    return total


@jit
def _best_length(loss, asked, curvature, scores, change, line):
    """Return the length of the best step, or 1 if the slope there is small enough."""
    begin, at_high = _slope_of_line(loss, asked, curvature, scores, change, line, 0.0), 0.0
    if not begin < 0:
        return 0.0
    low, high, at_low = 0.0, 1.0, begin
    for _ in range(MOST_STEPS):
        at_high = _slope_of_line(loss, asked, curvature, scores, change, line, high)
        if abs(at_high) <= -ACCEPTED * begin:
            return high
        if at_high > 0:
            break
        low, at_low, high = high, at_high, 2 * high
    for k in range(MOST_STEPS):  # false position, and bisection now and then
        middle = (low * at_high - high * at_low) / (at_high - at_low) if k % 3 else (low + high) / 2
        at_middle = _slope_of_line(loss, asked, curvature, scores, change, line, middle)
        if abs(at_middle) <= -ACCEPTED * begin:
            return middle
        if at_middle > 0:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return low


@jit
def _certify(loss, asked, rows, dual, weights, scores, certificate):
    """Write the objectives, and the violation of the optimality conditions."""
    targets, costs = asked[:2]
    primal, value, worst = _primal(loss, asked, rows, weights, scores), 0.0, 0.0
    total = np.zeros(weights.size)
    for i in range(scores.size):
        if dual[i] != 0:
            value -= conjugate(loss, dual[i], targets[i], costs[i])
            row = rows[i]
            for k in range(row.size):
                total[k] += dual[i] * row[k]
    for i in range(scores.size):
        if costs[i] > 0:
            found = projected_gradient(loss, dual[i], _dot(total, rows[i]), targets[i], costs[i])
            worst = max(worst, found)
    certificate[0], certificate[1] = primal, max(0.0, value - _dot(total, total) / 2)
    certificate[2] = worst


@jit
def _dot(a, b):
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total
