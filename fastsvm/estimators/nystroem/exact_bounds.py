"""Bounds of the optimum of the kernel problem that a machine of landmarks approximates.

Above
    The model is a point of the kernel problem: ½ cᵀ K_MM c + ½ b² plus its losses, computed in float64, is at least the
    optimum. b is the weight of the constant feature, which is penalised: the kernel is K + s² with its value s.

Below
    The dual variables β of the machine are feasible for the kernel problem too, which has the same constraints. So is
    t β for 0 ≤ t ≤ 1, and - Σ_i c_i ℓ*(-t β_i / c_i) - ½ t² βᵀ (K + s²) β is at most the optimum. K is at least its
    approximation, so that t < 1 is best. The conjugates are quadratic in t between 0 and 1, so the best t is known.

Cost
    A kernel value for each row and landmark, and for each pair of rows with β ≠ 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fastsvm._compiled.threads import spans
from fastsvm.estimators.nystroem.dual_expansion import DualExpansion, Expansions, Limits, Machine, added

__all__ = ["exact_bounds"]


def exact_bounds(expansions: Expansions, machine: Machine, square: np.ndarray) -> tuple[float, float]:
    """Return a lower and an upper bound of the optimum of the kernel problem, summed over the problems.

    The expansions are of the rows of all places, and `square` is K_MM.
    """
    sizes = np.einsum("cm,mk,ck->c", machine.coef, square, machine.coef, optimize=True) + np.square(machine.bias)
    upper = machine.by_problem(added(_each(expansions, DualExpansion.losses)) + sizes / 2)
    support = [expansions.at(number, DualExpansion.support) for number in range(len(expansions))]
    counts = _each(expansions, DualExpansion.count, support)
    if not any(counts):  # all dual variables are 0, and so is their objective
        return 0.0, float(upper.sum())
    if sum(counts) <= _limits(expansions).n_held:  # or a file would be read again and again
        expansions, support = expansions.kept(support)

    def conjugates(share: Any) -> np.ndarray:
        return machine.by_problem(added(_each(expansions, DualExpansion.conjugates, support, share)))

    form = machine.by_problem(_form(expansions, support, counts, machine.constant**2))
    return float(_best_objectives(conjugates, form).sum()), float(upper.sum())


def _each(expansions: Expansions, method: Any, *given: Any) -> list[Any]:
    """Return what the expansions of all places answer; of what is given in a list, each is given its own."""
    own = [[one[number] if isinstance(one, list) else one for one in given] for number in range(len(expansions))]
    return expansions.told([expansions.at(number, method, *some) for number, some in enumerate(own)])


def _limits(expansions: Expansions) -> Limits:
    """Return how many rows may be used at once in all places."""
    return Limits(*map(min, zip(*_each(expansions, DualExpansion.limits), strict=True)))


def _form(expansions: Expansions, support: list[Any], counts: list[int], square: float) -> np.ndarray:
    """Return βᵀ (K + s²) β for each score, by kernel values of all pairs of rows; `square` is s²."""
    limits, n_asked = _limits(expansions), 0
    found: list[np.ndarray] = []
    asked: list[Any] = []
    for number, count in enumerate(counts):
        for a, b in spans(count, limits.n_chunk):
            if asked and n_asked + b - a > limits.n_held:  # blocks are in memory until they are used
                found += expansions.told(asked)
                asked, n_asked = [], 0
            places = np.arange(a, b)
            block = expansions.at(number, DualExpansion.block, support[number], places)
            sums = [expansions.at(k, DualExpansion.sums, block, own, square) for k, own in enumerate(support)]
            asked.append(expansions.at(number, DualExpansion.form, support[number], places, sums))
            n_asked += b - a
    return added(found + expansions.told(asked))


def _best_objectives(conjugates: Callable[[Any], np.ndarray], form: np.ndarray) -> np.ndarray:
    """Return the dual objectives of the best multiples of β for each problem, at least 0, which is a bound too."""
    whole, half = conjugates(1.0), conjugates(0.5)
    curvature = 4 * (whole - 2 * half)
    slope = curvature / 2 - whole
    with np.errstate(over="ignore"):  # where equal samples of both classes cancel, the form may be 0
        share = np.clip(slope / np.maximum(curvature + form, np.finfo(float).tiny), 0.0, 1.0)
    return np.maximum(-conjugates(share) - np.square(share) * form / 2, 0.0)
