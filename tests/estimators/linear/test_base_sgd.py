"""What both SGD estimators promise: the objective, weights of samples, the end of a fit, bad parameters."""

import pickle

import naive
import numpy as np
import pytest
from linear_svms import assert_same
from scipy import optimize, sparse
from sgd_models import BINARY, made_sgd, objective
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fastsvm import LinearSVC, SGDClassifier, SGDRegressor
from fastsvm.losses import loss_names
from fastsvm.sources import as_source

REGRESSION = loss_names("numbers")


def least(loss, X, y, alpha):
    """Return the least objective of a smooth loss, by a general solver."""

    def value_and_gradient(w):
        value, slopes = naive.mean_loss(loss, X @ w[:-1, None] + w[-1], y, np.ones(len(X)), np.ones(1))
        gradient = np.append(slopes.T @ X + alpha * len(X) * w[:-1], slopes.sum())
        return value / len(X) + alpha / 2 * w[:-1] @ w[:-1], gradient / len(X)

    return optimize.minimize(value_and_gradient, np.zeros(X.shape[1] + 1), jac=True, tol=1e-12).fun


@pytest.mark.parametrize("batch_size", [1, 32, None])
@pytest.mark.parametrize("loss", [*BINARY[1:4], "squared_error", "huber", "squared_epsilon_insensitive"])
def test_the_objective_comes_close_to_the_least(loss, batch_size, two_300, line_300):
    X, y = line_300 if loss in REGRESSION else two_300
    signed = y if loss in REGRESSION else 2.0 * y - 1
    wanted = least(loss, X, signed, 0.01)
    ends = {"max_iter": 10_000, "tol": 1e-6, "average": batch_size is not None}
    model = made_sgd(loss, alpha=0.01, batch_size=batch_size, **ends).fit(X, y)
    assert model.objective_ == pytest.approx(
        objective(loss, model.coef_.ravel(), model.intercept_, X, signed, 0.01), rel=1e-10
    )
    assert model.converged_
    assert model.stop_reason_ == "converged"
    assert wanted * (1 - 1e-8) <= model.objective_ <= wanted * 1.003


@pytest.mark.parametrize("batch_size", [1, 32])
def test_the_objective_of_a_hinge_comes_close_to_the_least(batch_size, two_300):
    X, y = two_300
    alpha = 0.01
    dual = SVC(kernel="linear", C=1 / (alpha * len(X)), tol=1e-8).fit(X, y)
    wanted = objective("hinge", dual.coef_, dual.intercept_, X, 2.0 * y - 1, alpha)
    model = made_sgd("hinge", alpha=alpha, batch_size=batch_size, tol=1e-6).fit(X, y)
    assert wanted * (1 - 1e-6) <= model.objective_ <= wanted * 1.001


def test_rare_words_do_not_starve():
    """The k-th word is drawn with a probability of about 1/k: one rate for all ends at twice the objective."""
    rng = np.random.default_rng(0)
    words = np.minimum(5000 ** rng.random((3000, 20)), 5000).astype(int) - 1
    X = sparse.csr_array((np.ones(60_000), words.ravel(), np.arange(0, 60_001, 20)), shape=(3000, 5000))
    X.sum_duplicates()
    y = X @ rng.normal(size=5000) > 0
    least = LinearSVC(loss="hinge", C=1 / (1e-4 * 3000), tol=1e-2).fit(X, y).dual_objective_ * 1e-4
    model = made_sgd("hinge", tol=1e-4).fit(X, y)
    assert model.objective_ < 1.2 * least


def test_long_features_do_not_silence_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = X @ rng.normal(size=20)
    X[:, :4] *= 1000
    assert made_sgd("squared_error").fit(X, y).score(X, y) > 0.999


@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_the_l1_penalty_leaves_few_features(layout):
    rng = np.random.default_rng(0)
    X = sparse.random_array((1000, 200), density=0.02, rng=rng).tocsr()
    X.data[:] = rng.normal(size=X.nnz)
    weights = np.zeros(200)
    weights[:10] = 3
    y = (X @ weights + 0.3 * rng.normal(size=1000) > 0) * 2.0 - 1
    alpha = 0.003
    l1 = {"penalty": "l1"} if linear_model.LogisticRegression().penalty == "l2" else {"l1_ratio": 1}  # before 1.8
    exact = linear_model.LogisticRegression(
        C=1 / (alpha * 1000), solver="saga", tol=1e-8, max_iter=10_000, random_state=0, **l1
    ).fit(X, y)
    wanted = objective("log_loss", exact.coef_, exact.intercept_, X.toarray(), y, alpha, l1=1.0)
    rows = X if layout == "CSR" else X.toarray()
    parameters = {"penalty": "l1", "alpha": alpha, "max_iter": 300, "tol": None}
    for average in (True, False):
        model = made_sgd("log_loss", average=average, **parameters).fit(rows, y)
        assert wanted * (1 - 1e-6) <= model.objective_ <= wanted * 1.02
    if layout == "CSR":  # dense steps leave weights that jump to and fro around zero
        assert np.count_nonzero(model.coef_) < 60


