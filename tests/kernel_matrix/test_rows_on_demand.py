import numpy as np
import pytest
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel

from fastsvm._compiled.compiler import jit
from fastsvm.kernel_matrix.rows_on_demand import (
    PADDING,
    diagonal_value,
    has_rows_on_demand,
    kernel_row,
    on_demand,
    rows_among,
)
from fastsvm.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid

KERNELS = [
    (RBF(0.3), lambda X: rbf_kernel(X, gamma=0.3)),
    (Linear(), linear_kernel),
    (Polynomial(degree=3, coef0=1.0, gamma=0.5), lambda X: polynomial_kernel(X, degree=3, gamma=0.5, coef0=1.0)),
    (Sigmoid(0.1, 0.2), lambda X: sigmoid_kernel(X, gamma=0.1, coef0=0.2)),
]


@jit
def first_rows(given, places, memory, wanted, out, diagonal):
    rows = rows_among(given, places, len(places), memory)
    for i in wanted:
        out[i] = kernel_row(rows, i)
        diagonal[i] = diagonal_value(rows, i)
    return rows.slot_of[places.size]


@pytest.mark.parametrize(("kernel", "reference"), KERNELS, ids=[type(each[0]).__name__ for each in KERNELS])
@pytest.mark.parametrize(("n", "d"), [(3, 1), (16, 4), (131, 7)])
def test_rows_are_those_of_the_kernel(kernel, reference, n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 5, d)) + 3
    places = rng.permutation(n + 5)[:n]
    out, diagonal = np.zeros((n, n)), np.zeros(n)
    wanted = np.array([n - 1, 0, n - 1])
    memory = np.full(n * (n + PADDING), np.nan)
    assert first_rows(on_demand(kernel, X), places, memory, wanted, out, diagonal) == 2
    expected = reference(X[places])
    np.testing.assert_allclose(out[[0, n - 1]], expected[[0, n - 1]], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(diagonal[[0, n - 1]], np.diag(expected)[[0, n - 1]], rtol=1e-12)


def test_distances_of_rows_far_from_the_origin_cancel_nothing():
    X = 1e8 + np.random.default_rng(0).integers(0, 3, (20, 3)).astype(float)
    out, memory = np.zeros((20, 20)), np.empty(20 * (20 + PADDING))
    first_rows(on_demand(RBF(0.5), X), np.arange(20), memory, np.arange(20), out, np.zeros(20))
    np.testing.assert_allclose(out, rbf_kernel(X - 1e8, gamma=0.5), rtol=1e-13)


def test_other_kernels_are_given_as_their_values():
    assert not has_rows_on_demand(Laplacian(0.2)) and has_rows_on_demand(RBF(0.2))
