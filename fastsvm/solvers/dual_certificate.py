"""What weights and dual variables of a linear model are worth, by a pass over the rows."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._threads import Pool, spans
from fastsvm.scores import product_type
from fastsvm.solvers.block_products import add_products, write_products
from fastsvm.solvers.dual_steps import Demands, dual_losses, feasible, primal_losses, violation_of
from fastsvm.sources import Block, CSRBlock, DenseBlock, Window, check_finite

__all__ = ["Certificate", "certify", "combination", "primal_of"]

_ROWS = 1024  # of a piece of work


class Certificate(NamedTuple):
    """Objectives of each problem, and the largest violation of an optimality condition in the dual.

    Attributes
    ----------
    primal, dual : ndarray of float64, shape (n_problems,)
        P of the weights and D of the dual variables.
    violation : float
        In the unit of scores.
    """

    primal: np.ndarray
    dual: np.ndarray
    violation: float


def primal_of(problem: Any, weights: np.ndarray, window: Window, pool: Pool, losses: np.ndarray) -> None:
    """Add the losses of the rows of a window to `losses`, one a score; of all classes to the first."""
    found: list[tuple[int, np.ndarray]] = []

    def some(a: int, b: int) -> None:
        found.append((a, _losses(problem, weights, window, a, b)))

    pool.run(some, spans(len(window.rows), _ROWS))
    for _, part in sorted(found, key=lambda each: each[0]):
        losses += part


def _losses(problem: Any, weights: np.ndarray, window: Window, a: int, b: int) -> np.ndarray:
    places, rows = window.places[a:b], window.rows[a:b]
    scores = _scores(problem, window.block, places, weights)
    if not np.isfinite(scores).all():
        for place, row in zip(places, rows, strict=True):
            check_finite(window.block.slice(place, place + 1), row)
    demands = problem.demands
    own = Demands(demands.targets[rows], demands.costs[rows], demands.balance)
    out = np.zeros(len(weights))
    primal_losses(problem.loss, own, 0, scores, out)
    return out


def _scores(problem: Any, block: Block, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return weights · x for some rows in the type of products, shape (n_scores, n_places)."""
    d = block.shape[1]
    if problem.scale.size:  # what is subtracted may be much larger than what is left
        return _exact_scores(problem, block.take(places), weights)
    offset = problem.constant * weights[:, -1]
    if isinstance(block, CSRBlock):
        rows = block.take(places).user_array()
        return np.ascontiguousarray((rows @ weights[:, :d].T).T) + offset[:, None]
    real = product_type(block.values.dtype)
    coef = weights[:, :d]
    consecutive = places[-1] - places[0] == len(places) - 1
    values = block.values[places[0] : places[-1] + 1] if consecutive else block.values[places]
    if values.dtype not in (np.uint8, real):
        values = values.astype(real)
    values = np.ascontiguousarray(values)
    out = np.empty((len(weights), len(places)), real)
    n = len(places)
    write_products(values, np.arange(n), np.ascontiguousarray(coef, real), (0, n, 0, len(weights)), out)
    return out + offset[:, None].astype(real)


def certify(problem: Any, weights: np.ndarray, dual: np.ndarray, position: np.ndarray, pool: Pool) -> Certificate:
    """Return what weights and dual variables are worth.

    Parameters
    ----------
    problem : Problem
        What was learnt.
    weights, position : ndarray of float64, shape (n_scores, n_weights)
        The weights whose primal objective is asked for; and Σ β_i x_i as it was kept up to date, at which the
        optimality conditions are looked at while that sum is formed anew for the dual objective.
    dual : ndarray of shape (n, n_scores)
        β. A bound is another number in float32, and D one of variables that meet all bounds in float64.
    pool : Pool
        Threads.
    """
    k, d = len(weights), problem.source.shape[1]
    both = np.concatenate([weights, position])
    losses, conjugates, again, worst = np.zeros(k), np.zeros(k), np.zeros((k, d + 1)), 0.0
    for start, block in problem.source.blocks():
        found: list[tuple] = []

        def some(a: int, b: int, block: Block = block, start: int = start, found: list = found) -> None:
            found.append((a, *_piece(problem, block.slice(a, b), start + a, both, dual)))

        pool.run(some, spans(block.shape[0], _ROWS))
        for _, part, value, total, violation in sorted(found, key=lambda each: each[0]):
            losses += part
            conjugates += value
            again += total
            worst = max(worst, violation)
    primal = losses + 0.5 * np.einsum("cj,cj->c", weights, weights)
    value = -conjugates - 0.5 * np.einsum("cj,cj->c", again, again)
    if problem.loss.of_classes:
        primal, value = primal.sum(keepdims=True), value.sum(keepdims=True)
    return Certificate(primal, np.maximum(value, 0.0), worst)  # no loss is negative, so that 0 is a bound too


