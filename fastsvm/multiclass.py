"""One-vs-one multiclass classification: pairs of classes, votes, and one-vs-rest scores."""

from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.compiler import jit

__all__ = ["Expansion", "class_pairs", "disjoint_order", "elected", "one_vs_rest_scores", "votes"]


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs of classes in LIBSVM's order: (0, 1), (0, 2), ..., (1, 2), ..."""
    return list(combinations(range(n_classes), 2))


def disjoint_order(pairs: list[tuple[int, int]]) -> list[int]:
    """Return an order of pairs in which consecutive pairs share no class where possible.

    It is that of a round-robin tournament: classes a and b play in round r if a + b = r modulo the number of classes,
    which is increased by 1 if it is even.
    """
    rounds = max(b for _, b in pairs) + 1
    rounds += 1 - rounds % 2
    return sorted(range(len(pairs)), key=lambda k: (sum(pairs[k]) % rounds, k))


class Expansion(NamedTuple):
    """Distinct support vectors of all pairs, ordered by class.

    Attributes
    ----------
    support : ndarray of int64, shape (n_support,)
        Indices of the support vectors in the training data.
    n_support : ndarray of int32, shape (n_classes,)
        Support vectors of each class.
    dual_coef : ndarray of float64, shape (n_classes - 1, n_support)
        y α. For a support vector of class c, row r is its coefficient in the problem of c and the r-th other class.
    """

    support: np.ndarray
    n_support: np.ndarray
    dual_coef: np.ndarray

    @classmethod
    def of(cls, beta: list[np.ndarray], rows: list[np.ndarray], labels: np.ndarray, n_classes: int) -> "Expansion":
        """Return the expansion of the coefficients `beta` (y α, first class positive) of the `rows` of each pair."""
        starts = np.array([0, *accumulate(map(len, beta))])
        values, places = (one[0] if len(one) == 1 else np.concatenate(one) for one in (beta, rows))
        dense, n_support = np.zeros((n_classes - 1, len(labels))), np.zeros(n_classes, np.int32)
        _place(values, places, starts, labels, dense)
        support = np.empty(len(labels), np.int64)
        support = support[: _order(dense, labels, n_support, support)]
        return cls(support, n_support, np.ascontiguousarray(dense[:, support]))


@jit
def _place(beta, rows, starts, labels, dense):
    """Write the coefficients of the rows of one pair after the other in the layout of an `Expansion`."""
    pair, n_classes = 0, dense.shape[0] + 1
    for a in range(n_classes):
        for b in range(a + 1, n_classes):
            for t in range(starts[pair], starts[pair + 1]):
                i = rows[t]
                dense[b - 1 if labels[i] == a else a, i] = beta[t]
            pair += 1


@jit
def _order(dense, labels, n_support, support):
    """Write the rows with a coefficient, class after class, and how many each class has; return how many there are."""
    count = 0
    for label in range(n_support.size):
        before = count
        for i in range(labels.size):
            if labels[i] == label:
                is_support = False
                for k in range(dense.shape[0]):
                    is_support = is_support or dense[k, i] != 0
                if is_support:
                    support[count] = i
                    count += 1
        n_support[label] = count - before
    return count


def pair_coefficients(dual_coef: np.ndarray, n_support: np.ndarray) -> np.ndarray:
    """Return the coefficients of every support vector in every pair, shape (n_support, n_pairs).

    `dual_coef` has the layout of `Expansion`, or a row for each pair if all pairs share the support vectors.
    """
    n_classes = len(n_support)
    if len(dual_coef) == n_classes * (n_classes - 1) // 2:
        return dual_coef.T
    stop = np.cumsum(n_support)
    start = stop - n_support
    pairs = class_pairs(n_classes)
    coef = np.zeros((dual_coef.shape[1], len(pairs)))
    for column, (a, b) in enumerate(pairs):
        coef[start[a] : stop[a], column] = dual_coef[b - 1, start[a] : stop[a]]
        coef[start[b] : stop[b], column] = dual_coef[a, start[b] : stop[b]]
    return coef


def votes(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the votes of each class. A decision is positive if the first class of the pair wins."""
    count = np.zeros((len(decisions), n_classes))
    for column, (a, b) in enumerate(class_pairs(n_classes)):
        first = decisions[:, column] > 0
        count[:, a] += first
        count[:, b] += ~first
    return count


def elected(decisions: np.ndarray, n_classes: int, break_ties: bool) -> np.ndarray:
    """Return the numbers of the classes with the most votes; of several the first, or that of the largest decisions."""
    scores = one_vs_rest_scores(decisions, n_classes) if break_ties else votes(decisions, n_classes)
    return scores.argmax(axis=1)


def one_vs_rest_scores(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """Return one score per class: its votes, plus the transformed sum of its decisions to break ties.

    The transformation maps the sum to less than a third of a vote.
    """
    confidence = np.zeros((len(decisions), n_classes))
    for column, (a, b) in enumerate(class_pairs(n_classes)):
        confidence[:, a] += decisions[:, column]
        confidence[:, b] -= decisions[:, column]
    return votes(decisions, n_classes) + confidence / (3 * (np.abs(confidence) + 1))
