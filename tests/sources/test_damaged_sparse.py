"""Sparse matrices whose arrays do not fit each other are refused before their rows are read."""

import numpy as np
import pytest
from scipy import sparse

from fastsvm import SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor
from fastsvm.sources import as_source

_RNG = np.random.default_rng(0)
DENSE = np.where(_RNG.random((40, 6)) < 0.6, _RNG.normal(size=(40, 6)), 0.0)
y = np.arange(40) % 2
ESTIMATORS = [SVC(), LinearSVC(), LinearSVR(), SGDClassifier(), SGDRegressor()]


def _with(name, place, value):
    def change(matrix):
        getattr(matrix, name)[place] = value

    return change


def _set(name, function):
    def change(matrix):
        setattr(matrix, name, function(getattr(matrix, name)))

    return change


FAULTS = {
    "indptr negative": (_with("indptr", 3, -5), r"indptr\[3\] is -5 after"),
    "indptr far negative": (_with("indptr", 3, -(2**31)), r"indptr\[3\] is -2147483648"),
    "indptr begins late": (_with("indptr", 0, 2), r"indptr\[0\] is 2"),
    "indptr falls": (_with("indptr", 10, 1), r"indptr\[10\] is 1 after"),
    "indptr beyond the values": (_with("indptr", -1, 10**6), r"indptr\[40\] is 1000000"),
    "index negative": (_with("indices", 7, -1), "indices from -1 to 5"),
    "index too large": (_with("indices", 7, 6), "indices from 0 to 6"),
    "index far too large": (_with("indices", -1, 2**31 - 1), "indices from 0 to 2147483647"),
    "indices shorter": (_set("indices", lambda a: a[:-3]), "data has .* indices has"),
    "data shorter": (_set("data", lambda a: a[:-3]), "data has .* indices has"),
    "indptr shorter": (_set("indptr", lambda a: a[:-1]), "indptr has 40 entries, 41"),
    "indptr empty": (_set("indptr", lambda a: a[:0]), "indptr has 0 entries, 41"),
    "indices of floats": (_set("indices", lambda a: a.astype(float)), "indices must be int32 or int64.*float64"),
    "indptr in two dimensions": (_set("indptr", lambda a: a[None]), "indptr must be .* one dimension"),
}


def damaged(change, kind=sparse.csr_matrix, index=np.int32):
    matrix = kind(DENSE)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    change(matrix)
    return matrix


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize(("kind", "index"), [(sparse.csr_matrix, np.int32), (sparse.csr_array, np.int64)])
def test_a_source_is_not_made_of_it(name, kind, index):
    change, words = FAULTS[name]
    with pytest.raises(ValueError, match=f"CSR matrix is damaged: .*{words}"):
        as_source(damaged(change, kind, index))


@pytest.mark.parametrize("name", FAULTS)
def test_no_estimator_fits_or_predicts_it(name):
    change, words = FAULTS[name]
    for estimator in ESTIMATORS:
        with pytest.raises(ValueError, match=words):
            estimator.fit(damaged(change), y)
        estimator.fit(DENSE, y)
        calls = [estimator.predict, lambda X, score=estimator.score: score(X, y)]
        calls += [estimator.decision_function] if hasattr(estimator, "decision_function") else []
        calls += [lambda X, fit=estimator.partial_fit: fit(X, y)] if hasattr(estimator, "partial_fit") else []
        for call in calls:
            with pytest.raises(ValueError, match=words):
                call(damaged(change))


@pytest.mark.parametrize("name", ["indptr negative", "index too large", "indptr beyond the values"])
def test_columns_are_looked_at_before_they_become_rows(name):
    change, _ = FAULTS[name]
    if name == "index too large":
        change = _with("indices", 7, 40)
    with pytest.raises(ValueError, match="CSC matrix is damaged"):
        LinearSVC().fit(damaged(change if name != "indptr beyond the values" else _with("indptr", -1, 999),
                                sparse.csc_matrix), y)  # fmt: skip
    pairs = sparse.coo_matrix(DENSE)
    pairs.coords = (np.where(np.arange(pairs.nnz) == 3, 40, pairs.coords[0]), pairs.coords[1])
    with pytest.raises(ValueError, match=r"COO matrix is damaged.*axis 0"):
        LinearSVC().fit(pairs, y)


def test_values_behind_the_last_row_do_not_count():
    whole = sparse.csr_matrix(DENSE)
    longer = sparse.csr_matrix(DENSE)
    longer.data, longer.indices = np.append(longer.data, [7.0, 8.0]), np.append(longer.indices, [0, 1]).astype(np.int32)
    for estimator in (SVC(), LinearSVC(random_state=0)):
        wanted = estimator.fit(whole, y).decision_function(whole)
        assert np.array_equal(estimator.fit(longer, y).decision_function(longer), wanted)


def test_order_is_looked_at_anew():
    whole = sparse.csr_matrix(DENSE)
    mixed = sparse.csr_matrix(DENSE)
    assert mixed.has_canonical_format  # which is remembered
    for a, b in zip(mixed.indptr[:-1], mixed.indptr[1:], strict=True):
        mixed.indices[a:b], mixed.data[a:b] = mixed.indices[a:b][::-1].copy(), mixed.data[a:b][::-1].copy()
    pairs = zip(as_source(mixed).block.arrays, as_source(whole).block.arrays, strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    assert mixed.indices[0] > mixed.indices[1]  # the user's matrix has not changed


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.int8, np.uint8])
def test_repeated_entries_are_added_in_every_type(dtype):
    data = np.array([100, 100, 3], dtype)
    if dtype == np.float16:
        matrix = sparse.csr_matrix((2, 2), dtype=np.float32)
        matrix.data, matrix.indices = data, np.array([1, 1, 0], np.int32)
        matrix.indptr = np.array([0, 2, 3], np.int32)
    else:
        matrix = sparse.csr_matrix((data, [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert as_source(matrix).block.dense(np.float64).tolist() == [[0, 200], [3, 0]]


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_long_doubles_become_doubles(make):
    X = make(DENSE.astype(np.longdouble))
    assert as_source(X).dtype == np.float64
    for estimator in (SVC(), LinearSVC(random_state=0), SGDClassifier(random_state=0)):
        wanted = estimator.fit(make(DENSE), y).decision_function(make(DENSE))
        assert np.array_equal(estimator.fit(X, y).decision_function(X), wanted)
        assert np.array_equal(estimator.fit(as_source(X), y).decision_function(as_source(X)), wanted)
