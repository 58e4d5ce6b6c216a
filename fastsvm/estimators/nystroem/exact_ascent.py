"""Passes of block coordinate ascent in the dual of the kernel problem, to raise the lower bound of its optimum.

The dual variables of the features suit a kernel whose values between near samples are too small. A pass computes the
decision values of one block of support vectors after another, with the kernel itself, and takes coordinate steps within
the block. It costs what an evaluation of βᵀ K β costs. Rows whose variable is 0 keep it.
"""

from typing import Any

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.threads import spans
from fastsvm.estimators.nystroem.dual_expansion import DualExpansion, Expansions, Support, added
from fastsvm.losses import coordinate_update, cost_of
from fastsvm.sources import Block

__all__ = ["ascend"]

_SWEEPS = 10  # over a block


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


def _swept(
    expansion: DualExpansion, support: Support, places: np.ndarray, block: Block, parts: list[np.ndarray]
) -> tuple[Support, np.ndarray]:
    """Return the dual variables after steps in some rows of a place, and by how much βᵀ (K + s²) β has changed.

    `parts` are the sums of each place at these rows.
    """
    machine, beta = expansion.machine, support.beta.copy()
    gram = expansion.among(block) + machine.constant**2
    scores = np.ascontiguousarray(added(parts).T)
    before, dual = scores.copy(), beta[places]
    _sweep(machine.loss, expansion.demands(support, places), gram, scores, dual, _SWEEPS)
    change = np.einsum("ic,ci->c", dual - beta[places], before + scores)
    beta[places] = dual
    return support._replace(beta=beta), change


def ascend(expansions: Expansions, support: list[Any], size: int, counts: list[int], square: float) -> np.ndarray:
    """Take one pass over the rows with dual variables, which replaces them in `support`.

    Parameters
    ----------
    expansions : Expansions
        Of all places.
    support : list of Support
        The rows with dual variables of each place, there; the loss is one of each score.
    size : int
        Rows of a block.
    counts : list of int
        Numbers of these rows.
    square : float
        Square of the constant feature.

    Returns
    -------
    ndarray of float64, shape (n_scores,)
        Change of βᵀ (K + s²) β.
    """
    changes = []
    for number, count in enumerate(counts):
        for a, b in spans(count, size):
            places = np.arange(a, b)
            block = expansions.at(number, DualExpansion.block, support[number], places)
            parts = [expansions.at(k, DualExpansion.sums, block, own, square) for k, own in enumerate(support)]
            swept = expansions.at(number, _swept, support[number], places, block, parts)
            support[number] = expansions.item(swept, 0)
            changes.append(expansions.item(swept, 1))
    return added(expansions.told(changes))
