"""Linear problems of few samples with many features, solved in their Gram matrix."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from fastsvm import LinearSVC, LinearSVR, LogisticRegression
from fastsvm._compiled.threads import Pool
from fastsvm.losses import Demands, EpsilonInsensitive, Hinge, SquaredEpsilonInsensitive, SquaredHinge
from fastsvm.solvers.linear_dual.augmented_lagrangian import FewSamples
from fastsvm.solvers.linear_dual.problem import LinearProblem, LinearSettings
from fastsvm.sources import MemorySource
from fastsvm.tuning import LinearTuning, changed, tuned


def gap_of(loss, rows, targets, costs, w, beta):
    """Return the relative duality gap of weights and feasible variables, from scratch."""
    scores, epsilon = rows @ w, getattr(loss, "epsilon", 0.0)
    is_hinge = isinstance(loss, (Hinge, SquaredHinge))
    size = np.maximum(0, 1 - targets * scores if is_hinge else np.abs(scores - targets) - epsilon)
    value = -targets @ beta + epsilon * np.abs(beta).sum()
    if isinstance(loss, (SquaredHinge, SquaredEpsilonInsensitive)):
        size, value = size**2, value + beta**2 @ (0.25 / costs)
    elif not (np.abs(beta) <= costs).all():
        return np.inf
    if is_hinge and not (targets * beta >= 0).all():
        return np.inf
    primal = costs @ size + w @ w / 2
    return abs(primal + value + np.sum((rows.T @ beta) ** 2) / 2) / primal


LOSSES = [
    Hinge(),
    SquaredHinge(),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(0.5),
    SquaredEpsilonInsensitive(0.0),
    SquaredEpsilonInsensitive(0.5),
]


@pytest.mark.parametrize(
    ("loss", "C", "layout"),
    [(loss, C, (np.asarray, sparse.csr_array)[(i + j) % 2])
     for i, loss in enumerate(LOSSES) for j, C in enumerate([1e-2, 1.0, 1e2])],
)  # fmt: skip
def test_there_is_no_duality_gap(loss, C, layout):
    """Rows that are repeated make the matrix singular."""
    for n, d, repeated in ((60, 200, 0), (60, 200, 20)):
        X, y = make_classification(n, d, n_informative=8, flip_y=0.1, random_state=0)
        X[n - repeated :] = X[:repeated]
        costs = C * np.random.default_rng(0).uniform(0.5, 2, n).round(1)
        targets = np.where(y == 1, 1.0, -1.0) if "Hinge" in type(loss).__name__ else 3 * y + X[:, 0]
        demands = Demands(targets, costs, np.ones(1))
        problem = LinearProblem(MemorySource.of(layout(X)), np.empty(0), np.empty(0), loss, demands, 0.0)
        with Pool.open() as pool:
            solver = FewSamples(problem, LinearSettings(1e-9), pool, on_gram=True)
            state, report = solver.step(solver.init(), 1)
        assert report.converged
        assert gap_of(loss, X, targets, costs, solver.weights(state)[0, :-1], state.dual[:, 0]) <= 1e-10
        assert 0 < state.epoch < 1000


@pytest.mark.parametrize(
    "model", [LinearSVC(), LinearSVC(loss="hinge"), LinearSVR(C=0.1), LogisticRegression()], ids=str
)
def test_samples_may_be_sparse(model):
    X, y = make_classification(80, 300, n_informative=10, n_classes=3, random_state=0)
    X[np.abs(X) < 1] = 0
    coef = model.fit(X, y).coef_.copy()
    assert abs(model.duality_gap_) <= 1e-11 * model.objective_
    assert model.fit(sparse.csr_matrix(X), y).objective_ == pytest.approx(model.objective_, rel=1e-11)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-8 * np.abs(coef).max())
    objective = model.objective_
    assert model.solver_ == "gram"
    with tuned(changed({"linear": {"most_values": 0}})):  # as if there were more: others come to the tolerance
        model.fit(sparse.csr_matrix(X), y)
    assert model.solver_ in ("ascent", "rounds", "newton")
    assert objective <= model.objective_ <= objective * (1 + model.tol)
    assert model.duality_gap_ <= model.tol * model.objective_


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_larger_tables_are_solved_to_the_tolerance(loss, C):
    """Epochs on the Gram matrix may suffice; Newton steps come to any tolerance where they do not."""
    X, y = make_classification(150, 400, n_informative=8, flip_y=0.1, random_state=0)
    targets = np.where(y == 1, 1.0, -1.0) if "Hinge" in type(loss).__name__ else 3 * y + X[:, 0]
    costs = np.full(150, C)
    problem = LinearProblem(
        MemorySource.of(X), np.empty(0), np.empty(0), loss, Demands(targets, costs, np.ones(1)), 0.0
    )
    for tol in (1e-2, 1e-6):
        settings = LinearSettings(tol, tuning=LinearTuning(small_values=0))
        with Pool.open() as pool:
            solver = FewSamples(problem, settings, pool, on_gram=True)
            state, report = solver.step(solver.init(), 1)
        assert report.converged
        gap = gap_of(loss, X, targets, costs, solver.weights(state)[0, :-1], state.dual[:, 0])
        assert gap == pytest.approx(solver.gap_of(solver.certificate), abs=1e-9)
        assert gap <= tol
