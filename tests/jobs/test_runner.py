"""Training jobs: run, killed at any moment, gone on with, asked how they are."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import fastsvm
from fastsvm.cli import main
from fastsvm.files.array_file import read_arrays
from fastsvm.jobs.runner import resume, run, status
from fastsvm.jobs.training.checkpoint_file import Checkpoints
from fastsvm.jobs.training.checkpointer import JobCheckpointer, Stopped
from fastsvm.jobs.training.job_file import Job
from fastsvm.jobs.training.run_folder import RunFolder
from fastsvm.jobs.training.train import train

N, D = 3000, 20
GAMMA = 0.05 / 20**2
KINDS = {
    "svc": {"C": 100.0, "gamma": GAMMA, "tol": 1e-6},
    "svc without an offset": {"C": 10.0, "gamma": GAMMA, "tol": 1e-4, "solver": "coordinate", "selection": "random"},
    "svc in the primal": {"C": 1.0, "gamma": GAMMA, "tol": 1e-2, "solver": "primal"},
    "svc of landmarks": {"C": 10.0, "gamma": GAMMA, "tol": 1e-4, "solver": "primal", "n_components": 50},
    "linear": {"C": 0.1, "tol": 1e-6, "window_visits": 1, "standardize": True},
    "linear of all classes": {"C": 1e-4, "tol": 1e-5, "window_visits": 2, "multi_class": "crammer_singer"},
    "linear-regressor": {"C": 0.01, "tol": 1e-5, "window_visits": 1, "standardize": True},
    "sgd": {"max_iter": 30, "tol": None, "standardize": True},
}


def of(kind, file, **more):
    """Return a job of a kind; linear models are streamed, for their memory is small."""
    name = kind.split()[0]
    memory = 300_000 if name != "svc" else 40_000_000
    return Job(str(file), kind=name, parameters=KINDS[kind], holdout=0.2, memory=memory, **more)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs") / "data.h5"
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    X = 128 + 20 * (rng.normal(size=(N, D)) + 1.2 * np.eye(D)[y])
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X.astype(np.uint8), chunks=(100, D))
        file["y"] = y
    return path


def model_of(folder):
    """Return all numbers of a saved model, by name."""
    header, arrays = read_arrays(folder / "model.h5")
    found = {name: array for name, array in arrays.items() if not name.startswith("history_")}
    return found | {"n_iter": header["attributes"].get("n_iter_"), "objective": header["attributes"]["objective_"]}


def assert_same_model(folder, other):
    found, wanted = model_of(folder), model_of(other)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.fixture(scope="module")
def whole(file, tmp_path_factory):
    """Return the folders of runs that nothing interrupted, by kind."""
    folders = {kind: tmp_path_factory.mktemp("whole") / "run" for kind in KINDS}
    for kind, folder in folders.items():
        run(of(kind, file), folder)
    return folders


class Interrupter(JobCheckpointer):
    """Stops after so many looks, with a checkpoint of one of the looks before."""

    looks, saved_at = 0, 0

    def observe(self, tree, facts):
        self.looks += 1
        if self.looks == self.saved_at:
            self.save(tree())
        if self.looks == self.saved_at + 2:
            raise Stopped(signal.SIGTERM)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_gone_on_with_gives_the_same_model(kind, share, file, whole, tmp_path, monkeypatch):
    looks = []
    monkeypatch.setattr(JobCheckpointer, "observe", lambda self, tree, facts: looks.append(facts))
    train(of(kind, file), tmp_path / "model.h5", JobCheckpointer(RunFolder(tmp_path), Checkpoints(tmp_path, {}), 1e9))
    monkeypatch.undo()
    folder = RunFolder.begun(tmp_path / "run", of(kind, file))
    monkeypatch.setattr("fastsvm.jobs.runner.JobCheckpointer", Interrupter)
    monkeypatch.setattr(Interrupter, "saved_at", max(1, int(share * len(looks)) - 1))
    with pytest.raises(Stopped):
        resume(folder.path)
    monkeypatch.undo()
    resume(folder.path)
    assert_same_model(folder.path, whole[kind])


def test_kernel_rows_of_real_numbers_are_computed_again_to_rounding(tmp_path, monkeypatch):
    path, rng = tmp_path / "data.h5", np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    with h5py.File(path, "w") as data:
        data["X"], data["y"] = rng.normal(size=(N, D)) + 1.2 * np.eye(D)[y], y
    job = Job(str(path), parameters={"C": 100.0, "gamma": 0.05, "tol": 1e-9}, memory=40_000_000)
    run(job, tmp_path / "whole")
    interrupted(job, tmp_path / "run", monkeypatch)
    resume(tmp_path / "run")
    found, wanted = model_of(tmp_path / "run"), model_of(tmp_path / "whole")
    np.testing.assert_array_equal(found["support_"], wanted["support_"])
    np.testing.assert_allclose(found["dual_coef_"], wanted["dual_coef_"], rtol=1e-6, atol=1e-9)


def test_the_result_of_a_run(file, whole):
    folder = RunFolder.found(whole["linear"])
    result = folder.result
    assert result["converged"] and result["n_samples"] == 2400 and result["n_holdout"] == 600
    assert result["accuracy"] > 0.6
    assert status(folder.path)["state"] == "done"
    assert not Checkpoints(folder.path, {}).files()
    events = [event["event"] for event in folder.events()]
    assert events[0] == "begin" and events[-1] == "end"
    model = fastsvm.load(folder.model_file)
    with fastsvm.open_hdf5(file) as data:
        assert model.predict(data.X).shape == (N,)
    assert resume(folder.path) == result  # there is nothing left to do


# --- processes -------------------------------------------------------------------------------------------------


def started(*words, folder):
    command = [sys.executable, "-m", "fastsvm", *map(str, words)]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def job(file, tmp_path):
    """Return a job file for a run of some seconds with a checkpoint in each tenth of one."""
    path = tmp_path / "job.toml"
    path.write_text(f"""
