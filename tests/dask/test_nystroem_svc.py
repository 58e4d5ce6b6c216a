"""NystroemSVC on a cluster: the answer is that of the local one with the same landmarks, and so are the bounds."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import fastsvm
import fastsvm.dask

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.uint8), y[:600] % 3


def made(client, **parameters):
    given = {"C": 1.0, "n_components": 60, "random_state": 0, "n_shards": 2, "client": client}
    return fastsvm.dask.NystroemSVC(**given | parameters)


@pytest.mark.parametrize(("kind", "standardize"), [("bytes", False), ("bytes", True), ("csr", True)])
def test_the_model_is_that_of_the_local_estimator(client, digits, kind, standardize, tmp_path):
    X, y = digits
    X = sparse.csr_matrix(X.astype(float)) if kind == "csr" else X
    rows, labels = da.from_array(X, chunks=(200, 64), asarray=False), da.from_array(y, chunks=200)
    model = made(client, standardize=standardize).fit(rows, labels)
    found = X[model.component_indices_]
    same = (found != model.components_).nnz == 0 if kind == "csr" else np.array_equal(found, model.components_)
    assert same and model.coef_.shape == (3, model.components_.shape[0])
    local = fastsvm.NystroemSVC(C=1.0, landmarks=model.components_, random_state=0, standardize=standardize).fit(X, y)
    assert model.converged_ and model.objective_ == pytest.approx(local.objective_, rel=5e-3)
    assert model.trace_error_ == pytest.approx(local.trace_error_, rel=0.3) and model.rank_ == local.rank_
    there = model.to_local()
    fastsvm.save(there, tmp_path / "a.model")
    np.testing.assert_allclose(there.decision_function(X), local.decision_function(X), atol=0.1)
    predicted = model.predict(rows).compute()
    np.testing.assert_array_equal(fastsvm.load(tmp_path / "a.model").predict(X), predicted)
    assert model.score(rows, labels) > 0.9


def test_the_same_shards_give_the_same_bits(client, digits):
    X, y = digits
    rows, labels = da.from_array(X, chunks=(300, 64)), da.from_array(y % 2, chunks=300)
    first, second = (made(client, n_components=40, tol=1e-2).fit(rows, labels) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_landmarks_may_be_given_and_the_kernel_must_fit(client, digits):
    X, y = digits
    rows, labels = da.from_array(X, chunks=(300, 64)), da.from_array(y % 2, chunks=300)
    model = made(client, landmarks=X[:50], tol=1e-2).fit(rows, labels)
    assert model.components_.shape == (50, 64) and not hasattr(model, "component_indices_")
    with pytest.raises(ValueError, match="precomputed"):
        made(client, kernel="precomputed").fit(rows, labels)


# --- pairs, and exact machines -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blocks(digits):
    X, y = digits
    return da.from_array(X, chunks=(200, 64)), da.from_array(y, chunks=200)


@pytest.fixture(scope="module")
def local(digits):
    return fastsvm.NystroemSVC(C=1.0, landmarks=digits[0][:60], multi_class="ovo", tol=1e-3, random_state=0).fit(
        *digits
    )


@pytest.mark.parametrize("n_shards", [2, 3])  # of three pairs: some with another pair, and each by itself
def test_pairs_are_those_of_the_local_estimator(client, digits, blocks, local, n_shards):
    X, _ = digits
    shown = {"decision_function_shape": "ovo"}
    model = made(client, landmarks=X[:60], multi_class="ovo", n_shards=n_shards, **shown).fit(*blocks)
    assert model.converged_ and model.objective_ == pytest.approx(local.objective_, rel=2e-3)
    there = model.to_local()
    expected = local.set_params(**shown).decision_function(X)
    np.testing.assert_allclose(there.decision_function(X), expected, atol=0.1)
    assert (model.predict(X) == local.predict(X)).mean() > 0.99


@pytest.mark.parametrize("kind", ["bytes", "csr"])
def test_the_exact_machine_is_that_of_all_rows(client, digits, kind):
    X, y = digits[0], np.array(["cat", "dog", "elk"])[digits[1]]
    X = sparse.csr_matrix(X.astype(float)) if kind == "csr" else X
    weight = np.arange(600) % 4 * 1.0  # some are left out
    rows, labels, weights = (da.from_array(one, chunks=(200, *one.shape[1:]), asarray=False) for one in (X, y, weight))
    model = made(client, refine="exact", class_weight={"dog": 2.0}, max_iter=3, tol=0.5, gamma=1e-3)
    model.fit(rows, labels, weights)
    own = np.flatnonzero(weight > 0)
    wanted = fastsvm.SVC(C=1.0, gamma=1e-3, tol=0.5)
    wanted.fit(X[own], digits[1][own], weight[own] * np.array([1.0, 2.0, 1.0])[digits[1][own]])
    np.testing.assert_array_equal(model.exact_machine_.decision_function(X), wanted.decision_function(X))
    assert model.score(rows, labels) > 0.9


def test_no_machine_begins_after_the_time_limit(client, digits, blocks):
    with pytest.warns(Warning, match="max_time"):
        model = made(client, refine="exact", max_time=1e-6).fit(*blocks)
    assert not hasattr(model, "exact_machine_") and len(model.predict(digits[0])) == 600


def test_the_exact_machine_needs_the_hinge(client, blocks):
    with pytest.raises(ValueError, match="needs loss='hinge'"):
        made(client, refine="exact", loss="squared_hinge").fit(*blocks)


# --- bounds ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some_digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400] % 2


@pytest.fixture(scope="module")
def optimum(some_digits):
    """Return the optimum of the kernel problem, whose kernel is K + 1 without an intercept."""
    X, y = some_digits
    K = np.exp(-0.002 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) + 1
    return fastsvm.SVC(C=2.0, kernel="precomputed", solver="coordinate", fit_intercept=False, tol=1e-6).fit(K, y)


def bounded(client, X, n_shards, **given):
    given = {"C": 2.0, "gamma": 0.002, "landmarks": X[:40], "tol": 1e-4, "bounds": True, "random_state": 0} | given
    return fastsvm.dask.NystroemSVC(n_shards=n_shards, client=client, **given)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_bounds_hold_the_optimum_and_are_those_of_one_machine(client, some_digits, optimum, n_shards):
    X, y = some_digits
    blocks = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    model = bounded(client, X, n_shards).fit(*blocks)
    lower, upper = model.exact_bounds_
    assert model.to_local().exact_bounds_ == model.exact_bounds_
    assert 0 < lower <= optimum.objective_ and upper >= optimum.objective_ * (1 - 1e-6)
    local = fastsvm.NystroemSVC(C=2.0, gamma=0.002, landmarks=X[:40], tol=1e-4, bounds=True, random_state=0).fit(X, y)
    assert model.exact_bounds_ == pytest.approx(local.exact_bounds_, rel=5e-3)


def test_little_memory_is_enough(client, some_digits, optimum):
    X, y = some_digits
    blocks = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    model = bounded(client, X, 3, memory=1 << 16).fit(*blocks)  # for a few rows at a time
    assert 0 < model.exact_bounds_[0] <= optimum.objective_


def test_there_are_no_bounds_unless_they_are_wanted(client, some_digits):
    X, y = some_digits
    blocks = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    assert not hasattr(bounded(client, X, 2, bounds=False).fit(*blocks), "exact_bounds_")
    with pytest.raises(ValueError, match="'bounds' parameter"):
        bounded(client, X, 2, bounds="tight").fit(*blocks)
