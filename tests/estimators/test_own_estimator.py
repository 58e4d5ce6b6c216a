"""An estimator from outside needs one line: its entry in `ESTIMATORS`."""

import h5py
import numpy as np
import pytest

import fastsvm
from fastsvm.cli import main
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.jobs.runner import run
from fastsvm.jobs.training.job_file import read_job


class BalancedSVC(fastsvm.LinearSVC):
    """A linear SVM in which all classes count alike, with few parameters."""

    def __init__(self, C=1.0, *, standardize=False, memory="auto", max_time=None, random_state=None, verbose=False):
        super().__init__(
            C=C,
            class_weight="balanced",
            standardize=standardize,
            memory=memory,
            max_time=max_time,
            random_state=random_state,
            verbose=verbose,
        )


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "balanced", BalancedSVC)


@pytest.fixture(scope="module")
def unbalanced():
    """Return 200 samples, of which a tenth are of the second class."""
    rng = np.random.default_rng(0)
    y = (np.arange(200) % 10 == 0).astype(int)
    return rng.normal(size=(200, 4)) + y[:, None], y


@pytest.fixture
def file(tmp_path, unbalanced):
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = unbalanced
    return path


def plain(*data):
    return fastsvm.LinearSVC(C=0.1, class_weight="balanced", random_state=0).fit(*data)


@pytest.fixture
def wanted(file):
    with fastsvm.open_hdf5(file) as data:
        return plain(data)


def assert_is(model, wanted):
    assert type(model) is BalancedSVC and model.C == 0.1
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, wanted.intercept_, atol=1e-10)


def test_it_is_saved_and_loaded(unbalanced, tmp_path):
    model = BalancedSVC(C=0.1, random_state=0).fit(*unbalanced)
    fastsvm.save(model, tmp_path / "a.model")
    loaded = fastsvm.load(tmp_path / "a.model")
    assert_is(loaded, plain(*unbalanced))
    np.testing.assert_array_equal(loaded.predict(unbalanced[0]), model.predict(unbalanced[0]))


def test_a_job_trains_it(file, tmp_path):
    job = tmp_path / "job.toml"
    for kind in ("balanced", "linear"):
        weights = 'class_weight = "balanced"\n' if kind == "linear" else ""
        job.write_text(
            f'[data]\ntrain = "data.h5"\n[model]\nkind = "{kind}"\nC = 0.1\n{weights}[output]\nreport = false\n'
        )
        run(read_job(job), tmp_path / kind)
    found, wanted = (fastsvm.load(tmp_path / kind / "model.fastsvm") for kind in ("balanced", "linear"))
    assert_is(found, wanted)


def test_the_command_line_trains_it(file, wanted, tmp_path):
    model = str(tmp_path / "a.model")
    main(["train", str(file), "--output", model, "--model", "balanced", "--C", "0.1"])
    assert_is(fastsvm.load(model), wanted)
