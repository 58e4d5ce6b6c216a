from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.utils.multiclass import _ovr_decision_function

from fastsvm.multiclass import (
    Expansion,
    class_pairs,
    disjoint_order,
    one_vs_rest_scores,
    pair_coefficients,
    votes,
)


def decisions(n_classes, n_rows=50, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_classes * (n_classes - 1) // 2))


def test_pairs_are_in_libsvms_order():
    assert class_pairs(4) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_votes_are_counted(n_classes):
    scores = decisions(n_classes)
    wanted = np.zeros((len(scores), n_classes))
    for row, values in enumerate(scores):
        for (a, b), value in zip(combinations(range(n_classes), 2), values, strict=True):
            wanted[row, a if value > 0 else b] += 1
    np.testing.assert_array_equal(votes(scores, n_classes), wanted)


@pytest.mark.parametrize("n_classes", [3, 4, 10])
def test_scores_are_those_of_scikit_learn(n_classes):
    scores = decisions(n_classes)
    wanted = _ovr_decision_function(scores < 0, -scores, n_classes)
    np.testing.assert_allclose(one_vs_rest_scores(scores, n_classes), wanted, rtol=1e-12)


@given(n_classes=st.integers(3, 8), seed=st.integers(0, 1000), scale=st.sampled_from([1e-9, 1.0, 1e9]))
def test_confidence_never_outweighs_a_vote(n_classes, seed, scale):
    scores = scale * decisions(n_classes, 10, seed)
    difference = one_vs_rest_scores(scores, n_classes) - votes(scores, n_classes)
    assert np.abs(difference).max() < 1 / 3 + 1e-9


def naive_expansion(beta, rows, labels, n_classes):
    """Return what `Expansion.of` should, row by row."""
    columns = {}
    for (a, b), values, indices in zip(combinations(range(n_classes), 2), beta, rows, strict=True):
        for value, row in zip(values, indices, strict=True):
            if value != 0:
                column = columns.setdefault(int(row), [0.0] * (n_classes - 1))
                column[b - 1 if labels[row] == a else a] = value
    support = sorted(columns, key=lambda row: (labels[row], row))
    return support, np.array([columns[row] for row in support]).reshape(len(support), n_classes - 1).T


@given(n_classes=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_an_expansion_holds_every_coefficient_once(n_classes, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, n_classes, 30)
    rows = [np.flatnonzero((labels == a) | (labels == b)) for a, b in combinations(range(n_classes), 2)]
    beta = [rng.normal(size=len(pair)) * (rng.random(len(pair)) < 0.5) for pair in rows]
    starts = np.cumsum([0, *map(len, rows)])
    found = Expansion.of(np.concatenate(beta), np.concatenate(rows), starts, labels, n_classes)
    support, dual_coef = naive_expansion(beta, rows, labels, n_classes)
    assert list(found.support) == support
    np.testing.assert_array_equal(found.dual_coef, dual_coef)
    assert list(found.n_support) == [sum(labels[support] == label) for label in range(n_classes)]

    coef = csr_matrix(pair_coefficients(found.dual_coef, found.n_support)).toarray()
    for column, (values, pair) in enumerate(zip(beta, rows, strict=True)):
        full = np.zeros(30)
        full[found.support] = coef[column]
        np.testing.assert_array_equal(full[pair], values)
        assert np.count_nonzero(full) == np.count_nonzero(values)


def test_no_support_vectors():
    labels = np.array([0, 1, 2])
    rows = [np.array([0, 1]), np.array([0, 2]), np.array([1, 2])]
    found = Expansion.of(np.zeros(6), np.concatenate(rows), np.array([0, 2, 4, 6]), labels, 3)
    assert found.dual_coef.shape == (2, 0)
    np.testing.assert_array_equal(found.n_support, 0)
    assert pair_coefficients(found.dual_coef, found.n_support).shape == (3, 0)


@pytest.mark.parametrize("n_classes", range(2, 13))
def test_the_order_of_pairs_has_all_of_them(n_classes):
    order = disjoint_order(class_pairs(n_classes))
    assert sorted(order) == list(range(n_classes * (n_classes - 1) // 2))


def test_neighbours_share_no_class_within_a_round():
    pairs = class_pairs(10)
    order = [pairs[k] for k in disjoint_order(pairs)]
    shared = [bool(set(a) & set(b)) for a, b in pairwise(order)]
    assert sum(shared) <= 10  # only where one of eleven rounds ends
    for (a, b), met in zip(pairwise(order), shared, strict=True):
        assert not (met and sum(a) % 11 == sum(b) % 11)