@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (3, 1), (50, 1)])
def test_few_rows_and_features(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    X[0], X[1] = -1, 1
    y = (X[:, 0] > 0).astype(int)
    for loss in ("hinge", "log_loss", "softmax", "crammer_singer"):
        model = made_sgd(loss, tol=0.1).fit(X, y)
        assert model.coef_.shape == (1, shape[1])
        assert model.predict(X)[:2].tolist() == [0, 1]
    assert made_sgd("squared_error").fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_features_that_are_constant(value):
    y = np.array([0] * 20 + [1] * 30)
    for rows in (np.full((50, 3), value), sparse.csr_array(np.full((50, 3), value)), sparse.csr_array((50, 100))):
        model = made_sgd("log_loss").fit(rows, y)
        assert (model.predict(rows) == 1).all()
        assert np.isfinite(model.coef_).all()


def test_rows_without_values_have_no_weights():
    y = np.array([0] * 20 + [1] * 30)
    model = made_sgd("log_loss", max_iter=3000, tol=1e-7).fit(sparse.csr_array((50, 100)), y)
    assert not model.coef_.any()
    assert model.predict_proba(sparse.csr_array((1, 100)))[0, 1] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "softmax", "weston_watkins", "squared_error"])
@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_a_weight_counts_as_so_many_rows(penalty, loss, three_300):
    X, y = three_300
    count = np.random.default_rng(0).integers(0, 4, 300)
    parameters = {"batch_size": None, "penalty": penalty, "max_iter": 30, "tol": None}
    weighted = made_sgd(loss, **parameters).fit(X, y, sample_weight=2.5 * count)
    repeated = made_sgd(loss, **parameters).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    assert_same(weighted, repeated, 1e-10)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-10)


def test_rows_of_weight_zero_are_left_out(three_300):
    X, y = three_300
    weight = (np.arange(300) % 3 > 0) * 1.0
    parameters = {"max_iter": 5, "tol": None, "shuffle": False}
    for loss in ("hinge", "softmax"):
        model = made_sgd(loss, **parameters).fit(X, y, sample_weight=weight)
        assert_same(model, made_sgd(loss, **parameters).fit(X[weight > 0], y[weight > 0]), 1e-12)


def test_a_larger_tolerance_ends_earlier(two_300):
    epochs = [made_sgd("log_loss", tol=tol).fit(*two_300).n_iter_ for tol in (1e-2, 1e-5, 1e-7)]
    assert epochs[0] < epochs[1] < epochs[2]
    few, many = (made_sgd("log_loss", n_iter_no_change=n).fit(*two_300).n_iter_ for n in (2, 20))
    assert few < many


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_the_defaults_end_in_time_on_standardised_tables(load):
    """The objective is within some percent of that of the best constant, and no advice is given."""
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = SGDClassifier(random_state=0).fit(X, y)
    assert model.converged_ and model.n_iter_ <= 300
    long = SGDClassifier(random_state=0, tol=None).fit(X, y)
    shares = np.bincount(y) / len(y)
    constant = 2 * (shares.sum() if len(shares) > 2 else shares.min())
    assert model.objective_ <= long.objective_ + 0.05 * constant
    assert model.score(X, y) >= long.score(X, y) - 0.03


def test_a_fit_that_has_not_converged_warns(two_300):
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*3 epochs.*tol=0\.001"):
        model = made_sgd("log_loss", max_iter=3).fit(*two_300)
    assert not model.converged_
    assert model.stop_reason_ == "max_iter"
    assert model.n_iter_ == 3


def test_all_epochs_without_a_tolerance(two_300):
    model = made_sgd("log_loss", max_iter=7, tol=None).fit(*two_300)
    assert model.n_iter_ == 7
    assert model.converged_


def test_an_adaptive_rate_is_divided_until_it_is_small(two_300):
    model = made_sgd("log_loss", learning_rate="adaptive", eta0=0.1, tol=1e-2).fit(*two_300)
    rates = np.unique(model.history_["rate"])[::-1]
    np.testing.assert_allclose(rates, 0.1 / 5.0 ** np.arange(len(rates)))
    assert rates[-1] <= 1e-6 < rates[-2]


