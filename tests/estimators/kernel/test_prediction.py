"""Fits and predictions are the same for samples in any form."""

import copy
import gc
import pickle
import weakref

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from kernel_machines import same
from scipy import sparse

from fastsvm import SVC, open_hdf5
from fastsvm.estimators.kernel import prediction
from fastsvm.sources import ScaledSource, as_source


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return whole numbers, labels, and a file that holds them densely and sparsely."""
    rng = np.random.default_rng(9)
    X = rng.integers(0, 9, (180, 7)).astype(np.float32)
    X[rng.random(X.shape) < 0.4] = 0
    y = (X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=180) > 2).astype(int) + (X[:, 3] > 6)
    path = tmp_path_factory.mktemp("svc") / "data.h5"
    S = sparse.csr_matrix(X)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(16, 7), compression="gzip")
        file["y"] = y
        group = file.create_group("S")
        write_csr(group, S)
    with open_hdf5(path) as data:
        yield X, y, data


FORMS = {
    "list": lambda X, data: X.tolist(),
    "float64": lambda X, data: X.astype(float),
    "float32": lambda X, data: X,
    "float16": lambda X, data: X.astype(np.float16),
    "uint8": lambda X, data: X.astype(np.uint8),
    "int64": lambda X, data: X.astype(np.int64),
    "Fortran": lambda X, data: np.asfortranarray(X),
    "not contiguous": lambda X, data: np.repeat(X, 2, axis=1)[:, ::2],
    "csr_matrix": lambda X, data: sparse.csr_matrix(X),
    "csr_array": lambda X, data: sparse.csr_array(X.astype(float)),
    "csc_matrix": lambda X, data: sparse.csc_matrix(X),
    "HDF5Data": lambda X, data: data,
    "Dataset": lambda X, data: data._file["X"],
    "Group": lambda X, data: data._file["S"],
    "Source": lambda X, data: data.X,
    "subset": lambda X, data: data.X.take(np.arange(180)),
    "scaled": lambda X, data: ScaledSource(as_source(2 * X + 1), np.ones(7), 0.5),
    "scaled file": lambda X, data: ScaledSource(data.X, None, 1.0),
}


@pytest.mark.parametrize(
    ("kernel", "form"), [(("rbf", "poly", "laplacian")[i % 3], form) for i, form in enumerate(FORMS)]
)
def test_every_form_of_rows_gives_the_same_model(kernel, form, stored):
    X, y, data = stored
    parameters = {"kernel": kernel, "gamma": 0.02, "coef0": 1.0, "tol": 1e-9}
    wanted = SVC(**parameters).fit(X.astype(float), y)
    found = SVC(**parameters).fit(FORMS[form](X, data), y)
    same(found, wanted, X)
    np.testing.assert_array_equal(found.support_, wanted.support_)


TRAINED = ["float64", "uint8", "csr_matrix", "HDF5Data", "Group"]


@pytest.fixture(scope="module")
def trained(stored):
    X, y, data = stored
    return {form: SVC(gamma=0.02, tol=1e-6).fit(FORMS[form](X, data), y) for form in TRAINED}


@pytest.mark.parametrize(
    ("form", "other"),
    [(form, other) for i, form in enumerate(TRAINED) for j, other in enumerate(FORMS) if i < 3 or (i + j) % 6 == 0],
)
def test_a_model_predicts_on_rows_of_any_form(form, other, stored, trained):
    X, _, data = stored
    wanted = trained[form].decision_function(X)
    np.testing.assert_allclose(trained[form].decision_function(FORMS[other](X, data)), wanted, atol=1e-9)


def test_labels_and_weights_come_with_the_data(tmp_path, overlapping):
    X, y = overlapping
    weight = np.random.default_rng(0).uniform(0, 2, len(y))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"], file["sample_weight"] = X, y, weight
    with open_hdf5(tmp_path / "data.h5") as data:
        found = SVC(tol=1e-9).fit(data)
        same(found, SVC(tol=1e-9).fit(X, y, weight), X)
        assert found.score(data) == found.score(X, y)
        same(SVC(tol=1e-9).fit(data, y, np.ones(len(y))), SVC(tol=1e-9).fit(X, y), X)


def test_datasets_as_labels(stored):
    X, y, data = stored
    same(SVC(tol=1e-9).fit(data._file["X"], data._file["y"]), SVC(tol=1e-9).fit(X, y), X)


def test_repeated_sparse_entries_of_small_integers_are_summed_whole():
    data, place = np.array([200, 100, 1], np.uint8), np.array([0, 0, 1])
    X = sparse.csr_matrix((data, place, [0, 2, 3]), shape=(2, 2))
    np.testing.assert_array_equal(as_source(X).rows(np.arange(2)).dense(np.float64), [[300, 0], [0, 1]])


# --- what a model keeps for its predictions ------------------------------------------------------------------


@pytest.fixture(params=["dense", "sparse"])
def served(stored, request):
    """A model that has predicted, and rows."""
    X, y, _ = stored
    X = sparse.csr_matrix(X) if request.param == "sparse" else X
    model = SVC().fit(X, y)
    model.decision_function(X[:1])
    return model, X


def test_a_model_that_predicted_gives_the_bits_of_a_new_one(served):
    model, X = served
    wanted = pickle.loads(pickle.dumps(model)).decision_function(X)
    np.testing.assert_array_equal(model.decision_function(X), wanted)
    for i in range(5):
        np.testing.assert_array_equal(model.decision_function(X[i : i + 1]), wanted[i : i + 1])


@pytest.mark.parametrize("name", ["dual_coef_", "support_vectors_", "intercept_"])
def test_an_attribute_that_was_replaced_is_used(served, name):
    model, X = served
    setattr(model, name, 2 * getattr(model, name))
    found, wanted = model.decision_function(X[:3]), pickle.loads(pickle.dumps(model)).decision_function(X[:3])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["dual_coef_", "support_vectors_"])
def test_what_is_kept_cannot_be_changed_in_place(served, name):
    matrix = getattr(served[0], name)
    for array in (matrix.data, matrix.indices, matrix.indptr) if sparse.issparse(matrix) else (matrix,):
        with pytest.raises(ValueError, match="read-only"):
            array[..., 0] = 1


def test_what_is_kept_ends_with_the_model(served):
    model, X = served
    key = id(model.support_)
    assert key in prediction._KEPT
    copied = copy.deepcopy(model)
    copied.predict(X[:1])
    assert id(copied.support_) in prediction._KEPT
    vectors = weakref.ref(copied.support_vectors_)
    del copied
    gc.collect()
    assert vectors() is None


def test_a_model_with_little_memory_keeps_nothing(stored):
    X, y, _ = stored
    model = SVC(memory="14MB").fit(np.tile(X, 150), y)
    model.predict(np.tile(X[:1], 150))
    assert id(model.support_) not in prediction._KEPT
