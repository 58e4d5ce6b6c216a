"""Squared losses of many samples of few features are minimised by Newton's method."""

import numpy as np
import pytest
from sklearn.base import clone

from fastsvm import LinearSVC, LinearSVR
from fastsvm.solvers.linear_primal.proximal_newton import ProximalNewton
from fastsvm.tuning import changed, tuned


def table(n=12_000, d=100, far=1.0, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * np.geomspace(1, far, d)
    score = X @ (rng.normal(size=(d, n_classes)) / np.geomspace(1, far, d)[:, None]) + 2 * rng.normal(
        size=(n, n_classes)
    )
    return X, score.argmax(axis=1)


def machines(y):
    return [LinearSVC(tol=1e-6), LinearSVR(loss="squared_epsilon_insensitive", tol=1e-6)][
        : 1 + (len(np.unique(y)) == 2)
    ]


@pytest.mark.parametrize(("far", "n_classes"), [(1, 2), (1e3, 2), (1, 3)])
def test_newton_and_ascent_have_the_same_optimum(far, n_classes):
    X, y = table(far=far, n_classes=n_classes)
    weight = np.random.default_rng(1).uniform(0, 2, len(y)) * (np.arange(len(y)) % 5 > 0)
    for machine in machines(y):
        machine.fit(X, y, sample_weight=weight)
        with tuned(changed({"linear": {"newton": False}})):
            other = clone(machine).set_params(tol=1e-3).fit(X, y, sample_weight=weight)
        assert (machine.solver_, other.solver_) == ("newton", "ascent")
        assert machine.converged_ and other.converged_
        assert machine.objective_ <= other.objective_ * (1 + 1e-6)
        assert machine.objective_ >= (other.objective_ - other.duality_gap_) * (1 - 1e-9)


def test_ascent_follows_where_rounding_errors_stop_newton(monkeypatch):
    X, y = table()
    step = ProximalNewton.step

    def stalled(self, state, most_steps):
        return state, step(self, state, 0)[1]._replace(stalled=True)

    monkeypatch.setattr(ProximalNewton, "step", stalled)
    found = LinearSVC().fit(X, y)
    assert found.solver_ == "ascent"
    assert found.converged_ and found.stop_reason_ == "converged"
    assert found.duality_gap_ <= 1e-3 * found.objective_
