"""Runs of jobs of every kind, interrupted at a step, and their models."""

import signal

import numpy as np
import pytest

from fastsvm.files.array_file import read_arrays
from fastsvm.jobs.runner import JobCheckpointer, RunFolder, run
from fastsvm.jobs.signals import Stopped
from fastsvm.jobs.training.job_file import Job

N, D = 3000, 20
GAMMA = 0.05 / 20**2
KINDS = {
    "svc": {"C": 100.0, "gamma": GAMMA, "tol": 1e-6},
    "svc without an intercept": {"C": 10.0, "gamma": GAMMA, "tol": 1e-4, "solver": "coordinate", "selection": "random"},
    "svc in the primal": {"C": 0.01, "gamma": GAMMA, "tol": 1e-2, "solver": "primal", "loss": "squared_hinge"},
    "svr": {"C": 100.0, "gamma": GAMMA, "tol": 1e-6},
    "linear": {"C": 0.1, "tol": 1e-4, "window_visits": 1, "standardize": True},
    "linear of all classes": {"C": 1e-4, "tol": 1e-4, "window_visits": 2, "multi_class": "crammer_singer"},
    "nystroem": {"C": 0.3, "gamma": GAMMA, "tol": 1e-4, "n_components": 50},
    "sgd": {"max_iter": 30, "tol": None, "standardize": True},
}


def of(kind, file, **more):
    """Return a job of a kind. Linear models are streamed, because their memory is small."""
    name = kind.split()[0]
    memory = 40_000_000 if name in ("svc", "svr") else 300_000
    return Job(str(file), kind=name, parameters=KINDS[kind], holdout=0.2, memory=memory, **more)


GRIDS = {
    "svc": {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1], "kernel": ["rbf", "laplacian"]},
    "linear": {"C": [1e-4, 1.0], "loss": ["hinge", "squared_hinge"]},
}


def searching(kind, iris):
    parameters = {"tol": 1e-6} if kind == "svc" else {}
    return Job(iris, kind=kind, grid=GRIDS[kind], parameters=parameters, folds=3, memory=50_000_000)


def model_of(folder):
    """Return all numbers of a saved model, by name."""
    header, arrays = read_arrays(RunFolder(folder).model_file)
    clock = ("history_.time",)  # of a machine within the model
    kept = [name for name in arrays if not name.startswith("history_") and not name.endswith(clock)]
    found = {name: arrays[name] for name in kept}
    return found | {"n_iter": header["attributes"].get("n_iter_"), "objective": header["attributes"]["objective_"]}


def assert_same_model(folder, other):
    found, wanted = model_of(folder), model_of(other)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


class Interrupter(JobCheckpointer):
    """Writes a checkpoint in one of its steps, and stops the fit two steps later."""

    n_steps, saved_at = 0, 20

    def observe(self, tree, facts):
        self.n_steps += 1
        if self.n_steps == self.saved_at:
            self.save(tree())
        if self.n_steps == self.saved_at + 2:
            raise Stopped(signal.SIGTERM)


def interrupted(job, folder, monkeypatch):
    """Start a run and interrupt it after a checkpoint."""
    with monkeypatch.context() as patch:
        patch.setattr("fastsvm.jobs.runner.JobCheckpointer", Interrupter)
        with pytest.raises(Stopped):
            run(job, folder)
