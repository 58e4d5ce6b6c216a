"""The multiclass hinge of Crammer and Singer (2001).

A constraint couples the dual variables of a row. The step finds its multiplier (Keerthi, Sundararajan, Chang,
Hsieh and Lin 2008, A sequential dual method for large scale multi-class linear SVMs, section 3).
"""

from typing import NamedTuple

import numpy as np

from fastsvm.losses.interface import (
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


@register_loss("crammer_singer", of="classes", curvature=np.inf, bounded=True)
class CrammerSinger(NamedTuple):
    """max(0, s_j - s_y + margin) for the best class j other than y."""

    margin: float = 1.0


@loss_of_classes.register(CrammerSinger)
def _value(loss, scores, label, gradient):
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
def _conjugate(loss, dual, label, cost):
    return -loss.margin * float(dual[label])


@update_of_classes.register(CrammerSinger)
def _update(loss, demands, at, curvature, changes, gaps):
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
def _violation(loss, demands, at):
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
def _feasible(loss, demands, dual):
    others = np.maximum(-dual, 0.0)
    rows = np.flatnonzero(demands.costs > 0)
    labels = demands.targets[rows].astype(np.int64)
    others[rows, labels] = 0.0
    total = others.sum(axis=1)
    inside = -(others * (np.minimum(demands.costs, total) / np.maximum(total, 1e-300))[:, None])
    inside[demands.costs == 0] = 0.0
    inside[rows, labels] = 0.0
    inside[rows, labels] = -inside[rows].sum(axis=1)
    return inside
