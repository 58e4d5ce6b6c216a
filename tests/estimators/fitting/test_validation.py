"""Names of the features of samples on disk."""

import re
import tracemalloc

import h5py
import numpy as np
import pandas as pd
import pytest
from csr_group import write_csr
from scipy import sparse
from sklearn.base import clone

import fastsvm
from fastsvm import SVC, SVR, LinearSVC, LinearSVR, NuSVR, NystroemSVR, OneClassSVM, SGDClassifier, SVCSearch, open_hdf5

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def named(tmp_path):
    """Return a function that opens a file whose features have these names."""
    opened = []

    def put(*names):
        path = tmp_path / f"{len(opened)}.h5"
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, Y
            if names:
                file["feature_names"] = list(names)
        opened.append(open_hdf5(path))
        return opened[-1]

    yield put
    for data in opened:
        data.close()


@pytest.mark.parametrize("model", [fastsvm.SVC(), LinearSVC(), SGDClassifier(max_iter=3, tol=None)], ids=str)
def test_they_are_kept_and_checked(model, named, tmp_path):
    model.fit(named("a", "b"))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    fastsvm.save(model, tmp_path / "model")
    model = fastsvm.load(tmp_path / "model")
    wanted = model.predict(named("a", "b"))
    rows = named("a", "b").X
    for same in (named(), rows, rows.take(np.arange(40)), pd.DataFrame(X, columns=["a", "b"])):
        np.testing.assert_array_equal(model.predict(same), wanted)
    with pytest.raises(ValueError, match=r"Feature 1 is 'c', in the fit it was 'b'\.$"):
        model.predict(named("a", "c"))
    for call in (model.predict, model.decision_function, lambda data: model.score(data)):
        with pytest.raises(ValueError, match=r"Feature 0 is 'b', in the fit it was 'a'\. Their order must be the same"):
            call(named("b", "a"))
    model.fit(named())
    assert not hasattr(model, "feature_names_in_")


def test_they_are_those_of_a_data_frame(named):
    model = LinearSVC().fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    model.predict(named("a", "b"))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(named("b", "a"))


def test_a_search_keeps_them(named):
    search = SVCSearch(fastsvm.SVC(), {"C": [1, 10]}, cv=3).fit(named("a", "b"))
    assert search.feature_names_in_.tolist() == search.best_estimator_.feature_names_in_.tolist() == ["a", "b"]


def test_names_that_do_not_fit(named, tmp_path):
    with pytest.raises(ValueError, match=r"feature_names in .* must have shape \(2,\), one entry for each column of X"):
        named("a", "b", "c")
    with h5py.File(tmp_path / "numbers.h5", "w") as file:
        file["X"], file["feature_names"] = X, [1, 2]
    with pytest.raises(ValueError, match=r"feature_names in .* must be strings, they are int64"):
        open_hdf5(tmp_path / "numbers.h5")


def test_a_column_of_words_is_named():
    X = pd.DataFrame({"a": np.arange(6.0), "colour": ["1", "2.5", "red"] * 2})
    for typed in (X, X.astype({"colour": object}), X.astype({"colour": "category"})):
        with pytest.raises(ValueError, match="Column 'colour' of X holds 'red' at row 2: could not convert"):
            OneClassSVM().fit(typed)


@pytest.mark.parametrize("machine", [SVR, NuSVR, LinearSVR])
def test_targets_whose_differences_overflow(machine):
    with pytest.raises(ValueError, match=r"targets range from -1e\+308 to 1e\+308, so that their differences overflow"):
        machine().fit(np.eye(4), [1e308, -1e308, 1.0, 2.0])


@pytest.mark.parametrize("machine", [LinearSVR, NystroemSVR])
def test_targets_whose_squares_overflow(machine):
    y = np.array([1e299, 1.0, -1.0, 2.0])
    with pytest.raises(ValueError, match=r"targets are as large as 1e\+299, so that their squares overflow. Divide"):
        machine().fit(np.eye(4), y)
    assert machine().fit(np.eye(4), y, [0, 1, 1, 1]).predict(np.eye(4)).max() < 3  # it is left out


def test_a_column_of_times_is_named():
    X = pd.DataFrame({"a": np.arange(6.0), "when": pd.date_range("2020", periods=6)})
    with pytest.raises(TypeError, match="Column 'when' of X holds times"):
        fastsvm.SVC().fit(X, [0, 1] * 3)


@pytest.mark.parametrize(
    "machine",
    [fastsvm.SVC(), OneClassSVM(), fastsvm.NystroemSVC(), fastsvm.NystroemFeatures(), LinearSVC(standardize=True)],
    ids=lambda machine: type(machine).__name__,
)
@pytest.mark.parametrize("in_file", [False, True])
def test_statistics_of_features_beyond_the_memory_are_refused_before_they_are_there(machine, in_file, tmp_path):
    """A file of some kilobytes may state any number of features."""
    wide = sparse.csr_matrix((np.ones(4), [0, 5, 7, 1_999_999_999], np.arange(5)), shape=(4, 2_000_000_000))
    machine = clone(machine).set_params(memory="1GB")
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        write_csr(file.create_group("X"), wide)
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=r"2,000,000,000 features, .* take 96 GB, and memory allows 1 GB"):
                machine.fit(file["X"] if in_file else wide, [0, 1, 0, 1])
            assert tracemalloc.get_traced_memory()[1] < 1e8
        finally:
            tracemalloc.stop()


def test_what_the_steps_of_a_linear_machine_take_counts():
    columns = np.random.default_rng(0).integers(0, 2_000_000, 80)
    wide = sparse.csr_matrix((np.ones(80), columns, np.arange(0, 81, 2)), shape=(40, 2_000_000))
    LinearSVC(memory="100MB").fit(wide, np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"of each would take 0\.096 GB, and memory allows 0\.05 GB"):
        LinearSVC(memory="50MB").fit(wide, np.arange(40) % 2)


# --- answers to what newcomers pass ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["X.npy", "X.h5", "cells.h5ad", "X.csv"])
def test_a_path_is_answered_by_what_reads_it(path):
    with pytest.raises(TypeError, match=re.escape(f"X is the path {path}; pass fastsvm.open({path!r}).")):
        SVC().fit(path, [0, 1])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("polars.lazyframe.frame.LazyFrame", r"pass fastsvm\.open\(X\) or X\.collect\(\)"),
        ("anndata._core.anndata.AnnData", r"pass X\.X, or of a backed one fastsvm\.open\(X\.filename\)"),
        ("anndata._core.sparse_dataset._CSRDataset", r"pass fastsvm\.open\(adata\.filename\)"),
    ],
)
def test_objects_of_other_packages_are_answered(name, answer):
    """By the names of their classes, as the packages need not be installed."""
    module, _, kind = name.rpartition(".")
    X = type(kind, (), {"__module__": module})()
    model = SVC().fit([[0.0], [1.0]], [0, 1])
    for call in (lambda: SVC().fit(X, [0, 1]), lambda: model.predict(X)):
        with pytest.raises(TypeError, match=answer):
            call()


@pytest.mark.parametrize("kind", ["S1", object])
def test_labels_of_bytes_are_answered(kind, tmp_path):
    X, y = [[0.0], [1.0]], np.array([b"a", b"b"], kind)
    with pytest.raises(TypeError, match=r"pass the dataset itself, or dataset\.asstr\(\)\[:\]"):
        SVC().fit(X, y)
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["y"] = ["a", "b"]
        assert SVC().fit(X, file["y"]).classes_.tolist() == SVC().fit(X, file["y"].asstr()[:]).classes_.tolist()
