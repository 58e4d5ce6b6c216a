"""One-vs-one multiclass classification: pairs of classes, votes, and one-vs-rest scores."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fastsvm._compiled.compiler import jit, jit_in_order, writeable


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs of classes in LIBSVM's order: (0, 1), (0, 2), ..., (1, 2), ..."""
    return list(combinations(range(n_classes), 2))


def disjoint_order(pairs: list[tuple[int, int]]) -> list[int]:
    """Return an order of pairs in which consecutive ones share no class where possible: that of a round-robin."""
    # Classes a and b play in round a + b modulo the number of classes, made odd.
    rounds = max(b for _, b in pairs) + 1
    rounds += 1 - rounds % 2
    return sorted(range(len(pairs)), key=lambda k: (sum(pairs[k]) % rounds, k))


class Expansion(NamedTuple):
    """Distinct support vectors of all pairs, ordered by class."""

    support: np.ndarray  # They are indices in the training data.
    n_support: np.ndarray  # It counts those of each class.
    dual_coef: np.ndarray  # It is y α, shape (n_classes - 1, n_support): of class c, row r is for the r-th other.

    @classmethod
    def of(
        cls, beta: np.ndarray, rows: np.ndarray, starts: np.ndarray, labels: np.ndarray, n_classes: int
    ) -> "Expansion":
        """Return the expansion of the coefficients `beta` (y α, first class positive) of the `rows` of each pair."""
        dense, n_support = by_class(beta, rows, starts, labels, n_classes), np.zeros(n_classes, np.int32)
        support = np.empty(len(labels), np.int64)
        support = support[: _order(dense, labels, n_support, support)]
        return cls(support, n_support, np.ascontiguousarray(dense[:, support]))


def by_class(
    values: np.ndarray, rows: np.ndarray, starts: np.ndarray, labels: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return values of the rows of each pair, which stand one pair after the other, as `Expansion` arranges them."""
    dense = np.zeros((n_classes - 1, len(labels)))
    _exchange(values, rows, starts, labels, dense, True)
    return dense


def by_pair(dense: np.ndarray, rows: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the inverse of `by_class`."""
    values = np.empty(len(rows))
    _exchange(values, rows, starts, labels, dense, False)
    return values


@jit
def _exchange(values, rows, starts, labels, dense, write):
    """Write the values of the rows of one pair after the other in the layout of an `Expansion`, or read them there."""
    pair, n_classes = 0, dense.shape[0] + 1
    for a in range(n_classes):
        for b in range(a + 1, n_classes):
            for t in range(starts[pair], starts[pair + 1]):
                i = rows[t]
                other = b - 1 if labels[i] == a else a
                if write:
                    dense[other, i] = values[t]
                else:
                    values[t] = dense[other, i]
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


def pair_coefficients(dual_coef: np.ndarray, n_support: np.ndarray) -> np.ndarray | sparse.csr_matrix:
    """Return the coefficients of every support vector in every pair, shape (n_pairs, n_support).

    `dual_coef` has the layout of `Expansion`, or a row for each pair if all pairs share the support vectors.
    """
    k, n = len(n_support), dual_coef.shape[1]
    if len(dual_coef) == k * (k - 1) // 2:
        return dual_coef
    first, second = np.triu_indices(k, 1)
    pairs = np.empty((k, k - 1), np.int64)  # of each class and the r-th other class
    pairs[first, second - 1] = pairs[second, first] = np.arange(len(first))
    numbers = pairs[np.repeat(np.arange(k), n_support)]
    columns = np.broadcast_to(np.arange(n)[:, None], numbers.shape)
    values = dual_coef.T.ravel()
    return sparse.csr_matrix((values, (numbers.ravel(), columns.ravel())), shape=(k * (k - 1) // 2, n))


def votes(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the votes of each class. A decision is positive if the first class of the pair wins."""
    counts = np.zeros((len(decisions), n_classes))
    _add_votes(writeable(np.ascontiguousarray(decisions, np.float64)), counts)
    return counts


def elected(decisions: np.ndarray, n_classes: int, break_ties: bool) -> np.ndarray:
    """Return the numbers of the classes with the most votes; of several the first, or that of the largest decisions."""
    scores = one_vs_rest_scores(decisions, n_classes) if break_ties else votes(decisions, n_classes)
    return scores.argmax(axis=1)


def one_vs_rest_scores(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """Return one score per class: its votes, plus less than a third of one by the sum of its decisions, for ties."""
    confidence = np.zeros((len(decisions), n_classes))
    _add_confidence(writeable(np.ascontiguousarray(decisions, np.float64)), confidence)
    return votes(decisions, n_classes) + confidence / (3 * (np.abs(confidence) + 1))


@jit
def _add_votes(decisions, votes):
    for i in range(votes.shape[0]):
        pair = 0
        for a in range(votes.shape[1]):
            n_won = 0
            for b in range(a + 1, votes.shape[1]):
                n_won += decisions[i, pair] > 0
                votes[i, b] += not decisions[i, pair] > 0
                pair += 1
            votes[i, a] += n_won


@jit_in_order
def _add_confidence(decisions, confidence):
    for i in range(confidence.shape[0]):
        pair = 0
        for a in range(confidence.shape[1]):
            for b in range(a + 1, confidence.shape[1]):
                confidence[i, a] += decisions[i, pair]
                confidence[i, b] -= decisions[i, pair]
                pair += 1
