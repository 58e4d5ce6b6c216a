"""A custom source is one class with a shape, a type and `read`. Fits equal those to rows in memory."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from fastsvm import SVC, LinearSVC
from fastsvm.sources import CSRBlock, DenseBlock, Source

N, D = 300, 6


def computed(start, stop):
    """Return rows that depend only on their numbers. A third of the values are zero."""
    place = np.arange(start, stop)[:, None] * D + np.arange(D)
    return np.where(place % 3 == 0, 0.0, np.sin(place**1.5))


class Computed(Source):
    """Rows that are computed when they are read."""

    def __init__(self):
        self.shape, self.dtype = (N, D), np.dtype(np.float64)

    def read(self, start, stop):
        return DenseBlock(computed(start, stop))


class ComputedSparse(Computed):
    """The same rows in compressed sparse row form, in small blocks."""

    sparse = True
    block_rows = 32

    def read(self, start, stop):
        return CSRBlock.of(sparse.csr_array(computed(start, stop)))


X = computed(0, N)
Y = np.where(X[:, 1] + X[:, 2] > 0.1 + 0.3 * np.cos(np.arange(N)), "above", "below")
SOURCES = pytest.mark.parametrize("kind", [Computed, ComputedSparse])


def dense(block):
    return block.dense(np.float64)


@SOURCES
def test_all_else_follows(kind):
    source = pickle.loads(pickle.dumps(kind()))
    some = np.array([299, 4, 4, 150])
    np.testing.assert_array_equal(dense(source.rows(some)), X[some])
    np.testing.assert_array_equal(dense(source.take(some).rows(np.array([3, 0]))), X[some[[3, 0]]])
    np.testing.assert_array_equal(dense(source.in_memory().block), X)
    np.testing.assert_array_equal(np.concatenate([dense(block) for _, block in source.blocks()]), X)
    assert source.digest() == kind().digest() and source.nbytes == N * D * 8 and source.reads.nbytes == 0
    source.check_unchanged()


@pytest.fixture(params=["kept in memory", "streamed"])
def make(request, monkeypatch):
    """Return a function that makes a source. If its declared size exceeds the memory, it is streamed."""

    def make(kind):
        if request.param == "streamed":
            monkeypatch.setattr(kind, "nbytes", 30 * 10**6, raising=False)
        return kind()

    return make


@SOURCES
def test_a_kernel_svm(kind, make):
    parameters = {"tol": 1e-6, "memory": "20MB"}
    found, wanted = SVC(**parameters).fit(make(kind), Y), SVC(**parameters).fit(X, Y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(make(kind)), wanted.decision_function(X), atol=1e-4)


@SOURCES
def test_a_linear_svm(kind, make):
    parameters = {"tol": 1e-6, "memory": "20MB", "random_state": 0}
    found, wanted = LinearSVC(**parameters).fit(make(kind), Y), LinearSVC(**parameters).fit(X, Y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-5)
    np.testing.assert_array_equal(found.predict(make(kind)), found.predict(X))
