"""A saved model is the same model, whatever it was trained on."""

import json

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris

import fastsvm
from fastsvm import SVC, LinearSVC, LinearSVR
from fastsvm.files.array_file import read_arrays, write_arrays
from fastsvm.formats import convert


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.h5"


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "laplacian", "exponential"])
def test_round_trip_keeps_decisions_and_attributes(kernel, path):
    X, y = load_iris(return_X_y=True)
    model = SVC(kernel=kernel, C=3.0, class_weight={0: 2.0}).fit(X, y)
    fastsvm.save(model, path)
    again = fastsvm.load(path)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.get_params() == model.get_params()
    assert vars(again).keys() >= {key for key in vars(model) if key.endswith("_")}
    assert again.history_.keys() == model.history_.keys()
    assert again.stop_reason_ == "converged" and again.shape_fit_ == (150, 4)


def test_a_model_trained_on_sparse_rows_predicts_on_dense_ones_and_the_other_way(path):
    X, y = load_digits(return_X_y=True)
    for train, test in ((sparse.csr_matrix(X), X), (X.astype(np.uint8), sparse.csr_array(X))):
        model = SVC().fit(train, y)
        fastsvm.save(model, path)
        again = fastsvm.load(path)
        np.testing.assert_allclose(again.decision_function(test), model.decision_function(train), atol=1e-9)


def test_string_labels_and_feature_names_survive(path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    fastsvm.save(SVC().fit(X, names), path)
    again = fastsvm.load(path)
    assert set(again.predict(X)) == set(names)
    assert list(again.feature_names_in_) == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(pd.DataFrame(X.to_numpy(), columns=list("abcd")))


def test_what_the_text_of_the_fit_called_its_features_survives(path, tmp_path):
    (tmp_path / "rows.txt").write_text("1 0:1 1:2\n-1 1:1\n1 0:2\n-1 2:1\n")
    convert(tmp_path / "rows.txt", tmp_path / "rows.h5")
    with fastsvm.open_hdf5(tmp_path / "rows.h5") as data:
        model = LinearSVC().fit(data)
    fastsvm.save(model, path)
    with fastsvm.open_hdf5(tmp_path / "rows.h5") as data:
        fastsvm.load(path).predict(data)
    convert(tmp_path / "rows.txt", tmp_path / "rows.h5", dense=True)
    with h5py.File(tmp_path / "rows.h5", "a") as file:
        file["X"].attrs.update({"first_index": 1, "first_index_sure": 0})
    with fastsvm.open_hdf5(tmp_path / "rows.h5") as data, pytest.raises(ValueError, match="has the index 0, that of X"):
        fastsvm.load(path).predict(data)
    model.fit([[0.0], [1.0]], [0, 1])  # to an array, which has no indices
    with fastsvm.open_hdf5(tmp_path / "rows.h5") as data, pytest.raises(ValueError, match="3 features"):
        model.predict(data)
    header, arrays = read_arrays(path)
    for forged in (
        [2, True, None],
        [0, True, None, 3],
        [0, True, None, "a", "b"],
        [0, "yes", None],
        [0, True, 3],
        [0],
        7,
    ):
        write_arrays(path, json.dumps(header | {"origin": forged}), arrays)
        with pytest.raises(ValueError, match="is damaged, or was not written by fastsvm"):
            fastsvm.load(path)


def test_precomputed_kernel_survives(path):
    X, y = load_iris(return_X_y=True)
    model = SVC(kernel="precomputed").fit(X @ X.T, y)
    fastsvm.save(model, path)
    np.testing.assert_array_equal(fastsvm.load(path).predict(X @ X.T), model.predict(X @ X.T))


def test_what_cannot_be_stored_is_refused_and_leaves_the_old_file(path):
    X, y = load_iris(return_X_y=True)
    fastsvm.save(SVC().fit(X, y), path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="only be pickled"):
        fastsvm.save(SVC(kernel=lambda a, b: a @ b.T).fit(X, y), path)
    with pytest.raises(ValueError, match="not fitted"):
        fastsvm.save(SVC(), path)
    with pytest.raises(FileNotFoundError, match="no folder"):
        fastsvm.save(SVC().fit(X, y), path.parent / "missing" / "model.h5")
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["model.h5"]


def test_files_that_are_no_models_are_refused(path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"model\.h5"):
        fastsvm.load(path)
    path.write_text("not HDF5")
    with pytest.raises(ValueError, match="not a model file"):
        fastsvm.load(path)
    with h5py.File(path, "w") as file:
        file["X"] = [1]
    with pytest.raises(ValueError, match="not a model file"):
        fastsvm.load(path)


def test_truncated_files_and_those_of_other_versions_are_refused(path):
    X, y = load_iris(return_X_y=True)
    fastsvm.save(SVC().fit(X, y), path)
    whole = path.read_bytes()
    for length in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged"):
            fastsvm.load(path)
    path.write_bytes(whole)
    header, arrays = read_arrays(path)
    for version in (1, 99):
        write_arrays(path, json.dumps(header | {"version": version}), arrays)
        with pytest.raises(ValueError, match=f"format {version}; this fastsvm reads format 2. Install the"):
            fastsvm.load(path)


@pytest.mark.parametrize("model", [
    LinearSVC(tol=1e-2),
    LinearSVC(tol=1e-2, C=0.01, multi_class="weston_watkins", standardize=True),
    LinearSVR(tol=1e-2, epsilon=0.1, warm_start=True),
])  # fmt: skip
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_linear_models_are_the_same_after_a_round_trip(layout, model, path):
    X, y = load_iris(return_X_y=True)
    model.set_params(random_state=0).fit(layout(X), y)
    fastsvm.save(model, path)
    again = fastsvm.load(path)
    np.testing.assert_array_equal(again.predict(layout(X)), model.predict(layout(X)))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.get_params() == model.get_params()
    assert vars(again).keys() >= {key for key in vars(model) if key.endswith("_")}
    assert again.stop_reason_ == "converged" and again.objective_ == model.objective_
    refitted = again.fit(layout(X), y)
    assert refitted.converged_
    assert refitted.objective_ == pytest.approx(model.objective_, rel=2e-2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", ["LinearSVC", "LinearSVR", "SGDClassifier", "LinearOneClassSVM", "NystroemSVC", "NystroemSVR"]
)
def test_sparse_weights_are_saved_and_become_dense_again(name, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] > 0).astype(int)
    model = getattr(fastsvm, name)(random_state=0).fit(X, y)
    coef, predicted = model.coef_, model.predict(X)
    fastsvm.save(model.sparsify(), tmp_path / "model")
    loaded = fastsvm.load(tmp_path / "model")
    assert sparse.issparse(model.coef_) and sparse.issparse(loaded.coef_)
    np.testing.assert_array_equal(loaded.predict(X), predicted)
    np.testing.assert_array_equal(loaded.densify().coef_, coef)
