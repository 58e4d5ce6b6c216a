"""Some ten to some hundred classes: what a pair of classes costs must not grow with the support vectors of others."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import SVC as LIBSVM

from fastsvm import SVC, NuSVC, compress
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.multiclass import pair_coefficients
from fastsvm.solvers.kernel_dual.problem import Problems


def persons(n_classes, n_each, n_features=20):
    """Return samples of many classes, shuffled, that are like faces of persons: few of each, well apart."""
    rng = np.random.default_rng(n_classes)
    y = rng.permutation(np.arange(n_classes * n_each) % n_classes)
    return rng.normal(size=(n_classes, n_features))[y] + 0.3 * rng.normal(size=(len(y), n_features)), y


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, lambda X: X @ X.T], ids=["dense", "CSR", "kernel matrix"])
@pytest.mark.parametrize("shape", ["ovo", "ovr"])
def test_scores_are_those_of_libsvm_and_of_the_row_alone(shape, form):
    X, y = persons(19, 4)
    rows = form(X)
    known = {"kernel": "precomputed" if rows.shape == (76, 76) else "linear", "decision_function_shape": shape}
    model, other = SVC(tol=1e-9, **known).fit(rows, y), LIBSVM(tol=1e-9, **known).fit(rows, y)
    whole = model.decision_function(rows)
    np.testing.assert_allclose(whole, other.decision_function(rows), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(model.predict(rows), other.predict(rows))
    for a, b in ((0, 1), (3, 5), (7, 12), (20, 53)):
        np.testing.assert_array_equal(model.decision_function(rows[a:b]), whole[a:b])


@pytest.mark.parametrize("bytes_of_row", [1, 1 << 21, 1 << 60], ids=["at once", "32", "16"])
def test_support_vectors_are_summed_in_parts(bytes_of_row, monkeypatch):
    X, y = persons(11, 30)
    model = SVC(tol=1e-6).fit(X, y).set_params(decision_function_shape="ovo")
    coef = csr_matrix(pair_coefficients(model.dual_coef_, model.n_support_)).toarray()
    squares = ((X[:40, None] - model.support_vectors_) ** 2).sum(axis=2)
    monkeypatch.setattr(RealPairwise, "row_bytes", lambda self, rows: bytes_of_row)
    wanted = np.exp(-model._gamma * squares) @ coef.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X[:40]), wanted, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(model.decision_function(X[:1])[0], model.decision_function(X[:40])[0])


def test_weights_are_those_of_all_pairs():
    X, y = persons(12, 3)
    model = SVC(kernel="linear", decision_function_shape="ovo").fit(X, y)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, model.decision_function(X), rtol=0, atol=1e-12)


def test_memory_of_two_hundred_classes():
    X, y = persons(200, 4)
    n_pairs = 200 * 199 // 2
    SVC().fit(*persons(30, 2)).predict(X[:20])
    tracemalloc.start()
    try:
        model = SVC(memory="256MB", decision_function_shape="ovr").fit(X, y)
        of_fit = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        model.predict(X[:1])
        of_one_row = tracemalloc.get_traced_memory()[1] - base
        tracemalloc.reset_peak()
        labels = model.predict(X)
        of_all_rows = tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()
    assert (labels == y).mean() > 0.99
    dense = 8 * n_pairs * len(model.support_)  # a column for every pair
    assert of_one_row < dense / 30
    assert of_fit < dense / 2
    assert of_all_rows < 8 * n_pairs * len(X) / 2


@pytest.mark.parametrize(("model", "n_classes"), [(SVC(), 300), (NuSVC(nu=0.3), 120)])
def test_pairs_are_within_the_memory(model, n_classes):
    X, y = persons(n_classes, 3)
    model.fit(*persons(30, 2))
    tracemalloc.start()
    try:
        model.set_params(memory="64MB").fit(X, y)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 64_000_000
    with pytest.raises(ValueError, match=r"memory=.* MB is too little"):
        model.set_params(memory=taken).fit(X, y)  # which leaves nothing for kernel values, and for the allocator


def test_a_compression_counts_its_pairs():
    X, y = persons(60, 2)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match=r"1,770 pairs of classes take .* GB, and memory allows"):
        compress(model, X, n_support=20, memory="2MB")
    assert compress(model, X, n_support=20, memory="64MB").n_support == 20


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_problems_of_pairs(n_classes):
    rng = np.random.default_rng(0)
    labels, upper = rng.integers(-1, n_classes, 60), rng.random(60)
    problems = Problems.of_pairs(labels, upper, n_classes)
    assert problems.n_problems == n_classes * (n_classes - 1) // 2
    assert problems.classes.tolist() == [[a, b] for a, b in combinations(range(n_classes), 2)]
    for number, (a, b) in enumerate(combinations(range(n_classes), 2)):
        rows = np.flatnonzero((labels == a) | (labels == b))
        np.testing.assert_array_equal(problems.samples_of(number), rows)
        np.testing.assert_array_equal(problems.problem(number).y, np.where(labels[rows] == a, 1.0, -1.0))
        np.testing.assert_array_equal(problems.problem(number).upper, upper[rows])


def test_a_warm_start_keeps_a_number_for_each_sample_and_class():
    X, y = persons(40, 3)
    model = SVC(warm_start=True, C=0.5).fit(X, y)
    assert model._multipliers[1].size == 39 * 120
    np.testing.assert_array_equal(model.fit(X, y).n_iter_, 0)
    assert len(model.history_["problem"]) == 780
    np.testing.assert_allclose(model.set_params(C=2.0).fit(X, y).objective_, SVC(C=2.0).fit(X, y).objective_, rtol=1e-9)
