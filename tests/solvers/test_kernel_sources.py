"""Every solver of SVC gives the same model, wherever rows are and however little memory there is."""

import functools

import h5py
import numpy as np
import pandas as pd
import pytest
from csr_group import write_csr
from kernel_fits import RATES, every, exact, fit, same
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from fastsvm import kernels, open_hdf5
from fastsvm.sources import ScaledSource, as_source


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return whole numbers, labels, and a file that holds them densely and sparsely."""
    rng = np.random.default_rng(9)
    X = rng.integers(0, 9, (160, 7)).astype(np.float32)
    X[rng.random(X.shape) < 0.4] = 0
    y = (X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=160) > 2).astype(int)
    path, S = tmp_path_factory.mktemp("solvers") / "data.h5", sparse.csr_matrix(X)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(16, 7), compression="gzip")
        file["y"] = y
        group = file.create_group("S")
        write_csr(group, S)
    with open_hdf5(path) as data:
        yield X, y, data


STREAMED = ["smo", "coordinate", "primal", "coordinate, rate", "primal, rate"]
"""One solver for each way to ask for kernel rows; intercepts and orders ask for no others."""

FORMS = {
    "float32": lambda X, data: X,
    "uint8": lambda X, data: X.astype(np.uint8),
    "csr": lambda X, data: sparse.csr_array(X),
    "file": lambda X, data: data.X,
    "sparse file": lambda X, data: data._file["S"],
    "scaled": lambda X, data: ScaledSource(as_source(2 * X + 1), np.ones(7), 0.5),
    "frame": lambda X, data: pd.DataFrame(X),
}


@pytest.fixture(scope="module")
def plain(stored):
    """Return a function that returns the model of each solver, of an array of float64."""
    X, y, _ = stored
    return functools.cache(lambda name: fit(name, X.astype(float), y, gamma=0.02))


@pytest.mark.parametrize("form", FORMS)
@every
def test_every_form_of_rows_gives_the_same_model(name, form, stored, plain):
    X, y, data = stored
    rows = FORMS[form](X, data)
    wanted = plain(name)
    found = fit(name, rows, y, gamma=0.02)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_array_equal(found.support_, wanted.support_)
    np.testing.assert_allclose(found.decision_function(rows), wanted.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("name", STREAMED)
def test_streaming_gives_the_model_of_rows_in_memory(name, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=400) > 0.7).astype(int)
    with h5py.File(tmp_path / "wide.h5", "w") as file:  # features of zeros, so that rows outgrow the memory
        file.create_dataset("X", data=np.hstack([X, np.zeros((400, 995))]), chunks=(64, 1000))
        file["y"] = y
    few = {"max_iter": 5} if name in RATES else {"tol": 1e-5}
    wanted = fit(name, X, y, **few)
    with open_hdf5(tmp_path / "wide.h5") as data:
        found = fit(name, data, data.y, memory="7MB", **few)
        assert found.history_["bytes_read"][-1] > data.X.nbytes
        np.testing.assert_allclose(found.decision_function(data.X), wanted.decision_function(X), atol=1e-3)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)


@every
def test_little_memory_gives_the_same_model(name):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=900) > 0.7).astype(int)
    few = {"max_iter": 5} if name in RATES else {"tol": 1e-5}
    same(fit(name, X, y, memory="3MB", **few), fit(name, X, y, **few), X, atol=1e-3)


@every
def test_kernels_in_other_words_give_the_same_model(name, overlapping):
    X, y = overlapping
    wanted = fit(name, X, y)
    K = rbf_kernel(X, gamma=0.3)
    same(fit(name, X, y, kernel=kernels.RBF(0.3), gamma=9.0), wanted, X)
    same(fit(name, X, y, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)), wanted, X)
    found = fit(name, K, y, kernel="precomputed")
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(K), wanted.decision_function(X), atol=1e-4)


@exact
def test_weights_of_the_linear_kernel(name, overlapping):
    X, y = overlapping
    found = fit(name, X, y, kernel="linear", tol=1e-6)
    np.testing.assert_allclose(X @ found.coef_[0] + found.intercept_, found.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("name", ["coordinate", "coordinate, rate", "primal"])
def test_repeated_rows_of_bytes(name):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, (40, 64), np.uint8)
    kind = rng.integers(0, 40, 200)
    y = (kinds[kind][:, :9].sum(axis=1) + rng.normal(size=200) > 4.5).astype(int)
    X = kinds[kind]
    found, wanted = (fit(name, rows, y, gamma=0.05, tol=1e-5) for rows in (X, X.astype(float)))
    same(found, wanted, X, atol=1e-3)
    margins = np.where(y == 1, 1, -1) * (found.decision_function(X) - found.intercept_ * (found.solver != "primal"))
    clear = np.abs(margins - 1) > 1e-3
    if found.converged_:
        np.testing.assert_array_equal(np.isin(np.arange(200), found.within_margin_)[clear], (margins < 1)[clear])
