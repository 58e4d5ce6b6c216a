"""Partial fits of the SGD estimators."""

import numpy as np
import pytest
from linear_svms import assert_same
from scipy import sparse
from sgd_models import STEPWISE, made_sgd, plain
from sklearn import linear_model
from sklearn.base import clone

import fastsvm
from fastsvm import SGDClassifier, SGDRegressor
from fastsvm.losses import loss_names
from fastsvm.solvers.sgd.learning_rates import SCHEDULES

REGRESSION = loss_names("numbers")


@pytest.mark.parametrize("data", ["two_300", "three_300"])
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


def test_partial_fits_of_regression_are_those_of_scikit_learn(line_300):
    X, y = line_300
    parameters = STEPWISE | {"learning_rate": "invscaling"}
    model, wanted = SGDRegressor(**parameters), linear_model.SGDRegressor(**plain(parameters))
    for start in range(0, 300, 100):
        part = slice(start, start + 100)
        assert_same(model.partial_fit(X[part], y[part]), wanted.partial_fit(X[part], y[part]), 1e-8)


@pytest.mark.parametrize("begin", ["hinge", "softmax"])
def test_parameters_may_change_between_partial_fits(begin, two_300):
    X, y = two_300
    model = SGDClassifier(begin, random_state=0).partial_fit(X, y, classes=[0, 1])
    for change in ({"momentum": 0.9}, {"loss": "softmax"}, {"loss": "hinge", "momentum": 0.0}, {"average": False}):
        model.set_params(**change).partial_fit(X, y)
        assert model.coef_.shape == (1, 5)
        assert model.score(X, y) > 0.7
    model.partial_fit(sparse.csr_array(X), y)
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("first", [False, True])
def test_standardize_may_change_between_partial_fits(first, two_300):
    X, y = two_300
    wide = 100 * X + 50
    model = SGDClassifier(random_state=0, standardize=first, max_iter=50, tol=None).fit(wide, y)
    before = model.score(wide, y)
    model.set_params(standardize=not first).partial_fit(wide[:50], y[:50])
    assert model.score(wide, y) > before - 0.05


@pytest.mark.parametrize("memory", ["auto", 4096])
@pytest.mark.parametrize("first, later", [(np.asarray, sparse.csr_array), (sparse.csr_array, np.asarray)])
def test_standardized_parts_may_be_dense_or_sparse(first, later, memory, two_300):
    X, y = two_300
    shifted = 10 * X + 50
    model, wanted = (SGDClassifier(random_state=0, standardize=True, memory=memory) for _ in range(2))
    for start in range(0, 300, 100):
        part = slice(start, start + 100)
        model.partial_fit((later if start else first)(shifted[part]), y[part], classes=[0, 1])
        wanted.partial_fit(first(shifted[part]), y[part], classes=[0, 1])
    np.testing.assert_allclose(model.decision_function(shifted), wanted.decision_function(shifted), rtol=1e-6)


@pytest.mark.parametrize("n", [10, 100, 128, 129, 500])
def test_the_size_of_the_parts_of_a_stream_matters_little(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 8))
    y = X @ rng.normal(size=8) + rng.normal(size=5000)
    model = SGDRegressor(random_state=0)
    for start in range(0, 5000, n):
        model.partial_fit(X[start : start + n], y[start : start + n])
    assert model.score(X, y) > SGDRegressor(random_state=0).fit(X, y).score(X, y) - 0.02


def test_weights_of_a_loaded_model_begin_the_next_fit(two_300, tmp_path):
    X, y = two_300
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
def test_a_loaded_model_takes_partial_fits(layout, two_300, tmp_path):
    X, y = two_300
    model = SGDClassifier("softmax", standardize=True, random_state=0, max_iter=20, tol=None).fit(layout(X), y)
    fastsvm.save(model, tmp_path / "m.h5")
    loaded = fastsvm.load(tmp_path / "m.h5")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.get_params() == model.get_params()
    before = np.linalg.norm(loaded.coef_)
    loaded.set_params(learning_rate="constant", eta0=1e-6).partial_fit(layout(X), y)
    assert np.linalg.norm(loaded.coef_) == pytest.approx(before, rel=0.01)


