"""SGDRegressor: steps of scikit-learn, ridge regression, and what is refused."""

import numpy as np
import pytest
from linear_svms import assert_same
from scipy import sparse
from sgd_models import STEPWISE, made_sgd, plain
from sklearn import linear_model

from fastsvm import SGDRegressor
from fastsvm.losses import loss_names

REGRESSION = loss_names("numbers")


@pytest.mark.parametrize("schedule", ["constant", "invscaling"])
@pytest.mark.parametrize("loss", REGRESSION)
def test_regression_on_batches_of_one_row_is_that_of_scikit_learn(loss, schedule, line_300):
    X, y = line_300
    parameters = STEPWISE | {"learning_rate": schedule, "epsilon": 0.2}
    model = SGDRegressor(loss, **parameters).fit(X, y)
    wanted = linear_model.SGDRegressor(loss, **plain(parameters)).fit(X, y)
    assert_same(model, wanted, 1e-8)
    np.testing.assert_allclose(model.predict(X), wanted.predict(X), atol=1e-7)
    assert model.score(X, y) == pytest.approx(wanted.score(X, y))


def test_ridge_regression(line_300):
    X, y = line_300
    centred = X - X.mean(axis=0)
    coef = np.linalg.solve(centred.T @ centred + 0.1 * len(X) * np.eye(5), centred.T @ (y - y.mean()))
    model = made_sgd("squared_error", alpha=0.1, batch_size=None, max_iter=2000, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-3)
    assert model.intercept_ == pytest.approx(y.mean() - X.mean(axis=0) @ coef, abs=1e-3)


@pytest.mark.parametrize("rate", ["adagrad", "auto"])
@pytest.mark.parametrize("unit", [2.0**-600, 2.0**-20, 2.0**20, 2.0**600])
def test_targets_may_be_in_any_unit(unit, rate, line_300):
    X, y = line_300
    parameters = {"loss": "epsilon_insensitive", "penalty": None, "learning_rate": rate, "random_state": 0}
    wanted = SGDRegressor(**parameters, epsilon=0.1, tol=None, max_iter=9).fit(X, y)
    model = SGDRegressor(**parameters, epsilon=0.1 * unit, tol=None, max_iter=9).fit(X, y * unit)
    np.testing.assert_allclose(model.coef_ / unit, wanted.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_ / unit, wanted.intercept_, rtol=1e-9)


def test_slopes_of_the_first_batch_may_cancel():
    X = sparse.random_array((400, 1000), density=0.005, rng=np.random.default_rng(0), format="csr")
    y = np.tile([50.0, -50.0], 200)  # in each batch a slope and its opposite
    given = {"shuffle": False, "batch_size": 2, "max_iter": 3, "tol": None}
    model = SGDRegressor("epsilon_insensitive", **given).fit(X, y)
    wanted = SGDRegressor("epsilon_insensitive", **given).fit(X.toarray(), y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=0.1)


def test_targets_that_are_not_finite_are_refused(line_300):
    X, y = line_300
    y = y.copy()
    y[3] = np.nan
    with pytest.raises(ValueError, match="y contains NaN"):
        SGDRegressor().fit(X, y)


def test_losses_of_classes_are_not_for_regression(line_300):
    with pytest.raises(ValueError, match="loss"):
        SGDRegressor("hinge").fit(*line_300)


def test_huber_without_a_quadratic_part_is_refused(line_300):
    X, y = line_300
    with pytest.raises(ValueError, match="epsilon"):
        SGDRegressor("huber", epsilon=0).fit(X, y)
