"""Rounds for sparse rows of many features: against plain objectives, from every state, with every number of threads."""

import naive
import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from fastsvm import LinearSVC, LinearSVR
from fastsvm._compiled.threads import Pool
from fastsvm.losses import LOSSES, Demands
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.problem import LinearProblem, LinearSettings
from fastsvm.solvers.linear_dual.sparse_rounds import WideAscent
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource
from fastsvm.tuning import LinearTuning

N, D, EMPTY = 400, 900, np.empty(0)
CLASSIFIERS = ["hinge", "squared_hinge", "log_loss"]
REGRESSORS = ["epsilon_insensitive", "squared_epsilon_insensitive"]


@pytest.fixture(scope="module")
def rows():
    """Return sparse rows of lengths that differ, one of them empty, with three classes and numbers as targets."""
    rng = np.random.default_rng(0)
    X = sparse.random(N, D, 0.02, "csr", random_state=1, data_rvs=lambda n: rng.exponential(size=n))
    X = sparse.diags(rng.choice([0.5, 1.0, 4.0], N)) @ X
    X = sparse.csr_matrix(X.multiply((np.arange(N) != 7)[:, None]))
    scores = X @ rng.normal(size=(D, 3)) + 0.3 * rng.normal(size=(N, 3))
    return X, scores.argmax(axis=1), scores[:, 0]


def problem_of(name, rows, C=0.5, k=1, real=np.float64, constant=1.0):
    X, labels, numbers = rows
    targets = numbers if name in REGRESSORS else labels if k > 1 else np.where(labels == 1, 1.0, -1.0)
    costs = C * np.where(np.arange(N) % 50 == 3, 0.0, 1.0 + np.arange(N) % 3)
    demands = Demands(targets.astype(float), costs, np.linspace(1, 2, k) if k > 1 else np.ones(1))
    return LinearProblem(MemorySource.of(X.astype(real)), EMPTY, EMPTY, LOSSES[name](), demands, constant)


def solve(problem, tol=1e-4, kind=WideAscent, criterion="gap", n_rounds=2000, start=None, **numbers):
    with Pool.open() as pool:
        settings = LinearSettings(tol, 3, 64, 100, N, criterion=criterion, tuning=LinearTuning(**numbers))
        solver = kind(problem, settings, pool)
        state, reason, _ = drive(solver, solver.init(start), Limits(n_rounds, np.inf), lambda state, report: False)
        state, found = solver.finish(state)
    return solver, state, reason, found


def primal(problem, W, name):
    X = problem.source.block
    Z = np.hstack([X.dense(np.float64), np.full((N, 1), problem.constant)])
    demands = problem.demands
    return naive.linear_objectives(name, W, Z, demands.targets, demands.costs, demands.balance)


@pytest.mark.parametrize(
    ("name", "k", "real"),
    [
        *((name, k, np.float64) for name in CLASSIFIERS for k in (1, 3)),
        *((name, 1, np.float64) for name in REGRESSORS),
        *(("hinge", k, np.float32) for k in (1, 3)),
    ],
)
def test_objectives_are_those_of_plain_sums_and_optimal(name, k, real, rows):
    problem = problem_of(name, rows, k=k, real=real)
    solver, state, reason, found = solve(problem)
    assert reason is StopReason.CONVERGED and state.in_rounds
    reached = primal(problem, solver.weights(state), name)
    np.testing.assert_allclose(found.primal, reached, rtol=1e-6 if real is np.float32 else 1e-12)
    assert (found.primal - found.dual <= 1e-4 * found.primal).all()
    other = solve(problem, 1e-4, LinearDualAscent)[3]
    assert (found.dual <= other.primal).all() and (other.dual <= found.primal).all()


@pytest.mark.parametrize("name", ["hinge", "squared_epsilon_insensitive"])
def test_the_violation_may_be_what_ends_the_fit(name, rows):
    problem = problem_of(name, rows)
    _, state, reason, found = solve(problem, 1e-3, criterion="gradient")
    assert reason is StopReason.CONVERGED and state.in_rounds
    assert found.violation <= 1e-3


@pytest.mark.parametrize("name", ["squared_hinge", "log_loss"])
def test_large_costs_without_an_intercept(name, rows):
    problem = problem_of(name, rows, C=1e4, constant=0.0)
    solver, state, reason, found = solve(problem, 1e-6)
    assert reason is StopReason.CONVERGED
    assert solver.weights(state)[0, -1] == 0
    np.testing.assert_allclose(found.primal, primal(problem, solver.weights(state), name), rtol=1e-10)


def test_slow_rounds_give_way_to_accelerated_epochs(rows):
    problem = problem_of("hinge", rows, C=100.0)
    wanted = solve(problem, 1e-6, LinearDualAscent)[3]
    _, state, reason, found = solve(problem, 1e-6, slow_rounds=0)
    assert reason is StopReason.CONVERGED and not state.in_rounds
    np.testing.assert_allclose(found.primal, wanted.primal, rtol=2e-6)


def test_variables_of_before_are_a_start(rows):
    problem = problem_of("hinge", rows, k=3)
    state = solve(problem, 1e-6)[1]
    _, again, reason, _ = solve(problem, 1e-5, start=state.dual)
    assert reason is StopReason.CONVERGED and again.epoch == 1


def test_a_fit_that_ends_early_has_a_certificate(rows):
    problem = problem_of("hinge", rows, k=3)
    solver, state, reason, found = solve(problem, 1e-9, n_rounds=2)
    assert reason is StopReason.MAX_ITER and state.epoch == 2
    np.testing.assert_allclose(found.primal, primal(problem, solver.weights(state), "hinge"), rtol=1e-12)
    assert (found.dual > 0).all() and (found.dual < found.primal).all()


@pytest.mark.parametrize(("kind", "given"), [(LinearSVC, {"loss": "hinge"}), (LinearSVR, {})])
def test_a_stopped_fit_resumes_with_the_same_bits(kind, given, rows):
    X, labels, numbers = rows
    X = sparse.vstack([X] * 6, "csr")  # fewer rows are solved by the Gram matrix
    y = np.tile(numbers if kind is LinearSVR else labels, 6)
    given = {"C": 3.0, "tol": 1e-6, "random_state": 0, **given}
    wanted = kind(**given).fit(X, y)
    model = kind(**given, warm_start=True, max_iter=2)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.n_iter_ == 2 and not model.converged_
    model.set_params(max_iter=1000).fit(X, y)
    assert model.n_iter_ == wanted.n_iter_
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    np.testing.assert_array_equal(model.history_["epoch"], np.arange(1, model.n_iter_ + 1))


def test_values_that_overflow_are_named(rows):
    X, labels, _ = rows
    X = sparse.vstack([X] * 6, "csr")
    X.data[11] = 1e200
    with pytest.raises(ValueError, match="overflow"):
        LinearSVC().fit(X, np.tile(labels, 6))
