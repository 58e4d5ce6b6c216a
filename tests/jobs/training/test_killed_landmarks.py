"""A job with landmarks that is killed in any of its phases ends with the model of one that was not, to the last bit."""

import os
import signal

import pytest
from forked import COMMAND
from runs import KINDS, assert_same_model, of

from fastsvm.estimators.nystroem import cells
from fastsvm.jobs.runner import resume, run, status

KILL = """
import os, signal
from fastsvm.estimators.nystroem import cells, feature_map
from fastsvm.jobs.training.checkpointer import JobCheckpointer
cells._CELL = 600

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
PHASES = {
    "features": 'killed(feature_map.FeatureMap, "write", 1)',
    "ascent": 'killed(JobCheckpointer, "observe", 12)',
    "refinement": 'killed(cells, "_machine", 3)',
}


@pytest.fixture(scope="module")
def whole(file, tmp_path_factory):
    """Return the folder of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("landmarks") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_CELL", 600)
        patch.setitem(KINDS, "nystroem", KINDS["nystroem"] | {"refine": "cells"})
        run(of("nystroem", file, report=False)._replace(memory=3_000_000), folder)
    return folder


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize("phase", PHASES)
def test_a_job_that_is_killed_in_any_phase_ends_with_the_same_model(phase, whole, file, tmp_path, forks, monkeypatch):
    job = tmp_path / "job.toml"
    values = "\n".join(f"{key} = {value!r}" for key, value in KINDS["nystroem"].items())
    job.write_text(
        f'[data]\ntrain = "{file}"\nholdout = 0.2\n[model]\nkind = "nystroem"\nrefine = "cells"\n{values}\n'
        "[limits]\nmemory = 3000000\n[output]\nreport = false\n"
    )
    process = forks.start("run", job, "--folder", "run", code=KILL + PHASES[phase] + "\n" + COMMAND, folder=tmp_path)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    folder = tmp_path / "run"
    assert status(folder)["state"] == "interrupted" and not (folder / "model.fastsvm").exists()
    assert (phase == "ascent") == bool(list(folder.glob("checkpoint-*.fastsvm")))
    monkeypatch.setattr(cells, "_CELL", 600)
    resume(folder)
    assert_same_model(folder, whole)
