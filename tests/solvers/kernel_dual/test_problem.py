import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastsvm.solvers.kernel_dual.problem import KernelProblem, feasible


@given(st.integers(0, 10**6))
def test_feasible(seed):
    rng = np.random.default_rng(seed)
    y, upper = rng.choice([-1.0, 1.0], 20), rng.uniform(0.1, 2, 20)
    alpha = feasible(rng.uniform(-1, 3, 20), KernelProblem(y, upper, y))
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    assert abs(alpha @ y) < 1e-13


def test_what_is_feasible_stays():
    y, alpha = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.25, 0.5, 0.25, 0.0])
    np.testing.assert_array_equal(feasible(alpha.copy(), KernelProblem(y, np.ones(4), y)), alpha)


def test_rows_at_a_bound_stay_there_when_the_sums_differ_by_rounding():
    y, upper = np.repeat([1.0, -1.0], [30, 10]), np.repeat([0.1, 0.3], [30, 10])
    assert 0 < abs(upper @ y) < 1e-14
    np.testing.assert_array_equal(feasible(upper.copy(), KernelProblem(y, upper, y)), upper)
