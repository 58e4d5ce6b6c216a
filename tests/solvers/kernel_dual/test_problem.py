import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import cache
from sklearn.svm import OneClassSVM

from fastsvm._compiled.threads import Pool
from fastsvm.solvers.kernel_dual.problem import (
    KernelProblem,
    Problems,
    feasible,
    group_ends,
    levelled,
    worst_ends,
)
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.outer_loop import Limits, StopReason, drive


@given(st.integers(0, 10**6))
def test_feasible(seed):
    rng = np.random.default_rng(seed)
    y, upper = rng.choice([-1.0, 1.0], 20), rng.uniform(0.1, 2, 20)
    alpha = feasible(KernelProblem(y, upper, y), rng.uniform(-1, 3, 20))
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    assert abs(alpha @ y) < 1e-13


def test_what_is_feasible_stays():
    y, alpha = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.25, 0.5, 0.25, 0.0])
    np.testing.assert_array_equal(feasible(KernelProblem(y, np.ones(4), y), alpha.copy()), alpha)


def test_rows_at_a_bound_stay_there_when_the_sums_differ_by_rounding():
    y, upper = np.repeat([1.0, -1.0], [30, 10]), np.repeat([0.1, 0.3], [30, 10])
    assert 0 < abs(upper @ y) < 1e-14
    np.testing.assert_array_equal(feasible(KernelProblem(y, upper, y), upper.copy()), upper)


@pytest.mark.parametrize("nu", [0.1, 0.55])
@pytest.mark.parametrize("size", [16, 1024])  # small working sets, and all rows at once
def test_the_one_class_svm_is_that_of_libsvm(nu, size):
    X = np.random.default_rng(0).normal(size=(150, 3))
    K, n = naive.kernel_matrix("rbf", X, X, gamma=0.5), len(X)
    problem = KernelProblem(np.ones(n), np.ones(n), np.zeros(n), nu * n)
    with Pool.open() as pool:
        solver = SMO(problem, cache(K, pool), 1e-9, size, pool)
        state, reason, _ = drive(solver, solver.init(), Limits(10**7, np.inf), lambda state, report: False)
    found, theirs = solver.finish(state), OneClassSVM(kernel="precomputed", nu=nu, tol=1e-10).fit(K)
    alpha = np.zeros(n)
    alpha[theirs.support_] = theirs.dual_coef_[0]
    assert reason is StopReason.CONVERGED
    assert found.alpha.sum() == pytest.approx(nu * n, rel=1e-12)
    assert found.objective == pytest.approx(-alpha @ K @ alpha / 2, rel=1e-9)
    assert found.duality_gap <= 1e-7 * abs(found.objective)
    sums = K @ found.alpha
    assert sums[found.alpha > 0].max() - sums[found.alpha < 1].min() <= 2e-9  # the optimality conditions
    # LIBSVM's kernel values are float32, and their errors add up over a total of nu n.
    np.testing.assert_allclose(sums + found.intercept, theirs.decision_function(K), atol=1e-6)


def test_levels_are_taken_from_each_class_by_itself():
    y, upper = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]), np.ones(6)
    alpha, gradient = np.array([0.0, 0.5, 1.0, 0.0, 0.5, 1.0]), np.array([9.0, 10.0, 12.0, -4.0, -3.0, -1.0])
    # y = 1: 9 and 10 may rise, 10 and 12 may fall. y = -1: -3 and -1 may rise, -4 and -3 may fall.
    problem = KernelProblem(y, upper, np.zeros(6), 1.5, groups=2)
    level, *found = levelled(problem, alpha, gradient)
    np.testing.assert_array_equal(level, [-1.5, -0.5, 1.5, -1.0, 0.0, 2.0])
    assert found == [-1.5, 1.5]
    assert [group_ends(problem, group, alpha, gradient) for group in (0, 1)] == [(9.0, 12.0), (-3.0, -3.0)]
    assert worst_ends(problem, alpha, gradient) == (9.0, 12.0)
    assert worst_ends(problem._replace(groups=1), alpha, gradient) == (-3.0, 12.0)
    assert worst_ends(problem._replace(groups=0), alpha, gradient - 20) == (-23.0, 0.0)


def test_problems_are_taken_and_sorted():
    y, rows = np.array([1.0, -1, 1, -1, -1, 1]), np.array([3, 5, 0, 2, 4, 1])
    problems = Problems(
        np.array([0, 2, 3, 6]), rows, y, np.arange(6.0), y, np.zeros(3), np.array([[0, 1], [0, 2], [1, 2]])
    )
    assert problems.n_problems == 3
    np.testing.assert_array_equal(problems.sizes, [2, 1, 3])
    some = problems.take(np.array([2, 0]))
    np.testing.assert_array_equal(some.starts, [0, 3, 5])
    np.testing.assert_array_equal(some.samples, [2, 4, 1, 3, 5])
    np.testing.assert_array_equal(some.problem(1).upper, [0, 1])
    np.testing.assert_array_equal(some.classes, [[1, 2], [0, 1]])
    by_class = problems.sorted_by(-y)
    np.testing.assert_array_equal(by_class.samples, [3, 5, 0, 1, 2, 4])
    np.testing.assert_array_equal(by_class.y, [1, -1, 1, 1, -1, -1])
    assert by_class.target is by_class.y


def test_two_multipliers_of_a_sample_stay_together():
    y = np.repeat([1.0, -1.0], 3)
    problems = Problems(
        np.array([0, 6]), np.array([4, 2, 9]), y, np.arange(6.0), np.zeros(6), np.zeros(1), np.zeros((1, 2)), 2
    )
    found = problems.sorted_by(problems.samples)
    np.testing.assert_array_equal(found.upper, [1, 0, 2, 4, 3, 5])
    np.testing.assert_array_equal(found.places(10), [2, 4, 9, 12, 14, 19])
    np.testing.assert_array_equal(found.per_sample(found.upper), [5, 3, 7])


@pytest.mark.parametrize("total", [0.5, 3.0, 7.5])
def test_multipliers_get_their_total_within_their_bounds(total):
    rng = np.random.default_rng(1)
    upper = rng.uniform(0.5, 1.5, 10)
    alpha = feasible(KernelProblem(np.ones(10), upper, np.zeros(10), total), rng.uniform(-1, 2, 10))
    assert ((alpha >= 0) & (alpha <= upper)).all()
    assert alpha.sum() == pytest.approx(total, rel=1e-12)
