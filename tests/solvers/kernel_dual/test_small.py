"""Small problems, solved by steps on all rows at once."""

from fractions import Fraction
from operator import mul

import naive
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC as LIBSVM

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.accurate_sums import ValueBounds
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.rows_on_demand import KernelSquare, SmallKernel, on_demand
from fastsvm.kernels import RBF, Linear
from fastsvm.solvers.kernel_dual.problem import KernelProblem, Problems, objective
from fastsvm.solvers.kernel_dual.small import CERTIFICATE, SmallSMO, newton_steps
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.tuning import KernelTuning


def problems(X, y, C, n_problems=2):
    """Return problems of random rows."""
    rng = np.random.default_rng(3)
    places = [rng.permutation(len(y))[: len(y) - 10 * k] for k in range(n_problems)]
    starts = np.cumsum([0, *map(len, places)])
    every = np.concatenate(places)
    upper = C * rng.uniform(0.5, 1.5, len(every))
    return Problems(starts, every, y[every], upper, y[every], np.zeros(n_problems), np.zeros((n_problems, 2), np.int64))


def pairwise(kernel):
    return RealPairwise(kernel, np.float64, None, False)


def solved(kernel, pairs, tol=1e-3, most_steps=20_000, alpha=None, **numbers):
    """Return the multipliers of all problems, their certificates, and how many were done after each step."""
    with Pool.open() as pool:
        solver, seen = SmallSMO(pairs, kernel, tol, most_steps, pool, KernelTuning(**numbers)), []
        begin = {} if alpha is None else dict(enumerate(np.split(alpha, pairs.starts[1:-1])))
        limits = Limits(pairs.n_problems, np.inf)
        state, reason, n_done = drive(
            solver, solver.init(begin), limits, lambda state, _: bool(seen.append(state.n_done))
        )
    assert reason is StopReason.CONVERGED and n_done == pairs.n_problems
    return state.alpha, [dict(zip(CERTIFICATE, row, strict=True)) for row in state.certificate], seen


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(150, 8, n_informative=4, flip_y=0.1, random_state=0)
    return X, np.where(y == 0, -1.0, 1.0)


@pytest.mark.parametrize("kernel", [RBF(0.1), Linear()])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_solutions_are_those_of_libsvm(data, kernel, C):
    X, y = data
    pairs = problems(X, y, C)
    square = rbf_kernel(X, gamma=0.1) if kernel == RBF(0.1) else linear_kernel(X)
    alpha, found, _ = solved(on_demand(pairwise(kernel), X), pairs)
    bounds = ValueBounds.of_sizes(np.full(len(X), np.sqrt(square.max())))
    from_square, _, _ = solved(SmallKernel.of_square(square, bounds), pairs)
    for k, each in enumerate(found):
        part = slice(*pairs.starts[k : k + 2])
        K, sign, upper = square[np.ix_(pairs.samples[part], pairs.samples[part])], pairs.y[part], pairs.upper[part]
        model = LIBSVM(kernel="precomputed", C=1.0, tol=1e-4).fit(K, sign, upper)
        reference = np.zeros(len(sign))
        reference[model.support_] = np.abs(model.dual_coef_[0])
        objective = reference.sum() - (reference * sign) @ K @ (reference * sign) / 2
        violation = naive.kkt_violation(K, sign, upper, alpha[part])
        assert each["is_solved"] and violation <= 1e-9 and violation <= each["kkt_violation"] <= 1e-9 + 1e-10 * C
        assert each["objective"] >= objective * (1 - 1e-9)
        assert each["objective"] == pytest.approx(objective, rel=1e-5)  # LIBSVM's kernel values are float32
        assert 0 <= each["duality_gap"] <= 1e-8 * objective
        margin = sign * (K @ (alpha[part] * sign) + each["intercept"])
        np.testing.assert_allclose(margin[(alpha[part] > 0) & (alpha[part] < upper)], 1, rtol=0, atol=1e-8)
        assert abs(alpha[part] @ sign) <= 1e-10 * alpha[part].sum()
        np.testing.assert_allclose(from_square[part], alpha[part], rtol=0, atol=1e-6 * C)


def test_a_solution_is_where_the_next_call_begins(data):
    X, y = data
    pairs = problems(X, y, 10.0)
    alpha, first, _ = solved(on_demand(pairwise(RBF(0.1)), X), pairs)
    again, second, _ = solved(on_demand(pairwise(RBF(0.1)), X), pairs, alpha=alpha.copy())
    assert all(each["n_steps"] == 0 for each in second)
    np.testing.assert_allclose(again, alpha, rtol=0, atol=1e-8)
    assert first[0]["n_rows"] <= len(y)


