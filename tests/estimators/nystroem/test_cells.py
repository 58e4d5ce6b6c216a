"""Machines of cells are exact machines of their samples, and predict in place of the landmarks."""

import time

import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs, make_moons

import fastsvm
from fastsvm import SVC, SVR, NystroemSVC, NystroemSVR, open_hdf5
from fastsvm.estimators.linear.training_task import Task
from fastsvm.estimators.nystroem import cells, nystroem_machine

GIVEN = {"C": 10.0, "gamma": 1.0, "n_components": 20, "random_state": 0}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(cells, "_CELL", 100)


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(600, centers=12, cluster_std=1.0, random_state=1)
    return X, np.array(["ant", "bee", "cow", "dog"])[y % 4]


@pytest.mark.parametrize("name", ["moons", "blobs", "blobs in pairs"])
def test_samples_are_predicted_by_the_machine_of_their_cell(name, request):
    X, y = request.getfixturevalue(name.split()[0])
    by_pair = {"multi_class": "ovo", "break_ties": True} if "pairs" in name else {}
    model = NystroemSVC(refine="cells", **by_pair, **GIVEN).fit(X, y)
    cell = ((X[:, None] - model.cell_centers_) ** 2).sum(axis=2).argmin(axis=1)
    assert len(model.cells_) == len(model.cell_centers_) == 6
    for number, machine in enumerate(model.cells_):
        own = cell == number
        if isinstance(machine, int):
            assert set(y[own]) == {model.classes_[machine]}
            assert set(model.predict(X[own])) == {model.classes_[machine]}
        else:
            wanted = SVC(C=10, gamma=1.0).fit(X[own], y[own])
            assert machine.objective_ == pytest.approx(wanted.objective_, rel=1e-3)
            assert (model.predict(X[own]) == wanted.predict(X[own])).mean() > 0.98
    scores = model.decision_function(X)
    best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[best])


def test_exact_is_one_machine_for_all(moons):
    X, y = moons
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weight[:50] = 0
    found = NystroemSVC(refine="exact", class_weight={0: 3.0}, **GIVEN).fit(X, y, weight)
    wanted = SVC(C=10, gamma=1.0, class_weight={0: 3.0}).fit(X, y, weight)
    (machine,) = found.cells_
    assert machine.objective_ == pytest.approx(wanted.objective_, rel=1e-4)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=5e-3)


@pytest.mark.parametrize(("refine", "memory", "said"), [
    ("cells", 6_000, r"largest of 6 cells has 1\d\d samples of 0.00\d+ MB.* a quarter of memory=0.006 MB"),
    ("cells", 60_000, r"machine of 1\d\d samples, which may use 1/2 of memory=0.06 MB. .* MB are enough. Raise memory"),
    ("exact", 60_000, "refine='exact' needs an exact machine of 600 samples, which may use 1/1 of memory=0.06 MB"),
])  # fmt: skip
def test_too_little_memory_is_found_before_the_work(refine, memory, said, moons, monkeypatch):
    monkeypatch.setattr(nystroem_machine, "choose", lambda *_: pytest.fail("landmarks are chosen first"))
    with pytest.raises(ValueError, match=said):
        NystroemSVC(refine=refine, memory=memory, **GIVEN).fit(*moons)


def test_one_machine_for_all_samples_of_a_file_stays_within_the_memory(moons, tmp_path):
    X, y = np.float32(moons[0]), moons[1]
    weight = np.ones(600)
    weight[:50] = 0
    with h5py.File(tmp_path / "moons.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(50, 2))
        given = GIVEN | {"refine": "exact", "standardize": True, "n_components": 5}
        found = NystroemSVC(memory=12_000_000, **given).fit(file["X"], y, weight)
    wanted = SVC(C=10, gamma=1.0, standardize=True).fit(X, y, weight)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=5e-3)


def test_numbers_of_standardised_samples(moons):
    X = moons[0] * [1.0, 20.0] + 5
    y = np.sin(X[:, 0]) + X[:, 1] / 20
    given = {"C": 10.0, "epsilon": 0.05, "gamma": 0.5, "standardize": True}
    found = NystroemSVR(refine="exact", n_components=20, **given).fit(X, y)
    np.testing.assert_allclose(found.predict(X), SVR(**given).fit(X, y).predict(X), atol=5e-3)
    assert NystroemSVR(refine="cells", n_components=20, **given).fit(X, y).score(X, y) > 0.99


@pytest.mark.parametrize("form", ["file", "sparse"])
def test_other_samples_give_the_same_cells(form, moons, tmp_path):
    X, y = moons
    wanted = NystroemSVC(refine="cells", **GIVEN).fit(X, y)
    if form == "sparse":
        found = NystroemSVC(refine="cells", **GIVEN).fit(sparse.csr_matrix(X), y)
        np.testing.assert_array_equal(found.predict(sparse.csr_matrix(X)), wanted.predict(X))
        return
    with h5py.File(tmp_path / "moons.h5", "w") as file:
        file["X"], file["y"] = X, y
    with open_hdf5(tmp_path / "moons.h5") as data:
        found = NystroemSVC(refine="cells", memory="20MB", **GIVEN).fit(data)
        assert (found.predict(data) == wanted.predict(X)).mean() > 0.97  # k-means draws other samples
        np.testing.assert_array_equal(found.predict(data), found.predict(X))


@pytest.mark.parametrize("name", ["moons", "blobs"])
def test_the_model_file_has_the_machines(name, request, tmp_path):
    X, y = request.getfixturevalue(name)
    model = NystroemSVC(refine="cells", **GIVEN).fit(X, y)
    fastsvm.save(model, tmp_path / "model")
    again = fastsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    again.cells_ = again.cells_[1:]
    with pytest.raises(ValueError, match="cells_"):
        fastsvm.save(again, tmp_path / "model")


def test_landmarks_predict_where_the_time_ran_out(moons):
    X, y = moons
    model = NystroemSVC(refine="cells", **GIVEN).fit(X, y)
    labels, weight = y.astype(np.int64), np.ones(len(y))
    task = Task(fastsvm.sources.as_source(X), labels, weight, 600.0, np.ones(1), of_classes=True)
    division = cells.divide(task, False, 10**8, 0)
    found = cells.learn(task, division, lambda memory, seconds: SVC(), 10**8, time.perf_counter() - 1, False)
    assert set(found.machines) == {None}
    model.cell_centers_, model.cells_ = found
    wanted = NystroemSVC(**GIVEN).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), wanted.decision_function(X))


def test_other_losses_and_pipelines_are_refused(moons):
    with pytest.raises(ValueError, match=r"refine='cells' needs loss='hinge'"):
        NystroemSVC(refine="cells", loss="squared_hinge").fit(*moons)
    with pytest.raises(ValueError, match="cells"):
        fastsvm.to_sklearn(NystroemSVC(refine="exact", **GIVEN).fit(*moons))
