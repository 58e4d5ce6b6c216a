"""`SVC(solver="coordinate", learning_rate=...)`: projected gradient ascent, one step for all coordinates at once."""

import naive
import numpy as np
import pytest
from sklearn.datasets import make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC


def moons():
    X, y = make_moons(400, noise=0.1, random_state=6)
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return X, y, np.exp(-squared / 0.5**2), 1e-2, {"gamma": 4.0}


def donut():
    X, y = make_circles(500, noise=0.08, factor=0.5, random_state=1)
    return X, y, (1 + X @ X.T) ** 2, 1e-3, {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}


@pytest.mark.parametrize("n_steps", [1, 10, 300])
@pytest.mark.parametrize("data", [moons, donut])
def test_a_learning_rate_steps_as_the_loop_over_arrays_does(data, n_steps):
    X, y, K, rate, kernel = data()
    signs = np.where(y == 1, 1.0, -1.0)
    wanted = naive.ascend_dual(K, signs, np.ones(len(y)), rate, n_steps)
    model = SVC(solver="coordinate", learning_rate=rate, max_iter=n_steps, tol=1e-12, **kernel)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    np.testing.assert_allclose(alpha, wanted, rtol=1e-9, atol=1e-12)
    assert model.n_iter_[0] == n_steps
    free = (wanted > 0) & (wanted < 1)
    if free.any():
        assert model.intercept_[0] == pytest.approx((signs - K @ (wanted * signs))[free].mean(), abs=1e-9)
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 30), np.linspace(-2, 2, 30)), axis=-1).reshape(-1, 2)
    between = (1 + grid @ X.T) ** 2 if data is donut else np.exp(-4 * ((grid[:, None] - X[None]) ** 2).sum(axis=2))
    values = between @ (wanted * signs) + model.intercept_[0]
    clear = np.abs(values) > 1e-9
    np.testing.assert_array_equal(np.sign(model.decision_function(grid))[clear], np.sign(values)[clear])


def test_too_large_a_rate_keeps_the_best_state_and_says_what_to_do(overlapping):
    X, y = overlapping
    with pytest.warns(ConvergenceWarning, match=r"stalled.*lower learning_rate"):
        model = SVC(solver="coordinate", learning_rate=0.05).fit(X, y)
    assert model.stop_reason_ == "stalled"
    assert model.n_iter_[0] > 5
    assert model.objective_ == pytest.approx(max(model.history_["objective"]), rel=1e-14)
    K = naive.kernel_matrix("rbf", X, X, gamma=model._gamma)
    alpha = naive.ascend_dual(K, 2.0 * y - 1, np.ones(150), 0.05, model.n_iter_[0])
    after = naive.ascend_dual(K, 2.0 * y - 1, np.ones(150), 0.05, model.n_iter_[0] + 1)
    assert model.objective_ == pytest.approx(naive.dual_objective(K, 2.0 * y - 1, alpha), rel=1e-9)
    assert naive.dual_objective(K, 2.0 * y - 1, after) < model.objective_


@pytest.mark.parametrize(("rate", "C"), [(0.5, 1.0), (1e300, 1.0), (1e300, 1e300)])
def test_a_rate_with_which_the_first_step_falls_leaves_zeros(rate, C, overlapping):
    with pytest.warns(ConvergenceWarning, match=r"stalled.*lower learning_rate"):
        model = SVC(solver="coordinate", learning_rate=rate, C=C).fit(*overlapping)
    assert len(model.support_) == 0
    assert np.isfinite(model.decision_function(overlapping[0])).all()
