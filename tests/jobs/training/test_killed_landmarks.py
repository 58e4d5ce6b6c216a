"""A job with landmarks that is killed in any of its phases ends with the model of one that was not, to the last bit."""

import errno
import os
import signal

import pytest
from forked import COMMAND
from runs import KINDS, Interrupter, assert_same_model, of

from fastsvm.cli import main
from fastsvm.jobs.runner import resume, run, status
from fastsvm.jobs.signals import Stopped
from fastsvm.sources import tiled

KILL = """
import os, signal
from fastsvm.estimators.nystroem import landmarks
from fastsvm.sources.tiled import ScratchSource
from fastsvm.jobs.runner import JobCheckpointer

def killed(kind, name, at):
    known, calls = getattr(kind, name), []

    def replaced(self, *given):
        calls.append(0)
        if len(calls) == at:
            if name == "observe":
                self.save(given[0]())
            os.kill(os.getpid(), signal.SIGKILL)
        return known(self, *given)

    setattr(kind, name, replaced)

"""
IN_A_FILE = 400_000  # bytes of memory: half of it does not hold the features in float16
PHASES = {
    "features": 'killed(landmarks.FeatureMap, "write", 1)',
    "ascent": 'killed(JobCheckpointer, "observe", 6)',
}


@pytest.fixture(scope="module")
def whole(file, tmp_path_factory):
    """Return the folder of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("landmarks") / "whole"
    run(of("nystroem", file, report=False)._replace(memory=3_000_000), folder)
    return folder


def written(path, file, memory, **more):
    """Write a job, and return its path."""
    values = "\n".join(f"{key} = {value!r}" for key, value in (KINDS["nystroem"] | more).items())
    path.write_text(
        f'[data]\ntrain = "{file}"\nholdout = 0.2\n[model]\nkind = "nystroem"\n{values}\n'
        f"[limits]\nmemory = {memory}\n[output]\nreport = false\n"
    )
    return path


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize("phase", PHASES)
def test_a_job_that_is_killed_in_any_phase_ends_with_the_same_model(phase, whole, file, tmp_path, forks):
    job = written(tmp_path / "job.toml", file, 3_000_000)
    process = forks.start("run", job, "--folder", "run", code=KILL + PHASES[phase] + "\n" + COMMAND, folder=tmp_path)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    folder = tmp_path / "run"
    assert status(folder)["state"] == "interrupted" and not (folder / "model.fastsvm").exists()
    assert (phase == "ascent") == bool(list(folder.glob("checkpoint-*.fastsvm")))
    resume(folder)
    assert_same_model(folder, whole)


# --- features in a scratch file ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_in_file(file, tmp_path_factory):
    """Return the folder of a run whose features are in a file, and that nothing interrupts."""
    folder = tmp_path_factory.mktemp("landmarks") / "in a file"
    run(of("nystroem", file, report=False)._replace(memory=IN_A_FILE), folder)
    return folder


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_nothing_is_left_of_a_scratch_file_whose_process_is_killed(whole_in_file, file, tmp_path, forks):
    (tmp_path / "scratch").mkdir()
    job = written(tmp_path / "job.toml", file, IN_A_FILE, scratch_folder=str(tmp_path / "scratch"))
    code = KILL + 'killed(ScratchSource, "append", 2)\n' + COMMAND
    process = forks.start("run", job, "--folder", "run", code=code, folder=tmp_path)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL and not list((tmp_path / "scratch").iterdir())
    resume(tmp_path / "run")
    assert_same_model(tmp_path / "run", whole_in_file)
    assert not list((tmp_path / "scratch").iterdir())


class FullDisk:
    """A temporary file on a disk that has room for some rows."""

    def __init__(self, file):
        self._file, self._left = file, 50_000

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        self._left -= len(data)
        if self._left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)


def test_a_job_whose_disk_is_full_is_resumed(whole_in_file, file, tmp_path, monkeypatch, capsys):
    """The disk is full in the first run, then in one that has a checkpoint."""
    folder, temporary, files = tmp_path / "run", tmp_path / "scratch", []
    temporary.mkdir()
    job = written(tmp_path / "job.toml", file, IN_A_FILE, scratch_folder=str(temporary))
    make = tiled.tempfile.TemporaryFile

    def made(**given):
        files.append(FullDisk(make(**given)))
        return files[-1]

    def fails(*words):
        with monkeypatch.context() as patch:
            patch.setattr(tiled.tempfile, "TemporaryFile", made)
            assert main([*words]) == 1
        said = capsys.readouterr().err
        assert "No space left on device. Free some space" in said and str(temporary) in said
        assert f"resume with: fastsvm resume {folder}" in said and status(folder)["last_event"] == "failed"
        assert files[-1].closed and not list(temporary.iterdir())

    fails("run", str(job), "--folder", str(folder))
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("fastsvm.jobs.runner.JobCheckpointer", Interrupter)
        resume(folder)
    kept = list(folder.glob("checkpoint-*.fastsvm"))
    fails("resume", str(folder))
    assert kept and list(folder.glob("checkpoint-*.fastsvm")) == kept
    resume(folder)
    assert_same_model(folder, whole_in_file)
