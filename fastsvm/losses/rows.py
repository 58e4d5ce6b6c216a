"""Sums of losses and conjugates over rows, and the largest violation, for all losses."""

import numpy as np

from fastsvm._compiled.compiler import generic, inlined, jit
from fastsvm.losses.interface import (
    Demands,
    Loss,
    RowAt,
    conjugate,
    conjugate_of_classes,
    loss_of_classes,
    loss_slope,
    loss_value,
    nearly,
    projected_gradient,
    violation_of_classes,
    write_costs,
)

__all__ = ["add_losses", "dual_losses", "in_score", "primal_losses", "sums_of_rows", "violation_of"]


@generic
def add_losses(
    loss: Loss,
    scores: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    balance: np.ndarray,
    gradient: np.ndarray,
) -> float:
    """Return the weighted sum of the losses of some rows, and overwrite `gradient` with its (sub)gradient.

    Scores and gradient have the shape (n_rows, n_scores); several scores are those of classes. Targets are class
    indices if there are several scores or the loss is one of classes; otherwise ±1 or real numbers. `balance` has class
    weights: factors of the weights of the rows of each class, in its own score against the rest.
    """
    raise NotImplementedError


def _add_each_score(loss, scores, targets, weights, balance, gradient):
    n, k = scores.shape
    total = 0.0
    for i in range(n):
        for c in range(k):
            target, weight = in_score(targets[i], weights[i], balance, c)
            total += weight * loss_value(loss, scores[i, c], target)
    for i in range(n):
        for c in range(k):
            target, weight = in_score(targets[i], weights[i], balance, c)
            gradient[i, c] = weight * loss_slope(loss, scores[i, c], target)
    return total


@inlined
def in_score(target, weight, balance, c):
    """Return the target ±1, or the real one, and the weight of a row in a score."""
    if balance.size == 1:
        return target, weight
    return (1.0, weight * balance[c]) if target == c else (-1.0, weight)


def _add_all_scores(loss, scores, targets, weights, balance, gradient):
    n, k = scores.shape
    total = 0.0
    for i in range(n):
        weight = weights[i]
        total += weight * loss_of_classes(loss, scores[i], int(targets[i]), gradient[i])
        for c in range(k):
            gradient[i, c] *= weight
    return total


add_losses.default(lambda kind: _add_all_scores if kind.of_classes else _add_each_score)


@generic
def _losses_of_rows(loss: Loss, demands: Demands, first: int, scores: np.ndarray, out: np.ndarray) -> None:
    pass


def _losses_of_each_score(loss, demands, first, scores, out):
    targets, costs = np.empty(scores.shape[1]), np.empty(scores.shape[1])
    for c in range(scores.shape[0]):
        write_costs(demands, first, c, targets, costs)
        total = 0.0
        for place in range(scores.shape[1]):
            total += costs[place] * loss_value(loss, float(scores[c, place]), targets[place])
        out[c] += total


def _losses_of_all_scores(loss, demands, first, scores, out):
    of_row, ignored = np.empty(scores.shape[0]), np.empty(scores.shape[0])
    for place in range(scores.shape[1]):
        for c in range(of_row.size):
            of_row[c] = scores[c, place]
        row = first + place
        out[0] += demands.costs[row] * loss_of_classes(loss, of_row, int(demands.targets[row]), ignored)


_losses_of_rows.default(lambda kind: _losses_of_all_scores if kind.of_classes else _losses_of_each_score)


@jit
def primal_losses(loss: Loss, demands: Demands, first: int, scores: np.ndarray, out: np.ndarray) -> None:
    """Add costs times losses of the rows from index `first` on to `out`; each row is a column of `scores`.

    There is one sum per score; a loss of all classes only adds to the first.
    """
    _losses_of_rows(loss, demands, first, scores, out)


@generic
def _conjugates_of_rows(loss: Loss, demands: Demands, dual: np.ndarray, out: np.ndarray) -> None:
    pass


def _conjugates_of_each_score(loss, demands, dual, out):
    targets, costs = np.empty(dual.shape[0]), np.empty(dual.shape[0])
    for c in range(dual.shape[1]):
        write_costs(demands, 0, c, targets, costs)
        total = 0.0
        for row in range(dual.shape[0]):
            if dual[row, c] != 0:
                total += conjugate(loss, float(dual[row, c]), targets[row], costs[row])
        out[c] += total


def _conjugates_of_all_scores(loss, demands, dual, out):
    total = 0.0
    for row in range(dual.shape[0]):
        total += conjugate_of_classes(loss, dual[row], int(demands.targets[row]), demands.costs[row])
    out[0] += total


_conjugates_of_rows.default(lambda kind: _conjugates_of_all_scores if kind.of_classes else _conjugates_of_each_score)


@jit
def dual_losses(loss: Loss, demands: Demands, dual: np.ndarray, out: np.ndarray) -> None:
    """Add Σ_i c_i ℓ*(-β_i / c_i) to `out`, one sum per score; a loss of all classes only adds to the first."""
    _conjugates_of_rows(loss, demands, dual, out)


@generic
def _worst_of_rows(loss: Loss, demands: Demands, first: int, dual: np.ndarray, scores: np.ndarray) -> float:
    raise NotImplementedError


def _worst_of_each_score(loss, demands, first, dual, scores):
    worst, targets, costs = 0.0, np.empty(scores.shape[1]), np.empty(scores.shape[1])
    for c in range(scores.shape[0]):
        write_costs(demands, first, c, targets, costs)
        for place in range(scores.shape[1]):
            if costs[place] > 0:
                beta, score, cost = float(dual[first + place, c]), float(scores[c, place]), nearly(costs[place], dual)
                worst = max(worst, projected_gradient(loss, beta, score, targets[place], cost))
    return worst


def _worst_of_all_scores(loss, demands, first, dual, scores):
    worst = 0.0
    for place in range(scores.shape[1]):
        if demands.costs[first + place] > 0:
            worst = max(worst, violation_of_classes(loss, demands, RowAt(dual, first + place, scores, place)))
    return worst


_worst_of_rows.default(lambda kind: _worst_of_all_scores if kind.of_classes else _worst_of_each_score)


@jit
def violation_of(loss: Loss, demands: Demands, first: int, dual: np.ndarray, scores: np.ndarray) -> float:
    """Return the largest violation of an optimality condition of the rows from index `first` on.

    It is the projected gradient, or for a loss of all classes the difference of the slopes of two of them, where the
    variable of one can increase and that of the other decrease.
    """
    return _worst_of_rows(loss, demands, first, dual, scores)


@jit
def sums_of_rows(
    loss: Loss,
    demands: Demands,
    scores: np.ndarray,
    dual: np.ndarray,
    exact_dual: np.ndarray,
    losses: np.ndarray,
    conjugates: np.ndarray,
) -> float:
    """Add the losses of several scores of each row, and the conjugates of `exact_dual`; return the violation of `dual`.

    The next scores of all classes go to each entry of `losses`, and the last are those of `dual`, all in one call,
    because a call takes as long as hundreds of rows.
    """
    k = conjugates.size
    for place in range(losses.shape[0]):
        _losses_of_rows(loss, demands, 0, scores[place * k : (place + 1) * k], losses[place])
    _conjugates_of_rows(loss, demands, exact_dual, conjugates)
    return _worst_of_rows(loss, demands, 0, dual, scores[losses.shape[0] * k :])
