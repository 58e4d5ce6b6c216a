import pickle
import threading
import warnings

import naive
import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import SVC

import fastsvm
from fastsvm import SGDClassifier, SGDRegressor
from fastsvm.estimators.linear import sgd_fit
from fastsvm.estimators.linear.loss_curve import LossCurve
from fastsvm.losses import loss_names
from fastsvm.solvers.sgd.solver import SGD
from fastsvm.sources import ScaledSource, as_source

CLASSIFICATION, REGRESSION = loss_names("labels", "classes"), loss_names("numbers")
BINARY = ["hinge", "log_loss", "squared_hinge", "modified_huber", "perceptron"]
STEPWISE = {
    "batch_size": 1, "average": False, "shuffle": False, "max_iter": 3, "tol": None, "alpha": 1e-2, "eta0": 0.02
}  # fmt: skip


def plain(parameters):
    """Return the parameters that scikit-learn has too."""
    return {name: value for name, value in parameters.items() if name != "batch_size"}


@pytest.fixture(scope="module")
def two():
    """Return 300 rows of two classes that overlap."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 5))
    return X, (X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=300) > 0).astype(int)


@pytest.fixture(scope="module")
def three():
    """Return 300 rows of three classes that overlap."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 300)
    return rng.normal(size=(300, 5)) + 1.5 * np.eye(5)[y], y


