import numpy as np
import pytest
from grams import byte_gram

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rows import KernelProducts, RowCache
from fastsvm.solvers.kernel_dual.dual_gradient import DualGradient
from fastsvm.solvers.kernel_dual.problem import KernelDualState, KernelProblem


@pytest.mark.parametrize("n_support", [40, 70])
def test_errors_are_removed_where_they_matter_even_if_all_rows_have_multipliers(n_support):
    rng = np.random.default_rng(0)
    X, n = rng.integers(0, 256, (70, 9), dtype=np.uint8), 70
    y = rng.choice([-1.0, 1.0], n)
    alpha = np.where(np.arange(n) < n_support, rng.uniform(1, 100, n), 0.0)
    with Pool.open() as pool:
        rows = RowCache(byte_gram(X, pool), np.empty(n * n * 4, np.uint8))
        problem = KernelProblem(y, np.full(n, 200.0), y)
        products = KernelProducts(rows, pool)
        gradient = DualGradient(problem, rows, products, 1e-3)
        K = np.empty((n, n))
        byte_gram(X, pool, dtype=np.float64).rows(np.arange(n), K, np.arange(n))
        state = KernelDualState(alpha, np.zeros(n), np.empty(0, np.int64))
        gradient.recompute(state)
        exact = K @ (alpha * y) - y
        assert np.abs(state.gradient - exact).max() > 1e-8
        gradient.correct(state)
    np.testing.assert_allclose(state.gradient[:n_support], exact[:n_support], atol=1e-11)
    assert products.drift == 0
