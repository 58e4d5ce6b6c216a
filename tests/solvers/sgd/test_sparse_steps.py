"""Steps that touch the columns of a batch only, against a plain loop and steps on dense rows."""

import naive
import numpy as np
import pytest
from scipy import sparse
from sgd_problems import (
    NONE,
    PENALTIES,
    RATES,
    D,
    K,
    N,
    check,
    epochs,
    oracle,
    problem_of,
    rows_and_targets,
    solver_of,
)

from fastsvm.solvers.sgd.learning_rates import BY_FEATURE
from fastsvm.sources import MemorySource


def sparse_rows(n_features=200, seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, n_features), density=0.03, rng=rng, data_sampler=rng.normal).tocsr()
    X.data[:] = rng.normal(size=X.nnz)
    return X


ONE_OF_EACH_FORM = "hinge", "log_loss", "softmax", "epsilon_insensitive", "crammer_singer"
"""Losses of labels, numbers and classes: `test_dense_steps.py` has steps of all losses."""


@pytest.mark.parametrize(
    ("name", "batch_size"),
    [(name, size) for i, name in enumerate(ONE_OF_EACH_FORM) for size in ((1, N), (3, 32))[i % 2]],
)
def test_sparse_steps_are_those_of_a_plain_loop(name, batch_size):
    k = K if name in naive.OF_CLASSES else 1
    X, targets = sparse_rows(), rows_and_targets(k)[1]
    penalty = NONE._replace(l2=0.1)
    solver = solver_of(name, problem_of(X, targets, k), batch_size=batch_size, penalty=penalty, is_sparse=True)
    state, objectives = epochs(solver, 3)
    check(state, oracle(solver, name, X.toarray()), 1e-10)
    problem = problem_of(X.toarray(), targets, k)
    dense = solver_of(name, problem, batch_size=batch_size, penalty=penalty, is_sparse=False)
    same, others = epochs(dense, 3)
    np.testing.assert_allclose(objectives, others, rtol=1e-10)
    np.testing.assert_allclose(dense.answer(same).coef, solver.answer(state).coef, atol=1e-10)


@pytest.mark.parametrize(
    ("intercept_rate", "n_scores", "average_from"),
    [(rate, (1, K)[(i + j) % 2], average_from)
     for i, rate in enumerate([0.0, 1.0, 3.0]) for j, average_from in enumerate([0.0, 7.5, np.inf])],
)  # fmt: skip
def test_averages_and_intercepts_of_sparse_steps(intercept_rate, n_scores, average_from):
    X, targets = sparse_rows(), rows_and_targets(n_scores)[1]
    rng = np.random.default_rng(0)
    problem = problem_of(X, targets, n_scores, rng.uniform(0, 2, N) * (rng.uniform(size=N) > 0.2))
    penalty = NONE._replace(l2=0.1, intercept_rate=intercept_rate)
    solver = solver_of("hinge", problem, penalty=penalty, average_from=average_from)
    assert solver.settings.sparse
    check(epochs(solver, 3)[0], oracle(solver, "hinge", X.toarray()), 1e-10)


def test_a_tiny_scale_is_multiplied_into_the_weights():
    X, targets = sparse_rows(), rows_and_targets()[1]
    penalty = NONE._replace(l2=4.0)  # 0.2 of the weights is left by a step
    solver = solver_of("log_loss", problem_of(X, targets), penalty=penalty, schedule=RATES._replace(power=0.0))
    state, _ = epochs(solver, 5)
    assert 0.2**state.n_steps < 1e-50
    assert 1 <= state.model.scalars[0] <= 1e9
    wanted = oracle(solver, "log_loss", X.toarray(), 5)
    np.testing.assert_allclose(state.model.last().coef, wanted.coef, atol=1e-13)
    np.testing.assert_allclose(state.model.last().intercept, wanted.intercept, atol=1e-13)
    check(state, wanted, 1e-12)


@pytest.mark.parametrize("l2", [5.0, 8.0])
def test_a_penalty_that_leaves_nothing_of_the_weights(l2):
    X, targets = sparse_rows(), rows_and_targets()[1]
    solver = solver_of("hinge", problem_of(X, targets), penalty=NONE._replace(l2=l2))
    assert solver.settings.schedule.rates(0, 1)[0] * l2 >= 1
    state, _ = epochs(solver, 3)
    wanted = oracle(solver, "hinge", X.toarray())
    np.testing.assert_allclose(state.model.last().coef, wanted.coef, atol=1e-13)
    np.testing.assert_allclose(state.model.last().intercept, wanted.intercept, atol=1e-13)
    check(state, wanted, 1e-11)


