"""Exact steps in the dual variables of one row of a linear SVM, a body for each loss.

The weights are W = Σ_i β_i x_i, β_i having an entry for each score. The dual objective is

    D(β) = - Σ_i c_i ℓ*(-β_i / c_i) - ½ ‖W‖²

for the costs c_i and the conjugate ℓ* of the loss. In the variables of one row, D is a concave quadratic function with
constraints whose maximum is found exactly: for a loss of one score by a clipped Newton step (Hsieh, Chang, Lin, Keerthi
and Sundararajan 2008, A dual coordinate descent method for large-scale linear SVM, equation 9; Ho and Lin 2012, for
regression), for a loss of all classes by a search for the multiplier of the constraint that couples them (Keerthi,
Sundararajan, Chang, Hsieh and Lin 2008, A sequential dual method for large scale multi-class linear SVMs; Wang and
Scott 2021, An exact solver for the Weston-Watkins SVM subproblem).
"""

from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.generic import generic
from fastsvm.losses.primal import (
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    Loss,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    WestonWatkins,
    loss_value,
)

__all__ = [
    "Demands",
    "ascend",
    "box",
    "conjugate",
    "coordinate_update",
    "cost_of",
    "dual_losses",
    "feasible",
    "least_curvature",
    "primal_losses",
    "violation_of",
]

_LEAST = 1e-30  # curvature of a row that is zero
_ROUNDS = 200  # of a search that ends after a few
_ROUNDINGS = 4  # by which a variable may be away from its bound


class Demands(NamedTuple):
    """What rows demand of the scores.

    Attributes
    ----------
    targets : ndarray of float64, shape (n,)
        As `losses.add_losses` takes them.
    costs : ndarray of float64, shape (n,)
        C times the weights of rows; 0 for rows that are not learnt from.
    balance : ndarray of float64, shape (n_scores,)
        As `losses.add_losses` takes it.
    """

    targets: np.ndarray
    costs: np.ndarray
    balance: np.ndarray


@jit
def cost_of(demands: Demands, row: int, c: int) -> tuple[float, float]:
    """Return target and cost of a row in one score: of several, each class has one against the rest."""
    target, cost = demands.targets[row], demands.costs[row]
    if demands.balance.size > 1:
        target = 1.0 if target == c else -1.0
        cost *= demands.balance[c] if target > 0 else 1.0
    return target, cost


@jit
def least_curvature(curvature: float) -> float:
    """Return a curvature that can be divided by, of a row that is zero too."""
    return max(curvature, _LEAST)


# --- of one score ----------------------------------------------------------------------------------------


@generic
def coordinate_update(loss: Loss, dual: float, score: float, target: float, cost: float, curvature: float) -> float:
    """Return the dual variable that is best for a score that changes by `curvature` with it."""


@generic
def conjugate(loss: Loss, dual: float, target: float, cost: float) -> float:
    """Return c ℓ*(-β / c) for a feasible β."""


@generic
def projected_gradient(loss: Loss, dual: float, score: float, target: float, cost: float) -> float:
    """Return how steeply the dual objective falls or rises where β may move, the projected gradient."""


@generic
def box(loss: Loss, cost: float) -> tuple[float, float]:
    """Return how large a dual variable may be, and the ridge that the conjugate of the loss has."""


@coordinate_update.register(Hinge)
def _hinge_dual(loss, dual, score, target, cost, curvature):
    return target * min(max(target * dual - (target * score - loss.margin) / curvature, 0.0), cost)


@conjugate.register(Hinge)
def _hinge_conjugate(loss, dual, target, cost):
    return -loss.margin * target * dual


@projected_gradient.register(Hinge)
def _hinge_steepness(loss, dual, score, target, cost):
    slope, own = target * score - loss.margin, target * dual
    return 0.0 if (slope > 0 and own <= 0) or (slope < 0 and own >= cost) else abs(slope)


@coordinate_update.register(SquaredHinge)
def _squared_hinge_dual(loss, dual, score, target, cost, curvature):
    bend = 0.5 / cost
    return target * max(target * dual - (target * score - 1.0 + bend * target * dual) / (curvature + bend), 0.0)


@conjugate.register(SquaredHinge)
def _squared_hinge_conjugate(loss, dual, target, cost):
    return -target * dual + 0.25 * dual * dual / cost


@projected_gradient.register(SquaredHinge)
def _squared_hinge_steepness(loss, dual, score, target, cost):
    own = target * dual
    slope = target * score - 1.0 + 0.5 * own / cost
    return 0.0 if slope > 0 and own <= 0 else abs(slope)


@coordinate_update.register(EpsilonInsensitive)
def _tube_dual(loss, dual, score, target, cost, curvature):
    free = dual - (score - target) / curvature
    size = min(max(abs(free) - loss.epsilon / curvature, 0.0), cost)
    return size if free > 0 else -size


