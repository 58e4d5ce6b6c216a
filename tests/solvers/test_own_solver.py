"""A solver is added in one place: an entry of `SOLVERS`, whatever module its class stands in."""

import numpy as np
import pytest
from sklearn import datasets

import fastsvm
from fastsvm import SVC
from fastsvm.displays import ConvergenceDisplay
from fastsvm.estimators.kernel.solver_parameter import SOLVERS, SolverEntry
from fastsvm.solvers.kernel_dual.problem import KernelDualState, KernelSolution
from fastsvm.solvers.outer_loop import Memoryless, Report

N_STEPS = 200


class ProjectedGradient(Memoryless):
    """Ascend in all multipliers at once, without an intercept, with the rate 1 / (the largest row sum of |K|)."""

    def __init__(self, problem, rows, tol):
        self.problem, self.tol = problem, tol
        self.K = rows.store[rows.fetch(np.arange(len(problem.y)))].astype(np.float64)
        self.rate = 1.0 / np.abs(self.K).sum(axis=1).max()

    def init(self, start=None, /):
        alpha = np.zeros(len(self.problem.y)) if start is None else start.copy()
        return KernelDualState(alpha, self._gradient(alpha), np.empty(0, np.int64))

    def _gradient(self, alpha):
        return self.K @ (self.problem.y * alpha) - self.problem.y

    def _violation(self, state):
        down = -self.problem.y * state[1]
        free = np.where(down > 0, state[0] < self.problem.upper, state[0] > 0)
        return float(np.abs(down * free).max())

    def step(self, state, most_steps):
        alpha, gradient = state[:2]
        n_steps = min(N_STEPS, most_steps)
        for _ in range(n_steps):
            alpha = np.clip(alpha - self.rate * self.problem.y * gradient, 0.0, self.problem.upper)
            gradient = self._gradient(alpha)
        state = KernelDualState(alpha, gradient, state[2])
        gap = self._violation(state)
        return state, Report(gap, self._objective(state), n_steps, gap <= self.tol, gap <= self.tol, n_steps == 0)

    def _objective(self, state):
        return float(state[0].sum() - 0.5 * (self.problem.y * state[0]) @ self.K @ (self.problem.y * state[0]))

    def finish(self, state):
        slack = np.maximum(0.0, -self.problem.y * state[1])
        gap = float(self.problem.upper @ slack + state[0] @ (self.problem.y * state[1]))
        return KernelSolution(
            state[0], np.flatnonzero(state[0]), 0.0, self._objective(state), gap, self._violation(state)
        )


@pytest.fixture
def projected_gradient(monkeypatch):
    entry = SolverEntry(
        lambda estimator, problem, rows, given, rng: ProjectedGradient(problem, rows, estimator.tol),
        steps="gradient projections",
        most_steps=lambda n_samples: 100_000,
    )
    monkeypatch.setitem(SOLVERS, "projected gradient", entry)


def test_a_solver_from_outside_is_used_through_the_public_api(projected_gradient, tmp_path):
    X, y = datasets.load_iris(return_X_y=True)
    given = {"kernel": "rbf", "gamma": 0.5, "C": 1.0, "tol": 1e-4, "memory": "500MB"}
    model = SVC(solver="projected gradient", **given).fit(X, y)
    wanted = SVC(solver="coordinate", fit_intercept=False, **given).fit(X, y)
    assert model.converged_ and model.kkt_violation_ <= 1e-4
    assert model.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-2)
    fastsvm.save(model, tmp_path / "model")
    np.testing.assert_array_equal(fastsvm.load(tmp_path / "model").predict(X), model.predict(X))
    display = ConvergenceDisplay.from_estimator(model)
    assert display.ax_.get_xlabel() == "gradient projections"


def test_it_has_the_parameters_that_its_entry_names(projected_gradient):
    with pytest.raises(ValueError, match="fit_intercept=False needs solver='coordinate' or solver='primal'"):
        SVC(solver="projected gradient", fit_intercept=False).fit([[0.0], [1.0]], [0, 1])


def test_a_solver_that_is_not_known_is_refused_with_those_that_are(projected_gradient):
    with pytest.raises(ValueError, match=r"one of 'smo', 'coordinate', 'primal', 'projected gradient'\. Got 'pegasos'"):
        SVC(solver="pegasos").fit([[0.0], [1.0]], [0, 1])