def combination(problem: Any, dual: np.ndarray, pool: Pool) -> np.ndarray:
    """Return Σ β_i x_i, of the constant feature last, in float64, shape (n_scores, n_features + 1)."""
    total = np.zeros((dual.shape[1], problem.source.shape[1] + 1))
    for start, block in problem.source.blocks():
        found: list[tuple] = []

        def some(a: int, b: int, block: Block = block, start: int = start, found: list = found) -> None:
            found.append((a, _combined(problem, block.slice(a, b), dual[start + a : start + b])))

        pool.run(some, spans(block.shape[0], _ROWS))
        for _, part in sorted(found, key=lambda each: each[0]):
            total += part
    return total


def _combined(problem: Any, block: Block, dual: np.ndarray) -> np.ndarray:
    """Return Σ β_i x_i of some rows."""
    k, d = dual.shape[1], block.shape[1]
    beta, total = dual.astype(np.float64, copy=False), np.zeros((k, d + 1))
    if isinstance(block, CSRBlock):
        total[:, :-1] = np.asarray(_exact(block).T @ beta).T
    else:
        add_products(_readable(block), np.arange(len(dual)), np.ascontiguousarray(beta.T), (0, k), total)
        if problem.scale.size:
            total[:, :-1] = (total[:, :-1] - beta.sum(axis=0)[:, None] * problem.shift) * problem.scale
    total[:, -1] = problem.constant * beta.sum(axis=0)
    return total


def _piece(
    problem: Any, block: Block, start: int, both: np.ndarray, dual: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return losses, their conjugates, Σ β_i x_i and the largest violation of some rows."""
    k, part = len(both) // 2, slice(start, start + block.shape[0])
    scores = _exact_scores(problem, block, both)
    losses, conjugates = np.zeros(k), np.zeros(k)
    demands = problem.demands
    own = Demands(demands.targets[part], demands.costs[part], demands.balance)
    primal_losses(problem.loss, own, 0, scores[:k], losses)
    beta = feasible(problem.loss, own, dual[part].astype(np.float64))
    dual_losses(problem.loss, own, beta, conjugates)
    violation = violation_of(problem.loss, own, 0, dual[part], scores[k:])
    return losses, conjugates, _combined(problem, block, beta), violation


def _exact_scores(problem: Any, block: Block, weights: np.ndarray) -> np.ndarray:
    """Return weights · x for all rows x in float64, shape (n_scores, n_rows)."""
    n, d = block.shape
    coef, offset = weights[:, :d], problem.constant * weights[:, -1]
    if isinstance(block, CSRBlock):
        return np.ascontiguousarray(np.asarray(_exact(block) @ coef.T).T) + offset[:, None]
    if problem.scale.size:
        coef = coef * problem.scale
        offset = offset - coef @ problem.shift
    out = np.empty((len(weights), n))
    write_products(_readable(block), np.arange(n), np.ascontiguousarray(coef), (0, n, 0, len(weights)), out)
    return out + offset[:, None]


def _readable(block: DenseBlock) -> np.ndarray:
    """Return rows in a type for which there is machine code."""
    values = block.values
    if values.dtype not in (np.uint8, np.float32, np.float64):
        values = values.astype(product_type(values.dtype))
    return np.ascontiguousarray(values)


def _exact(block: CSRBlock) -> Any:
    """Return sparse rows in float64."""
    return block._replace(data=block.data.astype(np.float64)).user_array()
