"""Runs that are interrupted and resumed: the model is that of an uninterrupted run, to the last bit."""

import os
import shutil
import signal
import time

import h5py
import numpy as np
import pytest
from forked import COMMAND
from runs import KINDS, D, N, assert_same_model, interrupted, model_of, of

from fastsvm.cli import main
from fastsvm.jobs.runner import JobCheckpointer, RunFolder, resume, run, status
from fastsvm.jobs.training.job_file import Job

posix = pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")


class Copier(JobCheckpointer):
    """Writes a checkpoint after 1, 2, 4, 8, … steps of a fit, and copies the run as it is then."""

    n_steps = 0

    def observe(self, tree, facts):
        self.n_steps += 1
        if self.n_steps & (self.n_steps - 1) == 0:
            self.save(tree())
            shutil.copytree(self.folder.path, self.folder.path.with_name(f"{self.n_steps:08d}"))


@pytest.fixture(scope="module")
def runs(file, tmp_path_factory):
    """Return a function that gives the folder of an uninterrupted run, beside copies of it named by their steps."""
    folders = {}

    def of_kind(kind):
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp("runs") / "whole"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("fastsvm.jobs.runner.JobCheckpointer", Copier)
                run(of(kind, file, report=False), folders[kind])
        return folders[kind]

    return of_kind


@pytest.mark.parametrize("place", [-5, -1], ids=["early", "late"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_with_the_same_model(kind, place, runs):
    """The run resumes after less than a tenth of its steps, or after more than half of them."""
    whole = runs(kind)
    copies = sorted(path for path in whole.parent.iterdir() if path != whole)
    folder = RunFolder(copies[max(place, -len(copies))])
    assert list(folder.path.glob("checkpoint-*")) and not folder.model_file.exists()
    resume(folder.path)
    assert any(event["event"] == "resume" and event["checkpoint"] for event in folder.events())
    assert_same_model(folder.path, whole)


def test_kernel_rows_of_real_numbers_are_computed_again_to_rounding(tmp_path, monkeypatch):
    path, rng = tmp_path / "data.h5", np.random.default_rng(0)
    y = rng.integers(0, 3, N // 2)
    with h5py.File(path, "w") as data:
        data["X"], data["y"] = rng.normal(size=(N // 2, D)) + 1.2 * np.eye(D)[y], y
    job = Job(str(path), parameters={"C": 100.0, "gamma": 0.05, "tol": 1e-9}, memory=10_000_000)
    run(job, tmp_path / "whole")
    interrupted(job, tmp_path / "run", monkeypatch)
    resume(tmp_path / "run")
    found, wanted = model_of(tmp_path / "run"), model_of(tmp_path / "whole")
    np.testing.assert_array_equal(found["support_"], wanted["support_"])
    np.testing.assert_allclose(found["dual_coef_"], wanted["dual_coef_"], rtol=1e-6, atol=1e-9)


# --- processes -------------------------------------------------------------------------------------------------


TALKATIVE = f"""from fastsvm.tuning import changed, tuned
within = tuned(changed({{"jobs": {{"log_s": 0.02}}}}))
within.__enter__()
{COMMAND}"""


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
        time.sleep(0.005)


@posix
def test_a_process_that_is_stopped_and_one_that_is_killed(job, tmp_path, capsys, forks):
    process = forks.start("run", job, "--folder", "run", code=TALKATIVE, folder=tmp_path)
    folder = tmp_path / "run"
    until(lambda: list(folder.glob("checkpoint-*.fastsvm")))
    assert status(folder)["state"] == "running" and status(folder)["process"] == process.pid
    assert main(["resume", str(folder)]) == 2
    assert f"in use by process {process.pid}" in capsys.readouterr().err
    files = {path.name for path in folder.glob("checkpoint-*.fastsvm")}
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143 and "resume with: fastsvm resume run" in err
    assert {path.name for path in folder.glob("checkpoint-*.fastsvm")} != files
    found = status(folder)
    assert found["state"] == "interrupted" and found["last_event"] == "stopped"
    assert found["what_to_do"] == f"fastsvm resume {folder}"
    epoch = found["progress"]["epoch"]
    again = forks.start("resume", "run", code=TALKATIVE, folder=tmp_path)
    until(lambda: status(folder)["progress"]["epoch"] > epoch + 1)
    again.kill()
    again.communicate()
    assert status(folder)["state"] == "interrupted" and status(folder)["last_event"] != "stopped"


@posix
@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_a_signal_ends_a_run_with_a_checkpoint(number, code, job, tmp_path, monkeypatch, capsys, heard):
    steps, observe, folder = [], JobCheckpointer.observe, tmp_path / "run"

    def signalled(self, tree, facts):
        steps.append(facts)
        if len(steps) == 5:
            signal.raise_signal(getattr(signal, number))
        observe(self, tree, facts)

    monkeypatch.setattr(JobCheckpointer, "observe", signalled)
    assert main(["run", str(job), "--folder", str(folder), "--set", "checkpoint.every=1h"]) == code
    assert f"resume with: fastsvm resume {folder}" in capsys.readouterr().err
    assert len(steps) == 5 and len(list(folder.glob("checkpoint-*.fastsvm"))) == 1
    assert status(folder)["state"] == "interrupted" and status(folder)["last_event"] == "stopped"


# --- what may go wrong -------------------------------------------------------------------------------------------


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


def test_a_disk_that_is_full_does_not_end_a_run(file, runs, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fastsvm.jobs.training.checkpoints.write", full)
    result = run(of("sgd", file, checkpoint_seconds=1e-9), tmp_path / "run")
    assert result["stop_reason"] == "max_iter"
    assert capsys.readouterr().err.count("No space left") == 1
    events = RunFolder(tmp_path / "run").events()
    assert any(event["event"] == "checkpoint failed" for event in events)
    assert_same_model(tmp_path / "run", runs("sgd"))
