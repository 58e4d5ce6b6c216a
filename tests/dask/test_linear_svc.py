"""LinearSVC on a cluster: the answer is that of the local one, from whatever the rows come in."""

from itertools import pairwise

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
from distributed import Client
from scipy import sparse
from sklearn.base import clone

import fastsvm
import fastsvm.dask

pytestmark = pytest.mark.dask


def made(**parameters):
    return fastsvm.dask.LinearSVC(**{"C": 0.05, "tol": 1e-3, "random_state": 0, "loss": "hinge"} | parameters)


@pytest.fixture(scope="module")
def local(digits):
    return fastsvm.LinearSVC(loss="hinge", C=0.05, tol=1e-6, random_state=0, max_iter=10_000).fit(*digits)


def arrays(X, y, rows=100):
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def assert_as_local(model, local):
    assert model.converged_ and model.duality_gap_ <= 1e-3 * model.objective_
    assert local.objective_ * (1 - 1e-6) <= model.objective_ <= local.objective_ * (1 + 1e-3)
    assert model.dual_objective_ <= local.objective_
    distance = np.linalg.norm(model.coef_ - local.coef_)  # ½‖w - w*‖² is at most the gap
    assert distance**2 / 2 <= model.duality_gap_ + local.duality_gap_


@pytest.mark.parametrize("n_shards", [1, 3])
def test_the_model_is_that_of_the_local_estimator(client, digits, local, n_shards):
    model = made(n_shards=n_shards).fit(*arrays(*digits))
    assert_as_local(model, local)
    assert model.coef_.shape == (10, 64) and len(model.history_["gap"]) == model.n_iter_
    there = model.to_local()
    assert type(there) is fastsvm.LinearSVC and there.loss == "hinge"
    np.testing.assert_array_equal(
        there.predict(digits[0]), model.predict(da.from_array(digits[0], (200, 64))).compute()
    )


def test_the_same_shards_give_the_same_bits(client, digits):
    X, y = arrays(*digits)
    first = made(n_shards=2, tol=1e-2).fit(X, y)
    with Client(processes=False, n_workers=1, threads_per_worker=3, dashboard_address=":0") as other:
        second = made(n_shards=2, tol=1e-2, client=other).fit(X, y)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.objective_ == second.objective_


def test_sparse_rows_in_delayed_blocks_of_unequal_lengths(client, digits, local):
    X, y = sparse.csr_matrix(digits[0]), digits[1]
    cuts = [0, 20, 20, 200, 300]
    blocks = [dask.delayed(X[a:b]) for a, b in pairwise(cuts)]
    labels = [dask.delayed(y[a:b]) for a, b in pairwise(cuts)]
    assert_as_local(made(n_shards=2).fit(blocks, labels), local)


def test_the_workers_read_files(client, digits, local, tmp_path):
    X, y = digits
    for name, rows in (("a.h5", slice(0, 130)), ("b.h5", slice(130, 300))):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"], file["y"] = X[rows], y[rows]
    model = made(n_shards=3).fit([tmp_path / "a.h5", tmp_path / "b.h5"])
    assert_as_local(model, local)
    with pytest.raises(ValueError, match="labels and weights of their own"):
        made().fit([tmp_path / "a.h5"], y)


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("sample_weight", 7, -2.0, r"sample_weight: -2.0 in row 7 is not a weight; a weight is a finite number"),
        ("X", (4, 3), np.inf, "infinity"),
    ],
)
def test_files_with_values_that_are_refused(name, row, value, message, client, digits, tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"], file["sample_weight"] = digits[0].astype(float), digits[1], np.ones(len(digits[1]))
        file[name][row] = value
    with pytest.raises(ValueError, match=message):
        made().fit([tmp_path / "rows.h5"])


def test_two_classes_of_words_and_their_weights(client, digits):
    X, y = digits[0], np.where(digits[1] < 3, "few", "many")
    given = {"C": 0.05, "class_weight": "balanced", "loss": "squared_hinge", "fit_intercept": False}
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = made(n_shards=2, **given).fit(*arrays(X, y), da.from_array(weight, chunks=100))
    local = fastsvm.LinearSVC(tol=1e-6, random_state=0, **given).fit(X, y, weight)
    assert_as_local(model, local)
    assert model.classes_.tolist() == ["few", "many"] and model.intercept_.tolist() == [0.0]


def test_losses_of_all_classes(client, digits):
    model = made(multi_class="crammer_singer", n_shards=2, tol=1e-2).fit(*arrays(*digits))
    local = fastsvm.LinearSVC(multi_class="crammer_singer", C=0.05, tol=1e-3, random_state=0).fit(*digits)
    assert model.objective_ == pytest.approx(local.objective_, rel=1.2e-2)


def test_bad_input_is_said(client, digits):
    X, y = arrays(*digits)
    with pytest.raises(ValueError, match="needs y"):
        made().fit(X)
    with pytest.raises(ValueError, match="X has 300, y has 299"):
        made().fit(X, y[:299])
    with pytest.raises(ValueError, match="got 1 class"):
        made().fit(X, da.zeros(300, chunks=100))
    with pytest.raises(TypeError, match="X is ndarray"):
        made().fit(digits[0], digits[1])
    with pytest.raises(ValueError, match="'n_shards' parameter"):
        made(n_shards=0).fit(X, y)
    bad = digits[0].copy()
    bad[250, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        made(n_shards=2).fit(*arrays(bad, digits[1]))


def test_a_clone_and_a_pickle_have_no_client(client):
    model = made(client=client, C=3.0)
    assert clone(model).C == 3.0 and clone(model).client is None
    assert model.__getstate__()["client"] is None


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_standardised_over_all_shards(client, digits, kind, tmp_path):
    X, y = digits[0] * np.arange(64) ** 2 + 5, digits[1]
    X[:, 7] = 3.0
    X[:150] += 1  # the shards differ
    weight = np.random.default_rng(0).integers(0, 4, 300).astype(float)
    if kind == "csr":
        X = sparse.csr_matrix(np.where(X > 20, X, 0))
    local = fastsvm.LinearSVC(standardize=True, C=1e-3, tol=1e-7, random_state=0, max_iter=10_000).fit(X, y, weight)
    rows = da.from_array(X, chunks=(100, 64), asarray=False)
    model = fastsvm.dask.LinearSVC(standardize=True, tol=1e-2, C=1e-3, random_state=0, n_shards=2, client=client)
    model.fit(rows, da.from_array(y, chunks=100), da.from_array(weight, chunks=100))
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-2)
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.2)
    fastsvm.save(model.to_local(), tmp_path / "a.model")
    np.testing.assert_array_equal(fastsvm.load(tmp_path / "a.model").predict(X), model.predict(X))


def test_the_advice_of_a_fit_without_time_names_parameters_that_there_are(client, digits):
    with pytest.warns(Warning, match=r"\(max_time\).*What to try: raise max_time\.$"):
        made(max_time=1e-9, client=client).fit(*arrays(*digits))
