"""Steps with learning rates by feature, on dense and on sparse rows, against plain loops."""

from copy import deepcopy

import numpy as np
import pytest
from naive import mean_loss
from scipy import sparse
from sgd_problems import NONE, D, K, N, epochs, order_of, problem_of, rows_and_targets, solver_of

from fastsvm.solvers.sgd.learning_rates import BY_FEATURE, FIRST_STEP, FeatureLengths, Schedule

BY_GRADIENTS = Schedule(BY_FEATURE, 0.2, 0.5, 1e-4, 10.0)


def plain_steps(solver, name, X, n_epochs):
    """Return weights and intercepts after the last step, and their averages, by the definitions."""
    problem, settings, penalty = solver.problem, solver.settings, solver.settings.penalty
    used = problem.weights > 0
    share, k = problem.weights[used], len(problem.balance)
    count, square = (share @ (X[used] != 0)), (share @ X[used] ** 2)
    n_values = max(1, count.sum() / share.sum())
    length = np.sqrt(square / np.where(count > 0, count, 1))
    u = 1 / (np.where(length > 0, length, 1) * np.sqrt(n_values))
    floor = square / share.sum() * n_values / settings.schedule.first
    W, h, s = np.zeros((k, X.shape[1])), np.tile(floor, (k, 1)), np.zeros((k, X.shape[1]))
    v, velocity = W.copy(), W.copy()
    b, s_b, moved_b = np.zeros(k), np.zeros(k), np.zeros(k)
    sums, total, t = [np.zeros_like(W), np.zeros(k)], 0.0, 0
    for order in order_of(solver, n_epochs):
        for start in range(0, len(order), settings.batch_size):
            batch = order[start : start + settings.batch_size]
            scores = X[batch] @ W.T + b
            _, slopes = mean_loss(name, scores, problem.targets[batch], problem.weights[batch], problem.balance)
            G, g, t = slopes.T @ X[batch] / len(batch), slopes.sum(axis=0) / len(batch), t + 1
            s = s + (u * G) ** 2
            slower = floor + np.sqrt(s) / (u * np.maximum(u, np.abs(W)))
            new = np.where(G != 0, slower, h)
            velocity = penalty.momentum * velocity + G
            v, h = v + W * (new - h) - velocity, new
            W = np.sign(v) * np.maximum(0, np.abs(v) - penalty.l1 * t) / np.maximum(h + penalty.l2 * t, 1e-30)
            s_b = s_b + g**2
            moved_b = penalty.momentum * moved_b + g
            reach = np.maximum(FIRST_STEP, np.abs(b))
            b = b - np.where(g != 0, moved_b * reach / np.maximum(np.sqrt(s_b), 1e-30), 0)
            weight = max(0.0, t - settings.average_from)
            weight = weight**3 + weight / 4
            total += weight
            sums = [sums[0] + weight * W, sums[1] + weight * b]
    return W, b, sums[0] / max(total, 1e-300), sums[1] / max(total, 1e-300)


def check(state, wanted, tolerance):
    last, (mean, _) = state.model.last(), state.model.averaged()
    for found, slow in zip((last.coef, last.intercept, mean.coef, mean.intercept), wanted, strict=True):
        np.testing.assert_allclose(found, slow, rtol=tolerance, atol=tolerance)


PENALTIES = {
    "none": NONE,
    "l2": NONE._replace(l2=0.1),
    "elastic net": NONE._replace(l2=0.1, l1=0.02),
    "momentum": NONE._replace(l2=0.01, l1=0.01, momentum=0.8),
}


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=list(PENALTIES))
@pytest.mark.parametrize("name", ["log_loss", "softmax"])
def test_dense_steps_are_those_of_a_plain_loop(name, penalty):
    X, targets = rows_and_targets(k := K if name == "softmax" else 1)
    X *= [1, 1000, 1e-3, 1, 1, 1]
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    problem = problem_of(X, targets, k, weights)
    solver = solver_of(name, problem, penalty=penalty, schedule=BY_GRADIENTS, average_from=7.0)
    check(epochs(solver, 3)[0], plain_steps(solver, name, X, 3), 1e-9)


def sparse_rows():
    rng = np.random.default_rng(5)
    X = sparse.random_array((N, 20 * D), density=0.03, rng=rng, data_sampler=rng.normal).tocsr()
    X.data[0] = 0.0
    return X


