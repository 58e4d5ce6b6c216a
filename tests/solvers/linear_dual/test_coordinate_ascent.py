"""The solver of linear models by itself: states, evaluations, the proximal term."""

import functools

import naive
import numpy as np
import pytest
from scipy import sparse
from sklearn import datasets

from fastsvm import LinearSVC
from fastsvm._compiled.threads import Pool
from fastsvm.losses import LOSSES, Demands
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualAscent
from fastsvm.solvers.linear_dual.metric import diagonal, metric_of, principal
from fastsvm.solvers.linear_dual.problem import LinearProblem, LinearSettings
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource
from fastsvm.tuning import LinearTuning

EMPTY = np.empty(0)
SIZES = [8, 17, 64, 300]


def problem_of(name, X, y, C=1.0, k=1, constant=1.0):
    demands = Demands(y.astype(float), np.full(len(y), C), np.ones(k))
    return LinearProblem(MemorySource.of(X), EMPTY, EMPTY, LOSSES[name](), demands, constant)


@pytest.fixture(scope="module")
def rows():
    """Return 300 rows of three classes that overlap."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    return rng.normal(size=(300, 20)) + 0.7 * np.eye(20)[y], y


def solve(problem, tol=1e-5, size=64, window=None, kept=1000, n_epochs=5000, **numbers):
    """Return the solver, the state, why it ended and all reports."""
    reports = []
    with Pool.open() as pool:
        tuning = LinearTuning(**numbers)
        settings = LinearSettings(tol, 0, size, kept, window or len(problem.source), tuning=tuning)
        solver = LinearDualAscent(problem, settings, pool)
        watch = lambda state, report: reports.append(report)  # noqa: E731
        state, reason, n_steps = drive(solver, solver.init(), Limits(n_epochs, np.inf), watch)
    assert n_steps == state.epoch == sum(report.n_steps for report in reports)
    return solver, state, reason, reports


def primal(problem, W, name):
    Z = np.hstack([problem.source.block.values, np.full((len(problem.source), 1), problem.constant)])
    demands = problem.demands
    return naive.linear_objectives(name, W, Z, demands.targets, demands.costs, demands.balance)


@pytest.fixture(scope="module")
def best(rows):
    """Return a function that computes the objective of blocks of 64 rows, once for each name."""

    @functools.cache
    def objective(name):
        problem = problem_of(name, *rows, C=0.1, k=3)
        solver, state, _, _ = solve(problem, 1e-4)
        return primal(problem, solver.weights(state), name).sum()

    return objective


@pytest.mark.parametrize(
    ("name", "size", "kept"),
    [(["hinge", "weston_watkins"][(i + j) % 2], size, kept)
     for i, size in enumerate(SIZES) for j, kept in enumerate([0, 2, 1000])],
)  # fmt: skip
def test_any_size_of_blocks_and_any_number_of_kept_products(name, size, kept, rows, best):
    problem = problem_of(name, *rows, C=0.1, k=3)
    solver, state, reason, _ = solve(problem, 1e-4, size=size, window=2 * size, kept=kept)
    assert reason is StopReason.CONVERGED
    found = primal(problem, solver.weights(state), name)
    np.testing.assert_allclose(solver.certificate.primal.sum(), found.sum(), rtol=1e-12)
    assert found.sum() == pytest.approx(best(name), rel=2e-4)
    assert (solver.certificate.primal - solver.certificate.dual <= 1e-4 * solver.certificate.primal).all()


@pytest.mark.parametrize("n_sweeps", [1, 5])
def test_any_number_of_sweeps(n_sweeps, rows):
    problem = problem_of("squared_hinge", *rows, k=3)
    solver, state, reason, _ = solve(problem, sweeps=n_sweeps)
    wanted, end, _, _ = solve(problem)
    assert reason is StopReason.CONVERGED
    reached = primal(problem, solver.weights(state), "squared_hinge").sum()
    assert reached == pytest.approx(primal(problem, wanted.weights(end), "squared_hinge").sum(), rel=2e-5)


def test_no_epochs_are_no_steps(rows):
    solver, state, reason, reports = solve(problem_of("hinge", *rows, k=3), n_epochs=0)
    assert (state.epoch, reason, len(reports)) == (0, StopReason.MAX_ITER, 1)
    found = solver.certify(state)
    assert found.primal.sum() == pytest.approx(900)  # of weights that are zero
    assert found.dual.sum() == 0


def test_the_gap_falls_and_the_dual_objective_stays_below(rows):
    solver, _, _, reports = solve(problem_of("hinge", *rows, k=3), 1e-6)
    gaps = [report.gap for report in reports]
    assert (np.diff(gaps) <= 0).all() and gaps[-1] <= 1e-6
    assert max(report.objective for report in reports) <= solver.certificate.primal.sum()


def test_an_end_at_dual_variables_is_where_the_next_solve_begins(rows):
    problem = problem_of("squared_hinge", *rows, k=3)
    _, state, _, _ = solve(problem, 1e-8)
    with Pool.open() as pool:
        solver = LinearDualAscent(problem, LinearSettings(1e-4, 0, 64, 100, 300), pool)
        again = solver.init(state.dual)
        Z = np.hstack([rows[0], np.ones((300, 1))])
        weights = solver.weights(again)
        np.testing.assert_allclose(weights, state.dual.T @ Z, atol=1e-10)
        _, reason, n_epochs = drive(solver, again, Limits(100, np.inf), lambda state, report: False)
    assert reason is StopReason.CONVERGED
    assert n_epochs <= 3


@pytest.mark.parametrize("kind", ["round", "correlated", "offset"])
def test_a_proximal_term_takes_a_fraction_of_the_epochs_on_ill_conditioned_rows(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 30))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=1000) > 0, 1.0, -1.0)
    X = {"round": X, "correlated": X + 10 * rng.normal(size=(1000, 1)), "offset": X + 10}[kind]
    problem = problem_of("hinge", X, y)
    _, fast, reason, _ = solve(problem, 1e-3)
    assert reason is StopReason.CONVERGED
    _, slow, _, _ = solve(problem, 1e-3, n_epochs=3 * fast.epoch, proximal=False)
    assert slow.epoch == 3 * fast.epoch and slow.gap > 1e-3


def test_a_proximal_term_of_sparse_rows():
    rng = np.random.default_rng(0)
    X = sparse.random_array((1000, 60), density=0.1, rng=rng).tocsr()
    X.data[:] = 3 * rng.normal(size=X.nnz)
    y = np.where(X @ rng.normal(size=60) + 3 * rng.normal(size=1000) > 0, 1.0, -1.0)
    problem = problem_of("hinge", X, y)
    _, fast, reason, _ = solve(problem, 1e-3)
    assert reason is StopReason.CONVERGED
    _, slow, _, _ = solve(problem, 1e-3, n_epochs=3 * fast.epoch, proximal=False)
    assert slow.epoch == 3 * fast.epoch and slow.gap > 1e-3


# --- the metric ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_a_metric_is_a_matrix_and_its_inverse_is_one(k):
    rng = np.random.default_rng(0)
    sample = rng.normal(size=(64, 10)) * np.r_[50.0, 20.0, 5.0, np.ones(7)]
    metric = principal(np.linspace(1, 2, k), sample, 16, 1e-16)
    assert len(metric.basis) > 0
    np.testing.assert_allclose(metric.basis @ metric.basis.T, np.eye(len(metric.basis)), atol=1e-10)
    weights = rng.normal(size=(k, 10))
    for c in range(k):
        more = (1 + metric.kappa[c]) * metric.shares / (1 - metric.shares)
        M = metric.kappa[c] * np.eye(10) + (metric.basis.T * more) @ metric.basis
        np.testing.assert_allclose(metric.times(weights)[c], M @ weights[c], rtol=1e-9)
        np.testing.assert_allclose(metric.solve(weights)[c], np.linalg.solve(np.eye(10) + M, weights[c]), rtol=1e-7)


@pytest.mark.parametrize("k", [1, 3])
def test_the_metric_of_sparse_rows_is_diagonal(k):
    rng = np.random.default_rng(0)
    costs, squares = np.linspace(1, 2, k), rng.uniform(0, 4, 10)
    squares[3] = 0  # a feature that no row has
    metric = diagonal(costs, squares)
    weights = rng.normal(size=(k, 10))
    for c in range(k):
        M = (1 + metric.kappa[c]) / metric.scaling - 1
        assert (M >= 0).all() and M[np.argmax(squares)] == M.max() and M[3] == M.min()
        np.testing.assert_allclose(metric.times(weights)[c], M * weights[c], rtol=1e-9)
        np.testing.assert_allclose(metric.solve(weights)[c], weights[c] / (1 + M), rtol=1e-9)
    weaker = metric.weaker()
    assert (weaker.damping[:, None] * weaker.scaling >= metric.damping[:, None] * metric.scaling).all()
    assert functools.reduce(lambda each, _: each.weaker(), range(15), metric).vanishes


def test_a_row_that_is_far_from_all_others_does_not_change_the_metric(rows):
    X, y = rows
    found = metric_of(problem_of("hinge", X, y, k=3), 32)
    X = X.copy()
    X[100] *= 1e8
    far = metric_of(problem_of("hinge", X, y, k=3), 32)
    np.testing.assert_allclose(far.kappa, found.kappa, rtol=0.1)
    sparse_rows = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
    assert metric_of(problem_of("hinge", sparse_rows, y, k=3), 32).scaling.min() > 1e-3


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_kept_products_follow_the_metric(rows, constant):
    problem = problem_of("hinge", *rows, C=10.0, k=3, constant=constant)
    with Pool.open() as pool:
        solver = LinearDualAscent(problem, LinearSettings(1e-9, 0, 64, 100, 300), pool)
        state, _ = solver.step(solver.init(), 2)
        state = solver.with_metric(state, solver.metric.weaker())
        solver.step(state, 2)
        visits = solver._epochs
    Z = np.zeros((300, solver.width))
    Z[:, :20], Z[:, -1] = problem.source.block.values, constant
    assert len(solver.metric.shares) > 0 and len(visits._grams._slots) == 5
    for (first, length), slot in visits._grams._slots.items():
        part = Z[first : first + length]
        along = part @ solver.metric.basis.T
        wanted = part @ part.T - (along * solver.metric.shares) @ along.T
        np.testing.assert_allclose(visits._grams.grams[slot, :length, :length], wanted, atol=1e-9)


# --- problems that are hard for ascent by coordinates ------------------------------------------------------


def far_row(value):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    y = X @ rng.normal(size=30) + 0.5 * rng.normal(size=2000) > 0
    X[7] *= value
    return X, y


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("value", [1e4, 1e8])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_one_row_far_from_all_others(loss, value, layout):
    X, y = far_row(value)
    model = LinearSVC(loss=loss, tol=1e-3, random_state=0, max_iter=300).fit(layout(X), y)
    assert model.converged_


@pytest.mark.parametrize(
    ("loss", "load"),
    [("hinge", datasets.load_wine), ("squared_hinge", datasets.load_wine), ("squared_hinge", datasets.load_digits),
     ("hinge", datasets.load_breast_cancer)],
)  # fmt: skip
def test_features_that_nobody_has_scaled(loss, load):
    model = LinearSVC(loss=loss, tol=1e-3, random_state=0).fit(*load(return_X_y=True))
    assert model.converged_


def test_a_large_constant_feature_of_sparse_rows():
    rng = np.random.default_rng(0)
    X = sparse.random_array((2000, 60), density=0.1, rng=rng).tocsr()
    y = X @ rng.normal(size=60) + 0.1 * rng.normal(size=2000) > 0
    model = LinearSVC(loss="hinge", tol=1e-3, intercept_scaling=30, random_state=0, max_iter=100).fit(X, y)
    assert model.converged_
