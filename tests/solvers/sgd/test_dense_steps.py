"""Steps on dense rows, against a plain loop."""

import naive
import numpy as np
import pytest
from scipy import sparse
from sgd_problems import (
    NONE,
    PENALTIES,
    Backwards,
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

from fastsvm._compiled.threads import Pool
from fastsvm.losses import LOSSES


@pytest.mark.parametrize(
    ("name", "batch_size"), [(name, size) for i, name in enumerate(LOSSES) for size in ((1, 32), (3, N))[i % 2]]
)
def test_steps_are_those_of_a_plain_loop(name, batch_size):
    k = K if name in naive.OF_CLASSES else 1
    X, targets = rows_and_targets(k)
    solver = solver_of(name, problem_of(X, targets, k), batch_size=batch_size, penalty=NONE._replace(l2=0.1))
    state, _ = epochs(solver, 3)
    check(state, oracle(solver, name, X))
    assert state.n_steps == 3 * -(-N // batch_size)


@pytest.mark.parametrize("batch_size", [1, 3, 32])
@pytest.mark.parametrize("name", ["hinge", "log_loss", "squared_hinge"])
def test_one_against_the_rest(name, batch_size):
    X, targets = rows_and_targets(K)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.2, 2, N) * (rng.uniform(size=N) > 0.1)  # some are left out
    problem = problem_of(X, targets, K, weights, rng.uniform(0.5, 2, K))
    solver = solver_of(name, problem, batch_size=batch_size, penalty=NONE._replace(l2=0.1))
    check(epochs(solver, 3)[0], oracle(solver, name, X))


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("n_scores", [1, K])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_penalties_momentum_and_clipping(penalty, n_scores, batch_size):
    X, targets = rows_and_targets(n_scores)
    solver = solver_of("log_loss", problem_of(X, targets, n_scores), batch_size=batch_size, penalty=PENALTIES[penalty])
    check(epochs(solver, 3)[0], oracle(solver, "log_loss", X), 1e-11)


def test_clipping_shortens_some_gradients_only():
    X, targets = rows_and_targets()
    problem = problem_of(X, targets)
    plain, clipped, always = (
        epochs(solver_of("log_loss", problem, penalty=NONE._replace(clip=clip)), 2)[0].model.last().coef
        for clip in (1e9, 0.5, 1e-3)
    )
    np.testing.assert_array_equal(plain, epochs(solver_of("log_loss", problem), 2)[0].model.last().coef)
    assert np.linalg.norm(always) < 0.1 * np.linalg.norm(clipped)
    assert np.abs(clipped - plain).max() > 1e-3


@pytest.mark.parametrize("average_from", [0.0, 2.5, 10.0, np.inf])
def test_averages_begin_after_some_steps(average_from):
    X, targets = rows_and_targets()
    solver = solver_of("hinge", problem_of(X, targets), average_from=average_from)
    state, _ = epochs(solver, 2)
    wanted = oracle(solver, "hinge", X, 2)
    check(state, wanted)
    answer = solver.answer(state).coef
    np.testing.assert_allclose(answer, wanted.coef if average_from == np.inf else wanted.mean, atol=1e-12)


@pytest.mark.parametrize("n_scores", [1, K])
@pytest.mark.parametrize("name", ["hinge", "squared_error"])
def test_float32_rows(name, n_scores):
    X, targets = rows_and_targets(n_scores)
    X = X.astype(np.float32)
    solver = solver_of(name, problem_of(X, targets, n_scores), penalty=NONE._replace(l2=0.1))
    state, _ = epochs(solver, 3)
    assert state.model.coef.dtype == np.float32
    check(state, oracle(solver, name, X.astype(float)), 2e-5)


@pytest.mark.parametrize("layout", ["float64", "float32", "uint8", "uint8 CSR", "Fortran", "reversed", "int64"])
def test_rows_shifted_and_scaled(layout):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (N, D))
    targets = rng.choice([-1.0, 1.0], N)
    shift, scale = X.mean(axis=0), 1 / X.std(axis=0)
    stored = {
        "float64": lambda: X.astype(np.float64),
        "float32": lambda: X.astype(np.float32),
        "uint8": lambda: X.astype(np.uint8),
        "uint8 CSR": lambda: sparse.csr_array(X.astype(np.uint8)),
        "Fortran": lambda: np.asfortranarray(X.astype(np.float64)),
        "reversed": lambda: X[::-1].astype(np.float64)[::-1],
        "int64": lambda: X,
    }[layout]()
    solver = solver_of("squared_error", problem_of(stored, targets, shift=shift, scale=scale))
    wanted = oracle(solver, "squared_error", (X - shift) * scale)
    check(epochs(solver, 3)[0], wanted, 1e-11 if stored.dtype.itemsize == 8 else 1e-4)


