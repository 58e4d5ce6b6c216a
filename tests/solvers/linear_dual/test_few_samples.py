"""Linear problems of few samples, solved to rounding error."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_classification, make_regression

from fastsvm import LinearSVC, LinearSVR, LogisticRegression
from fastsvm._compiled.threads import Pool
from fastsvm.losses import Demands, EpsilonInsensitive, Hinge, SquaredEpsilonInsensitive, SquaredHinge
from fastsvm.solvers.linear_dual.augmented_lagrangian import FewSamples
from fastsvm.solvers.linear_dual.problem import LinearProblem, LinearSettings
from fastsvm.sources import MemorySource
from fastsvm.tuning import changed, tuned


def solved(loss, demands, rows, on_gram=False):
    """Return weights, dual variables and certificate of rows without a constant feature."""
    problem = LinearProblem(MemorySource.of(rows), np.empty(0), np.empty(0), loss, demands, 0.0)
    with Pool.open() as pool:
        solver = FewSamples(problem, LinearSettings(1e-9), pool, on_gram)
        state, report = solver.step(solver.init(), 1)
    assert report.converged and report.n_steps == 1
    return solver.weights(state)[:, :-1], state.dual.T, solver.certificate


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("shape", [(200, 6), (40, 90)])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_the_gradient_is_rounding_error(C, shape, scale):
    X, y = make_classification(*shape, n_informative=4, flip_y=0.1, random_state=0)
    X[:, 0] *= scale
    sign, costs = np.where(y == 1, 1.0, -1.0), C * np.random.default_rng(0).uniform(0, 2, len(y)).round(1)
    weights, dual, found = solved(SquaredHinge(), Demands(sign, costs, np.ones(1)), X)
    slack = np.maximum(0, 1 - sign * (X @ weights[0]))
    gradient = weights[0] - X.T @ (2 * costs * sign * slack)
    assert np.abs(gradient).max() <= 1e-8 * np.abs(X.T @ (2 * costs * slack)).max()
    assert found.primal[0] == pytest.approx(weights[0] @ weights[0] / 2 + costs @ slack**2, rel=1e-12)
    assert abs(found.primal - found.dual)[0] <= 1e-10 * found.primal[0]
    assert (sign * dual[0] >= 0).all() and (dual[0][costs == 0] == 0).all()


def test_regression_and_classes():
    X, target = make_regression(150, 7, noise=5.0, random_state=0)
    weights, _, _ = solved(SquaredEpsilonInsensitive(2.0), Demands(target, np.full(150, 0.3), np.ones(1)), X)
    rest = X @ weights[0] - target
    slope = 0.6 * np.sign(rest) * np.maximum(0, np.abs(rest) - 2.0)
    assert np.abs(weights[0] + X.T @ slope).max() <= 1e-9 * np.abs(X.T @ np.abs(slope)).max()
    X, y = load_iris(return_X_y=True)
    weights, _, found = solved(SquaredHinge(), Demands(y.astype(float), np.ones(150), np.array([1.0, 2.0, 0.5])), X)
    for c, factor in enumerate([1.0, 2.0, 0.5]):
        sign, costs = np.where(y == c, 1.0, -1.0), np.where(y == c, factor, 1.0)
        slack = np.maximum(0, 1 - sign * (X @ weights[c]))
        assert np.abs(weights[c] - X.T @ (2 * costs * sign * slack)).max() < 1e-9
        assert found.primal[c] == pytest.approx(weights[c] @ weights[c] / 2 + costs @ slack**2, rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "shape", "C"),
    [(loss, shape, (1e-2, 1.0, 1e3)[(i + j) % 3])
     for i, loss in enumerate([Hinge(), EpsilonInsensitive(0.5), EpsilonInsensitive(0.0)])
     for j, shape in enumerate([(200, 6), (40, 90), (300, 25)])],
)  # fmt: skip
def test_losses_that_are_not_smooth_have_no_duality_gap(loss, shape, C):
    """Any feasible dual variables give a lower bound, so that the gap can be computed from scratch."""
    X, y = make_classification(*shape, n_informative=4, flip_y=0.1, random_state=0)
    costs, is_hinge = C * np.random.default_rng(0).uniform(0, 2, len(y)).round(1), isinstance(loss, Hinge)
    targets = np.where(y == 1, 1.0, -1.0) if is_hinge else 3 * y + X[:, 0]
    (w,), (beta,), _ = solved(loss, Demands(targets, costs, np.ones(1)), X)
    if is_hinge:
        assert (targets * beta >= 0).all() and (targets * beta <= costs).all()
        primal, conjugate = costs @ np.maximum(0, 1 - targets * (X @ w)), -targets @ beta
    else:
        assert (np.abs(beta) <= costs).all()
        primal = costs @ np.maximum(0, np.abs(X @ w - targets) - loss.epsilon)
        conjugate = loss.epsilon * np.abs(beta).sum() - targets @ beta
    primal, dual = primal + w @ w / 2, -conjugate - np.sum((X.T @ beta) ** 2) / 2
    assert abs(primal - dual) <= 1e-9 * primal


@pytest.mark.parametrize("make", [LinearSVC, LinearSVR])
def test_coefficients_do_not_depend_on_the_storage(make):
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    model = make() if make is LinearSVC else make(loss="squared_epsilon_insensitive")
    coef = model.fit(X, y).coef_.copy()
    assert model.converged_ and model.duality_gap_ <= 1e-11 * model.objective_ and model.n_iter_ < 30
    assert set(model.history_) == {"epoch", "time", "objective", "dual_objective", "gap", "bytes_read"}
    for given in (X.astype(np.float64), sparse.csr_matrix(X), np.asfortranarray(X)):
        np.testing.assert_allclose(model.fit(given, y).coef_, coef, rtol=1e-9)
    with tuned(changed({"linear": {"weights": False}})):
        np.testing.assert_allclose(model.set_params(tol=1e-9).fit(X, y).coef_, coef, rtol=1e-3)
    assert model.solver_ == "ascent"


def test_overflow_is_explained_as_for_many_samples():
    with pytest.raises(ValueError, match="overflow"):
        LinearSVC().fit(np.array([[1e200], [-1e200]]), [0, 1])


def test_variables_that_jump_from_bound_to_bound():
    """Without a flat part of the loss, a row may cross from one bound to the other within a step."""
    X, target = make_regression(500, 20, n_informative=10, noise=10.0, random_state=0)
    rows = np.column_stack([X, np.ones(500)])
    _, (beta,), found = solved(EpsilonInsensitive(0.0), Demands(target, np.ones(500), np.ones(1)), rows)
    assert 0 < (np.abs(beta) < 1).sum() <= 21  # at most as many as features
    assert abs(found.primal - found.dual)[0] <= 1e-12 * found.primal[0]


@pytest.mark.parametrize("shape", [(120, 5), (60, 80)], ids=str)
@pytest.mark.parametrize(
    "model", [LinearSVC(loss="hinge"), LinearSVC(), LinearSVR(), LogisticRegression(C=10.0)], ids=str
)
def test_a_feature_may_be_in_another_unit(model, shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    y = (X[:, 1] + rng.normal(size=len(X)) > 0).astype(float)
    X[:, 0] = 3e7 + 1e6 * X[:, 0]
    model.fit(X, y)
    assert model.solver_ == ("gram" if shape[0] < shape[1] else "weights")
    assert model.duality_gap_ <= 1e-7 * model.objective_
