"""The exact machine of all samples predicts in place of the landmarks."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs, make_moons

import fastsvm
from fastsvm import SVC, SVR, NystroemSVC, NystroemSVR
from fastsvm.estimators.nystroem import nystroem_machine

GIVEN = {"C": 10.0, "gamma": 1.0, "n_components": 20, "refine": "exact", "random_state": 0}


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(600, centers=12, cluster_std=1.0, random_state=1)
    return X, np.array(["ant", "bee", "cow", "dog"])[y % 4]


@pytest.mark.parametrize("form", ["array", "sparse", "pairs", "shown pairs"])
def test_classes_are_predicted_by_the_exact_machine(form, blobs):
    X, y = blobs
    by_pair, shown = {}, {}
    if "pairs" in form:
        by_pair = {"multi_class": "ovo", "break_ties": form == "pairs"}
        shown = {"decision_function_shape": "ovo" if form == "shown pairs" else "ovr"}
    X = sparse.csr_matrix(X) if form == "sparse" else X
    found = NystroemSVC(**by_pair, **shown, **GIVEN).fit(X, y)
    wanted = SVC(C=10, gamma=1.0, **shown).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=5e-3)
    assert (found.predict(X) == wanted.predict(X)).mean() > 0.99


def test_weights_of_samples_and_classes_count(moons):
    X, y = moons
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    weight[:50] = 0
    found = NystroemSVC(class_weight={0: 3.0}, **GIVEN).fit(X, y, weight)
    wanted = SVC(C=10, gamma=1.0, class_weight={0: 3.0}).fit(X, y, weight)
    assert found.exact_machine_.objective_ == pytest.approx(wanted.objective_, rel=1e-4)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=5e-3)


def test_too_little_memory_is_found_before_the_work(moons, monkeypatch):
    monkeypatch.setattr(nystroem_machine, "choose", lambda *_: pytest.fail("landmarks are chosen first"))
    said = "refine='exact' needs an exact machine of 600 samples, which may use memory=0.06 MB. .* Raise memory"
    with pytest.raises(ValueError, match=said):
        NystroemSVC(memory=60_000, **GIVEN).fit(*moons)


def test_the_machine_of_the_samples_of_a_file_stays_within_the_memory(moons, tmp_path):
    X, y = np.float32(moons[0]), moons[1]
    weight = np.ones(600)
    weight[:50] = 0
    with h5py.File(tmp_path / "moons.h5", "w") as file:
        rows = file.create_dataset("X", data=X, chunks=(50, 2))
        given = GIVEN | {"standardize": True, "n_components": 5}
        found = NystroemSVC(memory=12_000_000, **given).fit(rows, y, weight)
        np.testing.assert_array_equal(found.decision_function(rows), found.decision_function(X))
    wanted = SVC(C=10, gamma=1.0, standardize=True).fit(X, y, weight)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=5e-3)


def test_numbers_of_standardised_samples(moons):
    X = moons[0] * [1.0, 20.0] + 5
    y = np.sin(X[:, 0]) + X[:, 1] / 20
    given = {"C": 10.0, "epsilon": 0.05, "gamma": 0.5, "standardize": True}
    found = NystroemSVR(refine="exact", n_components=20, **given).fit(X, y)
    np.testing.assert_allclose(found.predict(X), SVR(**given).fit(X, y).predict(X), atol=5e-3)


@pytest.mark.parametrize("name", ["moons", "blobs"])
def test_the_model_file_has_the_machine(name, request, tmp_path):
    X, y = request.getfixturevalue(name)
    model = NystroemSVC(**GIVEN).fit(X, y)
    fastsvm.save(model, tmp_path / "model")
    again = fastsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    for other in (SVC().fit(X[:, :1], y), SVC().fit(X, np.arange(len(y)) % 5), model, None):
        again.exact_machine_ = other
        with pytest.raises(ValueError, match="exact_machine_"):
            fastsvm.save(again, tmp_path / "model")


def test_landmarks_predict_where_the_time_ran_out(moons):
    X, y = moons
    late = NystroemSVC(**GIVEN | {"max_time": 1e-6, "max_iter": 10**6}).fit(X, y)
    assert not hasattr(late, "exact_machine_") and late.predict(X).shape == y.shape
    model = NystroemSVC(**GIVEN).fit(X, y)
    del model.exact_machine_
    wanted = NystroemSVC(**GIVEN | {"refine": None}).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), wanted.decision_function(X))


def test_other_losses_and_pipelines_are_refused(moons):
    with pytest.raises(ValueError, match=r"refine='exact' needs loss='hinge'"):
        NystroemSVC(refine="exact", loss="squared_hinge").fit(*moons)
    with pytest.raises(ValueError, match="exact_machine_"):
        fastsvm.to_sklearn(NystroemSVC(**GIVEN).fit(*moons))
