"""SVC on a cluster: pairs of classes are tasks, and the answer is that of the local machine."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

import fastsvm
import fastsvm.dask
from fastsvm.dask.tasks import Tasks

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.uint8), np.array(["cat", "dog", "elk", "fox"])[y[:600] % 4]


def blocks(X, *columns):
    return [da.from_array(one, chunks=(150, *one.shape[1:]), asarray=False) for one in (X, *columns)]


@pytest.mark.parametrize("n_shards", [1, 3])
def test_two_classes_have_the_bits_of_the_local_machine(client, digits, n_shards):
    X, y = digits[0], digits[1] > "dog"
    model = fastsvm.dask.SVC(C=3.0, gamma=2e-3, n_shards=n_shards, client=client).fit(*blocks(X, y))
    local = fastsvm.SVC(C=3.0, gamma=2e-3).fit(X, y)
    for name in ("objective_", "duality_gap_", "kkt_violation_", "stop_reason_", "passes_"):
        assert getattr(model, name) == getattr(local, name)
    for name in ("support_", "support_vectors_", "dual_coef_", "intercept_", "n_support_", "within_margin_", "n_iter_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(local, name))
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(("kind", "standardize"), [("bytes", False), ("floats", True), ("csr", True)])
def test_pairs_are_those_of_the_local_machine(client, digits, kind, standardize, tmp_path):
    X, y = digits
    X = {"bytes": X, "floats": X.astype(float), "csr": sparse.csr_matrix(X.astype(float))}[kind]
    weight = np.arange(600) % 3 * 1.0  # some are left out
    given = {"C": 2.0, "tol": 1e-5, "class_weight": {"dog": 2.0}, "standardize": standardize}
    model = fastsvm.dask.SVC(n_shards=3, client=client, **given).fit(*blocks(X, y, weight))
    local = fastsvm.SVC(**given).fit(X, y, weight)
    assert model.converged_ and model.objective_ == pytest.approx(local.objective_, rel=1e-5)
    assert 0 <= model.duality_gap_ <= 1e-3 * model.objective_ and model.kkt_violation_ <= 1e-5
    assert type(model.support_vectors_) is type(local.support_vectors_)
    assert model.support_vectors_.dtype == X.dtype and model.shape_fit_ == (600, 64) and len(model.n_iter_) == 6
    assert set(model.history_["problem"]) == set(range(6))
    np.testing.assert_array_equal((model.support_vectors_ != X[model.support_]).sum(), 0)
    np.testing.assert_array_equal(model.class_weight_, local.class_weight_)
    there = model.to_local()
    fastsvm.save(there, tmp_path / "a.model")
    again = fastsvm.load(tmp_path / "a.model")
    np.testing.assert_allclose(again.decision_function(X), local.decision_function(X), atol=1e-3)
    predicted = model.predict(blocks(X)[0]).compute()
    np.testing.assert_array_equal(predicted, local.predict(X))
    assert model.score(*blocks(X, y)) == local.score(X, y)


def test_no_pair_begins_after_the_time_limit(client, digits):
    with pytest.warns(Warning, match=r"stopped before it converged \(max_time\)"):
        model = fastsvm.dask.SVC(max_time=1e-9, client=client).fit(*blocks(*digits))
    assert not model.converged_ and len(model.support_) == 0 and model.duality_gap_ == np.inf
    assert model.decision_function(digits[0]).shape == (600, 4)


def test_pairs_that_do_not_fit_on_a_worker_are_named(client, digits, monkeypatch):
    X, y = digits
    n = np.isin(y, ["cat", "dog"]).sum()
    monkeypatch.setattr(Tasks, "least_memory", lambda self: 4 * n * 64 - 4)
    with pytest.raises(ValueError, match=rf"The {n} samples of the classes 'cat' and 'dog' do not fit on a worker"):
        fastsvm.dask.SVC(client=client).fit(*blocks(X, y))
    monkeypatch.setattr(Tasks, "least_memory", lambda self: 4 * n * 64 + 2000)
    found = fastsvm.dask.SVC(client=client).fit(*blocks(X, y))  # one pair at a time
    assert found.converged_ and found.score(*blocks(X, y)) > 0.95


def test_what_is_refused(client, digits):
    rows = blocks(*digits)
    for given, words in (
        ({"kernel": "precomputed"}, "take fastsvm.SVC"),
        ({"C": -1}, "'C' parameter"),
        ({"n_shards": 0}, "'n_shards' parameter"),
        ({"memory": "much"}, "memory"),
    ):
        with pytest.raises(ValueError, match=words):
            clone(fastsvm.dask.SVC(client=client, **given)).fit(*rows)