@conjugate.register(EpsilonInsensitive)
def _tube_conjugate(loss, dual, target, cost):
    return loss.epsilon * abs(dual) - target * dual


@projected_gradient.register(EpsilonInsensitive)
def _tube_steepness(loss, dual, score, target, cost):
    slope = score - target
    if dual == 0:
        return max(0.0, abs(slope) - loss.epsilon)
    outward = slope * (1.0 if dual > 0 else -1.0) + loss.epsilon  # with the sign of β, which may not grow beyond c
    return 0.0 if abs(dual) >= cost and outward < 0 else abs(outward)


@coordinate_update.register(SquaredEpsilonInsensitive)
def _squared_tube_dual(loss, dual, score, target, cost, curvature):
    free = curvature * dual - (score - target)
    size = max(abs(free) - loss.epsilon, 0.0) / (curvature + 0.5 / cost)
    return size if free > 0 else -size


@conjugate.register(SquaredEpsilonInsensitive)
def _squared_tube_conjugate(loss, dual, target, cost):
    return loss.epsilon * abs(dual) - target * dual + 0.25 * dual * dual / cost


@projected_gradient.register(SquaredEpsilonInsensitive)
def _squared_tube_steepness(loss, dual, score, target, cost):
    slope = score - target + 0.5 * dual / cost
    if dual == 0:
        return max(0.0, abs(slope) - loss.epsilon)
    return abs(slope * (1.0 if dual > 0 else -1.0) + loss.epsilon)


# --- of a row --------------------------------------------------------------------------------------------


@generic
def ascend(
    loss: Loss,
    demands: Demands,
    row: int,
    dual: np.ndarray,
    scores: np.ndarray,
    place: int,
    curvature: np.ndarray,
    bounds: tuple[int, int],
    changes: np.ndarray,
    gaps: np.ndarray,
) -> bool:
    """Write the changes of the dual variables of a row that are best together; return whether there are any.

    Parameters
    ----------
    dual : ndarray of shape (n, n_scores)
        All variables; they are not changed.
    scores : ndarray of shape (n_scores, n_places)
        Current scores, those of the row in the column `place`.
    curvature : ndarray of shape (n_scores,)
        By how much each score changes with its variable.
    bounds : tuple of int
        First of the scores that count, and the one after the last; with a loss of all classes all do.
    changes : ndarray of shape (n_scores,)
        It is written.
    gaps : ndarray of float64, shape (n_scores,)
        Before the change, the gap between the row's loss and what its variables say of it is added; of a loss of all
        classes to the first entry.
    """


def _each_apart(loss, demands, row, dual, scores, place, curvature, bounds, changes, gaps):
    moved = False
    for c in range(bounds[0], bounds[1]):
        target, cost = cost_of(demands, row, c)
        own, score = float(dual[row, c]), float(scores[c, place])
        gaps[c] += cost * loss_value(loss, score, target) + conjugate(loss, own, target, cost) + own * score
        new = coordinate_update(loss, own, score, target, cost, least_curvature(curvature[c]))
        changes[c] = changes.dtype.type(new) - dual[row, c]
        moved |= changes[c] != 0
    return moved


@jit
def _margin_excess(scores, place, label, margin, c):
    return float(scores[c, place]) - float(scores[label, place]) + (margin if c != label else 0.0)


@ascend.register(CrammerSinger)
def _ascend_crammer_singer(loss, demands, row, dual, scores, place, curvature, bounds, changes, gaps):
    label, cost, k = int(demands.targets[row]), demands.costs[row], changes.size
    bend, worst, top, linear = least_curvature(curvature[0]), 0.0, label, 0.0
    for c in range(k):
        excess = _margin_excess(scores, place, label, loss.margin, c)
        if excess > worst:
            worst, top = excess, c
        linear += float(dual[row, c]) * excess
    gaps[0] += cost * worst + linear
    # β_c = min(u_c, z_c - θ) with u_c = c or 0 and Σ β_c = 0: those below their bounds are found by removing others.
    total, count = 0.0, k
    for c in range(k):
        # Of a row of small values z are large: without that of the top, which is taken from all, β would be lost.
        below = 0.0 if c == top else _margin_excess(scores, place, label, loss.margin, c) - worst
        changes[c] = float(dual[row, c]) - below / bend
        total += changes[c]
    level = total / count
    for _ in range(_ROUNDS):
        total, kept = 0.0, 0
        for c in range(k):
            bound = cost if c == label else 0.0
            if changes[c] - bound < level:
                total += changes[c]
                kept += 1
            else:
                total += bound
        if kept == 0 or kept == count:
            break
        count, level = kept, total / kept
    moved = False
    for c in range(k):
        new = min(cost if c == label else 0.0, changes[c] - level)
        changes[c] = changes.dtype.type(new) - dual[row, c]
        moved |= changes[c] != 0
    return moved


