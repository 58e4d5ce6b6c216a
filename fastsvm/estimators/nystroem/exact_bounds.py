"""Bounds of the optimum of the kernel problem that a machine of landmarks approximates.

Above
    The model is a point of the kernel problem: ½ cᵀ K_MM c + ½ b² plus its losses, computed in float64, is at least the
    optimum. b is the weight of the constant feature, which is penalised: the kernel is K + s² with its value s.

Below
    The dual variables β of the machine are feasible for the kernel problem too, which has the same constraints. So is
    t β for 0 ≤ t ≤ 1, and - Σ_i c_i ℓ*(-t β_i / c_i) - ½ t² βᵀ (K + s²) β is at most the optimum. K is at least its
    approximation, so that t < 1 is best. The conjugates are quadratic in t between 0 and 1, so the best t is known.
    Then passes of coordinate ascent raise the bound (`exact_ascent`), as many as are affordable and add 1 % each.

Cost
    A kernel value for each row and landmark, and for each pair of rows with β ≠ 0. Where those are too many, βᵀ K β is
    estimated. Rows i are drawn with probabilities p_i, and β_i ((K β)_i - φ_iᵀ v) / p_i is averaged, with
    v = Σ_j β_j φ_j. To this the sum of all β_i φ_iᵀ v, which is ‖v‖², is added. For features φ the differences are
    small; they are at most r_i = √(k(x_i, x_i) - ‖φ_i‖²) times a constant. So half of the draws are in proportion to
    |β_i| r_i, or a few rows that the features lack would be missed; the other half to |β_i|, as are all of kernels with
    no bound. The upper end of an interval of 3.3 standard errors is taken for βᵀ K β. The bound is then no longer
    certain, but it holds for 999 of 1,000 samples.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.estimators.nystroem.dual_expansion import DualExpansion, Solved
from fastsvm.estimators.nystroem.exact_ascent import ascend
from fastsvm.losses import dual_losses, feasible, primal_losses

__all__ = ["ExactBounds", "exact_bounds"]

_MOST_PASSES, _GAIN = 20, 0.01  # of ascent, and the least share of the bound that one must add for another


class ExactBounds(NamedTuple):
    """Bounds of the optimum, summed over the problems.

    Attributes
    ----------
    lower, upper : float
        The bounds.
    is_rigorous : bool
        Whether the lower bound is certain; else it is estimated from a sample.
    """

    lower: float
    upper: float
    is_rigorous: bool


def exact_bounds(
    estimator: Any, solved: Solved, predictor: Predictor, square: np.ndarray, budget: int, rng: np.random.RandomState
) -> ExactBounds:
    """Return bounds of the optimum of the kernel problem.

    Parameters
    ----------
    estimator : NystroemSVC or NystroemSVR
        With the attributes of a fitted kernel.
    solved : Solved
        The solution.
    predictor : Predictor
        Of the model, in float64.
    square : ndarray of float64, shape (n_landmarks, n_landmarks)
        K_MM.
    budget : int
        Bytes that may be used.
    rng : RandomState
        Source of random numbers, for a sample.
    """
    sizes = np.einsum("cm,mk,ck->c", solved.coef, square, solved.coef, optimize=True) + np.square(solved.bias)
    upper = solved.by_problem(_losses(solved, predictor) + sizes / 2)
    beta = feasible(solved.loss, solved.demands, np.asarray(solved.dual, np.float64))
    expansion = DualExpansion(estimator, solved, beta, predictor.pool, budget)
    places, m = np.flatnonzero(beta.any(axis=1)), len(square)
    most = expansion.most_rows(len(places), m)
    is_rigorous = estimator.bounds == "rigorous" or most >= len(places)
    if most >= len(places) and not solved.source.resident:  # passes would read the file again and again
        solved, beta = _kept(solved, places), beta[places]
        expansion, places = DualExpansion(estimator, solved, beta, predictor.pool, budget), np.arange(len(places))
    form = expansion.form(places) if is_rigorous else expansion.estimated_form(places, most, rng)
    form += np.square(solved.constant * beta.sum(axis=0))
    shares, lower = _best_shares(solved, beta, solved.by_problem(form))
    if is_rigorous and not solved.loss.of_classes:
        beta *= shares
        form *= np.square(shares)
        for _ in range(min(_MOST_PASSES, expansion.most_passes(len(places), m) - 1)):
            form = ascend(expansion, solved, places, form)
            before, lower = lower, _best_shares(solved, beta, form)[1]
            if lower.sum() <= (1 + _GAIN) * before.sum():
                break
    return ExactBounds(float(lower.sum()), float(upper.sum()), is_rigorous)


def _kept(solved: Solved, places: np.ndarray) -> Solved:
    """Return the problem of some rows alone, which are read into memory."""
    own = solved.demands.of_rows(places)
    return solved._replace(source=solved.source.take(places).in_memory(), demands=own)


def _losses(solved: Solved, predictor: Predictor) -> np.ndarray:
    """Return the losses of the model's decision values in float64, per score; of all classes only the first."""
    found = np.zeros(len(solved.coef))
    for start, block in shown(solved.source.blocks(), len(solved.source), "bounds", predictor.estimator):
        rows = slice(start, start + block.shape[0])
        scores = np.ascontiguousarray((predictor.scores(block) + solved.constant * solved.bias).T)
        primal_losses(solved.loss, solved.demands.of_rows(rows), 0, scores, found)
    return found


def _best_shares(solved: Solved, beta: np.ndarray, form: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best multiples of β for each problem, and their dual objectives, at least 0, which is a bound too."""

    def conjugates(share: Any) -> np.ndarray:
        found = np.zeros(beta.shape[1])
        dual_losses(solved.loss, solved.demands, np.ascontiguousarray(beta * share), found)
        return solved.by_problem(found)

    whole, half = conjugates(1.0), conjugates(0.5)
    curvature = 4 * (whole - 2 * half)
    slope = curvature / 2 - whole
    share = np.clip(slope / np.maximum(curvature + form, np.finfo(float).tiny), 0.0, 1.0)
    return share, np.maximum(-conjugates(share) - np.square(share) * form / 2, 0.0)
