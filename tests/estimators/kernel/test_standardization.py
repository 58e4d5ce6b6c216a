"""Kernel machines of standardised features."""

import warnings

import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fastsvm
from fastsvm import SVC, SVCSearch, open_hdf5
from fastsvm._compiled.byte_tile import PRODUCTS
from fastsvm.estimators.kernel import kernel_parameter

ATOL = 1e-4  # of decision values, at tol=1e-6


@pytest.fixture(scope="module")
def wine():
    """Return samples whose features have lengths of .1 to 300, and three classes."""
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def counts():
    """Return bytes with features of very different lengths, one of them constant."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=150)
    X = rng.poisson(np.array([1, 20, 2, 90]) + y[:, None] * [1, 4, 0, 9], (150, 4)).clip(0, 255)
    return np.hstack([X, np.full((150, 1), 7)]).astype(np.uint8), y


def pipeline(model, centred=True):
    return make_pipeline(StandardScaler(with_mean=centred), model)


def assert_same_decisions(ours, theirs, X):
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=ATOL)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("layout", [np.float64, np.float32, sparse.csr_array], ids=["float64", "float32", "CSR"])
def test_the_model_is_that_of_standardised_samples(kernel, layout, wine):
    X, y = layout(wine[0]), wine[1]
    model = SVC(kernel=kernel, tol=1e-6, coef0=0.5, standardize=True).fit(X, y)
    theirs = pipeline(svm.SVC(kernel=kernel, tol=1e-6, coef0=0.5), not sparse.issparse(X))
    assert model.converged_
    assert_same_decisions(model, theirs.fit(X, y), X)


@pytest.mark.parametrize("parameters", [{"solver": "coordinate"}, {"solver": "primal", "loss": "squared_hinge"}])
def test_other_solvers(parameters, wine):
    X, y = wine
    found = SVC(tol=1e-6, standardize=True, **parameters).fit(X, y)
    wanted = pipeline(SVC(tol=1e-6, **parameters)).fit(X, y)
    assert_same_decisions(found, wanted, X)


def test_weights_count(wine):
    X, y = wine
    weight = np.random.default_rng(0).uniform(0, 3, len(y)).round()
    model = SVC(gamma=0.1, tol=1e-6, standardize=True).fit(X, y, weight)
    scaler = StandardScaler().fit(X, sample_weight=weight)
    theirs = svm.SVC(gamma=0.1, tol=1e-6).fit(scaler.transform(X), y, weight)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(scaler.transform(X)), atol=ATOL)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16])
def test_types_and_constant_features(dtype, counts):
    X, y = counts[0].astype(dtype), counts[1]
    model = SVC(tol=1e-6, standardize=True).fit(X, y)
    assert_same_decisions(model, pipeline(svm.SVC(tol=1e-6)).fit(X.astype(float), y), X.astype(float))
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.support_vectors_.dtype == dtype


def test_a_large_mean_costs_no_digits(wine):
    X, y = wine
    found = SVC(tol=1e-6, standardize=True).fit(X + 1e9, y)
    assert_same_decisions(found, pipeline(svm.SVC(tol=1e-6)).fit(X + 1e9, y), X + 1e9)
    rows = (X[:20] + 2**24).astype(np.float32)  # a model of float64 is not rounded to the type of what it predicts
    model = SVC(tol=1e-6, standardize=True).fit(X + 2.0**24, y)
    np.testing.assert_allclose(model.decision_function(rows), model.decision_function(rows.astype(float)), atol=1e-12)


def test_rows_of_a_file_and_rows_larger_than_the_memory(tmp_path, many, choose):
    choose(kernel={"few_rows": 200, "block_rows": 400, "working_set": 200})
    X, y = (part[::4] for part in many)
    X = np.hstack([X * [1, 1e3, 1e-2, 1, 50, 1] + 5, np.zeros((len(X), 994))])
    wanted = SVC(gamma=0.1, tol=1e-6, standardize=True).fit(X, y)
    found = wanted.decision_function(X)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, y
    for memory in ("8MB", "60MB"):
        with open_hdf5(tmp_path / "rows.h5") as data:
            streamed = SVC(gamma=0.1, tol=1e-6, standardize=True, memory=memory).fit(data)
            np.testing.assert_allclose(streamed.decision_function(data), found, atol=ATOL, err_msg=memory)
        held = SVC(gamma=0.1, tol=1e-6, standardize=True, memory=memory).fit(X, y)
        np.testing.assert_allclose(held.decision_function(X), found, atol=ATOL, err_msg=memory)
        assert streamed.converged_ and streamed.duality_gap_ == pytest.approx(wanted.duality_gap_, abs=1e-2)


@pytest.mark.skipif(PRODUCTS is None, reason="the processor has no byte products")
def test_bytes_stay_bytes_if_all_features_have_one_scale(monkeypatch, counts):
    column, y = counts[0][:, 1:2], counts[1]
    X = np.hstack([column, 255 - column])
    used = []
    kind = kernel_parameter.Uint8Pairwise
    monkeypatch.setattr(kernel_parameter, "Uint8Pairwise", lambda *given: used.append(given) or kind(*given))
    monkeypatch.setattr(kernel_parameter, "multiplies_bytes", lambda n_features: True)
    model = SVC(tol=1e-6, standardize=True).fit(X, y)
    assert used and used[0][2] == pytest.approx(1 / X[:, 0].std())
    theirs = pipeline(svm.SVC(tol=1e-6)).fit(X.astype(float), y)
    assert_same_decisions(model, theirs, X)
    assert_same_decisions(model, theirs, X + 0.25)


def test_save_and_fit_again(wine, tmp_path):
    X, y = wine
    model = SVC(kernel="linear", standardize=True).fit(X, y)
    fastsvm.save(model, tmp_path / "model")
    again = fastsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_allclose(model.coef_, pipeline(SVC(kernel="linear")).fit(X, y)[-1].coef_, atol=1e-9)
    iris = load_iris(return_X_y=True)
    plain = again.set_params(standardize=False).fit(*iris)
    wanted = SVC(kernel="linear").fit(*iris)
    np.testing.assert_array_equal(plain.decision_function(iris[0]), wanted.decision_function(iris[0]))


@pytest.mark.parametrize("gamma", ["scale", 0.05])
def test_a_search_standardises_by_the_training_samples_of_each_split(gamma, wine):
    X, y = wine
    grid = {"C": [0.1, 1, 10], "standardize": [True, False]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = SVCSearch(SVC(gamma=gamma, tol=1e-6), grid, scoring="accuracy").fit(X, y)
    scores = found.cv_results_["mean_test_score"]
    theirs = GridSearchCV(pipeline(svm.SVC(gamma=gamma, tol=1e-6)), {"svc__C": [0.1, 1, 10]}).fit(X, y)
    np.testing.assert_allclose(scores[::2], theirs.cv_results_["mean_test_score"])
    plain = GridSearchCV(svm.SVC(gamma=gamma, tol=1e-6), {"C": [0.1, 1, 10]}).fit(X, y)
    np.testing.assert_allclose(scores[1::2], plain.cv_results_["mean_test_score"])


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_unscaled_features_are_said_once(layout, load):
    X, y = load(return_X_y=True)
    X = X * np.where(X.std(axis=0) == X.std(axis=0).max(), 10, 1)
    with pytest.warns(UserWarning, match="standardize=True") as caught:
        SVC(gamma=1e-3).fit(layout(X), y)
    lengths = [warning for warning in caught if "very different lengths" in str(warning.message)]
    assert len(lengths) == 1 and lengths[0].filename == __file__


@pytest.mark.parametrize("case", ["iris", "digits", "standardised", "rare words", "kernel values", "two constants"])
def test_no_warning(case, wine):
    X, y = load_digits(return_X_y=True) if case == "digits" else load_iris(return_X_y=True)
    parameters = {}
    if case == "standardised":
        (X, y), parameters = wine, {"standardize": True}
    elif case == "rare words":
        X = sparse.random_array((len(y), 500), density=0.02, format="csr", rng=np.random.default_rng(0))
    elif case == "kernel values":
        X, parameters = np.diag(np.arange(1.0, 151) ** 4), {"kernel": "precomputed"}
    elif case == "two constants":
        X = np.hstack([X[:, :1], np.full((len(y), 2), 1e9)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC(**parameters).fit(X, y)


def test_kernel_values_cannot_be_standardised(wine):
    with pytest.raises(ValueError, match="standardize=True needs features"):
        SVC(kernel="precomputed", standardize=True).fit(np.eye(len(wine[1])), wine[1])
