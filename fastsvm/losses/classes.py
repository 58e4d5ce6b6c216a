"""Losses of the scores of all classes: the cross-entropy of the softmax and the two multiclass hinges."""

from typing import NamedTuple

import numpy as np
from scipy import special

from fastsvm.losses.interface import (
    MOST_STEPS,
    ROUNDINGS,
    conjugate_of_classes,
    feasible,
    least_curvature,
    loss_of_classes,
    margin_excess,
    nearly,
    probabilities,
    register_loss,
    update_of_classes,
    violation_of_classes,
)

_EPS = ROUNDINGS * float(np.finfo(np.float64).eps)


@register_loss("softmax", of="classes", curvature=0.5, bounded=True)
class Softmax(NamedTuple):
    """log Σ exp(s_j) - s_y, for multinomial logistic regression by gradient descent."""


@loss_of_classes.register(Softmax)
def _softmax_value(loss, scores, label, gradient):
    highest = scores[0]
    for c in range(scores.size):
        highest = max(highest, scores[c])
    for c in range(scores.size):
        gradient[c] = np.exp(scores[c] - highest)
    total = 0.0
    for c in range(scores.size):
        total += gradient[c]
    for c in range(scores.size):
        gradient[c] /= total
    gradient[label] -= 1.0
    return np.log(total) + highest - scores[label]


@probabilities.register(Softmax)
def _softmax_probabilities(loss, scores):
    return special.softmax(scores, axis=1) if scores.shape[1] > 1 else special.expit(scores)  # one is a difference


@register_loss("crammer_singer", of="classes", curvature=np.inf, bounded=True)
class CrammerSinger(NamedTuple):
    """max(0, s_j - s_y + margin) for the best class j other than y (Crammer and Singer 2001).

    A constraint couples the dual variables of a row. The step finds its multiplier (Keerthi, Sundararajan, Chang,
    Hsieh and Lin 2008, A sequential dual method for large scale multi-class linear SVMs, section 3).
    """

    margin: float = 1.0


@loss_of_classes.register(CrammerSinger)
def _crammer_singer_value(loss, scores, label, gradient):
    best = 1 if label == 0 else 0
    for c in range(scores.size):
        gradient[c] = 0.0
        if c != label and scores[c] > scores[best]:
            best = c
    excess = scores[best] - scores[label] + loss.margin
    if excess <= 0:
        return 0.0
    gradient[best], gradient[label] = 1.0, -1.0
    return excess


@conjugate_of_classes.register(CrammerSinger)
def _margin_conjugate(loss, dual, label, cost):
    return -loss.margin * float(dual[label])


@update_of_classes.register(CrammerSinger)
def _crammer_singer_update(loss, demands, at, curvature, changes, gaps):
    dual, row, scores, place = at
    label, cost, k = int(demands.targets[row]), demands.costs[row], changes.size
    ridge, worst, top, linear = least_curvature(curvature[0]), 0.0, label, 0.0
    for c in range(k):
        excess = margin_excess(scores, place, label, loss.margin, c)
        if excess > worst:
            worst, top = excess, c
        linear += float(dual[row, c]) * excess
    gaps[0] += cost * worst + linear
    # β_c = min(u_c, z_c - θ) with u_c = c or 0 and Σ β_c = 0. The active bounds are found by removing variables.
    for c in range(k):
        # For a row of small values z is large, and β would cancel. Hence the excess of the top class is subtracted.
        below = 0.0 if c == top else margin_excess(scores, place, label, loss.margin, c) - worst
        changes[c] = float(dual[row, c]) - below / ridge
    total, count = 0.0, k
    for c in range(k):
        total += changes[c]
    level = total / count
    for _ in range(k):  # each round but the last finds another active bound
        total, n_free = 0.0, 0
        for c in range(k):
            bound = cost if c == label else 0.0
            if changes[c] - bound < level:
                total += changes[c]
                n_free += 1
            else:
                total += bound
        if n_free == 0 or n_free == count:
            break
        count, level = n_free, total / n_free
    moved = False
    for c in range(k):
        new = min(cost if c == label else 0.0, changes[c] - level)
        changes[c] = changes.dtype.type(new) - dual[row, c]
        moved |= changes[c] != 0
    return moved


@violation_of_classes.register(CrammerSinger)
def _crammer_singer_violation(loss, demands, at):
    dual, row, scores, place = at
    label, cost = int(demands.targets[row]), demands.costs[row]
    highest, least = -np.inf, np.inf
    for c in range(scores.shape[0]):
        excess = margin_excess(scores, place, label, loss.margin, c)
        highest = max(highest, excess)
        if dual[row, c] < (nearly(cost, dual) if c == label else 0.0):
            least = min(least, excess)
    return highest - least