@ascend.register(WestonWatkins)
def _ascend_weston_watkins(loss, demands, row, dual, scores, place, curvature, bounds, changes, gaps):
    label, cost, k = int(demands.targets[row]), demands.costs[row], changes.size
    bend, before = least_curvature(curvature[0]), float(dual[row, label])
    for c in range(k):
        if c != label:
            own = -float(dual[row, c])
            excess = _margin_excess(scores, place, label, loss.margin, c)
            gaps[0] += cost * max(0.0, excess) - own * excess
            changes[c] = own + excess / bend
    # α_c = min(max(z_c - γ, 0), c) with γ = Σ α_c - before: the root of a falling function that is linear in pieces.
    low, high, shift = -before, k * cost, 0.0
    for _ in range(_ROUNDS):
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
        if abs(step - shift) <= 1e-15 * (abs(shift) + cost):
            break
        shift = step if low < step < high else 0.5 * (low + high)
    moved, total = False, 0.0
    for c in range(k):
        if c != label:
            new = -changes.dtype.type(min(max(changes[c] - shift, 0.0), cost))
            total -= float(new)
            changes[c] = new - dual[row, c]
            moved |= changes[c] != 0
    changes[label] = changes.dtype.type(total) - dual[row, label]
    return moved


# --- of variables from elsewhere --------------------------------------------------------------------------


@generic
def feasible(loss: Loss, demands: Demands, dual: np.ndarray) -> np.ndarray:
    """Return the variables nearest to `dual`, or not far from it, that meet all constraints."""


