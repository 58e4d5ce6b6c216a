"""Runs in their folders: results, reports, what may go wrong, and other forms of a job."""

import json
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from runs import N, of, searching
from sklearn.exceptions import ConvergenceWarning

import fastsvm
from fastsvm.cli import main
from fastsvm.jobs.runner import RunFolder, resume, run, status
from fastsvm.jobs.training.checkpoints import Checkpoints
from fastsvm.jobs.training.job_file import Job


@pytest.fixture(scope="module")
def finished(file, tmp_path_factory):
    """Return the folder of a run that has ended."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(of("linear", file), folder)
    return folder


def test_the_result_of_a_run(file, finished):
    folder = RunFolder.found(finished)
    result = folder.result
    assert result["converged"] and result["n_samples"] == 2400 and result["n_test"] == 600
    assert result["accuracy"] > 0.6
    shown = status(folder.path)
    assert shown["state"] == "done" and shown["progress"] == {} and shown["result"] == result
    assert not Checkpoints(folder.path, {}).files()
    events = [event["event"] for event in folder.events()]
    assert events[0] == "begin" and events[-1] == "end"
    model = fastsvm.load(folder.model_file)
    with fastsvm.open_hdf5(file) as data:
        assert model.predict(data.X).shape == (N,)
    assert resume(folder.path) == result  # nothing is left to do
    assert folder.model_file.name == "model.fastsvm" and zipfile.is_zipfile(folder.model_file)


# --- what may go wrong -------------------------------------------------------------------------------------------


def test_the_status_of_a_run_that_may_only_be_read(finished, monkeypatch):
    """It is that of another user, or on a disk for reading."""
    opened = Path.open

    def only_read(self, mode="r", *more, **given):
        if set(mode) & set("wxa+"):
            raise PermissionError(self)
        return opened(self, mode, *more, **given)

    monkeypatch.setattr(Path, "open", only_read)
    assert status(finished)["state"] == "done"


def test_a_folder_that_is_used_already(file, finished, tmp_path):
    with pytest.raises(ValueError, match="holds a run already"):
        run(of("sgd", file), finished)
    (tmp_path / "x").write_text("")
    with pytest.raises(ValueError, match="not empty"):
        run(of("sgd", file), tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no run"):
        resume(tmp_path)


@pytest.mark.parametrize("ended", [False, True])
def test_a_folder_that_another_process_takes_at_the_same_time_is_left_to_it(ended, file, tmp_path, monkeypatch):
    """The other one is faster by a moment; it still runs, or it was killed soon."""
    folder = tmp_path / "run"

    def late(lock):
        (folder / "job.json").write_text("its job")
        (folder / "train.h5").write_text("its samples")
        return ended

    monkeypatch.setattr("fastsvm.jobs.runner.take", late)
    with pytest.raises(ValueError, match="holds a run already" if ended else "in use by process"):
        run(of("sgd", file), folder)
    assert (folder / "job.json").read_text() == "its job" and (folder / "train.h5").exists()


def test_a_run_that_was_killed_as_it_began_can_begin_again(file, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "job.json.0a1b2c3d.part").write_text("{")
    (folder / "lock").write_text("4711")
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
    assert left - {"search.json"} == {"job.json", "lock", "log.jsonl", "model.fastsvm", "report.html", "result.json"}
    (tmp_path / "run" / "model.fastsvm").write_bytes(b"")
    report.unlink()
    assert resume(tmp_path / "run") == result and not report.exists()


def test_files_that_are_not_there_make_no_folder(file, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        run(of("sgd", tmp_path / "none.h5"), tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="no file"):
        run(of("sgd", file, test=str(tmp_path / "none.h5"))._replace(holdout=0.0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("change", [{"holdout": 0.999}, {"grid": {"C": [1.0]}, "folds": 1000}, {"test": "unlabelled"}])
@pytest.mark.parametrize("exists", [False, True])
def test_a_bad_job_leaves_the_folder_as_it_was(change, exists, iris, tmp_path):
    with h5py.File(tmp_path / "unlabelled.h5", "w") as other:
        other["X"] = np.ones((5, 4))
    if "test" in change:
        change = {"test": str(tmp_path / "unlabelled.h5")}
    job, folder = Job(iris, kind="svc", memory=50_000_000), tmp_path / "runs" / "run"
    if exists:
        folder.mkdir(parents=True)
    with pytest.raises(ValueError, match=r"holdout=0.999 of 150 rows leaves no|n_splits=1000|a test needs them"):
        run(job._replace(**change), folder)
    assert folder.exists() == folder.parent.exists() == exists and (not exists or not list(folder.iterdir()))
    assert run(job, folder)["converged"]


def test_a_time_limit_ends_with_what_there_is(file, tmp_path):
    job = of("sgd", file, seconds=0.5)
    with pytest.warns(ConvergenceWarning, match="max_time") as told:
        result = run(job._replace(parameters={"max_iter": 10**7, "tol": None, "standardize": True}), tmp_path / "run")
    assert "warm_start" not in str(told[0].message)  # which no command has
    assert result["stop_reason"] == "max_time" and result["accuracy"] > 0.5


def test_damaged_words_are_named(iris, tmp_path):
    run(searching("linear", iris), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    for text in ("{", "[]", '{"bound_to": null, "cells": []}', '{"bound_to": {}, "cells": [1]}'):
        folder.search_file.write_text(text)
        with pytest.raises(ValueError, match=r"search.json is damaged"):
            _ = folder.search
    folder.result_file.write_text("{")
    with pytest.raises(ValueError, match=r"result.json is damaged"):
        status(folder.path)


# --- other forms of a job ----------------------------------------------------------------------------------------


def test_a_run_in_one_line(file, tmp_path, capsys):
    words = ["train", str(file), "--model", "sgd", "--max-iter", "3", "--tol", "none", "--holdout", "0.2", "--json"]
    assert main(words) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*words, "--folder", str(tmp_path / "run")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"] == alone["objective"] and found["accuracy"] == alone["accuracy"]
    assert status(tmp_path / "run")["state"] == "done" and (tmp_path / "run" / "model.fastsvm").exists()
    assert main([*words, "--folder", str(tmp_path / "other"), "-o", str(tmp_path / "m")]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_job_of_text_files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="", fmt="%g")
    (tmp_path / "job.toml").write_text('[data]\ntrain = "rows.csv"\nholdout = 0.3\n[model]\nkind = "linear"\n')
    assert main(["run", str(tmp_path / "job.toml"), "--folder", str(tmp_path / "run"), "--set", "model.C=10"]) == 0
    assert RunFolder(tmp_path / "run").result["accuracy"] > 0.9
