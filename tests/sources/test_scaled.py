"""Features that are standardised when rows are read, as by scikit-learn's scaler, also with weights."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from fastsvm import LinearSVC, LinearSVR, SGDClassifier, SGDRegressor, open_hdf5
from fastsvm.sources import as_source, feature_statistics, standardized

CLASSIFIERS = {
    "linear": LinearSVC(C=0.1, tol=1e-7, random_state=0),
    "sgd": SGDClassifier("log_loss", alpha=0.01, max_iter=20, tol=None, random_state=0),
}
REGRESSORS = {
    "linear": LinearSVR(C=0.1, tol=1e-7, random_state=0),
    "sgd": SGDRegressor(max_iter=20, tol=None, random_state=0),
}


@pytest.fixture(scope="module")
def rows():
    """Return 200 rows of two classes, with features of different scales, and weights, some of them 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) * [1, 10, 0.1, 5] + [0, 3, 1, -2]
    weight = rng.exponential(size=200)
    weight[::4] = 0
    X[::4] *= 100  # which the test would notice
    return X, (X[:, 0] + rng.normal(size=200) > 0).astype(int), weight


def moved(model, X, scaler):
    """Return the scores of rows by a model of scaled rows."""
    return model.decision_function(scaler.transform(X)) if hasattr(model, "classes_") else model.predict(
        scaler.transform(X)
    )  # fmt: skip


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_rows_count_by_their_weights(model, layout, rows):
    X, y, weight = rows
    found = model.set_params(standardize=True).fit(layout(X), y, sample_weight=weight)
    found = found.decision_function(X)
    scaler = StandardScaler(with_mean=layout is np.asarray).fit(X, sample_weight=weight)
    wanted = model.set_params(standardize=False).fit(layout(scaler.transform(X)), y, sample_weight=weight)
    np.testing.assert_allclose(found, moved(wanted, X, scaler), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("model", REGRESSORS.values(), ids=REGRESSORS)
def test_rows_of_a_regression_count_by_their_weights(model, rows):
    X, _, weight = rows
    y = np.where(weight > 0, X @ [1, 0.1, 3, -0.5], 0.0)
    found = model.set_params(standardize=True).fit(X, y, sample_weight=weight).predict(X)
    scaler = StandardScaler().fit(X, sample_weight=weight)
    wanted = model.set_params(standardize=False).fit(scaler.transform(X), y, sample_weight=weight)
    np.testing.assert_allclose(found, moved(wanted, X, scaler), rtol=1e-3, atol=1e-2)


def test_weights_that_come_with_a_file_count(rows, tmp_path):
    X, y, weight = rows
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"], file["sample_weight"] = X, y, weight
    model = LinearSVC(standardize=True, random_state=0, tol=1e-6)
    with open_hdf5(tmp_path / "rows.h5") as data:
        found = model.fit(data).objective_
    assert found == pytest.approx(model.fit(X, y, sample_weight=weight).objective_, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [0.1, 1 / 3, -123456.789, 0.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_constant_features_are_those_of_scikit_learn(weighted, value, dtype, rows):
    X = np.column_stack([rows[0], np.full(200, value)]).astype(dtype)
    weight = rows[2] if weighted else None
    source = standardized(as_source(X), np.float64, weight)
    wanted = StandardScaler().fit(X[:, :-1].astype(np.float64), sample_weight=weight).scale_
    np.testing.assert_allclose(1 / source.scale, [*wanted, 1.0], rtol=1e-10)
    assert not source.read(0, 200).values[:, -1].any()


@pytest.mark.parametrize("value", [0.1, 1 / 3, -123456.789])
def test_gradient_descent_gives_constant_features_no_weight(value, rows):
    X = np.column_stack([rows[0], np.full(200, value)])
    model = SGDClassifier(penalty=None, standardize=True, random_state=0, max_iter=5, tol=None).fit(X, rows[1])
    assert model.coef_[0, -1] == 0


def test_a_feature_that_hardly_varies_is_not_constant():
    X = 1 + 1e-10 * np.random.default_rng(0).normal(size=(100, 1))
    assert feature_statistics(as_source(X)).varying(100).all()


@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_scores_of_float32_rows_with_large_means_keep_their_digits(model):
    rng = np.random.default_rng(0)
    X = (100 * rng.normal(size=(300, 20)) + 1e7).astype(np.float32)
    y = X[:, 0] > 1e7
    model = model.set_params(standardize=True).fit(X, y)
    wanted = X.astype(np.float64) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), wanted, rtol=0, atol=1e-7)
    scaled = StandardScaler().fit_transform(X.astype(np.float64))
    objective = model.objective_
    again = model.set_params(standardize=False).fit(scaled, y)
    assert objective == pytest.approx(again.objective_, rel=1e-3)
