"""Features that the memory does not hold, fits that are interrupted, and fits that go on."""

import os
import signal
import threading

import h5py
import numpy as np
import pytest

from fastsvm import NystroemSVC
from fastsvm.estimators.nystroem import landmarks
from fastsvm.sources.tiled import ScratchSource

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6000, 6)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=6000) > 0).astype(int)
GIVEN = {"n_components": 60, "gamma": 0.1, "C": 1.0, "random_state": 0, "tol": 1e-3}
SMALL = 1_000_000  # bytes: half of it does not hold the features in float16


@pytest.fixture(autouse=True)
def files(monkeypatch):
    """Return the scratch files of a test, of which none may be open at its end."""
    found = []
    make = ScratchSource.__init__

    def made(self, *given):
        make(self, *given)
        found.append(self)

    monkeypatch.setattr(ScratchSource, "__init__", made)
    yield found
    assert all(source._file.closed for source in found)


def test_features_in_a_file_give_the_same_machine(files, tmp_path):
    wanted = NystroemSVC(bounds=True, **GIVEN).fit(X, Y)
    assert not files
    model = NystroemSVC(memory=SMALL, scratch_folder=str(tmp_path), bounds=True, **GIVEN).fit(X, Y)
    assert [str(source.dtype) for source in files] == ["float16"] and model.history_["bytes_read"][-1] > 0
    assert model.objective_ == pytest.approx(wanted.objective_, rel=5e-3)
    assert model.exact_bounds_ == pytest.approx(wanted.exact_bounds_, rel=1e-2)
    np.testing.assert_array_equal(model.components_, wanted.components_)
    assert np.mean(model.predict(X) == wanted.predict(X)) > 0.99
    again = NystroemSVC(memory=SMALL, scratch_folder=str(tmp_path), **GIVEN).fit(X, Y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up(files, monkeypatch, tmp_path):
    def full(self, rows):
        raise OSError(28, "a scratch file cannot be written: No space left on device", self._folder)

    monkeypatch.setattr(ScratchSource, "append", full)
    model = NystroemSVC(memory=SMALL, scratch_folder=str(tmp_path), **GIVEN)
    with pytest.raises(OSError, match=f"No space left on device.*{tmp_path.name}"):
        model.fit(X, Y)
    assert files and not hasattr(model, "coef_") and not hasattr(model, "_learning")


@pytest.mark.parametrize("memory", [SMALL, "1GB"])
def test_an_interrupt_while_features_are_computed(memory, monkeypatch):
    write, main = landmarks.FeatureMap.write, threading.get_ident()

    def interrupted(self, block, out):
        write(self, block, out)
        signal.pthread_kill(main, signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(landmarks.FeatureMap, "write", interrupted)
    model = NystroemSVC(memory=memory, **GIVEN)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not hasattr(model, "coef_") and os.getpid()


@pytest.mark.parametrize("memory", [SMALL, "1GB"])
def test_a_fit_that_ran_out_of_epochs_goes_on(memory):
    given = GIVEN | {"memory": memory, "warm_start": True}
    wanted = NystroemSVC(**given).fit(X, Y)
    model = NystroemSVC(**given | {"max_iter": 5})
    with pytest.warns(UserWarning, match="NystroemSVC stopped before it converged .max_iter."):
        model.fit(X, Y)
    assert model.n_iter_ == 5
    model.set_params(max_iter=1000).fit(X, Y)
    assert model.n_iter_ == wanted.n_iter_ and model.history_["epoch"][0] == 1
    np.testing.assert_array_equal(model.coef_, wanted.coef_)


def test_a_file_in_the_order_of_its_classes_is_learnt_as_a_mixed_one(tmp_path):
    order = np.argsort(Y, kind="stable")
    epochs = []
    for name, rows in (("mixed", np.arange(6000)), ("sorted", order)):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("X", data=X[rows], chunks=(16, 6))
        with h5py.File(tmp_path / name) as file:
            given = GIVEN | {"landmarks": X[:60], "memory": 400_000}
            epochs.append(NystroemSVC(**given).fit(file["X"], Y[rows]).n_iter_)
    assert epochs[1] < 1.5 * epochs[0]
