"""The multiclass hinge of Weston and Watkins (1999).

The step in the dual variables of a row is the root of one piecewise linear function (Wang and Scott 2021, An exact
solver for the Weston-Watkins SVM subproblem).
"""

from typing import NamedTuple

import numpy as np

from fastsvm.losses.interface import (
    MOST_STEPS,
    ROUNDINGS,
    conjugate_of_classes,
    feasible,
    least_curvature,
    loss_of_classes,
    margin_excess,
    nearly,
    register_loss,
    update_of_classes,
    violation_of_classes,
)

_EPS = ROUNDINGS * float(np.finfo(np.float64).eps)


@register_loss("weston_watkins", of="classes", curvature=np.inf, bounded=True)
class WestonWatkins(NamedTuple):
    """Σ max(0, s_j - s_y + margin) over the classes j other than y."""

    margin: float = 1.0


@loss_of_classes.register(WestonWatkins)
def _value(loss, scores, label, gradient):
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


@conjugate_of_classes.register(WestonWatkins)
def _conjugate(loss, dual, label, cost):
    return -loss.margin * float(dual[label])


@update_of_classes.register(WestonWatkins)
def _update(loss, demands, at, curvature, changes, gaps):
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
def _violation(loss, demands, at):
    dual, row, scores, place = at
    label, cost, worst = int(demands.targets[row]), demands.costs[row], 0.0
    for c in range(scores.shape[0]):
        if c != label:
            excess, alpha = margin_excess(scores, place, label, loss.margin, c), -float(dual[row, c])
            if not ((excess < 0 and alpha <= 0) or (excess > 0 and alpha >= nearly(cost, dual))):
                worst = max(worst, abs(excess))
    return worst


@feasible.register(WestonWatkins)
def _feasible(loss, demands, dual):
    inside = -np.clip(-dual, 0.0, demands.costs[:, None])
    rows = np.flatnonzero(demands.costs > 0)
    labels = demands.targets[rows].astype(np.int64)
    inside[demands.costs == 0] = 0.0
    inside[rows, labels] = 0.0
    inside[rows, labels] = -inside[rows].sum(axis=1)
    return inside
