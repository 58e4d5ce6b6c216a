"""Newton steps that end linear problems of few features, where ascent is slow."""

from typing import NamedTuple

import naive
import numpy as np
import pytest
from scipy import sparse
from sklearn import datasets, svm

from fastsvm import LinearSVC, LinearSVR
from fastsvm._compiled.threads import Pool
from fastsvm.losses import LOSSES, Demands, feasible
from fastsvm.solvers.linear_dual.augmented_lagrangian import Course, newton_applies, solved
from fastsvm.solvers.linear_dual.problem import Certificate, LinearProblem
from fastsvm.sources import MemorySource
from fastsvm.tuning import changed, tuned

OVR = ["hinge", "squared_hinge"]
REGRESSION = ["epsilon_insensitive", "squared_epsilon_insensitive"]
EMPTY = np.empty(0)


def problem_of(name, X, targets, costs, balance=None, shift=EMPTY, scale=EMPTY):
    demands = Demands(np.asarray(targets, float), costs, np.ones(1) if balance is None else balance)
    loss = LOSSES[name](0.2) if name in REGRESSION else LOSSES[name]()
    return LinearProblem(MemorySource.of(X), shift, scale, loss, demands, 1.0)


class Ended(NamedTuple):
    """Weights, dual variables and their certificate."""

    weights: np.ndarray
    dual: np.ndarray
    certificate: Certificate

    @property
    def primal(self):
        """Objectives of the scores."""
        return self.certificate.primal

    @property
    def gap(self):
        """Duality gaps of the scores."""
        return self.primal - self.certificate.dual


def ended(problem, tol=1e-9, dual=None, stop=0, n_threads=None):
    dual = np.zeros((len(problem.source), problem.n_scores)) if dual is None else dual
    with Pool.open(n_threads) as pool:
        rows = problem.dense(problem.block, problem.source.shape[1] + 1)
        found = solved(problem, rows, np.ascontiguousarray(dual.T), Course(tol, stop=np.full(1, stop)), pool)
        dual = np.ascontiguousarray(found.dual.T)
        sums = problem.certificate_sums([found.weights], dual, found.weights, pool)
        return Ended(found.weights, dual, problem.certificate([found.weights], sums)[1])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    return X, X @ rng.normal(size=6) + rng.normal(size=150)


def targets_of(name, y):
    return y if name in REGRESSION else np.where(y > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("name", "C", "layout"),
    [(name, C, (np.asarray, np.float32, sparse.csr_array)[(i + j) % 3])
     for i, name in enumerate(OVR + REGRESSION) for j, C in enumerate([1e-3, 1.0, 1e3, 1e6])],
)  # fmt: skip
def test_both_objectives_are_what_they_are_said_to_be(name, C, layout, rows):
    X, targets = rows[0], targets_of(name, rows[1])
    stored = layout(X)
    problem = problem_of(name, stored, targets, np.full(150, C))
    found = ended(problem)
    assert found.gap[0] <= 1e-9 * found.primal[0]
    np.testing.assert_array_equal(found.dual, feasible(problem.loss, problem.demands, found.dual))
    values = stored.toarray() if sparse.issparse(stored) else stored.astype(np.float64)
    Z = np.hstack([values, np.ones((150, 1))])
    parameters = {"epsilon": 0.2} if name in REGRESSION else {}
    primal = naive.linear_objectives(name, found.weights, Z, targets, problem.demands.costs, np.ones(1), **parameters)
    np.testing.assert_allclose(found.primal, primal, rtol=1e-12)
    beta = found.dual[:, 0]
    linear = beta @ targets - (0.2 * np.abs(beta).sum() if name in REGRESSION else 0)
    squares = (beta**2).sum() / (4 * C) if "squared" in name else 0
    np.testing.assert_allclose(found.certificate.dual, linear - squares - ((beta @ Z) ** 2).sum() / 2, rtol=1e-8)


@pytest.mark.parametrize("shape", [(30, 200), (150, 6), (64, 64)])
@pytest.mark.parametrize("name", OVR)
def test_the_objective_is_that_of_liblinear(name, shape):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=shape), rng.integers(0, 2, shape[0])
    found = ended(problem_of(name, X, 2.0 * y - 1, np.full(len(y), 0.7)))
    model = svm.LinearSVC(loss=name, C=0.7, tol=1e-8, max_iter=10**6, dual=True, random_state=0).fit(X, y)
    W, Z = np.hstack([model.coef_, model.intercept_[:, None]]), np.hstack([X, np.ones((len(X), 1))])
    wanted = naive.linear_objectives(name, W, Z, 2.0 * y - 1, np.full(len(y), 0.7), np.ones(1))
    np.testing.assert_allclose(found.primal, wanted, rtol=1e-7)


