"""Passes of block coordinate ascent in the dual of the kernel problem, to raise the lower bound of its optimum.

The dual variables of the features suit a kernel whose values between near samples are too small. A pass computes the
decision values of one block of support vectors after another, with the kernel itself, and takes coordinate steps within
the block. It costs what an evaluation of βᵀ K β costs. Rows whose variable is 0 keep it.
"""

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import spans
from fastsvm.estimators.nystroem.dual_expansion import DualExpansion, Solved
from fastsvm.losses import coordinate_update, cost_of

__all__ = ["ascend"]

_SWEEPS = 10  # over a block
_MOST_ROWS, _BLOCK_SHARE = 2048, 16  # of a block, and of the memory for its kernel matrix


@jit
def _sweep(loss, demands, gram, scores, dual, n_sweeps):
    """Take coordinate steps in the variables of a block, and keep its scores up to date."""
    for c in range(dual.shape[1]):
        own = scores[c]
        for _ in range(n_sweeps):
            for i in range(gram.shape[0]):
                target, cost = cost_of(demands, i, c)
                if cost > 0 and gram[i, i] > 0:
                    after = coordinate_update(loss, dual[i, c], own[i], target, cost, gram[i, i])
                    change = after - dual[i, c]
                    if change != 0:
                        dual[i, c] = after
                        row = gram[i]
                        for j in range(row.size):
                            own[j] += change * row[j]


def ascend(expansion: DualExpansion, solved: Solved, places: np.ndarray, form: np.ndarray) -> np.ndarray:
    """Take one pass over the rows `places`, which changes β in place.

    Parameters
    ----------
    expansion : DualExpansion
        With β, feasible.
    solved : Solved
        The solution; its loss is one of each score.
    places : ndarray of int64
        Rows whose variables may change: all those with β ≠ 0.
    form : ndarray of float64, shape (n_scores,)
        βᵀ (K + s²) β before the pass.

    Returns
    -------
    ndarray of float64, shape (n_scores,)
        The same after it.
    """
    beta, demands, square = expansion.beta, solved.demands, solved.constant**2
    size = int(min(_MOST_ROWS, max(64, (expansion.budget / _BLOCK_SHARE / 8) ** 0.5)))
    form = form.copy()
    for a, b in spans(len(places), size):
        rows = places[a:b]
        gram = expansion.among(rows) + square
        scores = np.ascontiguousarray((expansion.sums(rows, places) + square * beta[places].sum(axis=0)).T)
        before, dual = scores.copy(), np.ascontiguousarray(beta[rows])
        _sweep(solved.loss, demands.of_rows(rows), gram, scores, dual, _SWEEPS)
        form += np.einsum("ic,ci->c", dual - beta[rows], before + scores)
        beta[rows] = dual
    return form