@pytest.mark.parametrize(
    ("n_scores", "batch_size", "l2", "average_from"),
    [(n_scores, batch_size, l2, average_from)
     for i, n_scores in enumerate([1, K])
     for j, batch_size in enumerate([1, 5])
     for k, l2 in enumerate([0.0, 0.1, 8.0])
     for m, average_from in enumerate([0.0, 7.5]) if (i + j + k + m) % 2 == 0],
)  # fmt: skip
def test_the_l1_penalty_of_sparse_steps_is_that_of_dual_averaging(n_scores, batch_size, l2, average_from):
    X, targets = sparse_rows(), rows_and_targets(n_scores)[1]
    solver = solver_of(
        "log_loss", problem_of(X, targets, n_scores), batch_size=batch_size, penalty=NONE._replace(l2=l2, l1=0.003),
        average_from=average_from,
    )  # fmt: skip
    assert solver.settings.sparse
    state, _ = epochs(solver, 3)
    check(state, oracle(solver, "log_loss", X.toarray(), leads=True), 1e-11)
    if l2 < 1:
        used = np.unique(X.indices)
        assert 0.05 < np.mean(state.model.last().coef[:, used] == 0) < 0.95


def test_the_l1_penalty_of_full_sparse_rows_is_that_of_dense_ones_while_no_weight_ends_at_zero():
    rng = np.random.default_rng(0)
    X, targets = rng.uniform(1, 2, (N, D)), rng.choice([-1.0, 1.0], N)
    penalty, schedule = NONE._replace(l2=0.1, l1=0.01), RATES._replace(first=1e-3)
    dense = solver_of("log_loss", problem_of(X, targets), penalty=penalty, schedule=schedule)
    rows = problem_of(sparse.csr_array(X), targets)
    lazy = solver_of("log_loss", rows, penalty=penalty, schedule=schedule, is_sparse=True)
    begin = dense.answer(dense.init())._replace(coef=rng.choice([-5.0, 5.0], (1, D)))
    wanted, _ = epochs(dense, 3, dense.init(begin))
    found, _ = epochs(lazy, 3, lazy.init(begin))
    assert (wanted.model.last().coef * begin.coef > 0).all()
    for pair in ((found.model.last(), wanted.model.last()), (lazy.answer(found), dense.answer(wanted))):
        np.testing.assert_allclose(pair[0].coef, pair[1].coef, rtol=1e-12)
        np.testing.assert_allclose(pair[0].intercept, pair[1].intercept, rtol=1e-12)


def test_the_l1_penalty_never_turns_a_weight_around():
    X, targets = sparse_rows(n_features=50), rows_and_targets()[1]
    begin = np.random.default_rng(0).normal(size=(1, 50))
    solver = solver_of("perceptron", problem_of(X, targets), penalty=NONE._replace(l1=0.1), is_sparse=True)
    state = solver.init(solver.answer(solver.init())._replace(coef=begin, intercept=np.array([0.0])))
    problem = solver.problem._replace(source=MemorySource.of(sparse.csr_array(X.shape)))  # no gradients
    solver.problem = problem
    for _ in range(6):
        state, _ = epochs(solver, 1, state)
        last = state.model.last().coef
        assert (np.sign(last) * np.sign(begin) >= 0).all()
        assert (np.abs(last) <= np.abs(begin)).all()
        assert np.isfinite(solver.answer(state).coef).all()
    total = 0.1 * solver.settings.schedule.rates(0, state.n_steps).sum()
    np.testing.assert_allclose(np.abs(last), np.maximum(0, np.abs(begin) - total), atol=1e-12)


@pytest.mark.parametrize("rates", [RATES, RATES._replace(name=BY_FEATURE)], ids=["one rate", "by feature"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_dense_rows_of_few_values_take_sparse_steps(batch_size, rates):
    X, targets = sparse_rows(), rows_and_targets(K)[1]
    states = []
    for rows in (X, X.toarray(), np.asfortranarray(X.toarray())):
        solver = solver_of("hinge", problem_of(rows, targets, K), batch_size=batch_size, schedule=rates, window_rows=20)
        assert solver.settings.sparse
        states.append(epochs(solver, 3)[0])
    for state in states[1:]:
        np.testing.assert_allclose(state.model.last().coef, states[0].model.last().coef, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("penalty", ["momentum", "clipping"])
def test_momentum_and_clipping_of_sparse_rows(penalty):
    X, targets = sparse_rows(), rows_and_targets()[1]
    solver = solver_of("hinge", problem_of(X, targets), penalty=PENALTIES[penalty])
    assert not solver.settings.sparse
    check(epochs(solver, 3)[0], oracle(solver, "hinge", X.toarray()), 1e-11)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_types_of_sparse_rows(dtype, index):
    X, targets = sparse_rows(), rows_and_targets()[1]
    X.data = np.ceil(np.abs(X.data))
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    solver = solver_of("hinge", problem_of(X, targets))
    assert solver.settings.sparse
    check(epochs(solver, 2)[0], oracle(solver, "hinge", X.toarray().astype(float), 2), 1e-11)


def test_rows_without_values():
    X, targets = sparse.csr_array((N, 40)), rows_and_targets()[1]
    solver = solver_of("log_loss", problem_of(X, targets), penalty=NONE._replace(l2=0.1))
    assert solver.settings.sparse
    state, _ = epochs(solver, 3)
    check(state, oracle(solver, "log_loss", X.toarray()), 1e-12)
    assert not state.model.last().coef.any()
