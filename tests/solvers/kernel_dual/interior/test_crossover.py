import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.solvers.kernel_dual.interior.crossover import crossover
from fastsvm.solvers.kernel_dual.interior.interior_point import interior_solution
from fastsvm.solvers.kernel_dual.interior.problem import Scaled


def problem_of(X, y, C=50.0):
    """Return the scaled problem of a linear kernel, and its solution."""
    upper = np.full(len(y), C)
    solved = interior_solution(X @ X.T, y, upper, y, True, Pool(1))
    scaled = Scaled.of(X @ X.T, (y, upper), y, True)
    return scaled, solved.alpha / scaled.scale


def rows(seed, n=80, d=3):
    """Return rows of one length each and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1
    y = np.where(X[:, 0] - 1 + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def free(problem, x):
    return np.flatnonzero((x > 0) & (x < problem.upper))


def violation(problem, x):
    return problem.judged(x, problem.exact_slope(x)).violation


@pytest.mark.parametrize("seed", range(4))
def test_free_variables_that_are_a_little_wrong(seed):
    problem, x = problem_of(*rows(seed))
    wrong, inside = x.copy(), free(problem, x)
    wrong[inside] *= 1 + 1e-5 * np.random.default_rng(seed).normal(size=len(inside))
    assert not violation(problem, wrong) <= 1e-5  # nor is it balanced
    assert violation(problem, crossover(problem, wrong)[0]) <= 1e-10


@pytest.mark.parametrize("seed", range(8))
def test_from_the_vertex_of_another_problem(seed):
    X, y = rows(seed)
    problem, _ = problem_of(X, y)
    near = X + 0.05 * np.random.default_rng(seed).normal(size=X.shape)
    _, begin = problem_of(near / np.linalg.norm(near, axis=1, keepdims=True), y)
    assert violation(problem, begin) > 1e-3
    assert violation(problem, crossover(problem, begin)[0]) <= 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_more_free_variables_than_the_rank(seed):
    X, y = rows(seed)
    problem, x = problem_of(X, y)
    again = free(problem, x)  # are there twice, and share their multipliers
    order = np.concatenate([np.arange(len(y)), again])
    twice, _ = problem_of(X[order], y[order])
    begin = np.concatenate([x, 0.7 * x[again]])
    begin[again] *= 0.3 + 1e-9 * np.random.default_rng(seed).normal(size=len(again))
    found, _ = crossover(twice, begin)
    assert violation(twice, found) <= 1e-10 < violation(twice, begin)
    assert len(free(twice, begin)) > 4


def test_nothing_is_free():
    problem, x = problem_of(*rows(0))
    nothing = np.zeros_like(x)
    np.testing.assert_array_equal(crossover(problem, nothing)[0], nothing)


def columns(seed, n, d, noise, classes=2):
    """Return a table whose columns have scales from 1e-2 to 1e5."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    score = Z[:, 0] + 0.7 * Z[:, -1] + 0.5 * Z[:, 2] * Z[:, 3] + noise * rng.normal(size=n)
    return Z * 10.0 ** np.linspace(-2, 5, d), np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def test_a_violation_below_the_rounding_error_of_a_plain_sum():
    X, y = columns(2, 150, 12, 0.0)
    K, sign, upper = X @ X.T, np.where(y == 1, 1.0, -1.0), np.full(len(y), 1e4)
    alpha = interior_solution(K.copy(), sign, upper, sign, True, Pool(1)).alpha
    F = K.astype(np.longdouble) @ (alpha * sign).astype(np.longdouble) - sign
    rises = np.where(sign > 0, alpha < upper, alpha > 0)
    falls = np.where(sign > 0, alpha > 0, alpha < upper)
    assert F[falls].max() - F[rises].min() <= 1e-3
    assert np.finfo(float).eps * (np.abs(K) @ alpha).max() > 1


@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_a_fit_whose_optimum_is_lost_in_rounding_ends_soon_and_says_so():
    X, y = columns(1, 600, 5, 0.5, classes=3)
    with pytest.warns(ConvergenceWarning, match="floating point"):
        model = SVC(kernel="poly", gamma="auto", max_time=120).fit(X, y)
    assert model.stop_reason_ == "stalled"
    assert not model.converged_
    assert (model.n_iter_ <= 300_000).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SVC(kernel="poly", gamma="auto").fit(X / X.std(axis=0), y).converged_
