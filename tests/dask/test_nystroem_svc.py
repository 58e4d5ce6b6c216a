"""NystroemSVC on a cluster: the answer is that of the local one with the same landmarks."""

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


def test_bounds_are_those_of_samples_in_one_place(client):
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        made(client, bounds=True)