@pytest.fixture(scope="module")
def line():
    """Return 300 rows with real targets."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 5))
    return X, X @ [1.0, -2.0, 0.5, 0.0, 0.3] + 0.7 + 0.3 * rng.normal(size=300)


def made(loss, **parameters):
    return (SGDRegressor if loss in REGRESSION else SGDClassifier)(loss=loss, random_state=0, **parameters)


def assert_same(model, other, tolerance=0.0):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=0, atol=tolerance)


# --- the same as scikit-learn ----------------------------------------------------------------------------


SCHEDULES = {"constant": {}, "invscaling": {"power_t": 0.3}, "optimal": {}}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("data", ["two", "three"])
@pytest.mark.parametrize("loss", BINARY)
def test_batches_of_one_row_are_steps_of_scikit_learn(loss, data, schedule, fit_intercept, request):
    if schedule == "optimal" and loss in ("squared_hinge", "modified_huber"):  # its first rate is another
        return
    X, y = request.getfixturevalue(data)
    parameters = STEPWISE | SCHEDULES[schedule] | {"learning_rate": schedule, "fit_intercept": fit_intercept}
    model = SGDClassifier(loss, **parameters).fit(X, y)
    wanted = linear_model.SGDClassifier(loss, **plain(parameters)).fit(X, y)
    assert_same(model, wanted, 1e-8)
    assert (model.n_iter_, model.t_) == (wanted.n_iter_, wanted.t_)
    np.testing.assert_array_equal(model.predict(X), wanted.predict(X))
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("schedule", ["constant", "invscaling"])
@pytest.mark.parametrize("loss", REGRESSION)
def test_regression_on_batches_of_one_row_is_that_of_scikit_learn(loss, schedule, line):
    X, y = line
    parameters = STEPWISE | {"learning_rate": schedule, "epsilon": 0.2}
    model = SGDRegressor(loss, **parameters).fit(X, y)
    wanted = linear_model.SGDRegressor(loss, **plain(parameters)).fit(X, y)
    assert_same(model, wanted, 1e-8)
    np.testing.assert_allclose(model.predict(X), wanted.predict(X), atol=1e-7)
    assert model.score(X, y) == pytest.approx(wanted.score(X, y))


@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
@pytest.mark.parametrize("data", ["two", "three"])
def test_probabilities_are_those_of_scikit_learn(data, loss, request):
    X, y = request.getfixturevalue(data)
    parameters = STEPWISE | {"learning_rate": "constant"}
    model = SGDClassifier(loss, **parameters).fit(X, y)
    wanted = linear_model.SGDClassifier(loss, **plain(parameters)).fit(X, y)
    far = 5 * X
    np.testing.assert_allclose(model.predict_proba(far), wanted.predict_proba(far), atol=1e-7)


@pytest.mark.parametrize("data", ["two", "three"])
def test_partial_fits_are_those_of_scikit_learn(data, request):
    X, y = request.getfixturevalue(data)
    parameters = STEPWISE | {"learning_rate": "invscaling"}
    model, wanted = SGDClassifier(**parameters), linear_model.SGDClassifier(**plain(parameters))
    for start in range(0, 300, 50):
        part = slice(start, start + 50)
        model.partial_fit(X[part], y[part], classes=np.unique(y))
        wanted.partial_fit(X[part], y[part], classes=np.unique(y))
        assert_same(model, wanted, 1e-8)
        assert model.t_ == wanted.t_


def test_partial_fits_of_regression_are_those_of_scikit_learn(line):
    X, y = line
    parameters = STEPWISE | {"learning_rate": "invscaling"}
    model, wanted = SGDRegressor(**parameters), linear_model.SGDRegressor(**plain(parameters))
    for start in range(0, 300, 100):
        part = slice(start, start + 100)
        assert_same(model.partial_fit(X[part], y[part]), wanted.partial_fit(X[part], y[part]), 1e-8)


def test_class_weights_are_those_of_scikit_learn(three):
    X, y = three
    parameters = STEPWISE | {"learning_rate": "constant", "class_weight": {0: 2.0, 2: 0.5}}
    wanted = linear_model.SGDClassifier(**plain(parameters)).fit(X, y)
    assert_same(SGDClassifier(**parameters).fit(X, y), wanted, 1e-8)


# --- the optimum -----------------------------------------------------------------------------------------


def objective(loss, coef, intercept, X, y, alpha, l1=0.0):
    """Return mean loss + alpha (½ ‖w‖² or ‖w‖₁), of labels ±1 or real numbers, or of the scores of classes."""
    penalty = (1 - l1) * alpha / 2 * (coef**2).sum() + l1 * alpha * np.abs(coef).sum()
    found = X @ np.atleast_2d(coef).T + intercept
    k = found.shape[1]
    return naive.mean_loss(loss, found, y, np.ones(len(X)), np.ones(k))[0] / len(X) + penalty


def least(loss, X, y, alpha):
    """Return the least objective of a smooth loss, by a general solver."""

    def value_and_gradient(w):
        value, slopes = naive.mean_loss(loss, X @ w[:-1, None] + w[-1], y, np.ones(len(X)), np.ones(1))
        gradient = np.append(slopes.T @ X + alpha * len(X) * w[:-1], slopes.sum())
        return value / len(X) + alpha / 2 * w[:-1] @ w[:-1], gradient / len(X)

    return optimize.minimize(value_and_gradient, np.zeros(X.shape[1] + 1), jac=True, tol=1e-12).fun


@pytest.mark.parametrize("batch_size", [1, 32, None])
@pytest.mark.parametrize("loss", [*BINARY[1:4], "squared_error", "huber", "squared_epsilon_insensitive"])
def test_the_objective_comes_close_to_the_least(loss, batch_size, two, line):
    X, y = line if loss in REGRESSION else two
    signed = y if loss in REGRESSION else 2.0 * y - 1
    wanted = least(loss, X, signed, 0.01)
    ends = {"max_iter": 10_000, "tol": 1e-6, "average": batch_size is not None}
    model = made(loss, alpha=0.01, batch_size=batch_size, **ends).fit(X, y)
    assert model.objective_ == pytest.approx(
        objective(loss, model.coef_.ravel(), model.intercept_, X, signed, 0.01), rel=1e-10
    )
    assert model.converged_
    assert model.stop_reason_ == "converged"
    assert wanted * (1 - 1e-8) <= model.objective_ <= wanted * 1.003


@pytest.mark.parametrize("batch_size", [1, 32])
def test_the_objective_of_a_hinge_comes_close_to_the_least(batch_size, two):
    X, y = two
    alpha = 0.01
    dual = SVC(kernel="linear", C=1 / (alpha * len(X)), tol=1e-8).fit(X, y)
    wanted = objective("hinge", dual.coef_, dual.intercept_, X, 2.0 * y - 1, alpha)
    model = made("hinge", alpha=alpha, batch_size=batch_size, max_iter=1000, tol=1e-6).fit(X, y)
    assert wanted * (1 - 1e-6) <= model.objective_ <= wanted * 1.01


def test_the_objective_of_softmax_comes_close_to_that_of_logistic_regression(three):
    X, y = three
    alpha = 0.01
    exact = linear_model.LogisticRegression(C=1 / (alpha * len(X)), tol=1e-10, max_iter=10_000).fit(X, y)
    wanted = objective("softmax", exact.coef_, exact.intercept_, X, y, alpha)
    model = made("softmax", alpha=alpha, max_iter=10_000, tol=1e-6).fit(X, y)
    reached = objective("softmax", model.coef_, model.intercept_, X, y, alpha)
    assert model.objective_ == pytest.approx(reached, rel=1e-10)
    assert wanted * (1 - 1e-8) <= model.objective_ <= wanted * 1.003
    np.testing.assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=0.03)


def test_ridge_regression(line):
    X, y = line
    centred = X - X.mean(axis=0)
    coef = np.linalg.solve(centred.T @ centred + 0.1 * len(X) * np.eye(5), centred.T @ (y - y.mean()))
    model = made("squared_error", alpha=0.1, batch_size=None, max_iter=2000, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-3)
    assert model.intercept_ == pytest.approx(y.mean() - X.mean(axis=0) @ coef, abs=1e-3)


@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_the_l1_penalty_leaves_few_features(layout):
    rng = np.random.default_rng(0)
    X = sparse.random_array((1000, 200), density=0.02, rng=rng).tocsr()
    X.data[:] = rng.normal(size=X.nnz)
    weights = np.zeros(200)
    weights[:10] = 3
    y = (X @ weights + 0.3 * rng.normal(size=1000) > 0) * 2.0 - 1
    alpha = 0.003
    exact = linear_model.LogisticRegression(
        C=1 / (alpha * 1000), l1_ratio=1, solver="saga", tol=1e-8, max_iter=10_000, random_state=0
    ).fit(X, y)
    wanted = objective("log_loss", exact.coef_, exact.intercept_, X.toarray(), y, alpha, l1=1.0)
    rows = X if layout == "CSR" else X.toarray()
    parameters = {"penalty": "l1", "alpha": alpha, "max_iter": 300, "tol": None}
    for average in (True, False):
        model = made("log_loss", average=average, **parameters).fit(rows, y)
        assert wanted * (1 - 1e-6) <= model.objective_ <= wanted * 1.02
    if layout == "CSR":  # dense steps leave weights that jump to and fro around zero
        assert np.count_nonzero(model.coef_) < 60


# --- layouts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_rows_in_any_layout_give_the_same_model(loss, three, stored):
    X, y = three
    parameters = {"max_iter": 5, "tol": None}
    wanted = made(loss, **parameters).fit(X, y)
    narrow = sparse.csr_array(X)
    for rows in (narrow, sparse.csr_matrix(X), np.asfortranarray(X), X.tolist()):
        model = made(loss, **parameters).fit(rows, y)
        assert_same(model, wanted, 1e-12)
        np.testing.assert_allclose(model.predict(rows), wanted.predict(X), atol=1e-10)
    for rows in (stored(X), stored(narrow)):
        model = made(loss, **parameters, memory="1GB").fit(rows, y)
        assert_same(model, wanted, 1e-12)
        np.testing.assert_allclose(model.predict(rows), wanted.predict(X), atol=1e-10)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("loss", ["log_loss", "softmax", "squared_error"])
def test_rows_that_do_not_fit_in_memory(loss, sparse_rows, three, stored):
    X, y = three
    data = stored(sparse.csr_array(X) if sparse_rows else X, y)
    parameters = {"alpha": 0.01, "max_iter": 60, "tol": None}
    wanted = made(loss, **parameters).fit(X, y)
    model = made(loss, **parameters, memory=8000).fit(data)
    assert model.history_["bytes_read"][0] >= X.nbytes
    assert (np.diff(model.history_["bytes_read"]) >= X.nbytes).all()
    assert model.objective_ == pytest.approx(wanted.objective_, rel=0.003)
    assert model.score(data) == pytest.approx(wanted.score(X, y), abs=0.02)


def test_labels_that_come_with_the_rows(three, stored):
    X, y = three
    data = stored(X, np.array(["a", "b", "c"], object)[y])
    model = made("hinge").fit(data)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(data) == model.score(X, np.array(["a", "b", "c"])[y]) > 0.7


@pytest.mark.parametrize("loss", ["hinge", "softmax"])
def test_bytes_that_are_scaled_are_standardised_rows(loss):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = np.clip(rng.normal(120, 40, (400, 6)) + 40 * np.eye(6)[y], 0, 255).astype(np.uint8)
    shift, scale = X.mean(axis=0), 1 / X.std(axis=0)
    parameters = {"max_iter": 5, "tol": None}
    scaled = ScaledSource(as_source(X), shift, scale)
    wanted = made(loss, **parameters).fit((X - shift) * scale, y)
    model = made(loss, **parameters).fit(scaled, y)
    assert_same(model, wanted, 2e-5)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=1e-5)
    np.testing.assert_allclose(
        model.decision_function(scaled), wanted.decision_function((X - shift) * scale), atol=1e-4
    )


@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (3, 1), (50, 1)])
def test_few_rows_and_features(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    X[0], X[1] = -1, 1
    y = (X[:, 0] > 0).astype(int)
    for loss in ("hinge", "log_loss", "softmax", "crammer_singer"):
        model = made(loss).fit(X, y)
        assert model.coef_.shape == (1, shape[1])
        assert model.predict(X)[:2].tolist() == [0, 1]
    assert made("squared_error").fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_features_that_are_constant(value):
    y = np.array([0] * 20 + [1] * 30)
    for rows in (np.full((50, 3), value), sparse.csr_array(np.full((50, 3), value)), sparse.csr_array((50, 100))):
        model = made("log_loss").fit(rows, y)
        assert (model.predict(rows) == 1).all()
        assert np.isfinite(model.coef_).all()


def test_rows_without_values_have_no_weights():
    y = np.array([0] * 20 + [1] * 30)
    model = made("log_loss", max_iter=3000, tol=1e-7).fit(sparse.csr_array((50, 100)), y)
    assert not model.coef_.any()
    assert model.predict_proba(sparse.csr_array((1, 100)))[0, 1] == pytest.approx(0.6, abs=0.01)


# --- classes and weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_two_classes_have_one_score(loss, two):
    X, y = two
    model = made(loss).fit(X, np.array(["no", "yes"])[y])
    assert model.coef_.shape == (1, 5)
    assert model.intercept_.shape == (1,)
    found = model.decision_function(X)
    assert found.shape == (300,)
    np.testing.assert_allclose(found, X @ model.coef_[0] + model.intercept_[0], atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.where(found > 0, "yes", "no"))
    assert model.score(X, np.array(["no", "yes"])[y]) > 0.8


@pytest.mark.parametrize("loss", [*CLASSIFICATION, *REGRESSION])
def test_several_classes_have_a_score_each(loss, three):
    X, y = three
    model = SGDClassifier(loss, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    assert model.coef_.shape == (3, 5)
    assert model.decision_function(X).shape == (300, 3)
    assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.7


def test_two_classes_by_softmax_are_logistic_regression(two):
    X, y = two
    alpha = 0.01
    model = made("softmax", alpha=alpha, max_iter=2000, tol=1e-8, batch_size=None).fit(X, y)
    same = made("log_loss", alpha=alpha / 2, max_iter=2000, tol=1e-8, batch_size=None).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=2e-3)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="classes has to be greater than one; got 1 class"):
        SGDClassifier().fit([[1.0], [2.0]], [1, 1])
    with pytest.raises(ValueError, match="positive weight"):
        SGDClassifier().fit([[1.0], [2.0]], [0, 1], sample_weight=[1, 0])


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "softmax", "weston_watkins", "squared_error"])
@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_a_weight_counts_as_so_many_rows(penalty, loss, three):
    X, y = three
    count = np.random.default_rng(0).integers(0, 4, 300)
    parameters = {"batch_size": None, "penalty": penalty, "max_iter": 30, "tol": None}
    weighted = made(loss, **parameters).fit(X, y, sample_weight=2.5 * count)
    repeated = made(loss, **parameters).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert_same(weighted, repeated, 1e-10)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-10)


def test_rows_of_weight_zero_are_left_out(three):
    X, y = three
    weight = (np.arange(300) % 3 > 0) * 1.0
    parameters = {"max_iter": 5, "tol": None, "shuffle": False}
    for loss in ("hinge", "softmax"):
        model = made(loss, **parameters).fit(X, y, sample_weight=weight)
        assert_same(model, made(loss, **parameters).fit(X[weight > 0], y[weight > 0]), 1e-12)


def test_a_class_may_have_no_weight(three):
    X, y = three
    model = made("hinge").fit(X, y, sample_weight=(y > 0) * 1.0)
    assert model.classes_.tolist() == [1, 2]
    assert model.coef_.shape == (1, 5)


@pytest.mark.parametrize("data", ["two", "three"])
@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
def test_balanced_classes(loss, data, request):
    X, y = request.getfixturevalue(data)
    kept = np.flatnonzero((y > 0) | (np.arange(300) % 4 == 0))
    X, y = X[kept], y[kept]
    count = np.bincount(y)
    factors = dict(enumerate(len(y) / (len(count) * count)))
    parameters = {"max_iter": 5, "tol": None}
    balanced = made(loss, class_weight="balanced", **parameters).fit(X, y)
    assert_same(balanced, made(loss, class_weight=factors, **parameters).fit(X, y), 1e-13)
    plain = made(loss, **parameters).fit(X, y)
    assert np.mean(balanced.predict(X) == 0) > np.mean(plain.predict(X) == 0)
    if loss == "softmax" or data == "two":
        weight = np.array(list(factors.values()))[y]
        assert_same(balanced, made(loss, **parameters).fit(X, y, sample_weight=weight * len(y) / weight.sum()), 1e-13)


@pytest.mark.parametrize("loss", ["log_loss", "modified_huber", "softmax"])
@pytest.mark.parametrize("data", ["two", "three"])
def test_probabilities_sum_to_one(data, loss, request):
    X, y = request.getfixturevalue(data)
    model = made(loss).fit(X, y)
    for rows in (X, 1e4 * X):
        found = model.predict_proba(rows)
        assert found.shape == (300, y.max() + 1)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(model.predict_log_proba(rows), np.log(found))
    if loss != "modified_huber":
        np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "perceptron", "weston_watkins", "crammer_singer"])
def test_margins_have_no_probabilities(loss, two):
    model = made(loss).fit(*two)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")


@pytest.mark.parametrize("data", ["two", "three"])
def test_soft_decisions_are_scores_cut_off(data, request):
    X, y = request.getfixturevalue(data)
    model = made("hinge").fit(X, y)
    found, soft = model.decision_function(X), model.soft_decision(X)
    assert np.abs(found).max() > 1 > np.abs(found).min()
    np.testing.assert_array_equal(soft, np.clip(found, -1, 1))


# --- when a fit ends -------------------------------------------------------------------------------------


def test_a_larger_tolerance_ends_earlier(two):
    epochs = [made("log_loss", tol=tol).fit(*two).n_iter_ for tol in (1e-1, 1e-3, 1e-5)]
    assert epochs[0] < epochs[1] < epochs[2]
    few, many = (made("log_loss", n_iter_no_change=n).fit(*two).n_iter_ for n in (2, 20))
    assert few < many


def test_a_fit_that_has_not_converged_warns(two):
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*3 epochs.*tol=0\.001"):
        model = made("log_loss", max_iter=3).fit(*two)
    assert not model.converged_
    assert model.stop_reason_ == "max_iter"
    assert model.n_iter_ == 3


def test_all_epochs_without_a_tolerance(two):
    model = made("log_loss", max_iter=7, tol=None).fit(*two)
    assert model.n_iter_ == 7
    assert model.converged_


def test_a_fit_ends_when_time_is_over(two):
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = made("log_loss", max_time=1e-6).fit(*two)
    assert model.stop_reason_ == "max_time"
    assert model.n_iter_ == 1
    assert model.predict(two[0]).shape == (300,)


def test_an_adaptive_rate_is_divided_until_it_is_small(two):
    model = made("log_loss", learning_rate="adaptive", eta0=0.01, tol=1e-4).fit(*two)
    rates = np.unique(model.history_["rate"])[::-1]
    np.testing.assert_allclose(rates, 0.01 / 5.0 ** np.arange(len(rates)))
    assert rates[-1] <= 1e-6 < rates[-2]


# --- early stopping --------------------------------------------------------------------------------------


@pytest.fixture
def held_out(monkeypatch):
    """Return a list to which the rows that fits hold out are added."""
    found, held_out = [], sgd_fit._held_out

    def spy(*arguments):
        found.append(held_out(*arguments))
        return found[-1]

    monkeypatch.setattr(sgd_fit, "_held_out", spy)
    return found


@pytest.mark.parametrize("fraction", [0.1, 0.3])
def test_a_share_of_each_class_is_held_out(fraction, three, held_out):
    X, y = three
    made("hinge", early_stopping=True, validation_fraction=fraction).fit(X, y)
    rows = held_out[0]
    assert len(np.unique(rows)) == len(rows)
    np.testing.assert_allclose(np.bincount(y[rows]), fraction * np.bincount(y), atol=0.5)


def test_whole_blocks_of_a_file_are_held_out(three, stored, held_out):
    X, y = three
    data = stored(X, y)
    size = data.X.block_rows
    made("hinge", early_stopping=True, memory=8000, validation_fraction=0.08, max_iter=20, tol=None).fit(data)
    assert len(held_out[0]) == 24
    assert size > 3
    assert len(np.unique(held_out[0] // size)) == -(-24 // size)


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_rows_held_out_are_not_learnt_from(loss, three, held_out):
    X, y = three
    parameters = {"max_iter": 4, "tol": None, "shuffle": False, "batch_size": 8}
    made(loss, early_stopping=True, **parameters).fit(X, y)
    rows = held_out[0]
    spoiled, other = X.copy(), y.copy()
    spoiled[rows] = 0.0
    seen = []
    visit = SGD._visit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SGD, "_visit", lambda *args: (seen.append(args[2].rows), visit(*args))[1])
        made(loss, early_stopping=True, **parameters).fit(X, other)
    assert not np.isin(np.concatenate(seen), rows).any()
    assert len(np.concatenate(seen)) == 4 * (300 - len(rows))


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
@pytest.mark.parametrize("data", ["two", "three"])
def test_the_weights_of_the_best_score_are_kept(data, loss, held_out, request):
    X, y = request.getfixturevalue(data)
    model = made(
        loss, early_stopping=True, validation_fraction=0.2, learning_rate="constant",
        eta0=0.05 if loss == "squared_error" else 3.0, average=False, batch_size=4, max_iter=15, tol=None,
    ).fit(X, y)  # fmt: skip
    scores = model.history_["validation_score"]
    assert len(scores) == 15
    assert scores.max() > scores[-1]
    assert model.score(X[held_out[0]], y[held_out[0]]) == pytest.approx(scores.max(), abs=1e-12)


def test_a_fit_ends_when_the_score_does_not_rise(two):
    model = made("hinge", early_stopping=True, n_iter_no_change=3).fit(*two)
    scores, lowest = model.history_["validation_score"], -np.inf
    stale = 0
    for score in scores:
        stale = stale + 1 if score < lowest + 1e-3 else 0
        lowest = max(lowest, score)
    assert stale == 3
    assert model.converged_


def test_too_few_rows_to_hold_out():
    X = np.arange(10.0)[:, None]
    with pytest.raises(ValueError, match="validation_fraction"):
        SGDClassifier(early_stopping=True).fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match="validation_fraction"):  # of one number there is no R²
        SGDRegressor(early_stopping=True).fit(X, X[:, 0])


def test_of_small_classes_a_row_each_is_held_out():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 10
    model = SGDClassifier(early_stopping=True, random_state=0, max_iter=3, tol=None).fit(X, y)
    assert set(np.round(10 * model.history_["validation_score"], 6)) <= set(range(11))


def test_losses_of_incomplete_batches_are_means_too(two, stored):
    X, y = two
    parameters = {"batch_size": 64, "learning_rate": "constant", "eta0": 1e-300, "max_iter": 1, "tol": None}
    model = SGDClassifier(**parameters).fit(X, y)
    np.testing.assert_allclose(model.loss_curve_, np.ones(5))
    with stored(X, y) as data:
        model = SGDClassifier(memory=5000, **parameters).fit(data)
    np.testing.assert_allclose(model.loss_curve_, np.ones(5))


@pytest.mark.parametrize("begin", ["hinge", "softmax"])
def test_parameters_may_change_between_partial_fits(begin, two):
    X, y = two
    model = SGDClassifier(begin, random_state=0).partial_fit(X, y, classes=[0, 1])
    for change in ({"momentum": 0.9}, {"loss": "softmax"}, {"loss": "hinge", "momentum": 0.0}, {"average": False}):
        model.set_params(**change).partial_fit(X, y)
        assert model.coef_.shape == (1, 5)
        assert model.score(X, y) > 0.7
    model.partial_fit(sparse.csr_array(X), y)
    assert model.score(X, y) > 0.7


def test_an_error_leaves_the_model_as_it_was(line):
    X, y = line
    model = SGDRegressor(learning_rate="constant", eta0=0.01, random_state=0).partial_fit(X, y)
    wanted = clone(model).partial_fit(X, y).partial_fit(X, y).coef_
    with pytest.raises(ValueError, match="overflow"):
        model.set_params(eta0=1e200).partial_fit(X, y)
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        model.set_params(eta0=0.01).partial_fit(as_source(bad), y)
    np.testing.assert_array_equal(model.partial_fit(X, y).coef_, wanted)


@pytest.mark.parametrize("row", [0, 7, 150, 299])
def test_rows_that_are_not_learnt_from_must_be_finite_too(row, two):
    X, y = two
    bad, weight = X.copy(), np.ones(len(y))
    bad[row, 1], weight[row] = np.nan, 0
    with pytest.raises(ValueError, match=f"row {row},"):
        SGDClassifier("log_loss", random_state=0, max_iter=3, tol=None).fit(bad, y, sample_weight=weight)
    with pytest.raises(ValueError, match=f"row {row},"):
        SGDClassifier(early_stopping=True, random_state=0, max_iter=3, tol=None).fit(bad, y)


def test_an_interrupt_after_a_window_goes_on_to_the_same_bits(two, monkeypatch):
    X, y = two
    parameters = {"random_state": 0, "max_iter": 6, "tol": None}
    wanted, visit, count = SGDClassifier(**parameters).fit(X, y), SGD._visit, iter(range(100))

    def interrupted(self, state, window):
        after = visit(self, state, window)
        if next(count) == 3:
            raise KeyboardInterrupt
        return after

    monkeypatch.setattr(SGD, "_visit", interrupted)
    model = SGDClassifier(warm_start=True, **parameters)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).coef_, wanted.coef_)


def test_clipping_without_an_offset():
    X, y = np.array([[0.01], [0.01], [0.01], [-0.01]]), np.full(4, 100.0)
    model = SGDRegressor(
        clip_norm=0.1, fit_intercept=False, batch_size=None, learning_rate="constant", eta0=1.0, max_iter=1, tol=None,
        average=False, penalty=None,
    )  # fmt: skip
    assert abs(model.fit(X, y).coef_[0]) == pytest.approx(0.1)


def test_an_overflow_in_the_last_step_is_noticed(line):
    X, y = line
    model = SGDRegressor(learning_rate="constant", eta0=1e306, max_iter=1, tol=None, batch_size=None, average=False)
    with pytest.raises(ValueError, match="overflow"):
        model.fit(1e3 * X, 1e3 * y)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_standardised_features(layout, two):
    X, y = two
    wide = X * [1e-3, 1.0, 1e3, 5.0, 0.1] + (0 if layout is sparse.csr_array else np.array([0, 9.0, -1e3, 0, 3]))
    model = SGDClassifier("log_loss", standardize=True, random_state=0, max_iter=30, tol=None).fit(layout(wide), y)
    deviation = wide.std(axis=0)
    scaled = (wide - (0 if layout is sparse.csr_array else wide.mean(axis=0))) / deviation
    wanted = SGDClassifier("log_loss", random_state=0, max_iter=30, tol=None).fit(scaled, y)
    np.testing.assert_allclose(model.decision_function(wide), wanted.decision_function(scaled), rtol=0, atol=1e-9)
    before = model.objective_
    again = model.partial_fit(layout(wide), y)
    assert again.score(wide, y) == pytest.approx(wanted.score(scaled, y), abs=0.02)
    assert before == pytest.approx(wanted.objective_, rel=1e-9)


@pytest.mark.parametrize("first", [False, True])
def test_standardize_may_change_between_partial_fits(first, two):
    X, y = two
    wide = 100 * X + 50
    model = SGDClassifier(random_state=0, standardize=first, max_iter=50, tol=None).fit(wide, y)
    before = model.score(wide, y)
    model.set_params(standardize=not first).partial_fit(wide[:50], y[:50])
    assert model.score(wide, y) > before - 0.05


@pytest.mark.parametrize("n", [10, 100, 128, 129, 500])
def test_the_size_of_the_parts_of_a_stream_matters_little(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 8))
    y = X @ rng.normal(size=8) + rng.normal(size=5000)
    model = SGDRegressor(random_state=0)
    for start in range(0, 5000, n):
        model.partial_fit(X[start : start + n], y[start : start + n])
    assert model.score(X, y) > SGDRegressor(random_state=0).fit(X, y).score(X, y) - 0.02


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.float16])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_other_types_are_converted_a_window_at_a_time(dtype, layout, monkeypatch):
    monkeypatch.setattr(sgd_fit, "_WINDOW_VALUES", 200)
    monkeypatch.setattr(sgd_fit, "_WINDOW_BYTES", 400)
    rng = np.random.default_rng(0)
    X, y = rng.integers(-3, 4, (300, 5)), rng.integers(0, 2, 300)
    parameters = {"random_state": 0, "max_iter": 3, "tol": None}
    if dtype == np.float16 and layout is sparse.csr_array:
        pytest.skip("SciPy has no sparse arrays of float16")
    model = SGDClassifier(**parameters).fit(layout(X.astype(dtype)), y)
    wanted = SGDClassifier(**parameters).fit(layout(X.astype(np.float32 if dtype != np.int64 else float)), y)
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=0, atol=1e-6)


def test_weights_of_a_loaded_model_begin_the_next_fit(two, tmp_path):
    X, y = two
    model = SGDClassifier("log_loss", random_state=0, max_iter=30, tol=None, warm_start=True).fit(X, y)
    fastsvm.save(model, tmp_path / "m.h5")
    loaded = fastsvm.load(tmp_path / "m.h5").set_params(max_iter=1, random_state=0).fit(X, y)
    cold = SGDClassifier("log_loss", random_state=0, max_iter=1, tol=None).fit(X, y)
    assert loaded.history_["objective"][0] < cold.history_["objective"][0] - 0.01
    renamed = np.where(y == 1, "a", "z")
    again = model.set_params(max_iter=1).fit(X, renamed)  # of other classes it knows nothing
    assert again.history_["objective"][0] == pytest.approx(
        SGDClassifier("log_loss", random_state=0, max_iter=1, tol=None).fit(X, renamed).history_["objective"][0]
    )


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_loaded_model_goes_on(layout, two, tmp_path):
    X, y = two
    model = SGDClassifier("softmax", standardize=True, random_state=0, max_iter=20, tol=None).fit(layout(X), y)
    fastsvm.save(model, tmp_path / "m.h5")
    loaded = fastsvm.load(tmp_path / "m.h5")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.get_params() == model.get_params()
    before = np.linalg.norm(loaded.coef_)
    loaded.set_params(learning_rate="constant", eta0=1e-6).partial_fit(layout(X), y)
    assert np.linalg.norm(loaded.coef_) == pytest.approx(before, rel=0.01)


# --- going on --------------------------------------------------------------------------------------------


def test_the_next_fit_begins_where_the_last_ended(two):
    X, y = two
    model = made("log_loss", warm_start=True, max_iter=20, tol=None).fit(X, y)
    first = model.history_["objective"]
    model.fit(X, y)
    assert model.history_["objective"][0] < first[0]
    model.set_params(warm_start=False).fit(X, y)
    np.testing.assert_array_equal(model.history_["objective"], first)


def test_weights_to_begin_with(three, line):
    X, y = three
    coef, intercept = np.arange(15.0).reshape(3, 5), np.arange(3.0)
    still = {"learning_rate": "constant", "eta0": 1e-300, "max_iter": 1, "tol": None}
    model = made("hinge", **still).fit(X, y, coef, intercept)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-200)
    np.testing.assert_allclose(model.intercept_, intercept, atol=1e-200)
    model = made("softmax", **still).fit(X[y < 2], y[y < 2], coef[:1], intercept[1:2])
    np.testing.assert_allclose(model.coef_, coef[:1], atol=1e-200)
    np.testing.assert_allclose(model.intercept_, intercept[1:2], atol=1e-200)
    model = made("squared_error", **still).fit(*line, coef[0], 2.0)
    np.testing.assert_allclose(model.coef_, coef[0], atol=1e-200)
    assert model.intercept_ == [2.0]
    with pytest.raises(ValueError, match=r"coef_init must have shape \(3, 5\)"):
        made("hinge").fit(X, y, coef[:2])


class Interrupted:
    """Windows of all fits, interrupted before one of them."""

    def __init__(self, patch, when):
        self.count, visit = 0, SGD._visit

        def interrupted(*arguments):
            self.count += 1
            if self.count == when:
                raise KeyboardInterrupt
            return visit(*arguments)

        patch.setattr(SGD, "_visit", interrupted)


GOING_ON = {
    "plain": {},
    "momentum": {"momentum": 0.5},
    "odd batches": {"batch_size": 7},
    "early stopping": {"early_stopping": True},
    "adaptive": {"learning_rate": "adaptive", "eta0": 0.1, "tol": 1e-2, "n_iter_no_change": 1, "max_iter": 12},
    "l1": {"penalty": "l1"},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("when", [2, 8])
@pytest.mark.parametrize("where", ["memory", "file", "CSR", "CSR file", "wide CSR file"])
@pytest.mark.parametrize("case", GOING_ON)
def test_an_interrupted_fit_goes_on_as_if_it_had_not_been(case, where, when, three, stored, monkeypatch):
    X, y = three
    rows = sparse.csr_array(X * (np.abs(X) > 0.7)) if "CSR" in where else X
    if where == "wide CSR file":
        rows = sparse.csr_array((rows.data, rows.indices * 20, rows.indptr), shape=(300, 100))
    rows = stored(rows) if "file" in where else rows
    parameters = {"max_iter": 10, "tol": None, "memory": 8000} | GOING_ON[case]
    wanted = made("hinge", **parameters).fit(rows, y)
    model = made("hinge", warm_start=True, **parameters)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, when)
        model.fit(rows, y)
    with pytest.raises(NotFittedError):
        model.predict(rows)
    model = pickle.loads(pickle.dumps(model))
    model.fit(rows, y)
    assert_same(model, wanted)
    np.testing.assert_array_equal(model.loss_curve_, wanted.loss_curve_)
    assert (model.n_iter_, model.t_, model.objective_) == (wanted.n_iter_, wanted.t_, wanted.objective_)


def test_an_interrupt_leaves_no_reader(three, stored, monkeypatch):
    X, y = three
    data = stored(X, y)
    with monkeypatch.context() as patch:
        Interrupted(patch, 5)
        with pytest.raises(KeyboardInterrupt) as error:  # which keeps what the fit had
            made("hinge", memory=8000, max_iter=10, tol=None).fit(data)
    assert error.tb
    assert not [thread for thread in threading.enumerate() if "reader" in thread.name]


def test_an_interrupted_fit_begins_again_without_a_warm_start(two, monkeypatch):
    model = made("hinge", max_iter=6, tol=None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, 4)
        model.fit(*two)
    assert_same(model.fit(*two), made("hinge", max_iter=6, tol=None).fit(*two))
    assert len(model.history_["epoch"]) == 6


def test_a_fit_out_of_time_goes_on(three, stored):
    X, y = three
    data = stored(X, y)
    parameters = {"max_iter": 2, "tol": None, "memory": 8000}
    wanted = made("hinge", **parameters).fit(data)
    model = made("hinge", **parameters, warm_start=True, max_time=1e-6)
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        while not (model.fit(data).converged_):
            count += 1
            assert model.stop_reason_ == "max_time"
            assert model.predict(X).shape == (300,)
    assert count > 5  # several windows an epoch
    assert_same(model, wanted)


def test_other_rows_are_not_gone_on_with(two, three, monkeypatch):
    model = made("hinge", warm_start=True, max_iter=6, tol=None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Interrupted(patch, 4)
        model.fit(*two)
    assert_same(model.fit(*three), made("hinge", max_iter=6, tol=None).fit(*three))


# --- partial fits ----------------------------------------------------------------------------------------


def test_partial_fits_of_all_rows_are_epochs(two):
    X, y = two
    parameters = {"learning_rate": "invscaling", "eta0": 0.3, "alpha": 0.01}
    model = made("log_loss", **parameters)
    for _ in range(4):
        model.partial_fit(X, y, classes=[0, 1])
    wanted = made("log_loss", max_iter=4, tol=None, **parameters).fit(X, y)
    assert_same(model, wanted, 1e-14)
    assert (model.n_iter_, model.t_) == (wanted.n_iter_, wanted.t_)
    np.testing.assert_array_equal(model.loss_curve_, wanted.loss_curve_)


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_partial_fits_learn_from_a_stream(loss, three):
    X, y = three
    model = made(loss)
    for _ in range(20):
        for start in range(0, 300, 60):
            part = slice(start, start + 60)
            extra = {} if loss in REGRESSION else {"classes": [0, 1, 2]}
            model.partial_fit(X[part], y[part], **extra)
    assert model.score(X, y) > made(loss).fit(X, y).score(X, y) - 0.03


def test_partial_fits_of_string_labels(three):
    X, y = three
    names = np.array(["a", "b", "c"])[y]
    for labels in (names, names.astype(object), names.tolist()):
        model = made("hinge").partial_fit(X[:100], labels[:100], classes=["c", "b", "a"]).partial_fit(X, labels)
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert set(model.predict(X)) == {"a", "b", "c"}


def test_partial_fits_know_all_classes(three):
    X, y = three
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        SGDClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"not in classes: \[2\]"):
        SGDClassifier().partial_fit(X, y, classes=[0, 1])
    model = SGDClassifier().partial_fit(X[y == 0], y[y == 0], classes=[0, 1, 2])
    assert model.coef_.shape == (3, 5)
    with pytest.raises(ValueError, match=r"not in classes: \[7\]"):
        model.partial_fit(X, np.where(y == 1, 7, y))
    with pytest.raises(ValueError, match="is not the same as on the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="X has 4 features"):
        model.partial_fit(X[:, 1:], y)
    with pytest.raises(ValueError, match="balanced"):
        SGDClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])


def test_partial_fits_on_what_was_fitted(two):
    X, y = two
    parameters = {"alpha": 0.01, "max_iter": 3, "tol": None}
    model = made("log_loss", **parameters).fit(X, y)
    wanted = made("log_loss", **parameters | {"max_iter": 4}).fit(X, y)
    assert_same(model.partial_fit(X, y), wanted, 1e-14)


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", ["dense", "float32", "CSR", "wide CSR", "file", "CSR file", "streamed"])
@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_rows_that_are_not_finite_are_named(loss, layout, bad, three, stored):
    X, y = three
    X = X.copy()
    X[217, 3] = bad
    memory = 8000 if layout == "streamed" else "auto"
    if layout == "float32":
        X = X.astype(np.float32)
    if "CSR" in layout:
        X = sparse.csr_array(X)
    if layout == "wide CSR":
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(300, 200))
    if "file" in layout or layout == "streamed":
        X = stored(X)
    with pytest.raises(ValueError, match="row 217") as error:
        made(loss, memory=memory, batch_size=4).fit(X, y)
    assert "NaN" in str(error.value) or "infinity" in str(error.value)


def test_targets_that_are_not_finite_are_refused(line):
    X, y = line
    y = y.copy()
    y[3] = np.nan
    with pytest.raises(ValueError, match="y contains NaN"):
        SGDRegressor().fit(X, y)


@pytest.mark.parametrize("loss", ["squared_error", "squared_hinge"])
@pytest.mark.parametrize("layout", ["dense", "float32", "CSR"])
def test_weights_that_grow_beyond_bounds(layout, loss, line):
    X, y = line
    y = y if loss in REGRESSION else (y > 0) * 1
    rows = {"dense": X, "float32": X.astype(np.float32)}.get(layout)
    if layout == "CSR":
        rows = sparse.csr_array((X.ravel(), np.tile(np.arange(5), 300), 5 * np.arange(301)), shape=(300, 500))
    with pytest.raises(ValueError, match="grew beyond all bounds"):
        made(loss, learning_rate="constant", eta0=1e3).fit(rows, y)


BAD = {
    "penalty": ["l3", 1],
    "alpha": [-1, np.nan, "small"],
    "l1_ratio": [-0.1, 1.1],
    "fit_intercept": ["yes", 1],
    "max_iter": [0, 2.5, None],
    "tol": [-1e-3, "small"],
    "shuffle": ["yes"],
    "epsilon": [-0.1, None],
    "learning_rate": ["fast", None],
    "eta0": [0, -1.0],
    "power_t": ["half", np.inf],
    "early_stopping": [None],
    "validation_fraction": [0, 1.0, -0.5],
    "n_iter_no_change": [0, 1.5],
    "warm_start": [None],
    "average": [-1, 0.5, "yes"],
    "batch_size": [0, 1.5, "all"],
    "momentum": [-0.1, 1.0],
    "clip_norm": [0, -1.0],
    "max_time": [0, -1.0],
    "memory": ["much", 0, -1],
    "loss": ["unknown", None],
}


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_named(name, kind, two):
    for value in BAD[name]:
        with pytest.raises(ValueError, match=name):
            kind(**{name: value}).fit(*two)
        with pytest.raises(ValueError, match=name):
            kind(**{name: value}).partial_fit(*two, **({"classes": [0, 1]} if kind is SGDClassifier else {}))


@pytest.mark.parametrize("parameters", [
    {"margin": 0}, {"margin": -1.0}, {"class_weight": "even"}, {"class_weight": {5: 1.0}}, {"class_weight": {0: -1}},
    {"alpha": 0, "learning_rate": "optimal"}, {"alpha": 0, "learning_rate": "pegasos"},
])  # fmt: skip
def test_bad_parameters_of_classifiers_are_named(parameters, two):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SGDClassifier(**parameters).fit(*two)


def test_losses_of_classes_are_not_for_regression(line):
    with pytest.raises(ValueError, match="loss"):
        SGDRegressor("hinge").fit(*line)


def test_rows_of_another_width_are_refused(two):
    model = made("hinge").fit(*two)
    for method in (model.predict, model.decision_function, model.soft_decision):
        with pytest.raises(ValueError, match="X has 4 features"):
            method(two[0][:, 1:])
    with pytest.raises(NotFittedError):
        SGDClassifier().predict(two[0])


# --- what is told ----------------------------------------------------------------------------------------


COLUMNS = {"epoch", "time", "steps", "objective", "rate", "validation_score", "bytes_read"}


def test_the_history_has_a_row_an_epoch(two):
    model = made("log_loss", batch_size=25, learning_rate="constant", eta0=0.1).fit(*two)
    history, n = model.history_, model.n_iter_
    assert history.keys() == COLUMNS
    assert {len(column) for column in history.values()} == {n}
    np.testing.assert_array_equal(history["epoch"], np.arange(1, n + 1))
    np.testing.assert_array_equal(history["steps"], 12 * np.arange(1, n + 1))
    np.testing.assert_array_equal(history["rate"], 0.1)
    assert (np.diff(history["time"]) > 0).all()
    assert np.isnan(history["validation_score"]).all()
    assert model.t_ == 12 * n + 1
    assert history["objective"][-1] == pytest.approx(model.objective_, rel=0.1)


def test_the_loss_curve_has_a_point_a_batch(two):
    X, y = two
    model = made("log_loss", batch_size=25, max_iter=4, tol=None).fit(X, y)
    assert model.loss_curve_.shape == (48,)
    assert model.loss_curve_[0] == pytest.approx(np.log(2))
    means = model.loss_curve_.reshape(4, 12).mean(axis=1)
    assert (np.diff(means) < 0).all()
    assert means[-1] == pytest.approx(model.history_["objective"][-1], rel=1e-2)


@pytest.mark.parametrize("n", [0, 1, 9_999, 10_001, 123_457])
@pytest.mark.parametrize("piece", [1000, 777, 50_000])
def test_the_length_of_a_loss_curve_is_bounded(piece, n):
    curve, values = LossCurve(), np.random.default_rng(0).normal(size=n)
    for start in range(0, n, piece):
        curve.extend(values[start : start + piece])
    points, size = curve.points(), curve.per_point
    assert len(points) == -(-n // size)
    assert len(points) <= 10_001
    assert n < 10_000 * 2 * size
    for k in (0, len(points) // 2, len(points) - 1):
        if n:
            assert points[k] == pytest.approx(values[k * size : (k + 1) * size].mean(), abs=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_models_can_be_pickled_and_cloned(loss, three):
    X, y = three
    model = made(loss, alpha=0.01, batch_size=16).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert_same(copy.partial_fit(X, y), model.partial_fit(X, y))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "coef_")
    assert_same(fresh.fit(X, y), clone(model).fit(X, y))


def test_models_are_the_same_for_the_same_seed(three):
    X, y = three
    a, b, c = (SGDClassifier(random_state=seed, max_iter=3, tol=None).fit(X, y) for seed in (0, 0, 1))
    assert_same(a, b)
    assert not np.array_equal(a.coef_, c.coef_)


def test_a_fit_that_fails_leaves_no_model(two):
    model = made("hinge").fit(*two)
    with pytest.raises(ValueError, match="greater than one"):
        model.fit(two[0], np.zeros(300))
    with pytest.raises(NotFittedError):
        model.predict(two[0])


# --- callbacks -------------------------------------------------------------------------------------------


class Recorder:
    """Sees every epoch, and may stop after some."""

    def __init__(self, rows, stop_after=np.inf):
        self.rows, self.stop_after, self.seen = rows, stop_after, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.parent is None:
            return False
        self.seen.append(fitted_estimator.decision_function(self.rows))
        return len(self.seen) >= self.stop_after


def recorded(model, rows, y, stop_after=np.inf):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    recorder = Recorder(rows, stop_after)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_callbacks(recorder).fit(rows, y)
    return recorder.seen


def test_a_task_for_every_epoch_with_the_weights_of_then(two):
    X, y = two
    seen = recorded(SGDClassifier(random_state=0, max_iter=4, tol=None), X, y)
    assert len(seen) == 4
    for n_epochs, scores in enumerate(seen, 1):
        wanted = SGDClassifier(random_state=0, max_iter=n_epochs, tol=None).fit(X, y).decision_function(X)
        np.testing.assert_array_equal(scores, wanted)


def test_a_callback_may_stop_and_the_next_fit_goes_on(two):
    X, y = two
    wanted = SGDClassifier(random_state=0, max_iter=6, tol=None).fit(X, y)
    model = SGDClassifier(random_state=0, max_iter=6, tol=None, warm_start=True)
    assert len(recorded(model, X, y, stop_after=2)) == 2
    assert (model.stop_reason_, model.n_iter_, model.converged_) == ("callback", 2, False)
    model.set_callbacks().fit(X, y)
    np.testing.assert_array_equal(model.coef_, wanted.coef_)


def test_fewer_epochs_than_were_done_are_none(two):
    X, y = two
    model = SGDClassifier(random_state=0, max_iter=6, tol=None, warm_start=True)
    recorded(model, X, y, stop_after=3)
    before = model.coef_
    model.set_callbacks().set_params(max_iter=2).fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)


def test_callbacks_do_not_change_sparse_fits_with_an_l1_penalty():
    rng = np.random.default_rng(0)
    X, y = sparse.random_array((500, 300), density=0.02, rng=rng).tocsr(), rng.integers(0, 2, 500)
    parameters = {"penalty": "l1", "alpha": 0.003, "random_state": 0, "max_iter": 10, "tol": None}
    model = SGDClassifier(**parameters)
    recorded(model, X, y)
    np.testing.assert_array_equal(model.coef_, SGDClassifier(**parameters).fit(X, y).coef_)


def test_huber_without_a_bend_is_refused(line):
    X, y = line
    with pytest.raises(ValueError, match="epsilon"):
        SGDRegressor("huber", epsilon=0).fit(X, y)