@pytest.mark.parametrize(
    ("window_rows", "batch_size", "momentum"),
    [(rows, size, (0.0, 0.7)[(i + j) % 2])
     for i, rows in enumerate([1, 5, 16, 33]) for j, size in enumerate([3, 16, 32, N])],
)  # fmt: skip
def test_batches_may_straddle_windows(window_rows, batch_size, momentum):
    X, targets = rows_and_targets(K)
    problem, penalty = problem_of(X, targets, K), NONE._replace(l2=0.1, momentum=momentum)
    whole = solver_of("hinge", problem, batch_size=batch_size, penalty=penalty)
    cut = solver_of("hinge", problem, batch_size=batch_size, penalty=penalty, window_rows=window_rows)
    (wanted, objectives), (found, others) = epochs(whole, 3), epochs(cut, 3)
    assert (found.n_steps, found.pending) == (wanted.n_steps, 0)
    np.testing.assert_allclose(others, objectives, rtol=1e-12)
    np.testing.assert_allclose(found.model.last().coef, wanted.model.last().coef, atol=1e-12)
    np.testing.assert_allclose(found.model.averaged()[0].coef, wanted.model.averaged()[0].coef, atol=1e-12)


def test_more_rows_of_a_batch_than_are_made_dense_at_once():
    X, targets = rows_and_targets(K, n=500)
    solver = solver_of("hinge", problem_of(X, targets, K), batch_size=300)
    check(epochs(solver, 3)[0], oracle(solver, "hinge", X))


def test_the_objective_that_passes_by_is_the_mean_of_the_losses():
    X, targets = rows_and_targets()
    solver = solver_of("log_loss", problem_of(X, targets), penalty=NONE._replace(l2=0.3, l1=0.01))
    _, objectives = epochs(solver, 1)
    wanted = oracle(solver, "log_loss", X, 1)
    penalty = 0.15 * (wanted.coef**2).sum() + 0.01 * np.abs(wanted.coef).sum()
    assert objectives[0] == pytest.approx(sum(wanted.losses) / N + penalty, rel=1e-12)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["hinge", "softmax"])
def test_the_full_objective(name, scaled):
    X, targets = rows_and_targets(K)
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=N) * (rng.uniform(size=N) > 0.2)
    weights *= np.count_nonzero(weights) / weights.sum()
    shift, scale = (rng.normal(size=D), rng.uniform(1, 2, D)) if scaled else ((), ())
    problem = problem_of(X, targets, K, weights, rng.uniform(1, 2, K), shift, scale)
    solver = solver_of(name, problem, penalty=NONE._replace(l2=0.3, l1=0.01))
    linear = solver.answer(epochs(solver, 2)[0])
    rows = (X - shift) * scale if scaled else X
    loss = naive.mean_loss(name, rows @ linear.coef.T + linear.intercept, targets, weights, problem.balance)[0]
    penalty = 0.15 * (linear.coef**2).sum() + 0.01 * np.abs(linear.coef).sum()
    assert solver.objective(linear) == pytest.approx(loss / np.count_nonzero(weights) + penalty, rel=1e-12)


@pytest.mark.parametrize("n_classes", [8, 9, 17, 40])
def test_weights_have_the_same_bits_for_any_number_of_threads(n_classes):
    X, targets = rows_and_targets(n_classes, n=300)
    problem = problem_of(X, targets, n_classes)
    found = []
    for pool in (Pool(1), Pool(2), Backwards(1)):
        state, _ = epochs(solver_of("log_loss", problem, penalty=NONE._replace(l2=0.1), pool=pool), 3)
        found.append((state.model.last(), state.model.averaged()[0]))
    for last, mean in found[1:]:
        np.testing.assert_array_equal(last.coef, found[0][0].coef)
        np.testing.assert_array_equal(mean.coef, found[0][1].coef)
        np.testing.assert_array_equal(mean.intercept, found[0][1].intercept)


@pytest.mark.parametrize("n_classes", [8, 9, 40])
def test_groups_of_classes_are_learnt_as_all_at_once(n_classes):
    X, targets = rows_and_targets(n_classes, n=100)
    solver = solver_of("hinge", problem_of(X, targets, n_classes))
    check(epochs(solver, 2)[0], oracle(solver, "hinge", X, 2))