@feasible.register(CrammerSinger)
def _crammer_singer_feasible(loss, demands, dual):
    others = np.maximum(-dual, 0.0)
    rows = np.flatnonzero(demands.costs > 0)
    others[rows, demands.targets[rows].astype(np.int64)] = 0.0
    total = others.sum(axis=1)
    return _balanced(demands, -(others * (np.minimum(demands.costs, total) / np.maximum(total, 1e-300))[:, None]))


@register_loss("weston_watkins", of="classes", curvature=np.inf, bounded=True)
class WestonWatkins(NamedTuple):
    """Σ max(0, s_j - s_y + margin) over the classes j other than y (Weston and Watkins 1999).

    The step in the dual variables of a row is the root of one piecewise linear function (Wang and Scott 2021, An exact
    solver for the Weston-Watkins SVM subproblem).
    """

    margin: float = 1.0


@loss_of_classes.register(WestonWatkins)
def _weston_watkins_value(loss, scores, label, gradient):
    total, count = 0.0, 0
    for c in range(scores.size):
        if c != label:
            excess = max(0.0, scores[c] - scores[label] + loss.margin)
            total += excess
            count += excess > 0
    for c in range(scores.size):
        gradient[c] = 1.0 if scores[c] - scores[label] + loss.margin > 0 else 0.0
    gradient[label] = -count
    return total


conjugate_of_classes.register(WestonWatkins)(_margin_conjugate)


@update_of_classes.register(WestonWatkins)
def _weston_watkins_update(loss, demands, at, curvature, changes, gaps):
    dual, row, scores, place = at
    label, cost, k = int(demands.targets[row]), demands.costs[row], changes.size
    ridge, before, gap = least_curvature(curvature[0]), float(dual[row, label]), 0.0
    for c in range(k):
        if c != label:
            excess = margin_excess(scores, place, label, loss.margin, c)
            gap += cost * max(0.0, excess) + float(dual[row, c]) * excess
    gaps[0] += gap
    for c in range(k):
        if c != label:
            changes[c] = margin_excess(scores, place, label, loss.margin, c) / ridge - float(dual[row, c])
    # α_c = min(max(z_c - γ, 0), c) with γ = Σ α_c - before: the root of a decreasing, piecewise linear function.
    low, high, shift = -before, k * cost, 0.0
    for _ in range(MOST_STEPS):
        total, free = -before - shift, 1
        for c in range(k):
            if c != label:
                value = changes[c] - shift
                total += min(max(value, 0.0), cost)
                free += 0.0 < value < cost
        if total > 0:
            low = shift
        else:
            high = shift
        step = shift + total / free
        if abs(step - shift) <= _EPS * (abs(shift) + cost):
            break
        shift = step if low < step < high else 0.5 * (low + high)
    moved, total = False, 0.0
    for c in range(k):
        if c != label:
            changes[c] = min(max(changes[c] - shift, 0.0), cost)
    for c in range(k):
        if c != label:
            total += float(changes[c])
    for c in range(k):
        if c != label:
            changes[c] = -changes[c] - dual[row, c]
            moved |= changes[c] != 0
    changes[label] = changes.dtype.type(total) - dual[row, label]
    return moved


@violation_of_classes.register(WestonWatkins)
def _weston_watkins_violation(loss, demands, at):
    dual, row, scores, place = at
    label, cost, worst = int(demands.targets[row]), demands.costs[row], 0.0
    for c in range(scores.shape[0]):
        if c != label:
            excess, alpha = margin_excess(scores, place, label, loss.margin, c), -float(dual[row, c])
            if not ((excess < 0 and alpha <= 0) or (excess > 0 and alpha >= nearly(cost, dual))):
                worst = max(worst, abs(excess))
    return worst


@feasible.register(WestonWatkins)
def _weston_watkins_feasible(loss, demands, dual):
    return _balanced(demands, -np.clip(-dual, 0.0, demands.costs[:, None]))


def _balanced(demands, dual):
    """Return the variables, of which those of the true classes make the sum of each row 0; without costs all are 0."""
    rows = np.flatnonzero(demands.costs > 0)
    labels = demands.targets[rows].astype(np.int64)
    dual[demands.costs == 0] = 0.0
    dual[rows, labels] = 0.0
    dual[rows, labels] = -dual[rows].sum(axis=1)
    return dual
