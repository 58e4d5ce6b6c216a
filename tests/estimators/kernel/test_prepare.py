"""The memory of a fit does not change its model."""

import h5py
import numpy as np
import pytest
from sklearn import svm
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from fastsvm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, open_hdf5


@pytest.fixture(scope="module")
def many_fitted(many):
    return svm.SVC(gamma=0.1, tol=1e-6, cache_size=500).fit(*many)


@pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled"])
def test_more_rows_than_a_working_set(order, many, many_fitted):
    X, y = many
    place = {"sorted": np.arange(len(X)), "reversed": np.arange(len(X))[::-1]}.get(order)
    place = np.random.default_rng(0).permutation(len(X)) if place is None else place
    found = SVC(gamma=0.1, tol=1e-6).fit(X[place], y[place])
    assert found.converged_
    np.testing.assert_allclose(found.decision_function(X), many_fitted.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("memory", ["2MB", "4MB", "10MB"])
def test_little_memory(memory, many, many_fitted):
    found = SVC(gamma=0.1, tol=1e-6, memory=memory).fit(*many)
    assert found.converged_
    np.testing.assert_allclose(found.decision_function(many[0]), many_fitted.decision_function(many[0]), atol=1e-5)


def test_streaming_gives_the_model_of_rows_in_memory(tmp_path, many, many_fitted):
    X, y = many
    with h5py.File(tmp_path / "wide.h5", "w") as file:  # features of zeros, so that rows outgrow the memory
        file.create_dataset("X", data=np.hstack([X, np.zeros((len(X), 994))]), chunks=(64, 1000))
        file["y"] = y
    with open_hdf5(tmp_path / "wide.h5") as data:
        model = SVC(gamma=0.1, tol=1e-6, memory="16MB").fit(data)
        assert model.passes_ > 2
        assert model.history_["bytes_read"][-1] > 2 * data.X.nbytes
        found = model.decision_function(data)
    assert model.converged_
    np.testing.assert_allclose(found, many_fitted.decision_function(X), atol=1e-5)


@pytest.mark.parametrize(
    "machine",
    [SVC(C=10), SVC(C=10, solver="coordinate"), NuSVC(nu=0.3), SVR(C=10), NuSVR(C=10, nu=0.3), OneClassSVM(nu=0.1)],
    ids=lambda machine: type(machine).__name__ + machine.get_params().get("solver", ""),
)
def test_a_precomputed_matrix_of_more_samples_than_are_solved_at_once(machine, choose):
    choose(kernel={"few_rows": 200, "block_rows": 300, "working_set": 100})
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=700) > 0, 1, -1)
    machine.set_params(kernel="precomputed", tol=1e-6).fit(rbf_kernel(X, gamma=0.2), y)
    same = clone(machine).set_params(kernel="rbf", gamma=0.2).fit(X, y)
    assert machine.objective_ == pytest.approx(same.objective_, rel=1e-7)
    if isinstance(machine, SVC):
        assert np.mean(machine.predict(rbf_kernel(X, gamma=0.2)) == same.predict(X)) > 0.998
