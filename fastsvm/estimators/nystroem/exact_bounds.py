"""Bounds of the optimum of the kernel problem that a machine of landmarks approximates.

Above
    The model is a point of the kernel problem: ½ cᵀ K_MM c + ½ b² plus its losses, computed in float64, is at least the
    optimum. b is the weight of the constant feature, which is penalised: the kernel is K + s² with its value s.

Below
    The dual variables β of the machine are feasible for the kernel problem too, which has the same constraints. So is
    t β for 0 ≤ t ≤ 1, and - Σ_i c_i ℓ*(-t β_i / c_i) - ½ t² βᵀ (K + s²) β is at most the optimum. K is at least its
    approximation, so that t < 1 is best. The conjugates are quadratic in t between 0 and 1, so the best t is known.

Cost
    A kernel value for each row and landmark, and for each pair of rows with β ≠ 0. Where those are too many, βᵀ K β is
    estimated. Rows i are drawn with probabilities p_i in proportion to |β_i|, and β_i ((K β)_i - φ_iᵀ v) / p_i is
    averaged, with v = Σ_j β_j φ_j. To this the sum of all β_i φ_iᵀ v, which is ‖v‖², is added. For features φ the
    differences are small. The upper end of an interval of 3.3 standard errors is taken for βᵀ K β. The bound is then no
    longer certain, but it holds for 999 of 1,000 samples.
"""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.losses import Demands, Loss, dual_losses, feasible, primal_losses
from fastsvm.sources import Source

__all__ = ["ExactBounds", "Solved", "exact_bounds"]

_VALUES = 1 << 30  # kernel values of pairs of rows, beside as many as twice the features took
_MOST_CHUNK = 8192  # rows of an expansion at once
_CHUNK_SHARE = 64  # of the memory for them
_LEAST_SAMPLE = 256
_ERRORS = 3.3  # standard errors
_ROW_SHARE = 16  # of the memory for rows that were drawn


class Solved(NamedTuple):
    """A solution on features, and its samples.

    Attributes
    ----------
    source, features : Source
        Samples and their features.
    loss : Loss
        Loss of a row.
    demands : Demands
        Targets and costs.
    constant : float
        Value of the constant feature.
    coef : ndarray of float64, shape (n_scores, n_landmarks)
        Coefficients of the landmarks.
    bias : ndarray of float64, shape (n_scores,)
        Weights of the constant feature.
    dual : ndarray of shape (n_samples, n_scores)
        Dual variables, within rounding of feasible ones.
    """

    source: Source
    features: Source
    loss: Loss
    demands: Demands
    constant: float
    coef: np.ndarray
    bias: np.ndarray
    dual: np.ndarray

    def by_problem(self, of_scores: np.ndarray) -> np.ndarray:
        """Return sums over the scores of each problem: one for a loss of all classes, otherwise one a score."""
        return of_scores.sum(keepdims=True) if self.loss.of_classes else of_scores


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
    expansion = _Expansion(estimator, solved, beta, predictor.pool, budget)
    places = np.flatnonzero(beta.any(axis=1))
    most = expansion.most_rows(len(places), len(square))
    is_rigorous = estimator.bounds == "rigorous" or most >= len(places)
    form = expansion.form(places) if is_rigorous else expansion.estimated_form(places, most, rng)
    form = solved.by_problem(form + np.square(solved.constant * beta.sum(axis=0)))
    return ExactBounds(float(_dual_values(solved, beta, form).sum()), float(upper.sum()), is_rigorous)


def _losses(solved: Solved, predictor: Predictor) -> np.ndarray:
    """Return the losses of the model's decision values in float64, per score; of all classes only the first."""
    found, demands = np.zeros(len(solved.coef)), solved.demands
    for start, block in shown(solved.source.blocks(), len(solved.source), "bounds", predictor.estimator):
        rows = slice(start, start + block.shape[0])
        scores = np.ascontiguousarray((predictor.scores(block) + solved.constant * solved.bias).T)
        own = Demands(demands.targets[rows], demands.costs[rows], demands.balance)
        primal_losses(solved.loss, own, 0, scores, found)
    return found


