import naive
import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC

intercepts = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "none"])


def moons():
    X, y = make_moons(400, noise=0.1, random_state=6)
    return X, y, np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 0.5**2)


@pytest.mark.parametrize(
    ("squared", "fit_intercept", "n_steps"),
    [(i > 0, j > 0, n_steps)
     for i in range(2) for j in range(2) for k, n_steps in enumerate([1, 10, 200]) if (i + j + k) % 2 == 0],
)  # fmt: skip
def test_a_learning_rate_steps_as_the_loop_over_arrays_does(squared, fit_intercept, n_steps):
    X, y, K = moons()
    rate, C, signs = (1e-4 if squared else 1e-3), 2.0, np.where(y == 1, 1.0, -1.0)
    beta, intercept = naive.descend_primal(K, signs, C, rate, n_steps, squared, fit_intercept)
    loss = "squared_hinge" if squared else "hinge"
    model = SVC(
        solver="primal", loss=loss, learning_rate=rate, C=C, gamma=4.0, max_iter=n_steps, tol=1e-12,
        fit_intercept=fit_intercept,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    found = np.zeros(400)
    found[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose(found, beta, rtol=1e-8, atol=1e-10)
    assert model.intercept_[0] == pytest.approx(intercept, abs=1e-10)
    assert model.n_iter_[0] == n_steps
    objective = naive.primal_objective(K, signs, np.full(400, C), beta, intercept, squared)
    assert model.objective_ == pytest.approx(objective, rel=1e-8)
    margins = signs * (K @ beta + intercept)
    np.testing.assert_array_equal(model.within_margin_, np.flatnonzero(margins <= 1))


def test_the_gap_of_a_descent_is_no_less_than_what_is_missing():
    X, y, _ = moons()
    for loss, rate in (("hinge", 1e-3), ("squared_hinge", 1e-4)):
        exact = {} if loss == "hinge" else {"solver": "primal", "loss": loss}
        best = SVC(**exact, gamma=4.0, tol=1e-9).fit(X, y).objective_
        with pytest.warns(ConvergenceWarning):
            model = SVC(solver="primal", loss=loss, gamma=4.0, learning_rate=rate, max_iter=300).fit(X, y)
        assert 0 < model.objective_ - best <= model.duality_gap_


def test_descent_with_the_squared_hinge_comes_to_newtons_solution(overlapping):
    X, y = overlapping
    given = {"solver": "primal", "loss": "squared_hinge", "gamma": 5.0, "C": 0.1}
    wanted = SVC(**given, tol=1e-9).fit(X, y)
    found = SVC(**given, learning_rate=0.05, tol=1e-6).fit(X, y)
    assert found.stop_reason_ == "converged"
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-3)
    assert (np.diff(found.history_["objective"]) <= 1e-12).all()
    assert found.kkt_violation_ <= 1e-6


@intercepts
def test_descent_ends_when_the_largest_gradient_is_within_the_tolerance(fit_intercept, overlapping):
    X, y = overlapping
    given = {"solver": "primal", "loss": "squared_hinge", "gamma": 5.0, "C": 0.1, "learning_rate": 0.02}
    model = SVC(**given, fit_intercept=fit_intercept).fit(X, y)
    K, signs = naive.kernel_matrix("rbf", X, X, gamma=5.0), np.where(y == 1, 1.0, -1.0)

    def size(n_steps):
        beta, intercept = naive.descend_primal(K, signs, 0.1, 0.02, n_steps, True, fit_intercept)
        pull = 0.2 * signs * np.maximum(0, 1 - signs * (K @ beta + intercept))
        return max(np.abs(K @ (beta - pull)).max(), abs(pull.sum()) * fit_intercept)

    assert model.kkt_violation_ == pytest.approx(size(model.n_iter_[0]), rel=1e-6)
    assert size(model.n_iter_[0]) <= 1e-3 < size(model.n_iter_[0] - 1)


@pytest.mark.parametrize("C", [1.0, 1e200])
@pytest.mark.parametrize("rate", [1.0, 1e200, 1e300])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_too_large_a_rate_ends_with_finite_attributes(loss, rate, C, overlapping):
    X, y = overlapping
    with pytest.warns(ConvergenceWarning, match=r"stalled.*lower learning_rate"):
        model = SVC(solver="primal", loss=loss, learning_rate=rate, C=C).fit(X, y)
    assert model.stop_reason_ == "stalled"
    assert model.objective_ <= 1.01e6 * 150 * C
    for name in ("dual_coef_", "intercept_", "objective_", "duality_gap_", "kkt_violation_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert np.isfinite(model.decision_function(X)).all()
