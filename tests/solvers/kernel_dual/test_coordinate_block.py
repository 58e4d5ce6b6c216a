from collections import Counter

import numpy as np
import pytest
from naive import problem

from fastsvm.solvers.kernel_dual.coordinate_block import Sweeps, solve_block
from fastsvm.solvers.kernel_dual.problem import KernelProblem


@pytest.mark.parametrize("k", range(8))
def test_one_step_is_the_clipped_newton_step_along_a_coordinate(k):
    rng = np.random.default_rng(k)
    K, y, upper = problem(k, 8)
    K = K * (1 + 3 * rng.random())
    upper = upper * rng.uniform(0.2, 2, 8)
    before = upper * rng.choice([0.0, 0.3, 1.0], 8)
    sums = K @ (before * y)
    alpha, order = before.copy(), np.roll(np.arange(8), -k)  # the first that violates is stepped with
    n_steps = solve_block(K, KernelProblem(y, upper, y), alpha, sums - y, Sweeps(order, 0), 1e-9, 1)
    wanted = np.clip(before + (1 - y * sums) / np.diag(K), 0, upper)
    first = next(i for i in order if wanted[i] != before[i])
    assert n_steps == 1
    assert alpha[first] == pytest.approx(wanted[first], rel=1e-14)
    np.testing.assert_array_equal(np.delete(alpha, first), np.delete(before, first))


def test_a_sweep_takes_the_coordinates_in_turn():
    K, y, upper = problem(2, 12)
    alpha, wanted = np.zeros(12), np.zeros(12)
    for k in range(12):
        wanted[k] = np.clip(wanted[k] + (1 - y[k] * (K[k] @ (wanted * y))) / K[k, k], 0, upper[k])
    sweeps = Sweeps(np.arange(12), 0)
    solve_block(K, KernelProblem(y, upper, y), alpha, -y, sweeps, 1e-12, np.count_nonzero(wanted))
    np.testing.assert_allclose(alpha, wanted, rtol=1e-12)


def test_a_random_sweep_has_any_order_equally_often():
    counts, n, ones = Counter(), 4, KernelProblem(np.ones(4), np.ones(4), np.ones(4))
    for seed in np.random.default_rng(0).integers(1, 2**63, 2400):
        order = np.arange(n)
        solve_block(np.eye(n), ones, np.zeros(n), -np.ones(n), Sweeps(order, int(seed)), 1e-9, n)
        counts[tuple(order)] += 1
    assert all(sorted(order) == [0, 1, 2, 3] for order in counts)
    assert len(counts) == 24
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 45  # chi squared, 23 degrees of freedom
