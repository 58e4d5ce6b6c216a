"""A linear SVM is the same however its samples are passed, and names values that are not finite."""

import functools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from linear_svms import LOSSES, assert_same, data_of, made, objectives
from scipy import sparse
from sklearn.exceptions import NotFittedError

from fastsvm import (
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    SGDClassifier,
    SGDRegressor,
)
from fastsvm._compiled.threads import at_most
from fastsvm.solvers.linear_dual.dense_epochs import DenseEpochs
from fastsvm.solvers.linear_dual.epochs import SparseEpochs
from fastsvm.sources import ScaledSource, SubsetSource, as_source


@pytest.fixture(scope="module")
def whole():
    """Return 130 rows of three classes, of whole numbers from 0 to 8, so that all types hold them."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, 130)
    return np.clip(np.round(rng.normal(2, 1.5, (130, 6)) + 2 * np.eye(6)[y]), 0, 8), y


TYPES = [np.uint8, np.int16, np.int64, np.float16, np.float32, bool]


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_any_type(dtype, layout, whole, name="hinge"):
    if dtype is np.float16 and layout is sparse.csr_array:
        pytest.skip("SciPy has no sparse arrays of float16")
    X, y = whole
    X = (X > 2).astype(float) if dtype is bool else X
    parameters = {"C": 0.01, "tol": 1e-6}
    wanted = made(name, **parameters).fit(X, y)
    model = made(name, **parameters).fit(layout(X.astype(dtype)), y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-2)


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


FORMS = {
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1].copy()[::-1],
    "read only": read_only,
    "source": as_source,
    "DataFrame": pd.DataFrame,
    "CSR matrix": sparse.csr_matrix,
    "CSR of int64": lambda X: sparse.csr_array(
        (X.ravel(), np.tile(np.arange(6), 130), np.arange(0, 781, 6)), shape=X.shape
    ),
    "CSC": sparse.csc_array,
    "COO": sparse.coo_array,
    "standardised": lambda X: ScaledSource(as_source(2 * X + 5), np.full(6, 5.0), np.full(6, 0.5), np.float64),
    "subset": lambda X: SubsetSource(as_source(np.repeat(X, 2, axis=0)), np.arange(0, 260, 2)),
}


@pytest.fixture(scope="module")
def fitted(whole):
    """Return a function that fits to the rows as an array, to each name once."""
    return functools.cache(lambda name: made(name, C=0.01, tol=1e-6).fit(*whole))


@pytest.mark.parametrize(("form", "name"), [(form, ["hinge", "weston_watkins"][i % 2]) for i, form in enumerate(FORMS)])
def test_rows_in_any_form(name, form, whole, fitted):
    X, y = whole
    wanted, rows = fitted(name), FORMS[form](X)
    model = made(name, C=0.01, tol=1e-6).fit(rows, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-2)
    if form in ("list", "Fortran order", "not contiguous", "reversed", "read only", "source", "DataFrame"):
        assert_same(model, wanted)


KINDS = ["dense", "CSR", "uint8", "float32", "subset", "scaled", "standardize"]


@pytest.mark.parametrize(("kind", "memory"), [(kind, (8000, 20_000)[i % 2]) for i, kind in enumerate(KINDS)])
def test_rows_in_a_file(kind, memory, whole, stored):
    """Of files that memory holds, `test_array_and_file.py` compares the bits."""
    X, y = whole
    parameters = {"C": 0.003, "tol": 1e-6}
    rows = {"CSR": sparse.csr_array(X), "uint8": X.astype(np.uint8), "float32": X.astype(np.float32)}.get(kind, X)
    if kind == "subset":
        rows = np.vstack([X, X])
    data = stored(rows)
    source = data
    if kind == "subset":
        source = data.X.take(np.arange(130) * 2 % 130 + np.repeat([0, 130], 65))
        y = y[np.arange(130) * 2 % 130]
        X = X[np.arange(130) * 2 % 130]
    if kind == "scaled":
        X, source = (X - 2) / 3, ScaledSource(data.X, np.full(6, 2.0), np.full(6, 1 / 3), np.float64)
    parameters["standardize"] = kind == "standardize"
    wanted = made("hinge", **parameters).fit(X, y)
    model = made("hinge", memory=memory, **parameters).fit(source, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-6)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_do_not_fit_in_memory(name, request, stored):
    X, y = (part[:80] for part in data_of(name, request))
    given = {"C": 0.02, "tol": 1e-5}
    wanted = made(name, **given).fit(X, y)
    data = stored(X, y)
    model = made(name, memory=4000, **given).fit(data)
    assert model.converged_
    assert model.objective_ == pytest.approx(wanted.objective_, rel=2e-5)
    assert model.objective_ == pytest.approx(objectives(name, model, X, y).sum(), rel=1e-9)
    assert model.history_["bytes_read"][-1] >= model.n_iter_ * X.nbytes


BAD_ROWS = ["dense", "CSR", "wide CSR", "file", "CSR file", "streamed", "large"]
BAD_VALUES = [
    (["squared_hinge", "crammer_singer", "epsilon_insensitive"][(i + j) % 3], layout, bad)
    for i, layout in enumerate(BAD_ROWS)
    for j, bad in enumerate((np.nan, np.inf, -np.inf))
] + [("crammer_singer", "float32", bad) for bad in (np.nan, np.inf, -np.inf)]


@pytest.mark.parametrize(("name", "layout", "bad"), BAD_VALUES)
def test_rows_that_are_not_finite_are_named(name, layout, bad, request, stored, monkeypatch):
    X, y = data_of(name, request)
    X = X.copy()
    X[87, 3] = bad
    memory = 8000 if layout == "streamed" else "auto"
    if layout == "large":
        request.getfixturevalue("unmerged")
    if layout == "float32":
        X = X.astype(np.float32)
    if "CSR" in layout:
        X = sparse.csr_array(X)
    if layout == "wide CSR":
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(120, 200))
    if "file" in layout or layout == "streamed":
        X = stored(X)
    model = made(name, memory=memory)
    for weight in (None, (np.arange(120) != 87) * 1.0):  # rows that are not learnt from must be finite too
        with pytest.raises(ValueError, match="row 87") as error:
            model.fit(X, y, sample_weight=weight)
        assert "NaN" in str(error.value) or "infinity" in str(error.value)
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((1, 5)))


@pytest.mark.parametrize("layout", ["dense", "CSR", "file"])
def test_values_that_overflow_are_refused(layout, two, stored):
    X, y = two
    X = X.astype(np.float32) if layout == "file" else X.copy()
    X[7, 2] = 1e30 if layout == "file" else 1e200  # whose steps are in float64
    rows = {"dense": X, "CSR": sparse.csr_array(X)}.get(layout)
    rows = stored(X) if rows is None else rows
    with pytest.raises(ValueError, match=r"too large.*standardize"):
        made("hinge", memory=4000).fit(rows, y)  # which does not hold a file


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_file_that_is_closed_in_the_middle(layout, three, stored, monkeypatch):
    X, y = three
    data = stored(layout(X), y)
    visit, count = DenseEpochs.process if layout is np.asarray else SparseEpochs.process, iter(range(1000))

    def closing(*arguments):
        if next(count) == 20:
            data.close()
        return visit(*arguments)

    monkeypatch.setattr(DenseEpochs if layout is np.asarray else SparseEpochs, "process", closing)
    with pytest.raises((ValueError, OSError), match=r"closed|\.h5"):
        made("hinge", memory=6000).fit(data)


def test_the_number_of_threads_does_not_change_a_bit(stored):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1000)
    X = np.clip(np.round(rng.normal(4, 2, (1000, 70)) + 2 * np.eye(70)[y]), 0, 9)
    wide = sparse.csr_array(X * (rng.random(X.shape) < 0.2))
    data = stored(X.astype(np.float32), y)
    parameters = {"C": 1e-3, "loss": "hinge", "tol": 1e-2, "random_state": 0, "window_visits": 1}
    for rows, name in ((X, "ovr"), (X, "weston_watkins"), (X.astype(np.uint8), "ovr"), (wide, "ovr"), (data, "ovr")):
        memory, found = 100_000 if rows is data else "1GB", []
        for n_threads in (1, 2):
            with at_most(n_threads):
                model = LinearSVC(multi_class=name, memory=memory, **parameters)
                found.append(model.fit(rows, y))
        assert_same(*found)
        assert found[0].objective_ == found[1].objective_


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_file_that_is_cut_off_in_the_middle(layout, tmp_path, stored, monkeypatch, choose):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 50)), rng.integers(0, 2, 4000)
    data = stored(layout(X))
    path = tmp_path / "0.h5"
    choose(storage={"block_bytes": 10_000})
    source = as_source(data.X.node)  # of the new block size
    visit, count = DenseEpochs.process if layout is np.asarray else SparseEpochs.process, iter(range(10**6))

    def cutting(*arguments):
        if next(count) == 3:
            with path.open("r+b") as file:
                file.truncate(200_000)
        return visit(*arguments)

    monkeypatch.setattr(DenseEpochs if layout is np.asarray else SparseEpochs, "process", cutting)
    with pytest.raises((OSError, ValueError), match=r"0\.h5 changed"):
        made("hinge", memory=200_000, max_iter=3).fit(source, y)


WIDE = sparse.csr_matrix((np.ones(4), [0, 5, 7, 1_999_999_999], np.arange(5)), shape=(4, 2_000_000_000))
MACHINES = LinearSVC, LinearSVR, LogisticRegression, LinearOneClassSVM, SGDClassifier, SGDRegressor


@pytest.mark.parametrize("method", ["fit", "standardized", "partial_fit"])
@pytest.mark.parametrize("machine", MACHINES)
def test_weights_beyond_the_memory_are_refused_before_they_are_there(machine, method):
    model = machine(memory="1GB", standardize=method == "standardized")
    learn = getattr(model, method.replace("standardized", "fit"), None)
    if learn is None:
        pytest.skip("there are no partial fits")
    given = {"classes": [0, 1]} if method == "partial_fit" and machine is SGDClassifier else {}
    tracemalloc.start()
    try:
        with pytest.raises(
            ValueError, match=r"X has 2,000,000,000 features, .* would take \d+ GB, and memory allows 1 GB"
        ):
            learn(WIDE, [0, 1, 0, 1], **given)
        assert tracemalloc.get_traced_memory()[1] < 1e8
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("machine", [LinearSVC, LogisticRegression, SGDClassifier])
def test_the_weights_of_all_scores_count(machine):
    X = sparse.random(40, 20_000, 0.01, "csr", random_state=0)
    model = machine(memory=500_000, max_iter=100)
    model.fit(X, np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"of 4 scores would take 0\.\d+ GB, and memory allows 0\.0005 GB"):
        model.fit(X, np.arange(40) % 4)