def test_an_error_leaves_the_model_as_it_was(line_300):
    X, y = line_300
    model = SGDRegressor(learning_rate="constant", eta0=0.01, random_state=0).partial_fit(X, y)
    wanted = clone(model).partial_fit(X, y).partial_fit(X, y).coef_
    with pytest.raises(ValueError, match="overflow"):
        model.set_params(eta0=1e200).partial_fit(X, y)
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        model.set_params(eta0=0.01).partial_fit(as_source(bad), y)
    np.testing.assert_array_equal(model.partial_fit(X, y).coef_, wanted)


def test_clipping_without_an_intercept():
    X, y = np.array([[0.01], [0.01], [0.01], [-0.01]]), np.full(4, 100.0)
    model = SGDRegressor(
        clip_norm=0.1, fit_intercept=False, batch_size=None, learning_rate="constant", eta0=1.0, max_iter=1, tol=None,
        average=False, penalty=None,
    )  # fmt: skip
    assert abs(model.fit(X, y).coef_[0]) == pytest.approx(0.1)


def test_an_overflow_in_the_last_step_is_noticed(line_300):
    X, y = line_300
    model = SGDRegressor(learning_rate="constant", eta0=1e306, max_iter=1, tol=None, batch_size=None, average=False)
    with pytest.raises(ValueError, match="overflow"):
        model.fit(1e3 * X, 1e3 * y)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_standardised_features(layout, two_300):
    X, y = two_300
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


def test_the_next_fit_begins_where_the_last_ended(two_300):
    X, y = two_300
    model = made_sgd("log_loss", warm_start=True, max_iter=20, tol=None).fit(X, y)
    first = model.history_["objective"]
    model.fit(X, y)
    assert model.history_["objective"][0] < first[0]
    model.set_params(warm_start=False).fit(X, y)
    np.testing.assert_array_equal(model.history_["objective"], first)


def test_weights_to_begin_with(three_300, line_300):
    X, y = three_300
    coef, intercept = np.arange(15.0).reshape(3, 5), np.arange(3.0)
    still = {"learning_rate": "constant", "eta0": 1e-300, "max_iter": 1, "tol": None}
    model = made_sgd("hinge", **still).fit(X, y, coef, intercept)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-200)
    np.testing.assert_allclose(model.intercept_, intercept, atol=1e-200)
    model = made_sgd("softmax", **still).fit(X[y < 2], y[y < 2], coef[:1], intercept[1:2])
    np.testing.assert_allclose(model.coef_, coef[:1], atol=1e-200)
    np.testing.assert_allclose(model.intercept_, intercept[1:2], atol=1e-200)
    model = made_sgd("squared_error", **still).fit(*line_300, coef[0], 2.0)
    np.testing.assert_allclose(model.coef_, coef[0], atol=1e-200)
    assert model.intercept_ == [2.0]
    with pytest.raises(ValueError, match=r"coef_init must have shape \(3, 5\)"):
        made_sgd("hinge").fit(X, y, coef[:2])


@pytest.mark.parametrize(("layout", "loss"), [("dense", "squared_error"), ("CSR", "squared_hinge")])
def test_weights_that_grow_beyond_bounds(layout, loss, line_300):
    X, y = line_300
    y = y if loss in REGRESSION else (y > 0) * 1
    if layout == "CSR":
        X = sparse.csr_array((X.ravel(), np.tile(np.arange(5), 300), 5 * np.arange(301)), shape=(300, 500))
    with pytest.raises(ValueError, match="weights diverged"):
        made_sgd(loss, learning_rate="constant", eta0=1e3).fit(X, y)


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
def test_bad_parameters_are_named(name, kind, two_300):
    for value in BAD[name]:
        with pytest.raises(ValueError, match=name):
            kind(**{name: value}).fit(*two_300)
        with pytest.raises(ValueError, match=name):
            kind(**{name: value}).partial_fit(*two_300, **({"classes": [0, 1]} if kind is SGDClassifier else {}))


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_models_can_be_pickled_and_cloned(loss, three_300):
    X, y = three_300
    model = made_sgd(loss, alpha=0.01, batch_size=16).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert_same(copy.partial_fit(X, y), model.partial_fit(X, y))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "coef_")
    assert_same(fresh.fit(X, y), clone(model).fit(X, y))


def test_models_are_the_same_for_the_same_seed(three_300):
    X, y = three_300
    a, b, c = (SGDClassifier(random_state=seed, max_iter=3, tol=None).fit(X, y) for seed in (0, 0, 1))
    assert_same(a, b)
    assert not np.array_equal(a.coef_, c.coef_)
