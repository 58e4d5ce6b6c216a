import naive
import numpy as np
import pytest
from scipy import sparse

from fastsvm._compiled.threads import Pool
from fastsvm.losses import LOSSES, Hinge
from fastsvm.solvers.sgd.dense_steps import Penalty
from fastsvm.solvers.sgd.lazy_steps import settle
from fastsvm.solvers.sgd.learning_rates import SCHEDULES, Schedule
from fastsvm.solvers.sgd.problem import SGDProblem, SGDSettings
from fastsvm.solvers.sgd.solver import SGD
from fastsvm.sources import MemorySource

N, D, K = 70, 6, 3
NONE = Penalty(l2=0.0, l1=0.0, momentum=0.0, clip=np.inf, offset=1.0)
RATES = Schedule("invscaling", 0.2, 0.5, 1e-4, 10.0)


class Backwards(Pool):
    """Does pieces of work in the other order."""

    def run(self, function, pieces):
        for piece in list(pieces)[::-1]:
            function(*piece)


def rows_and_targets(n_scores=1, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    targets = rng.choice([-1.0, 1.0], n) if n_scores == 1 else rng.integers(0, n_scores, n).astype(float)
    return X, targets


def made(name):
    return Hinge(0.0) if name == "perceptron" else LOSSES[name]()


def problem_of(X, targets, n_scores=1, weights=None, balance=None, shift=(), scale=()):
    return SGDProblem(
        MemorySource.of(X), np.array(shift, float), np.array(scale, float), targets,
        np.ones(len(targets)) if weights is None else weights,
        np.ones(n_scores) if balance is None else balance,
    )  # fmt: skip


def solver_of(name, problem, *, batch_size=4, penalty=NONE, schedule=RATES, average_from=0.0, seed=3,
              window_rows=10**6, pool=None):  # fmt: skip
    settings = SGDSettings(made(name), penalty, schedule, batch_size, average_from, None, 1, seed, window_rows)
    return SGD(problem, settings, pool or Pool(1))


def epochs(solver, n_epochs, state=None):
    """Return the state after so many epochs, and the losses of the epochs."""
    state, objectives = state or solver.init(), []
    while len(objectives) < n_epochs:
        state, report = solver.step(state, 1)
        if report.n_steps:
            objectives.append(report.objective)
    return state, objectives


def order_of(solver, n_epochs):
    """Return the rows in the order in which they are visited."""
    return [np.random.default_rng((solver.settings.seed, e)).permutation(solver.rows) for e in range(n_epochs)]


def oracle(solver, name, X, n_epochs=3, **parameters):
    """Return what the slow version reaches, an epoch's last batch being what is left."""
    settings, problem = solver.settings, solver.problem
    order = order_of(solver, n_epochs)
    size, n_rows = settings.batch_size, len(solver.rows)
    n_batches = -(-n_rows // size)
    padded = [np.append(rows, np.full(n_batches * size - n_rows, -1)) for rows in order]
    batches = [batch[batch >= 0] for rows in padded for batch in rows.reshape(n_batches, size)]
    return naive.descend(
        name, X, problem.targets, batches, settings.schedule.rates(0, len(batches)), n_scores=len(problem.balance),
        weights=problem.weights, balance=problem.balance, l2=settings.penalty.l2, l1=settings.penalty.l1,
        momentum=settings.penalty.momentum, clip=settings.penalty.clip, offset=settings.penalty.offset,
        average_from=settings.average_from, **parameters,
    )  # fmt: skip


def check(state, wanted, tolerance=1e-12):
    """Weights and their average are those of the slow version."""
    last, (mean, _) = state.model.last(), state.model.averaged()
    for found, slow in (
        (last.coef, wanted.coef), (last.intercept, wanted.intercept),
        (mean.coef, wanted.mean), (mean.intercept, wanted.mean_intercept),
    ):  # fmt: skip
        np.testing.assert_allclose(found, slow, rtol=tolerance, atol=tolerance)


# --- dense rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 32, N])
@pytest.mark.parametrize("name", LOSSES)
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


PENALTIES = {
    "none": NONE,
    "l1": NONE._replace(l1=0.05),
    "elastic net": NONE._replace(l2=0.1, l1=0.05),
    "momentum": NONE._replace(l2=0.1, momentum=0.8),
    "momentum and l1": NONE._replace(l1=0.05, momentum=0.8),
    "clipping": NONE._replace(l2=0.1, clip=0.3),
    "clipping and momentum": NONE._replace(momentum=0.5, clip=0.3),
    "no offset": NONE._replace(l2=0.1, offset=0.0),
    "no offset and momentum": NONE._replace(momentum=0.5, offset=0.0),
    "offset of a large feature": NONE._replace(l2=0.1, momentum=0.5, offset=3.0),
    "huge l2": NONE._replace(l2=100.0),
}


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
@pytest.mark.parametrize("name", ["hinge", "log_loss"])
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
    solver = solver_of("log_loss", problem_of(stored, targets, shift=shift, scale=scale))
    wanted = oracle(solver, "log_loss", (X - shift) * scale)
    check(epochs(solver, 3)[0], wanted, 1e-11 if stored.dtype.itemsize == 8 else 1e-4)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
@pytest.mark.parametrize("batch_size", [3, 16, 32, N])
@pytest.mark.parametrize("window_rows", [1, 5, 16, 33])
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


# --- sparse rows -----------------------------------------------------------------------------------------


def sparse_rows(n_features=200, seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, n_features), density=0.03, rng=rng, data_sampler=rng.normal).tocsr()
    X.data[:] = rng.normal(size=X.nnz)
    return X


@pytest.mark.parametrize("batch_size", [1, 3, 32, N])
@pytest.mark.parametrize("name", LOSSES)
def test_sparse_steps_are_those_of_a_plain_loop(name, batch_size):
    k = K if name in naive.OF_CLASSES else 1
    X, targets = sparse_rows(), rows_and_targets(k)[1]
    penalty = NONE._replace(l2=0.1)
    solver = solver_of(name, problem_of(X, targets, k), batch_size=batch_size, penalty=penalty)
    assert solver.lazy
    state, objectives = epochs(solver, 3)
    check(state, oracle(solver, name, X.toarray()), 1e-10)
    dense = solver_of(name, problem_of(X.toarray(), targets, k), batch_size=batch_size, penalty=penalty)
    same, others = epochs(dense, 3)
    np.testing.assert_allclose(objectives, others, rtol=1e-10)
    np.testing.assert_allclose(dense.answer(same).coef, solver.answer(state).coef, atol=1e-10)


@pytest.mark.parametrize("average_from", [0.0, 7.5, np.inf])
@pytest.mark.parametrize("n_scores", [1, K])
@pytest.mark.parametrize("offset", [0.0, 1.0, 3.0])
def test_averages_and_offsets_of_sparse_steps(offset, n_scores, average_from):
    X, targets = sparse_rows(), rows_and_targets(n_scores)[1]
    rng = np.random.default_rng(0)
    problem = problem_of(X, targets, n_scores, rng.uniform(0, 2, N) * (rng.uniform(size=N) > 0.2))
    penalty = NONE._replace(l2=0.1, offset=offset)
    solver = solver_of("hinge", problem, penalty=penalty, average_from=average_from)
    assert solver.lazy
    check(epochs(solver, 3)[0], oracle(solver, "hinge", X.toarray()), 1e-10)


def test_a_tiny_scale_is_multiplied_into_the_weights():
    X, targets = sparse_rows(), rows_and_targets()[1]
    penalty = NONE._replace(l2=4.0)  # 0.2 of the weights is left by a step
    solver = solver_of("log_loss", problem_of(X, targets), penalty=penalty, schedule=RATES._replace(power=0.0))
    state, _ = epochs(solver, 5)
    assert 0.2**state.n_steps < 1e-50
    assert 1e-9 <= state.model.scalars[0] <= 1
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


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("n_scores", [1, K])
def test_the_l1_penalty_of_sparse_steps_is_the_cumulative_one(n_scores, batch_size, l2):
    X, targets = sparse_rows(), rows_and_targets(n_scores)[1]
    solver = solver_of(
        "log_loss", problem_of(X, targets, n_scores), batch_size=batch_size, penalty=NONE._replace(l2=l2, l1=0.003),
        average_from=np.inf,
    )  # fmt: skip
    assert solver.lazy
    state, _ = epochs(solver, 3)
    last = solver.answer(state)
    wanted = oracle(solver, "log_loss", X.toarray(), debt=True)
    np.testing.assert_allclose(last.coef, wanted.coef, atol=1e-12)
    np.testing.assert_allclose(last.intercept, wanted.intercept, atol=1e-12)
    met = np.unique(X.indices)
    assert 0.05 < np.mean(last.coef[:, met] == 0) < 0.95


def test_the_l1_penalty_of_full_sparse_rows_is_that_of_dense_ones_while_no_weight_ends_at_zero():
    rng = np.random.default_rng(0)
    X, targets = rng.uniform(1, 2, (N, D)), rng.choice([-1.0, 1.0], N)
    penalty, schedule = NONE._replace(l2=0.1, l1=0.01), RATES._replace(first=1e-3)
    dense = solver_of("log_loss", problem_of(X, targets), penalty=penalty, schedule=schedule)
    lazy = solver_of("log_loss", problem_of(sparse.csr_array(X), targets), penalty=penalty, schedule=schedule)
    lazy.lazy = True
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
    solver = solver_of("perceptron", problem_of(X, targets), penalty=NONE._replace(l1=0.1))
    solver.lazy = True
    state = solver.init(solver.answer(solver.init())._replace(coef=begin, intercept=np.array([0.0])))
    problem = solver.problem._replace(source=MemorySource.of(sparse.csr_array(X.shape)))  # no gradients
    solver.problem = problem
    signs = np.sign(begin)
    for _ in range(6):
        state, _ = epochs(solver, 1, state)
        now, settled = solver.answer(state), state.model.copied()
        settle(settled)
        last = settled.last().coef
        assert (np.sign(last) * signs >= 0).all()
        assert (np.abs(last) <= np.abs(begin)).all()
        assert np.isfinite(now.coef).all()
    total = 0.1 * solver.settings.schedule.rates(0, state.n_steps).sum()
    np.testing.assert_allclose(np.abs(last), np.maximum(0, np.abs(begin) - total), atol=1e-12)


@pytest.mark.parametrize("penalty", ["momentum", "clipping"])
def test_momentum_and_clipping_of_sparse_rows(penalty):
    X, targets = sparse_rows(), rows_and_targets()[1]
    solver = solver_of("hinge", problem_of(X, targets), penalty=PENALTIES[penalty])
    assert not solver.lazy
    check(epochs(solver, 3)[0], oracle(solver, "hinge", X.toarray()), 1e-11)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_types_of_sparse_rows(dtype, index):
    X, targets = sparse_rows(), rows_and_targets()[1]
    X.data = np.ceil(np.abs(X.data))
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    solver = solver_of("hinge", problem_of(X, targets))
    assert solver.lazy
    check(epochs(solver, 2)[0], oracle(solver, "hinge", X.toarray().astype(float), 2), 1e-11)


def test_rows_without_values():
    X, targets = sparse.csr_array((N, 40)), rows_and_targets()[1]
    solver = solver_of("log_loss", problem_of(X, targets), penalty=NONE._replace(l2=0.1))
    assert solver.lazy
    state, _ = epochs(solver, 3)
    check(state, oracle(solver, "log_loss", X.toarray()), 1e-12)
    assert not state.model.last().coef.any()


# --- rates -----------------------------------------------------------------------------------------------


FORMULAS = {
    "constant": lambda t: 0.3,
    "adaptive": lambda t: 0.3,
    "invscaling": lambda t: 0.3 / (t + 1) ** 0.7,
    "pegasos": lambda t: 1 / (0.01 * (t + 1)),
    "optimal": lambda t: 1 / (0.01 * (t + 1 / (0.01 * 0.3))),
    "auto": lambda t: 0.3 / (np.sqrt(1 + 4 * t / 25) + 0.01 * 0.3 * t),
}


@pytest.mark.parametrize("before", [0, 7])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(name, before):
    found = Schedule(name, first=0.3, power=0.7, alpha=0.01, steps_per_epoch=25.0).rates(before, 5)
    np.testing.assert_allclose(found, [FORMULAS[name](t) for t in range(before, before + 5)], rtol=1e-13)


def test_every_schedule_has_its_formula():
    assert FORMULAS.keys() == SCHEDULES.keys()


def test_the_rate_of_exact_gradients_falls_by_the_penalty_only():
    found = Schedule("auto", first=0.3, power=0.7, alpha=0.01, steps_per_epoch=np.inf).rates(0, 50)
    np.testing.assert_allclose(found, 0.3 / (1 + 0.003 * np.arange(50)), rtol=1e-13)