def test_partial_fits_of_all_rows_are_epochs(two_300):
    X, y = two_300
    parameters = {"learning_rate": "invscaling", "eta0": 0.3, "alpha": 0.01, "batch_size": 32}
    model = made_sgd("log_loss", **parameters)
    for _ in range(4):
        model.partial_fit(X, y, classes=[0, 1])
    wanted = made_sgd("log_loss", max_iter=4, tol=None, **parameters).fit(X, y)
    assert_same(model, wanted, 1e-14)
    assert (model.n_iter_, model.t_) == (wanted.n_iter_, wanted.t_)
    np.testing.assert_array_equal(model.loss_curve_, wanted.loss_curve_)


@pytest.mark.parametrize("loss", ["hinge", "softmax", "squared_error"])
def test_partial_fits_learn_from_a_stream(loss, three_300):
    X, y = three_300
    model = made_sgd(loss)
    for _ in range(20):
        for start in range(0, 300, 60):
            part = slice(start, start + 60)
            extra = {} if loss in REGRESSION else {"classes": [0, 1, 2]}
            model.partial_fit(X[part], y[part], **extra)
    assert model.score(X, y) > made_sgd(loss).fit(X, y).score(X, y) - 0.03


def test_partial_fits_of_string_labels(three_300):
    X, y = three_300
    names = np.array(["a", "b", "c"])[y]
    for labels in (names, names.astype(object), names.tolist()):
        model = made_sgd("hinge").partial_fit(X[:100], labels[:100], classes=["c", "b", "a"]).partial_fit(X, labels)
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert set(model.predict(X)) == {"a", "b", "c"}


def test_partial_fits_know_all_classes(three_300):
    X, y = three_300
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


def test_partial_fits_on_what_was_fitted(two_300):
    X, y = two_300
    parameters = {"alpha": 0.01, "max_iter": 3, "tol": None, "batch_size": 32}
    model = made_sgd("log_loss", **parameters).fit(X, y)
    wanted = made_sgd("log_loss", **parameters | {"max_iter": 4}).fit(X, y)
    assert_same(model.partial_fit(X, y), wanted, 1e-14)


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_sparse_weights_are_learnt_further(kind):
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = (X[:, 0] > 0).astype(int)
    dense, sparse = (kind(random_state=0, max_iter=3, tol=None, warm_start=True).fit(X, y) for _ in range(2))
    for further in ("fit", "partial_fit"):
        getattr(dense, further)(X, y)
        getattr(sparse.sparsify(), further)(X, y)
        np.testing.assert_array_equal(sparse.coef_, dense.coef_)


@pytest.mark.parametrize(
    ("rate", "density", "penalty"),
    [(rate, density, ("l2", "elasticnet")[(i + j) % 2])
     for i, rate in enumerate(SCHEDULES) for j, density in enumerate([0.02, 0.3])],
)  # fmt: skip
def test_partial_fits_end_alike_wherever_the_samples_are(rate, density, penalty, stored):
    """Whether steps touch nonzero values alone depends on the values, and so do the default batch and the rule."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((400, 200), density=density, rng=rng, format="csr")
    y = np.digitize(X[:, :40].sum(axis=1) - X[:, 40:80].sum(axis=1), [-0.1, 0.1])
    samples = [X.toarray(), X, stored(X.toarray()), stored(X)]
    given = {"learning_rate": rate, "eta0": 0.1, "alpha": 1e-3, "penalty": penalty, "random_state": 0, "memory": "1GB"}
    for model, extra in ((SGDClassifier(**given), {"classes": [0, 1, 2]}), (SGDRegressor("huber", **given), {})):
        models = [clone(model) for _ in samples]
        for one, rows in zip(models, samples, strict=True):
            for _ in range(3):
                one.partial_fit(rows, y, **extra)
        for one in models[1:]:
            largest = np.abs(models[0].coef_).max()
            np.testing.assert_allclose(one.coef_, models[0].coef_, rtol=0, atol=1e-11 * largest)
            np.testing.assert_allclose(one.intercept_, models[0].intercept_, rtol=0, atol=1e-11)
            np.testing.assert_allclose(one.loss_curve_, models[0].loss_curve_, rtol=1e-10)
            assert one.t_ == models[0].t_