def bounded_steps(solver, name, X, n_epochs):
    """Return what `plain_steps` does, of steps that the losses bound, with the average of v and h."""
    problem, settings, penalty = solver.problem, solver.settings, solver.settings.penalty
    k, apart = len(problem.balance), name != "softmax"
    rates = FeatureLengths(len(X), (X != 0).sum(axis=0), (X**2).sum(axis=0)).rates(settings.schedule.first, 1.0, float)
    u, floor = rates.unit, rates.floor
    v, h, s = np.zeros((k, X.shape[1])), np.tile(floor, (k, 1)), np.zeros((k, X.shape[1]))
    b, s_b, total, middle, t = np.zeros(k), np.zeros(k), 0.0, 0.0, 0
    sums = [np.zeros_like(v), np.zeros_like(v), np.zeros(k)]

    def weights(v, h, t):
        return np.sign(v) * np.maximum(0, np.abs(v) - penalty.l1 * t) / (h + penalty.l2 * t + 1e-300)

    for order in order_of(solver, n_epochs):
        for start in range(0, len(order), settings.batch_size):
            batch = order[start : start + settings.batch_size]
            targets, W = problem.targets[batch], weights(v, h, t)
            scores = X[batch] @ W.T + b
            of_score = [scores[:, c : c + 1] for c in range(k)] if apart else [scores]
            own = [np.where(targets == c, 1.0, -1.0) for c in range(k)] if apart and k > 1 else [targets]
            factors = [np.where((y > 0) & apart & (k > 1), problem.balance[c], 1.0) for c, y in enumerate(own)]
            found = [mean_loss(name, *one, np.ones(k)) for one in zip(of_score, own, factors, strict=True)]
            slopes = np.hstack([slope for _, slope in found])
            G, g, t = slopes.T @ X[batch] / len(batch), slopes.sum(axis=0) / len(batch), t + 1
            s, s_b = s + (u * G) ** 2, s_b + g**2
            new = np.where(G != 0, floor + np.sqrt(s) / (u * np.maximum(u, np.abs(W))), h)
            rate = np.maximum(FIRST_STEP, np.abs(b)) / np.maximum(np.sqrt(s_b), 1e-300)
            squares = (G**2 / (new + penalty.l2 * t + 1e-300)).sum(axis=1) + g**2 * rate
            squares = squares if apart else np.full(k, squares.sum())
            values = np.array([value / len(batch) for value, _ in found])
            share = np.minimum(1, 2 * values / np.maximum(squares, 1e-300))
            v, h, b = v + W * (new - h) - share[:, None] * G, new, b - share * rate * g
            weight = max(0.0, t - settings.average_from)
            weight = weight**3 + weight / 4
            total, middle = total + weight, middle + weight * t
            sums = [old + weight * array for old, array in zip(sums, (v, h, b), strict=True)]
    mean = [array / max(total, 1e-300) for array in sums]
    return weights(v, h, t), b, weights(*mean[:2], middle / max(total, 1e-300)), mean[2]


@pytest.mark.parametrize(
    ("name", "k", "batch_size", "l1", "average_from"),
    [(*case, l1, (0.0, 9.0)[(i + j) % 2])
     for i, case in enumerate([("hinge", 1, 1), ("hinge", K, 1), ("hinge", K, 4), ("softmax", K, 1)])
     for j, l1 in enumerate([0.0, 0.002])],
)  # fmt: skip
def test_sparse_steps_are_those_of_a_plain_loop(name, k, batch_size, l1, average_from):
    X, (_, targets) = sparse_rows(), rows_and_targets(k)
    problem = problem_of(X, targets, k)
    problem = problem._replace(balance=np.linspace(1, 2, k) if name == "hinge" else np.ones(k))
    penalty = NONE._replace(l2=0.1, l1=l1)
    parameters = {"penalty": penalty, "schedule": BY_GRADIENTS, "batch_size": batch_size, "average_from": average_from}
    solver = solver_of(name, problem, is_sparse=True, **parameters)
    check(epochs(solver, 6)[0], bounded_steps(solver, name, X.toarray(), 6), 1e-9)


@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_other_penalties_in_the_midst(layout):
    """The weights stay as they are when the penalties change, and their average goes on."""
    X, (_, targets) = sparse_rows(), rows_and_targets()
    problem = problem_of(X if layout == "CSR" else X.toarray(), targets)
    first, then = (
        solver_of(
            "log_loss",
            problem,
            penalty=NONE._replace(l2=l2, l1=0.002),
            schedule=BY_GRADIENTS,
            is_sparse=layout == "CSR",
        )
        for l2 in (0.1, 0.02)
    )
    state, _ = epochs(first, 2)
    model = deepcopy(state.model)
    model.prepare(then.settings.penalty, state.n_steps, None, begins=False)
    np.testing.assert_allclose(model.last().coef, state.model.last().coef, atol=1e-14)
    np.testing.assert_allclose(model.averaged()[0].coef, state.model.averaged()[0].coef, atol=1e-14)
    longer, _ = epochs(then, 1, state)
    assert np.abs(longer.model.last().coef - state.model.last().coef).max() > 1e-3


def test_lengths_are_those_of_all_windows():
    X, (_, targets) = sparse_rows(), rows_and_targets()
    state, _ = epochs(solver_of("hinge", problem_of(X, targets), schedule=BY_GRADIENTS, window_rows=12), 2)
    assert state.lengths.n_rows == N
    np.testing.assert_allclose(state.lengths.squares, (X.toarray() ** 2).sum(axis=0))
    np.testing.assert_array_equal(state.lengths.counts, (X.toarray() != 0).sum(axis=0))