[data]
train = "{file}"
[model]
kind = "sgd"
max_iter = 100000000
n_iter_no_change = 100000000
[checkpoint]
every = "100ms"
""")
    return path


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_a_signal_ends_a_run_with_a_checkpoint(number, code, job, tmp_path, heard):
    process = started("run", job, "--out", "run", folder=tmp_path)
    folder = tmp_path / "run"
    until(lambda: list(folder.glob("checkpoint-*.fastsvm")))
    files = {path.name for path in folder.glob("checkpoint-*.fastsvm")}
    begin = time.monotonic()
    process.send_signal(getattr(signal, number))
    _, err = process.communicate(timeout=60)
    assert process.returncode == code and time.monotonic() - begin < 4
    assert "go on with: fastsvm resume run" in err
    assert {path.name for path in folder.glob("checkpoint-*.fastsvm")} != files
    found = status(folder)
    assert found["state"] == "interrupted" and found["last_event"] == "stopped" and found["progress"]["epoch"] > 0


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_a_run_that_was_killed_and_the_lock(job, tmp_path, capsys):
    process = started("run", job, "--out", "run", folder=tmp_path)
    folder = tmp_path / "run"
    until(lambda: list(folder.glob("checkpoint-*.fastsvm")))
    assert status(folder)["state"] == "running" and status(folder)["process"] == process.pid
    assert main(["resume", str(folder)]) == 2
    assert f"in use by process {process.pid}" in capsys.readouterr().err
    process.kill()
    process.communicate()
    assert status(folder)["state"] == "interrupted" and status(folder)["what_to_do"] == f"fastsvm resume {folder}"
    epoch = status(folder)["progress"]["epoch"]
    again = started("resume", "run", folder=tmp_path)
    until(lambda: status(folder)["progress"]["epoch"] > epoch + 1)
    again.terminate()
    again.communicate(timeout=60)
    assert again.returncode == 143


# --- what may go wrong -------------------------------------------------------------------------------------------


def test_a_folder_that_is_used_already(file, whole, tmp_path):
    with pytest.raises(ValueError, match="holds a run already"):
        run(of("sgd", file), whole["sgd"])
    (tmp_path / "x").write_text("")
    with pytest.raises(ValueError, match="not empty"):
        run(of("sgd", file), tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no run"):
        resume(tmp_path)


def test_a_run_that_was_killed_as_it_began_can_begin_again(file, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "job.json.0a1b2c3d.part").write_text("{")
    run(of("sgd", file), folder)
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("kind", ["linear", "search"])
def test_a_run_that_was_killed_before_its_report_is_completed(kind, file, iris, tmp_path, monkeypatch):
    job = of(kind, file) if kind == "linear" else searching("linear", iris)
    removed = []
    with monkeypatch.context() as patch:
        patch.setattr("fastsvm.jobs.runner._clear", removed.append)
        result = run(job._replace(checkpoint_seconds=1e-9), tmp_path / "run")
    report = tmp_path / "run" / "report.html"
    wanted = report.read_text()
    report.rename(tmp_path / "run" / "report.html.0a1b2c3d.part")
    assert removed and list((tmp_path / "run").glob("checkpoint-*.fastsvm"))
    assert resume(tmp_path / "run") == result
    assert report.read_text() == wanted
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left - {"search.json"} == {"job.json", "lock", "log.jsonl", "model.h5", "report.html", "result.json"}
    (tmp_path / "run" / "model.h5").write_bytes(b"")
    report.unlink()
    assert resume(tmp_path / "run") == result and not report.exists()


def test_files_that_are_not_there_make_no_folder(file, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        run(of("sgd", tmp_path / "none.h5"), tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="no file"):
        run(of("sgd", file, test=str(tmp_path / "none.h5"))._replace(holdout=0.0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def interrupted(job, folder, monkeypatch):
    """Leave a run that was interrupted, with a checkpoint."""
    monkeypatch.setattr("fastsvm.jobs.runner.JobCheckpointer", Interrupter)
    monkeypatch.setattr(Interrupter, "saved_at", 20)
    with pytest.raises(Stopped):
        run(job, folder)
    monkeypatch.undo()


def test_data_that_changed_are_refused(file, tmp_path, monkeypatch):
    path = tmp_path / "data.h5"
    path.write_bytes(file.read_bytes())
    interrupted(of("sgd", path), tmp_path / "run", monkeypatch)
    before = {one.name: one.read_bytes() for one in (tmp_path / "run").glob("checkpoint-*.fastsvm")}
    with h5py.File(path, "r+") as data:
        data["y"][0] = 2 - data["y"][0]
    with pytest.raises(ValueError, match="because the training data changed"):
        resume(tmp_path / "run")
    assert before == {one.name: one.read_bytes() for one in (tmp_path / "run").glob("checkpoint-*.fastsvm")}


def test_a_disk_that_is_full_does_not_end_a_run(file, whole, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fastsvm.jobs.training.checkpoint_file.write", full)
    result = run(of("sgd", file, checkpoint_seconds=1e-9), tmp_path / "run")
    assert result["stop_reason"] == "max_iter"
    assert capsys.readouterr().err.count("No space left") == 1
    events = RunFolder(tmp_path / "run").events()
    assert any(event["event"] == "checkpoint failed" for event in events)
    assert_same_model(tmp_path / "run", whole["sgd"])


def test_a_time_limit_ends_with_what_there_is(file, tmp_path):
    job = of("sgd", file, seconds=0.5)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        result = run(job._replace(parameters={"max_iter": 10**7, "tol": None, "standardize": True}), tmp_path / "run")
    assert result["stop_reason"] == "max_time" and result["accuracy"] > 0.5


# --- searches ----------------------------------------------------------------------------------------------------


@pytest.fixture
def iris(tmp_path):
    X, y = load_iris(return_X_y=True)
    with h5py.File(tmp_path / "iris.h5", "w") as data:
        data["X"], data["y"] = X, y
    return str(tmp_path / "iris.h5")


GRIDS = {
    "svc": {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1], "kernel": ["rbf", "laplacian"]},
    "linear": {"C": [1e-4, 1.0], "loss": ["hinge", "squared_hinge"]},
}


def searching(kind, iris):
    parameters = {"tol": 1e-6} if kind == "svc" else {}
    return Job(iris, kind=kind, grid=GRIDS[kind], parameters=parameters, folds=3, memory=50_000_000)


@pytest.mark.parametrize("kind", GRIDS)
def test_a_search_finds_what_scikit_learn_finds(kind, iris, tmp_path):
    job = searching(kind, iris)
    result = run(job, tmp_path / "run")
    model = fastsvm.SVC(tol=1e-6, random_state=0) if kind == "svc" else fastsvm.LinearSVC(random_state=0)
    wanted = GridSearchCV(model, GRIDS[kind], cv=3).fit(*load_iris(return_X_y=True))
    cells = RunFolder(tmp_path / "run").search["cells"]
    assert len(cells) == len(wanted.cv_results_["params"])
    for parameters, mean in zip(wanted.cv_results_["params"], wanted.cv_results_["mean_test_score"], strict=True):
        found = next(cell for cell in cells if cell["parameters"] == parameters)
        assert found["mean_score"] == pytest.approx(mean, abs=1e-12)
    assert result["search"]["parameters"] == wanted.best_params_
    assert result["search"]["mean_score"] == pytest.approx(wanted.best_score_, abs=1e-12)
    saved = fastsvm.load(tmp_path / "run" / "model.h5").get_params()
    assert {name: saved[name] for name in wanted.best_params_} == wanted.best_params_
    assert "chosen" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", GRIDS)
def test_an_interrupted_search_compares_the_rest_only(kind, iris, tmp_path, monkeypatch):
    job, folder = searching(kind, iris), RunFolder(tmp_path / "run")
    wanted = run(job, tmp_path / "whole")

    def asked(checkpointer):
        raise Stopped(signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(JobCheckpointer, "raise_if_asked", asked)
        run(job, folder.path)
    before = folder.search["cells"]
    assert 0 < len(before) < np.prod([len(values) for values in GRIDS[kind].values()])
    found = resume(folder.path)
    assert folder.search["cells"][: len(before)] == before
    assert found["search"] == wanted["search"]
    assert_same_model(folder.path, tmp_path / "whole")
    events = [event["event"] for event in folder.events()]
    assert events.count("compared") == RunFolder(tmp_path / "whole").log_file.read_text().count('"compared"')


def test_a_search_on_other_data_is_not_gone_on_with(iris, tmp_path, monkeypatch):
    job, folder = searching("linear", iris), RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fastsvm.jobs.runner.train", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        run(job, folder.path)
    with h5py.File(iris, "r+") as data:
        data["y"][0] = 2
    with pytest.raises(ValueError, match="because the training data changed"):
        resume(folder.path)
    folder.search_file.write_text("{")
    with pytest.raises(ValueError, match=r"search.json is damaged.*Remove it"):
        resume(folder.path)


def test_a_search_that_could_not_be_written_is_kept_in_memory(iris, tmp_path, monkeypatch):
    job, write = searching("linear", iris), RunFolder.write

    def full(folder, path, words):
        if path.name == "search.json" and len(words["cells"]) > 1:
            raise OSError(28, "No space left on device")
        write(folder, path, words)

    monkeypatch.setattr(RunFolder, "write", full)
    result = run(job, tmp_path / "run")
    assert len(RunFolder(tmp_path / "run").search["cells"]) == 1
    monkeypatch.undo()
    assert result["search"] == run(job, tmp_path / "whole")["search"]


def test_a_search_is_written_when_there_is_room_again(iris, tmp_path, monkeypatch):
    write, whole = RunFolder.write, RunFolder(tmp_path / "whole")
    run(searching("linear", iris), whole.path)

    def full_at_first(folder, path, words):
        if path.name == "search.json" and not folder.result_file.exists():
            raise OSError(28, "No space left on device")
        write(folder, path, words)

    monkeypatch.setattr(RunFolder, "write", full_at_first)
    run(searching("linear", iris), tmp_path / "run")
    parameters = [
        [cell["parameters"] for cell in RunFolder(tmp_path / name).search["cells"]] for name in ("run", "whole")
    ]
    assert parameters[0] == parameters[1]


def test_a_search_ends_when_half_of_the_time_is_over(iris, tmp_path, capsys):
    job = searching("linear", iris)._replace(seconds=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = run(job, tmp_path / "run")
    assert len(RunFolder(tmp_path / "run").search["cells"]) == 1
    assert result["search"]["parameters"] and "for want of time" in capsys.readouterr().err


def test_weights_of_classes_are_searched_by_label(iris, tmp_path):
    grid = {"class_weight": [{"0": 5.0, "2": 0.1}, "balanced"]}
    for kind in ("svc", "linear"):
        run(searching(kind, iris)._replace(grid=grid), tmp_path / kind)
        assert len(RunFolder(tmp_path / kind).search["cells"]) == 2


BAD = [
    ({"C": [1.0, -1.0]}, None), ({"C": ["1"]}, None), ({"loss": ["hinge", "none"]}, None), ({"C": [1.0]}, "nonsense"),
]  # fmt: skip


@pytest.mark.parametrize(("grid", "scoring"), BAD)
def test_a_grid_that_cannot_be_tried_makes_no_folder(grid, scoring, iris, tmp_path):
    with pytest.raises((ValueError, TypeError)):
        run(searching("linear", iris)._replace(grid=grid, scoring=scoring), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_score_that_is_no_number(iris, tmp_path):
    with warnings.catch_warnings(), pytest.raises(ValueError, match="scoring='roc_auc' gives no number"):
        warnings.simplefilter("ignore")
        run(searching("linear", iris)._replace(scoring="roc_auc"), tmp_path / "run")


@pytest.mark.parametrize("text", ["{", "[]", '{"bound_to": null, "cells": []}', '{"bound_to": {}, "cells": [1]}'])
def test_damaged_words_are_named(text, iris, tmp_path):
    run(searching("linear", iris), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    folder.search_file.write_text(text)
    with pytest.raises(ValueError, match=r"search.json is damaged"):
        _ = folder.search
    folder.result_file.write_text("{")
    with pytest.raises(ValueError, match=r"result.json is damaged"):
        status(folder.path)


def test_rows_that_folds_cannot_be_cut_from(iris, tmp_path):
    with pytest.raises(ValueError, match=r"\[search\] cuts folds from rows in memory"):
        run(searching("linear", iris)._replace(memory=1000), tmp_path / "run")


# --- other forms of a job ----------------------------------------------------------------------------------------


def test_a_run_in_one_line(file, tmp_path, capsys):
    words = ["train", str(file), "--model", "sgd", "--max-iter", "3", "--tol", "none", "--holdout", "0.2", "--json"]
    assert main(words) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"] == alone["objective"] and found["accuracy"] == alone["accuracy"]
    assert status(tmp_path / "run")["state"] == "done" and (tmp_path / "run" / "model.h5").exists()
    assert main([*words, "--out", str(tmp_path / "other"), "-o", str(tmp_path / "m")]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_job_of_text_files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="", fmt="%g")
    (tmp_path / "job.toml").write_text('[data]\ntrain = "rows.csv"\nholdout = 0.3\n[model]\nkind = "linear"\n')
    assert main(["run", str(tmp_path / "job.toml"), "--out", str(tmp_path / "run"), "--set", "model.C=10"]) == 0
    assert RunFolder(tmp_path / "run").result["accuracy"] > 0.9
