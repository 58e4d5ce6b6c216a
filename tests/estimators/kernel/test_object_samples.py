"""Kernels that are functions of samples that are not numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn import svm
from sklearn.model_selection import GridSearchCV, cross_val_score

from fastsvm import SVC, SVCSearch


def words(n=120):
    """Return random words of two kinds, and their kinds."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    return ["".join(rng.choice(list("abcd" if kind else "cdef"), rng.integers(2, 9))) for kind in y], y


def shared_letters(a, b):
    """Return the kernel of two sequences of sequences: how many kinds of letters they share."""
    table = [[len(set(one) & set(other)) for other in map(str, b)] for one in map(str, a)]
    return np.array(table, dtype=float)


def mean_product(a, b):
    """Return the kernel of two stacks of images."""
    return np.einsum("ijk,ljk->il", np.asarray(a), np.asarray(b)) / 1000


KINDS = {
    "list": (lambda given: given, shared_letters),
    "array": (np.array, shared_letters),
    "objects": (lambda given: np.array(given, dtype=object), shared_letters),
    "series": (pd.Series, shared_letters),
    "lists": (lambda given: [[ord(letter) for letter in word] for word in given], lambda a, b: shared_letters(a, b)),
    "stack": (lambda given: np.array([np.outer(*[[len(w), w.count("a")]] * 2) for w in given], float), mean_product),
    "frame": (
        lambda given: pd.DataFrame({"word": given, "length": [len(word) for word in given]}),
        lambda a, b: shared_letters(a["word"], b["word"]),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_that_of_scikit_learn(kind):
    given, y = words()
    make, kernel = KINDS[kind]
    X, Z = make(given), make(given[::-1][:40])
    found, wanted = SVC(kernel=kernel, tol=1e-6).fit(X, y), svm.SVC(kernel=kernel, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(found.decision_function(Z), wanted.decision_function(Z), atol=1e-5)
    np.testing.assert_array_equal(found.predict(Z), wanted.predict(Z))
    assert len(found.support_vectors_) == len(found.support_)
    assert type(found.support_vectors_) is type(X)


def test_a_search_and_cross_validation():
    X, y = words()
    grid = {"C": [0.01, 10]}
    found = SVCSearch(SVC(kernel=shared_letters, tol=1e-8), grid, cv=3).fit(X, y)
    wanted = GridSearchCV(svm.SVC(kernel=shared_letters, tol=1e-8), grid, cv=3).fit(X, y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], wanted.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(found.predict(X), wanted.predict(X))
    scores = cross_val_score(SVC(kernel=shared_letters, C=0.01), X, y, cv=3)
    assert scores.mean() == found.cv_results_["mean_test_score"][0]


def test_numbers_stay_arrays():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    seen = set()

    def kernel(a, b):
        seen.add((type(a), a.ndim, a.dtype))
        return a @ b.T

    SVC(kernel=kernel).fit(X.tolist(), y).predict(X)
    assert seen == {(np.ndarray, 2, np.dtype(float))}


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_other_kernels_need_numbers(kernel):
    with pytest.raises(ValueError, match=r"could not convert string|2D array"):
        SVC(kernel=kernel).fit(*words())


def test_a_scale_of_words():
    with pytest.raises(ValueError, match="standardize=True needs features"):
        SVC(kernel=shared_letters, standardize=True).fit(*words())


def test_lists_to_predict_that_happen_to_be_of_equal_length():
    def common_length(a, b):
        return np.array([[min(len(one), len(other)) for other in b] for one in a], float)

    X, y = [[1, 2], [3], [4, 5, 6], [7]] * 5, [0, 1, 0, 1] * 5
    model = SVC(kernel=common_length).fit(X, y)
    for one in ([1, 2], [3]):
        assert model.predict([one]) == model.predict(X)[X.index(one)]
    numbers = SVC(kernel=lambda a, b: a @ b.T).fit([[1.0, 2.0], [3.0, 1.0]] * 5, [0, 1] * 5)
    with pytest.raises(ValueError, match=r"inhomogeneous|sequence"):
        numbers.predict([[1, 2], [3]])
