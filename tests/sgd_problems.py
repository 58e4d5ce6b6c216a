"""Small problems of stochastic gradient descent, and the slow version of their solver."""

import naive
import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.losses import LOSSES, Hinge
from fastsvm.solvers.sgd.learning_rates import Schedule
from fastsvm.solvers.sgd.problem import Penalty, SGDProblem, SGDSettings
from fastsvm.solvers.sgd.solver import SGD, uses_sparse_steps
from fastsvm.sources import MemorySource, whole_epochs
from fastsvm.tuning import SGDTuning

N, D, K = 70, 6, 3
NONE = Penalty(l2=0.0, l1=0.0, momentum=0.0, clip=np.inf, intercept_rate=1.0)
RATES = Schedule("invscaling", 0.2, 0.5, 1e-4, 10.0)


class Backwards(Pool):
    """Runs the pieces of work in reverse order."""

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
              window_rows=10**6, pool=None, is_sparse=None):  # fmt: skip
    is_sparse = uses_sparse_steps(problem, made(name), penalty, SGDTuning()) if is_sparse is None else is_sparse
    settings = SGDSettings(
        made(name), penalty, schedule, batch_size, average_from, 1.0, None, 1, seed, window_rows, False, is_sparse
    )
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
    """Return the order of the rows in each epoch."""
    seeds = [(solver.settings.seed, epoch) for epoch in range(n_epochs)]
    return [whole_epochs(solver.problem.source, solver.rows, seed, 1).rows for seed in seeds]


def oracle(solver, name, X, n_epochs=3, **parameters):
    """Return the result of the slow version; the last batch of an epoch may be smaller."""
    settings, problem = solver.settings, solver.problem
    order = order_of(solver, n_epochs)
    size, n_rows = settings.batch_size, len(solver.rows)
    n_batches = -(-n_rows // size)
    padded = [np.append(rows, np.full(n_batches * size - n_rows, -1)) for rows in order]
    batches = [batch[batch >= 0] for rows in padded for batch in rows.reshape(n_batches, size)]
    return naive.descend(
        name, X, problem.targets, batches, settings.schedule.rates(0, len(batches)), n_scores=len(problem.balance),
        weights=problem.weights, balance=problem.balance, l2=settings.penalty.l2, l1=settings.penalty.l1,
        momentum=settings.penalty.momentum, clip=settings.penalty.clip, intercept_rate=settings.penalty.intercept_rate,
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


PENALTIES = {
    "none": NONE,
    "l1": NONE._replace(l1=0.05),
    "elastic net": NONE._replace(l2=0.1, l1=0.05),
    "momentum": NONE._replace(l2=0.1, momentum=0.8),
    "momentum and l1": NONE._replace(l1=0.05, momentum=0.8),
    "clipping": NONE._replace(l2=0.1, clip=0.3),
    "clipping and momentum": NONE._replace(momentum=0.5, clip=0.3),
    "no intercept": NONE._replace(l2=0.1, intercept_rate=0.0),
    "no intercept and momentum": NONE._replace(momentum=0.5, intercept_rate=0.0),
    "intercept of a large feature": NONE._replace(l2=0.1, momentum=0.5, intercept_rate=3.0),
    "huge l2": NONE._replace(l2=100.0),
}