def _dual_values(solved: Solved, beta: np.ndarray, form: np.ndarray) -> np.ndarray:
    """Return the largest dual objectives of multiples of β, at least 0, which is a bound too."""

    def conjugates(share: Any) -> np.ndarray:
        found = np.zeros(beta.shape[1])
        dual_losses(solved.loss, solved.demands, np.ascontiguousarray(beta * share), found)
        return solved.by_problem(found)

    whole, half = conjugates(1.0), conjugates(0.5)
    curvature = 4 * (whole - 2 * half)
    slope = curvature / 2 - whole
    share = np.clip(slope / np.maximum(curvature + form, np.finfo(float).tiny), 0.0, 1.0)
    return np.maximum(-conjugates(share) - np.square(share) * form / 2, 0.0)


class _Expansion:
    """The quadratic form βᵀ K β, one for each column of β."""

    def __init__(self, estimator: Any, solved: Solved, beta: np.ndarray, pool: Pool, budget: int) -> None:
        self._estimator, self._solved, self._beta = estimator, solved, beta
        self._pool, self._budget = pool, budget

    def most_rows(self, n_places: int, n_landmarks: int) -> int:
        """Return for how many rows sums over all places are affordable, in time and in memory."""
        source = self._solved.source
        values = _VALUES + 2 * len(source) * n_landmarks
        held = len(source) if source.resident else self._budget // _ROW_SHARE // _row_bytes(source)
        return max(_LEAST_SAMPLE, min(values // max(1, n_places), held))

    def form(self, places: np.ndarray) -> np.ndarray:
        """Return βᵀ K β, by kernel values of all pairs of the rows `places`, where β is not zero."""
        return np.einsum("ic,ic->c", self._beta[places], self._sums(places, places))

    def estimated_form(self, places: np.ndarray, n_rows: int, rng: np.random.RandomState) -> np.ndarray:
        """Return the upper end of an interval for βᵀ K β, from sums at a sample of rows."""
        beta, features = self._beta, self._solved.features
        size = np.abs(beta[places]).sum(axis=1)
        chance = size / size.sum()
        drawn = rng.choice(len(places), n_rows, p=chance)
        distinct, inverse = np.unique(drawn, return_inverse=True)
        rows = places[distinct]
        known = np.zeros((features.shape[1], beta.shape[1]))  # Σ_j β_j φ_j
        for start, block in features.blocks():
            for a, b in spans(block.shape[0], _LEAST_SAMPLE):
                known += block.slice(a, b).dense(np.float64).T @ beta[start + a : start + b]
        pieces = [rows[a:b] for a, b in spans(len(rows), _LEAST_SAMPLE)]
        of_features = np.concatenate([features.rows(piece).dense(np.float64) @ known for piece in pieces])
        terms = beta[rows] * (self._sums(rows, places) - of_features) / chance[distinct][:, None]
        terms = terms[inverse]
        error = terms.std(axis=0, ddof=1) / np.sqrt(n_rows)
        return np.maximum(np.square(known).sum(axis=0) + terms.mean(axis=0) + _ERRORS * error, 0.0)

    def _sums(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return (K β) of some rows, summed over the rows `places`, shape (n_rows, n_scores)."""
        source, found = self._solved.source, np.zeros((len(rows), self._beta.shape[1]))
        most = int(np.clip(self._budget // _CHUNK_SHARE // _row_bytes(source), _LEAST_SAMPLE, _MOST_CHUNK))
        blocks = spans(len(rows), most if source.resident else len(rows))  # those of a file are read once
        for first, last in blocks:
            block = source.rows(rows[first:last])
            for a, b in spans(len(places), most):
                part, coef = source.as_passed(source.rows(places[a:b])), self._beta[places[a:b]]
                predictor = Predictor(self._estimator, coef, source, self._pool, part, np.float64)
                found[first:last] += predictor.scores(block)
        return found


def _row_bytes(source: Source) -> int:
    """Return the bytes of a row as it is stored or, if that is more, in float64."""
    stored = source.nbytes // max(1, len(source))
    return stored + 1 if source.sparse else max(stored, 8 * source.shape[1])
