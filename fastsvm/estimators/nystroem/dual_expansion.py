"""The expansion Σ_j β_j k(x_j, x) of dual variables, and the quadratic form βᵀ K β."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.estimators.nystroem.stored_features import is_bounded
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.losses import Demands, Loss
from fastsvm.sources import Source

__all__ = ["DualExpansion", "Solved"]

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


class DualExpansion:
    """The expansion of dual variables, a column for each score, with the kernel alone.

    Parameters
    ----------
    estimator : NystroemSVC or NystroemSVR
        With the attributes of a fitted kernel.
    solved : Solved
        The solution.
    beta : ndarray of float64, shape (n_samples, n_scores)
        Feasible dual variables. They may change between calls.
    pool : Pool
        Threads.
    budget : int
        Bytes that may be used.
    """

    def __init__(self, estimator: Any, solved: Solved, beta: np.ndarray, pool: Pool, budget: int) -> None:
        self._estimator, self._solved, self.beta = estimator, solved, beta
        self._pool, self.budget = pool, budget

    def most_rows(self, n_places: int, n_landmarks: int) -> int:
        """Return at how many rows sums over `n_places` rows are affordable, in time and in memory."""
        source = self._solved.source
        values = _VALUES + 2 * len(source) * n_landmarks
        held = len(source) if source.resident else self.budget // _ROW_SHARE // _row_bytes(source)
        return max(_LEAST_SAMPLE, min(values // max(1, n_places), held))

    def most_passes(self, n_places: int, n_landmarks: int) -> int:
        """Return how often sums over `n_places` rows at all of them are affordable."""
        return (_VALUES + 2 * len(self._solved.source) * n_landmarks) // max(1, n_places) ** 2

    def form(self, places: np.ndarray) -> np.ndarray:
        """Return βᵀ K β, by kernel values of all pairs of the rows `places`, where β is not zero."""
        return np.einsum("ic,ic->c", self.beta[places], self.sums(places, places))

    def estimated_form(self, places: np.ndarray, n_rows: int, rng: np.random.RandomState) -> np.ndarray:
        """Return the upper end of an interval for βᵀ K β, from sums at a sample of rows."""
        beta, features = self.beta, self._solved.features
        known, lengths = self._of_features()
        chance = self._chances(places, lengths)
        drawn = rng.choice(len(places), n_rows, p=chance)
        distinct, inverse = np.unique(drawn, return_inverse=True)
        rows = places[distinct]
        pieces = [rows[a:b] for a, b in spans(len(rows), _LEAST_SAMPLE)]
        of_features = np.concatenate([features.rows(piece).dense(np.float64) @ known for piece in pieces])
        terms = beta[rows] * (self.sums(rows, places) - of_features) / chance[distinct][:, None]
        terms = terms[inverse]
        error = terms.std(axis=0, ddof=1) / np.sqrt(n_rows)
        return np.maximum(np.square(known).sum(axis=0) + terms.mean(axis=0) + _ERRORS * error, 0.0)

    def _of_features(self) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ_j β_j φ_j and the squared lengths of all φ_j."""
        beta, features = self.beta, self._solved.features
        known, lengths = np.zeros((features.shape[1], beta.shape[1])), np.empty(len(features))
        for start, block in features.blocks():
            for a, b in spans(block.shape[0], _LEAST_SAMPLE):
                some, rows = block.slice(a, b).dense(np.float64), slice(start + a, start + b)
                known += some.T @ beta[rows]
                lengths[rows] = np.einsum("ij,ij->i", some, some)
        return known, lengths

    def _chances(self, places: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the probabilities of rows. Half of the draws are of rows that the features lack most."""
        size = np.abs(self.beta[places]).sum(axis=1)
        chance = size / size.sum()
        if is_bounded(self._estimator):
            size = size * np.sqrt(np.maximum(1 - lengths[places], 0))
            chance = (chance + size / size.sum()) / 2 if size.any() else chance
        return chance

    def sums(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return (K β) of some rows, summed over the rows `places`, shape (n_rows, n_scores)."""
        source, found = self._solved.source, np.zeros((len(rows), self.beta.shape[1]))
        most = int(np.clip(self.budget // _CHUNK_SHARE // _row_bytes(source), _LEAST_SAMPLE, _MOST_CHUNK))
        blocks = spans(len(rows), most if source.resident else len(rows))  # those of a file are read once
        for first, last in blocks:
            block = source.rows(rows[first:last])
            for a, b in spans(len(places), most):
                part, coef = source.as_passed(source.rows(places[a:b])), self.beta[places[a:b]]
                predictor = Predictor(self._estimator, coef, source, self._pool, part, np.float64)
                found[first:last] += predictor.scores(block)
        return found

    def among(self, rows: np.ndarray) -> np.ndarray:
        """Return the kernel matrix of some rows, in float64."""
        source = self._solved.source
        block, n = source.rows(rows), len(rows)
        predictor = Predictor(
            self._estimator, np.zeros((n, 1)), source, self._pool, source.as_passed(block), np.float64
        )
        pairwise, _, stored = predictor.paired(block)
        found = np.empty((n, n))
        Gram(pairwise, stored, self._pool).rows(np.arange(n), found, np.arange(n))
        return found


def _row_bytes(source: Source) -> int:
    """Return the bytes of a row as it is stored or, if that is more, in float64."""
    stored = source.nbytes // max(1, len(source))
    return stored + 1 if source.sparse else max(stored, 8 * source.shape[1])
