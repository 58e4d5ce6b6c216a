"""Rounds on shards, here all in this process: the optimum, the certificate, and the same bits."""

import functools
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from fastsvm import LinearSVC
from fastsvm._compiled.threads import Pool
from fastsvm.losses import Demands, loss_named
from fastsvm.solvers.linear_dual.metric import metric_of_moments
from fastsvm.solvers.linear_dual.problem import LinearProblem, LinearSettings
from fastsvm.solvers.linear_dual.shards import Shard, ShardedAscent
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource
from fastsvm.tuning import LinearTuning

NONE = np.empty(0)


class Here:
    """Shards in this process."""

    def __init__(self, shards):
        self.shards, self.last = shards, [shard.start() for shard in shards]

    def __len__(self):
        return len(self.shards)

    def round(self, orders, metric):
        triples = zip(self.shards, self.last, orders, strict=True)
        found = [shard.round(state, order, metric) for shard, state, order in triples]
        self.last = [state for state, _ in found]
        return [sums for _, sums in found]

    def losses(self, weights):
        return [shard.losses(weights) for shard in self.shards]

    def certificate_sums(self, weights, share, position):
        pairs = zip(self.shards, self.last, strict=True)
        return [shard.certificate_sums(weights, state, share, position) for shard, state in pairs]

    def states(self, share):
        return [state.settled(share) for state in self.last]

    def restore(self, states):
        self.last = states


def solver_of(X, targets, cuts, loss="hinge", n_threads=1, C=0.1, tol=1e-3, gram_bytes=None):
    """Return the solver of rows cut into shards."""
    k = len(np.unique(targets)) if targets.min() >= 0 else 1
    balance = np.ones(k)

    def problem(a, b):
        demands = Demands(targets[a:b].copy(), np.full(b - a, C), balance)
        return LinearProblem(MemorySource.of(X[a:b]), NONE, NONE, loss_named(loss), demands, 1.0)

    ends = [0, *cuts, X.shape[0]]
    shards = [
        Shard(problem(a, b), 64, LinearTuning(), number, a, gram_bytes) for number, (a, b) in enumerate(pairwise(ends))
    ]
    for shard in shards:
        shard.pool = Pool(n_threads)
    frame, width = problem(0, 0), ShardedAscent.width_of(X.shape[1])
    metric = metric_of_moments(frame, [shard.moments(width, 256) for shard in shards])
    return ShardedAscent(frame, LinearSettings(tol, 0, 64, 0, 1), metric, Here(shards))


def fitted(*given, **more):
    """Return the solver, its last state and the dual objectives of all rounds."""
    solver, values = solver_of(*given, **more), []
    watch = lambda state, report: values.append(report.objective) or False  # noqa: E731
    state, reason, _ = drive(solver, solver.init(), Limits(2000, np.inf), watch)
    assert reason is StopReason.CONVERGED
    return solver, state, values


@pytest.fixture(scope="module")
def two():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, 10)) * np.linspace(1, 4, 10)
    return X, np.where(X[:, 0] + X[:, 3] / 4 + rng.normal(size=700) > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def best_of_two(two):
    """Return a function that gives the optimum of each loss, found in one place."""

    @functools.cache
    def best(loss):
        return LinearSVC(loss=loss, C=0.1, tol=1e-9, max_iter=50_000, random_state=0).fit(*two).objective_

    return best


@pytest.mark.parametrize("cuts", [(), (300,), (300, 300, 301, 500), range(100, 700, 100)])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_any_number_of_shards_finds_the_optimum(two, best_of_two, loss, cuts):
    X, targets = two
    solver, state, _ = fitted(X, targets, cuts, loss)
    found = solver.certificate
    best = best_of_two(loss)
    assert found.dual[0] <= best * (1 + 1e-8) and best * (1 - 1e-8) <= found.primal[0]
    assert 0 <= found.primal[0] - found.dual[0] <= 1e-3 * found.primal[0]
    weights = solver.weights(state)[0]
    score = X @ weights[:-1] + weights[-1]
    losses = np.maximum(0, 1 - targets * score) ** (1 + (loss == "squared_hinge"))
    assert found.primal[0] == pytest.approx(0.5 * weights @ weights + 0.1 * losses.sum(), rel=1e-10)


def test_sparse_shards_one_of_which_has_one_class(two):
    X, targets = two
    order = np.argsort(targets, kind="stable")
    rows = sparse.csr_matrix(np.where(np.abs(X[order]) > 1, X[order], 0))
    solver, _, _ = fitted(rows, targets[order], (100, 400))
    best = LinearSVC(loss="hinge", C=0.1, tol=1e-6, random_state=0).fit(rows, targets[order]).objective_
    assert solver.certificate.primal[0] == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("other", [{"n_threads": 2}, {"gram_bytes": 0}])
def test_threads_and_gram_matrices_that_are_not_kept_change_no_bit(three_classes, other):
    X, y = three_classes
    one, two = (fitted(X, y.astype(float), (50, 80), **given)[1] for given in ({}, other))
    np.testing.assert_array_equal(one.best, two.best)
    np.testing.assert_array_equal(one.path.position, two.path.position)


@pytest.mark.parametrize("cuts", [(50, 80), range(20, 120, 20)])  # fewer shards than classes, and more
def test_rounds_go_on_from_a_state_and_a_memory_with_the_same_bits(three_classes, cuts):
    X, y = three_classes
    solver, whole, _ = fitted(X, y.astype(float), cuts)
    first, other = (solver_of(X, y.astype(float), cuts) for _ in range(2))
    limits = Limits(2000, np.inf)
    state, _, _ = drive(first, first.init(), limits, lambda state, report: state.epoch == 4)
    other.recall(first.memory())
    state, _, _ = drive(other, other.adopted(state), limits, lambda state, report: False)
    assert 4 < state.epoch == whole.epoch
    np.testing.assert_array_equal(other.weights(state), solver.weights(whole))
    assert other.certificate.dual.tolist() == solver.certificate.dual.tolist()


def test_what_is_known_of_dual_variables_is_true(two):
    solver, state, values = fitted(*two, range(50, 700, 50), "squared_hinge", C=10.0)
    exact = solver.certify(state).dual.sum()
    assert values[-1] == pytest.approx(exact, rel=1e-6)
    assert values[-1] <= exact * (1 + 1e-9)


def test_samples_that_leave_a_shard_are_no_rows_but_have_their_moments(two):
    X, targets = two
    problem = LinearProblem(
        MemorySource.of(X), NONE, NONE, loss_named("hinge"), Demands(targets, np.ones(700), np.ones(1)), 1.0
    )  # fmt: skip
    shard = Shard(problem, 64, LinearTuning(), 0, 0)
    sample = shard.moments(16, 700).sample
    padded = problem.dense(problem.block, 16)
    lengths = np.sqrt(np.minimum(1, 4 * np.median((padded**2).sum(1)) / (padded**2).sum(1)))
    np.testing.assert_allclose(
        sample.T @ sample, (padded * lengths[:, None]).T @ (padded * lengths[:, None]), atol=1e-8
    )
    distances = np.abs(sample[:, None, :10] - X[None]).max(axis=2)
    assert distances.min() > 1e-3


def test_no_more_shards_than_classes_take_the_rounds_of_one_place():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, 1500)
    X = rng.normal(size=(1500, 40)) + 2 * rng.normal(size=(4, 40))[y] / np.sqrt(40)
    one, apart = (fitted(X, y.astype(float), cuts, C=1.0)[1].epoch for cuts in ((), (450, 900, 1200)))
    assert apart <= 1.5 * one
