"""Solvers that begin where the solver of a similar problem ended, on kernel rows that are taken for the kernel."""

import numpy as np
import pytest
from grams import float_gram

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rows import PairedRows, SharedKernel
from fastsvm.solvers.kernel_dual.coordinate_ascent import Coordinate
from fastsvm.solvers.kernel_dual.dual_gradient import StoredGradient
from fastsvm.solvers.kernel_dual.problem import KernelProblem, followed
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.outer_loop import Limits, StopReason, drive

N, HELD = 700, 90


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 5))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=N) > 0.3, 1.0, -1.0)
    order = np.argsort(-y, kind="stable")
    return X[order], y[order]


def gram_of(X, pool):
    return float_gram(X, pool, dtype=np.float32)


def shared_rows(gram, rows, per_sample=1):
    kernel = SharedKernel(gram, np.empty(4 * len(gram) ** 2, np.uint8), np.arange(len(gram)))
    found = kernel.part(rows).rows_in_place()
    return found if per_sample == 1 else PairedRows(found)


def solved(solver, state):
    state, reason, n_steps = drive(solver, state, Limits(10**7, np.inf), lambda state, report: False)
    assert reason is StopReason.CONVERGED
    return state, n_steps


@pytest.mark.parametrize("method", [SMO, Coordinate])
@pytest.mark.parametrize("values", [(1e-5, 1e-4), (0.1, 0.4), (3.0, 1.0), (10.0, 1e3)])
def test_the_end_is_that_of_a_solver_that_begins_at_zero(data, method, values):
    """The state to begin with is feasible, F is that of its multipliers, and the objective at the end is the same."""
    X, y = data
    train = np.delete(np.arange(N), np.arange(200, 200 + HELD))
    problems = [KernelProblem(y[train], np.full(N - HELD, C), y[train], groups=int(method is SMO)) for C in values]
    with Pool.open() as pool:
        gram = gram_of(X, pool)
        rows = shared_rows(gram, train)
        first, second = (method(problem, rows, 1e-3, 100, pool) for problem in problems)
        ended, _ = solved(first, first.init())
        begun = second.follow(first, ended)
        K = np.empty((N, N), np.float32)
        gram.rows(np.arange(N), K, np.arange(N))
        K = K[np.ix_(train, train)].astype(float)
        assert (begun.alpha >= 0).all() and (begun.alpha <= values[1]).all()
        if method is SMO:
            assert abs(begun.alpha @ y[train]) <= 1e-12 * begun.alpha.sum()
        np.testing.assert_allclose(begun.gradient, K @ (begun.alpha * y[train]) - y[train], atol=1e-9 * N)
        state, _ = solved(second, begun)
        other, _ = solved(alone := method(problems[1], rows, 1e-3, 100, pool), alone.init())
        ours, zero = second.finish(state), alone.finish(other)
    assert isinstance(second.gradient, StoredGradient)
    assert ours.kkt_violation <= 1e-3
    assert ours.objective == pytest.approx(zero.objective, rel=1e-3)


def test_all_multipliers_grow_with_their_bounds_where_that_raises_the_objective(data):
    """A far smaller bound than 1 / n leaves hardly a row within its margin, whose multipliers need no step then."""
    X, y = data
    problem = KernelProblem(y, np.full(N, 1e-6), y)
    with Pool.open() as pool:
        rows = shared_rows(gram_of(X, pool), np.arange(N))
        first = SMO(problem, rows, 1e-3, 100, pool)
        ended, _ = solved(first, first.init())
        wanted, growth = followed(problem._replace(upper=10 * problem.upper), ended, problem)
        second = SMO(problem._replace(upper=10 * problem.upper), rows, 1e-3, 100, pool)
        _, n_steps = solved(second, second.follow(first, ended))
    assert growth == pytest.approx(10)
    np.testing.assert_allclose(wanted, 10 * ended.alpha, rtol=1e-12)
    assert n_steps <= 5


def test_classes_with_other_bounds_are_raised_alike(data):
    """With class weights, multipliers at their bounds take the new ones, but for some rows that violate least."""
    X, y = data
    before = KernelProblem(y, np.where(y > 0, 0.1, 0.3), y)
    after = before._replace(upper=np.where(y > 0, 0.4, 0.6))
    with Pool.open() as pool:
        rows = shared_rows(gram_of(X, pool), np.arange(N))
        solver = SMO(before, rows, 1e-3, 100, pool)
        ended, _ = solved(solver, solver.init())
    wanted, growth = followed(after, ended, before)
    assert growth == 1
    assert abs((wanted - ended.alpha) @ y) <= 1e-12 * wanted.sum()
    at_bound = ended.alpha >= before.upper
    assert (wanted[~at_bound] == ended.alpha[~at_bound]).all()
    for sign in (1.0, -1.0):
        mine = at_bound & (y == sign)
        raised = mine & (wanted == after.upper)
        kept = mine & (wanted == before.upper)
        assert raised.any()
        if kept.any():
            assert (y * ended.gradient)[raised].max() <= (y * ended.gradient)[kept].min()


def test_errors_that_are_visible_are_removed(data):
    """After so many sums that rounding might show, F is computed anew before a fit ends."""
    X, y = data
    problem = KernelProblem(y, np.full(N, 1.0), y)
    with Pool.open() as pool:
        rows = shared_rows(gram_of(X, pool), np.arange(N))
        solver = SMO(problem, rows, 1e-3, 100, pool)
        state, _ = solved(solver, solver.init())
        right = state.gradient.copy()
        state.gradient[:] += 0.1
        solver.gradient.products.drift = 1e14
        assert solver.gradient.confirm(state)
        np.testing.assert_allclose(state.gradient, right, atol=1e-9)
        assert not solver.gradient.confirm(state)


def test_rows_are_read_where_all_rows_are(data):
    """Columns of a part may be in several runs. Two multipliers of a sample share its row."""
    X, _ = data
    rng = np.random.default_rng(0)
    train = np.delete(np.arange(N), np.arange(300, 300 + HELD))
    n = len(train)
    with Pool.open() as pool:
        gram = gram_of(X, pool)
        K = np.empty((N, N), np.float32)
        gram.rows(np.arange(N), K, np.arange(N))
        K = K[np.ix_(train, train)].astype(float)
        rows, coef = rng.permutation(n)[:50], rng.normal(size=50)
        sums, one = np.zeros(n), shared_rows(gram, train)
        one.add(sums, one.fetch(rows), coef, pool)
        np.testing.assert_allclose(sums, coef @ K[rows], atol=1e-9)
        assert (one.slots_of(rows) >= 0).all()
        two, pairs = shared_rows(gram, train, 2), rng.permutation(2 * n)[:50]
        sums = np.zeros(2 * n)
        two.add(sums, two.fetch(pairs), coef, pool)
        np.testing.assert_allclose(sums, np.tile(coef @ K[pairs % n], 2), atol=1e-9)
        values = two.store[two.fetch(pairs)[:, None], two.columns(pairs)]
        np.testing.assert_allclose(values, K[np.ix_(pairs % n, pairs % n)], atol=1e-6)


def test_rows_in_short_runs_are_copied(data):
    """Each run is a loop of its own, so that many short ones take longer than copies."""
    X, _ = data
    with Pool.open() as pool:
        kernel = SharedKernel(gram_of(X, pool), np.empty(4 * N**2, np.uint8), np.arange(N))
        assert kernel.part(np.arange(0, N, 2)).rows_in_place() is None
        small = SharedKernel(gram_of(X, pool), np.empty(2 * N**2, np.uint8), np.arange(N))
        assert small.part(np.arange(N)).rows_in_place() is None
