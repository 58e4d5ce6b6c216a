"""Bounds of the optimum of the kernel problem."""

import numpy as np
import pytest
from scipy import sparse

from fastsvm import NystroemSVC, NystroemSVR
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.nystroem import exact_bounds, nystroem_machine
from fastsvm.tuning import changed, tuned


@pytest.fixture
def rows():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 4))
    return X, np.digitize(X[:, 0] + X[:, 1] ** 2 + rng.normal(size=500), [0.5, 1.5])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo", "crammer_singer"])
def test_bounds_are_the_same_in_little_memory(rows, kind, multi_class, monkeypatch):
    wholes, made = [], nystroem_machine.DualExpansion
    monkeypatch.setattr(nystroem_machine, "DualExpansion", lambda *fields: wholes.append(made(*fields)) or wholes[-1])
    model = NystroemSVC(C=2.0, gamma=0.3, n_components=40, multi_class=multi_class, bounds=True, random_state=0)
    model.fit(kind(rows[0]), rows[1])
    lower, upper = model.exact_bounds_
    assert 0 < lower < upper
    with Pool.open() as pool:
        found = exact_bounds.exact_bounds(wholes[0]._replace(pool=pool, budget=1 << 14))  # for some rows at a time
    assert found == pytest.approx(model.exact_bounds_, rel=1e-9)


@pytest.mark.parametrize("unit", [1e-2, 1e-300])
def test_targets_within_epsilon_cost_nothing(unit):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = NystroemSVR(epsilon=0.1, n_components=10, bounds=True, random_state=0).fit(X, unit * np.tanh(X[:, 0]))
    assert model.exact_bounds_ == (0.0, 0.0)
    np.testing.assert_array_equal(model.predict(X), np.zeros(60))


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_equal_samples_of_different_classes_cancel(multi_class):
    model = NystroemSVC(gamma=1.0, multi_class=multi_class, bounds=True).fit(np.ones((4, 2)), [0, 1, 0, 1])
    assert model.exact_bounds_ == pytest.approx((4.0, 4.0))  # all four at their bound, and no weights


def test_newton_steps_on_the_features_have_dual_variables_too():
    X = np.random.default_rng(0).normal(size=(7000, 4))
    y = X[:, 0] * X[:, 1] > 0
    model = NystroemSVC(loss="squared_hinge", n_components=20, bounds=True, random_state=0, tol=1e-6).fit(X, y)
    bounds, solver = model.exact_bounds_, model.solver_
    with tuned(changed({"linear": {"newton": False}})):
        model.fit(X, y)
    assert (solver, model.solver_) == ("newton", "weights")
    np.testing.assert_allclose(model.exact_bounds_, bounds, rtol=1e-3)
