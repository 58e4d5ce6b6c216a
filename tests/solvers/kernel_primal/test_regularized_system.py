import numpy as np
import pytest
from kernel_rows import cache
from naive import problem

from fastsvm._compiled.threads import Pool
from fastsvm.solvers.kernel_primal.regularized_system import RidgeSystem


@pytest.mark.parametrize("total", [None, 0.0, -2.5])
@pytest.mark.parametrize("most", [0, 100])
def test_systems_with_a_ridge(most, total):
    K, _, _ = problem(0, 50)
    rng = np.random.default_rng(0)
    inside = np.sort(rng.choice(50, 20, replace=False))
    ridge, wanted = rng.uniform(0.01, 2, 20), rng.normal(size=20)
    with Pool.open() as pool:
        x, b = RidgeSystem(cache(K, pool), pool, most).solve(inside, ridge, wanted, total, 1e-12)
    matrix = K[np.ix_(inside, inside)] + np.diag(ridge)
    np.testing.assert_allclose(matrix @ x + b, wanted, atol=1e-10)
    assert b == 0 if total is None else x.sum() == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("place", range(4))
def test_a_row_far_from_all_others_is_no_reason_to_refuse_a_kernel(place):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(18, 30))
    X[place] *= 1000
    X[12:] = X[4:10]
    K = (100 * X @ X.T) ** 5
    ridge, wanted = 10 ** rng.uniform(-15, -3, 18), rng.choice([-2.0, 2.0], 18)
    with Pool.open() as pool:
        x, _ = RidgeSystem(cache(K, pool, 9), pool, 9).solve(np.arange(18), ridge, wanted, None, 1e-3)
    assert np.isfinite(x).all()


def test_a_coarse_system_is_solved_to_its_accuracy_and_no_further():
    K, _, _ = problem(0, 80, gamma=2.0)
    inside, ridge, wanted = np.arange(80), np.full(80, 0.01), np.random.default_rng(0).normal(size=80)
    with Pool.open() as pool:
        found, _ = RidgeSystem(cache(K, pool), pool, 0).solve(inside, ridge, wanted, None, 1e-2)
    residual = (K + np.diag(ridge)) @ found - wanted
    assert 1e-8 < np.abs(residual).max() / np.abs(wanted).max() <= 0.1