def _targets_and_costs(demands: Demands) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and costs of all rows in all scores."""
    targets, costs, k = demands.targets[:, None], demands.costs[:, None], len(demands.balance)
    if k == 1:
        return targets, costs
    own = targets == np.arange(k)
    return np.where(own, 1.0, -1.0), np.where(own, demands.balance * costs, costs)


@feasible.register(Hinge)
def _feasible_hinge(loss, demands, dual):
    targets, costs = _targets_and_costs(demands)
    return targets * np.clip(targets * dual, 0.0, costs)


@feasible.register(SquaredHinge)
def _feasible_squared_hinge(loss, demands, dual):
    targets, costs = _targets_and_costs(demands)
    return np.where(costs > 0, targets * np.maximum(targets * dual, 0.0), 0.0)


@feasible.register(EpsilonInsensitive)
def _feasible_tube(loss, demands, dual):
    return np.clip(dual, -demands.costs[:, None], demands.costs[:, None])


@feasible.register(SquaredEpsilonInsensitive)
def _feasible_squared_tube(loss, demands, dual):
    return np.where(demands.costs[:, None] > 0, dual, 0.0)


def _balanced(demands, others):
    """Return variables of which those of wrong classes are -others, and that of the right one is their sum."""
    found = -others
    rows = np.flatnonzero(demands.costs > 0)
    found[demands.costs == 0] = 0.0
    labels = demands.targets[rows].astype(np.int64)
    found[rows, labels] = 0.0
    found[rows, labels] = -found[rows].sum(axis=1)
    return found


@feasible.register(CrammerSinger)
def _feasible_crammer_singer(loss, demands, dual):
    others = np.maximum(-dual, 0.0)
    used = demands.costs > 0
    others[used, demands.targets[used].astype(np.int64)] = 0.0
    total = others.sum(axis=1)
    return _balanced(demands, others * (np.minimum(demands.costs, total) / np.maximum(total, 1e-300))[:, None])


@feasible.register(WestonWatkins)
def _feasible_weston_watkins(loss, demands, dual):
    return _balanced(demands, np.clip(-dual, 0.0, demands.costs[:, None]))


# --- of all rows -----------------------------------------------------------------------------------------


@generic
def losses_of_rows(loss: Loss, demands: Demands, first: int, scores: np.ndarray, out: np.ndarray) -> None:
    """Do what `primal_losses` says."""


def _primal_apart(loss, demands, first, scores, out):
    for c in range(scores.shape[0]):
        total = 0.0
        for place in range(scores.shape[1]):
            target, cost = cost_of(demands, first + place, c)
            total += cost * loss_value(loss, float(scores[c, place]), target)
        out[c] += total


@losses_of_rows.register(CrammerSinger)
def _primal_crammer_singer(loss, demands, first, scores, out):
    for place in range(scores.shape[1]):
        label, worst = int(demands.targets[first + place]), 0.0
        for c in range(scores.shape[0]):
            worst = max(worst, _margin_excess(scores, place, label, loss.margin, c))
        out[0] += demands.costs[first + place] * worst


@losses_of_rows.register(WestonWatkins)
def _primal_weston_watkins(loss, demands, first, scores, out):
    for place in range(scores.shape[1]):
        label, total = int(demands.targets[first + place]), 0.0
        for c in range(scores.shape[0]):
            if c != label:
                total += max(0.0, _margin_excess(scores, place, label, loss.margin, c))
        out[0] += demands.costs[first + place] * total


@generic
def conjugates_of_rows(loss: Loss, demands: Demands, dual: np.ndarray, out: np.ndarray) -> None:
    """Do what `dual_losses` says."""


def _dual_apart(loss, demands, dual, out):
    for c in range(dual.shape[1]):
        total = 0.0
        for row in range(dual.shape[0]):
            if dual[row, c] != 0:
                target, cost = cost_of(demands, row, c)
                total += conjugate(loss, float(dual[row, c]), target, cost)
        out[c] += total


def _dual_together(loss, demands, dual, out):
    total = 0.0
    for row in range(dual.shape[0]):
        total -= loss.margin * float(dual[row, int(demands.targets[row])])
    out[0] += total


@generic
def worst_of_rows(loss: Loss, demands: Demands, first: int, dual: np.ndarray, scores: np.ndarray) -> float:
    """Do what `violation_of` says."""


def _violation_apart(loss, demands, first, dual, scores):
    worst = 0.0
    for c in range(scores.shape[0]):
        for place in range(scores.shape[1]):
            target, cost = cost_of(demands, first + place, c)
            if cost > 0:
                own, score = float(dual[first + place, c]), float(scores[c, place])
                worst = max(worst, projected_gradient(loss, own, score, target, _nearly(cost, dual)))
    return worst


@jit
def _nearly(cost, dual):
    """Return the bound of a variable, lowered by what rounding takes from one that is at it."""
    return cost * (1 - _ROUNDINGS * float(np.finfo(dual.dtype).eps))


@worst_of_rows.register(CrammerSinger)
def _violation_crammer_singer(loss, demands, first, dual, scores):
    worst = 0.0
    for place in range(scores.shape[1]):
        row = first + place
        label, cost = int(demands.targets[row]), demands.costs[row]
        highest, least = -np.inf, np.inf
        for c in range(scores.shape[0]):
            excess = _margin_excess(scores, place, label, loss.margin, c)
            highest = max(highest, excess)
            if dual[row, c] < (_nearly(cost, dual) if c == label else 0.0):
                least = min(least, excess)
        if cost > 0:
            worst = max(worst, highest - least)
    return worst


@worst_of_rows.register(WestonWatkins)
def _violation_weston_watkins(loss, demands, first, dual, scores):
    worst = 0.0
    for place in range(scores.shape[1]):
        row = first + place
        label, cost = int(demands.targets[row]), demands.costs[row]
        for c in range(scores.shape[0]):
            if c != label and cost > 0:
                excess, own = _margin_excess(scores, place, label, loss.margin, c), -float(dual[row, c])
                if not ((excess < 0 and own <= 0) or (excess > 0 and own >= _nearly(cost, dual))):
                    worst = max(worst, abs(excess))
    return worst


def _bounded(loss, cost):
    return cost, 0.0


def _unbounded(loss, cost):
    return np.inf, 0.5 / cost


for _kind in (Hinge, EpsilonInsensitive):
    box.register(_kind)(_bounded)
for _kind in (SquaredHinge, SquaredEpsilonInsensitive):
    box.register(_kind)(_unbounded)
for _kind in (Hinge, SquaredHinge, EpsilonInsensitive, SquaredEpsilonInsensitive):
    ascend.register(_kind)(_each_apart)
    losses_of_rows.register(_kind)(_primal_apart)
    conjugates_of_rows.register(_kind)(_dual_apart)
    worst_of_rows.register(_kind)(_violation_apart)
for _kind in (CrammerSinger, WestonWatkins):
    conjugates_of_rows.register(_kind)(_dual_together)


@jit
def primal_losses(loss: Loss, demands: Demands, first: int, scores: np.ndarray, out: np.ndarray) -> None:
    """Add costs times losses of the rows from `first` on, whose scores are columns; of all classes to the first."""
    losses_of_rows(loss, demands, first, scores, out)


@jit
def dual_losses(loss: Loss, demands: Demands, dual: np.ndarray, out: np.ndarray) -> None:
    """Add Σ_i c_i ℓ*(-β_i / c_i) to `out`, of all classes to the first."""
    conjugates_of_rows(loss, demands, dual, out)


@jit
def violation_of(loss: Loss, demands: Demands, first: int, dual: np.ndarray, scores: np.ndarray) -> float:
    """Return by how much the optimality conditions of the rows from `first` on are violated at most.

    Of a loss of one score that is the projected gradient; of all classes, by how far the slopes of two classes are
    apart of which one could grow and the other fall.
    """
    return worst_of_rows(loss, demands, first, dual, scores)