@pytest.mark.parametrize("name", OVR)
def test_several_classes_of_different_weight_and_rows_of_none(name, rows):
    X, labels = rows[0], np.digitize(rows[1], [-1, 1])
    costs = np.random.default_rng(0).exponential(size=150)
    costs[::5] = 0
    balance = np.array([1.0, 3.0, 0.2])
    found = ended(problem_of(name, X, labels, costs, balance))
    assert (found.dual[::5] == 0).all() and (found.gap <= 1e-9 * found.primal).all()
    Z = np.hstack([X, np.ones((150, 1))])
    primal = naive.linear_objectives(name, found.weights, Z, labels, costs, balance)
    np.testing.assert_allclose(found.primal, primal, rtol=1e-12)


def test_rows_are_shifted_and_scaled(rows):
    X, targets = rows[0], targets_of("hinge", rows[1])
    shift, scale = np.arange(6.0), 1 / np.arange(1.0, 7)
    found = ended(problem_of("hinge", X, targets, np.ones(150), shift=shift, scale=scale))
    wanted = ended(problem_of("hinge", (X - shift) * scale, targets, np.ones(150)))
    np.testing.assert_allclose(found.primal, wanted.primal, rtol=1e-8)


def test_it_begins_where_it_is_told(rows):
    problem = problem_of("hinge", rows[0], targets_of("hinge", rows[1]), np.ones(150))
    end = ended(problem)
    again = ended(problem, dual=end.dual)
    np.testing.assert_array_equal(again.dual, end.dual)


def test_any_number_of_threads_gives_the_same_bits(rows):
    problem = problem_of("hinge", np.tile(rows[0], (20, 30)), targets_of("hinge", np.tile(rows[1], 20)), np.ones(3000))
    found = [ended(problem, 1e-4, n_threads=n_threads) for n_threads in (1, 2)]
    np.testing.assert_array_equal(found[0].weights, found[1].weights)
    np.testing.assert_array_equal(found[0].dual, found[1].dual)


def test_only_rows_in_memory_that_are_few_and_scores_apart(rows):
    problem = problem_of("hinge", rows[0], targets_of("hinge", rows[1]), np.ones(150))
    assert newton_applies(problem, 150 * 7) and not newton_applies(problem, 150 * 7 - 1)
    assert not newton_applies(problem._replace(loss=LOSSES["crammer_singer"]()), 10**6)


def noise():
    rng = np.random.RandomState(0)
    X = rng.randn(60, 4)
    return X, X[:, 0] + 0.3 * rng.randn(60) > 0


HARD = {
    "large C": (noise, 1e6),
    "wine": (lambda: datasets.load_wine(return_X_y=True), 100.0),
    "separable": (lambda: (np.arange(40.0)[:, None] - 20.3, np.arange(40) > 20), 1e8),
    "digits": (lambda: datasets.load_digits(return_X_y=True), 1.0),
}


@pytest.mark.parametrize(
    ("case", "loss", "dtype"),
    [(case, "hinge", [np.float64, np.float32][i % 2]) for i, case in enumerate(HARD)]
    + [(case, "squared_hinge", np.float64) for case in HARD],
)
def test_fits_that_are_slow_by_ascent(case, loss, dtype):
    load, C = HARD[case]
    X, y = load()
    model = LinearSVC(loss=loss, C=C, tol=1e-4, random_state=0).fit(X.astype(dtype), y)
    assert model.converged_ and model.duality_gap_ <= 1e-4 * model.objective_
    gaps = model.history_["gap"]
    with pytest.warns(Warning, match="max_iter"), tuned(changed({"linear": {"lagrangian": False}})):
        slow = LinearSVC(loss=loss, C=C, random_state=0, max_iter=len(gaps) + 1).fit(X.astype(dtype), y)
    assert slow.objective_ > model.objective_


@pytest.mark.parametrize("loss", REGRESSION)
def test_a_regression_of_large_C(loss):
    X, y = datasets.load_diabetes(return_X_y=True)
    model = LinearSVR(loss=loss, C=1e6, tol=1e-7, random_state=0).fit(X, y)
    assert model.converged_


@pytest.mark.parametrize("loss", OVR)
def test_the_gradient_as_criterion(loss, rows):
    X, y = rows[0], rows[1] > 0
    model = LinearSVC(loss=loss, C=1e3, tol=1e-7, criterion="gradient", random_state=0).fit(X, y)
    assert model.converged_ and model.kkt_violation_ <= 1e-7


def test_it_stops_when_it_is_told(rows):
    X, y = rows
    problem = problem_of("hinge", X, targets_of("hinge", y), np.full(150, 1e6))
    late = ended(problem, stop=1)
    assert not late.dual.any()
    assert late.primal == 150e6
    assert ended(problem).primal < 140e6