def test_steps_are_limited(data):
    X, y = data
    pairs = problems(X, y, 10.0, 1)
    _, found, _ = solved(on_demand(pairwise(RBF(0.1)), X), pairs, most_steps=7)
    assert found[0]["n_steps"] == 7 and not found[0]["is_solved"] and found[0]["kkt_violation"] > 1e-3


def test_polishing_stops_where_the_kernel_is_not_positive_definite(data, monkeypatch):
    _, y = data
    K = -np.eye(len(y))
    alpha, gradient = np.where(np.arange(len(y)) < 4, 0.5, 0.0), -y
    assert not newton_steps(KernelSquare(K), KernelProblem(y, np.ones(len(y)), y), alpha, gradient, len(y))


@pytest.mark.parametrize("seed", range(5))
def test_newton_steps_raise_the_objective_although_both_groups_have_equal_rows(seed):
    rng = np.random.default_rng(seed)
    X, y, target = rng.integers(0, 3, (60, 2)).astype(float), np.repeat([1.0, -1.0], 30), rng.normal(size=60)
    problem, K = KernelProblem(y, np.full(60, 10.0), target, 0.0, 2), rbf_kernel(X, gamma=0.1)
    alpha = rng.uniform(1, 9, 60)
    sums, gradient = (alpha[:30].sum(), alpha[30:].sum()), K @ (alpha * y) - target
    before = objective(problem, alpha, gradient)
    assert newton_steps(KernelSquare(K), problem, alpha, gradient, 60)
    np.testing.assert_allclose(gradient, K @ (alpha * y) - target, atol=1e-9)
    np.testing.assert_allclose((alpha[:30].sum(), alpha[30:].sum()), sums)
    assert objective(problem, alpha, gradient) > before
    is_free = (alpha > 0) & (alpha < 10)
    levels = [np.ptp(gradient[is_free & (y == sign)]) for sign in (1, -1) if (is_free & (y == sign)).any()]
    assert max(levels) < 1e-6  # as after a step that no bound cuts short


def test_problems_are_solved_some_at_a_time_with_the_same_bits(data):
    X, y = data
    pairs = problems(X, y, 1.0, 6)
    alpha, _, at_once = solved(on_demand(pairwise(RBF(0.1)), X), pairs)
    again, _, one_by_one = solved(on_demand(pairwise(RBF(0.1)), X), pairs, task_ns=1.0, call_ns=1.0)
    assert at_once == [6] and one_by_one == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(again, alpha)


def test_rows_of_two_groups_may_stand_in_any_order(data):
    X, y = data
    n, order = len(y), np.argsort(-y, kind="stable")
    pairs = Problems(
        np.array([0, n]),
        np.arange(n),
        y,
        np.ones(n),
        np.zeros(n),
        np.array([20.0]),
        np.zeros((1, 2), np.int64),
        groups=2,
    )
    alpha, found, _ = solved(on_demand(pairwise(RBF(0.1)), X), pairs)
    by_class, other, _ = solved(on_demand(pairwise(RBF(0.1)), X), pairs.sorted_by(-y))
    np.testing.assert_array_equal(alpha[order], by_class)
    assert found == other and found[0]["is_solved"]
    assert alpha[y > 0].sum() == pytest.approx(20) and alpha[y < 0].sum() == pytest.approx(20)


def test_few_samples_of_many_features_are_certified_without_more_digits():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 1000)).round(3), np.repeat([1.0, -1.0], [30, 10])
    starts, none = np.array([0, 40]), np.zeros((1, 2), np.int64)
    pairs = Problems(starts, np.arange(40), y, np.full(40, 1e3), y, np.zeros(1), none)
    alpha, (found,), _ = solved(on_demand(pairwise(Linear()), X), pairs)
    assert not found["is_odd"] and found["kkt_violation"] < 1e-8
    assert 0 <= found["duality_gap"] < 1e-7 * found["objective"]
    exact = [[Fraction(value) for value in row] for row in X]
    signed = [Fraction(a) * Fraction(s) for a, s in zip(alpha, y, strict=True)]
    w = [sum(a * row[k] for a, row in zip(signed, exact, strict=True)) for k in range(X.shape[1])]
    within = [
        1 - Fraction(s) * (sum(map(mul, w, row)) + Fraction(found["intercept"]))
        for s, row in zip(y, exact, strict=True)
    ]
    gap = sum(map(mul, w, w)) + 1000 * sum(max(Fraction(0), one) for one in within) - sum(map(Fraction, alpha))
    assert 0 <= gap <= found["duality_gap"]
