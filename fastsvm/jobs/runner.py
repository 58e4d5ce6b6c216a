"""Run a job in a folder of its own, go on with one that was interrupted, tell how one is doing."""

import hashlib
import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from fastsvm.estimators import ESTIMATORS
from fastsvm.files.atomic_file import check_input
from fastsvm.formats import convert
from fastsvm.jobs.fingerprint import fingerprint, is_hdf5
from fastsvm.jobs.report.page import write_report
from fastsvm.jobs.say import say
from fastsvm.jobs.training.checkpoint_file import Checkpoints, check_bound
from fastsvm.jobs.training.checkpointer import JobCheckpointer, Stopped
from fastsvm.jobs.training.finished import written_surely
from fastsvm.jobs.training.job_file import Job
from fastsvm.jobs.training.run_folder import RunFolder
from fastsvm.jobs.training.search import best_of, check_grid, search
from fastsvm.jobs.training.train import Trained, TrainingReport, measured, train
from fastsvm.memory import parse_memory
from fastsvm.persistence.model_file import load

__all__ = ["resume", "run", "status"]

_NOT_OF_THE_MODEL = {"threads", "seconds", "checkpoint_seconds", "report", "test"}
_SEARCH_SHARE = 0.5
_PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "h5py")


def run(job: Job, path: str | Path) -> dict[str, Any]:
    """Run a job in a new folder.

    Parameters
    ----------
    job : Job
        What to do.
    path : str or Path
        The folder; it does not exist yet, or is empty.

    Returns
    -------
    dict
        The result, which is also in `result.json`.

    Raises
    ------
    ValueError, FileNotFoundError
        If the folder, a file or a parameter is not usable.
    Stopped
        After SIGTERM, SIGHUP or Ctrl-C, with what was reached in a checkpoint.
    """
    _check_files(job)
    check_grid(job)
    folder = RunFolder.begun(path, _settled(job))
    with folder.locked():
        return _Run(folder, folder.job).go()


def resume(path: str | Path) -> dict[str, Any]:
    """Go on with a run from its last checkpoint; return the result of one that has ended.

    Raises
    ------
    FileNotFoundError
        If the folder holds no run.
    ValueError
        If its data or job changed, or all its checkpoints are damaged.
    """
    folder = RunFolder.found(path)
    with folder.locked():
        found = folder.result
        if found is not None:
            _complete(folder, found)
            return found
        return _Run(folder, folder.job).go()


def status(path: str | Path) -> dict[str, Any]:
    """Return how a run is doing: its state, how far it is, and its checkpoints."""
    folder = RunFolder.found(path)
    process, result, events = folder.runner(), folder.result, folder.events(last=True)
    progress = next((event for event in reversed(events) if event["event"] == "progress"), {})
    checkpoint = next((event for event in reversed(events) if event["event"] == "checkpoint"), {})
    last = events[-1] if events else {}
    state = "done" if result else "running" if process else "interrupted"
    shown = {name: value for name, value in progress.items() if name not in ("event", "time")}
    return {
        "run": str(folder.path),
        "state": state,
        "process": process,
        "last_event": last.get("event"),
        "at": last.get("time"),
        "progress": shown,
        "checkpoint": checkpoint.get("file"),
        "checkpoint_at": checkpoint.get("time"),
        "result": result,
        "what_to_do": f"fastsvm resume {folder.path}" if state == "interrupted" else None,
    }


class _Run:
    """One process that works on a run."""

    def __init__(self, folder: RunFolder, job: Job) -> None:
        self.folder, self.job = folder, job
        self.cells: list[dict[str, Any]] = []
        self.unkept: dict[str, Any] | None = None  # what was compared, while there is no room for it
        self.begin = time.perf_counter()

    def go(self) -> dict[str, Any]:
        """Do what is left of the job."""
        folder = self.folder
        folder.clear_parts()
        job = self._converted()
        bound = {"job": _digest(job), "training data": fingerprint(job.train)}
        checkpointer = JobCheckpointer(folder, Checkpoints(folder.path, bound), job.checkpoint_seconds)
        found = checkpointer.checkpoints.latest()
        begun = None if found is None else found.tree
        checkpointer.before = 0.0 if begun is None else begun["seconds"]
        event = "resume" if begun or folder.search else "begin"
        folder.log(event, checkpoint=found and found.number, versions=_versions())
        for words in found.refused if found else []:
            folder.log("checkpoint refused", error=words)
            say(f"{words} The one before it is gone on with.")
        if begun is not None:
            say(f"going on after {checkpointer.before:.0f} s of work.")
        try:
            with checkpointer.listening():
                best = self._searched(job, bound, checkpointer)
                checkpointer.start()
                trained = train(
                    _with_time(best, checkpointer.before), folder.model_file, checkpointer, begun and begun["tree"]
                )
                return self._finished(best, trained, checkpointer)
        except Stopped as stop:
            folder.log("stopped", signal=stop.number)
            raise
        except Exception as error:
            folder.log("failed", error=f"{type(error).__name__}: {error}")
            raise

    def _searched(self, job: Job, bound: dict[str, Any], checkpointer: JobCheckpointer) -> Job:
        """Return the job with the best parameters of its grid; what was compared before is not compared again.

        A search may take half of the time that the run has.
        """
        if not job.grid:
            return job
        known = self.folder.search or {"bound_to": bound, "cells": []}
        check_bound(known["bound_to"], bound, self.folder.search_file)

        def keep(cells: list[dict[str, Any]]) -> None:
            self._keep_search(job, {"bound_to": bound, "cells": cells})
            checkpointer.raise_if_asked()

        self.folder.log("search", cells=int(np.prod([len(values) for values in job.grid.values()])))
        seconds = np.inf if job.seconds is None else job.seconds * _SEARCH_SHARE
        begin = time.perf_counter()
        self.cells = search(job, known["cells"], keep, seconds)
        best = best_of(job, self.cells)
        self.folder.log("searched", **best)
        job = job._replace(parameters={**job.parameters, **best["parameters"]})
        return _with_time(job, min(seconds, time.perf_counter() - begin))

    def _keep_search(self, job: Job, known: dict[str, Any]) -> None:
        """Write down what was compared; without room for it, the run goes on with what it has in memory."""
        self._write_search(known)
        self.folder.log("compared", n_cells=len(known["cells"]), **best_of(job, known["cells"]))

    def _write_search(self, known: dict[str, Any]) -> None:
        try:
            self.folder.write(self.folder.search_file, known)
            self.unkept = None
        except OSError as error:
            self.unkept = known
            say(f"{self.folder.search_file} could not be written: {error}")

    def _converted(self) -> Job:
        """Return the job with HDF5 files: others are converted into the folder, once."""
        files = {}
        for name in ("train", "test"):
            path = getattr(self.job, name)
            if path is not None and not is_hdf5(path):
                files[name] = str(self.folder.path / f"{name}.h5")
                if not Path(files[name]).exists():
                    self.folder.log("convert", file=path)
                    split = name if Path(path).is_dir() else None
                    convert(path, files[name], format=self.job.format, split=split, seed=self.job.seed, progress=True)
        return self.job._replace(**files)

    def _finished(self, job: Job, trained: Trained, checkpointer: JobCheckpointer) -> dict[str, Any]:
        """Write the result and remove what is needed no longer."""
        folder = self.folder
        seconds = checkpointer.before + time.perf_counter() - self.begin
        result = {**trained.report._asdict(), "run_seconds": seconds, "checkpoint_seconds": checkpointer.spent}
        result["seconds"] += checkpointer.before
        if self.cells:
            result["search"] = best_of(job, self.cells)
        written_surely(lambda: folder.write(folder.result_file, result), folder.result_file)
        if self.unkept is not None:  # there was room for the result
            self._write_search(self.unkept)
        folder.log("end", **{name: result[name] for name in ("stop_reason", "objective", "accuracy", "r2", "seconds")})
        if job.report:
            with _result_stays(folder):
                write_report(folder, job, trained, result, self.cells)
        _clear(folder)
        return result

    def report(self, result: dict[str, Any]) -> None:
        """Write the page about a run that has ended, of what it has left."""
        job, best = self._converted(), result.get("search")
        if best is not None and self.folder.search is not None:
            self.cells = self.folder.search["cells"]
            job = job._replace(parameters={**job.parameters, **best["parameters"]})
        model = load(self.folder.model_file)
        report = TrainingReport(**{name: result[name] for name in TrainingReport._fields})
        write_report(self.folder, job, Trained(model, report, measured(model, job)), result, self.cells)


def _complete(folder: RunFolder, result: dict[str, Any]) -> None:
    """Do what a process has left undone that was killed when it had written its result."""
    if not folder.report_file.exists():
        with _result_stays(folder):
            if folder.job.report:
                _Run(folder, folder.job).report(result)
    _clear(folder)


@contextmanager
def _result_stays(folder: RunFolder) -> Iterator[None]:
    """Let nothing that goes wrong with the page about a run that has ended be an error of the run."""
    try:
        yield
    except Exception as error:
        folder.log("report failed", error=f"{type(error).__name__}: {error}")
        say(f"the report could not be written: {error}")


def _clear(folder: RunFolder) -> None:
    """Remove what a run that has ended needs no longer."""
    for file in Checkpoints(folder.path, {}).files():
        file.unlink(missing_ok=True)
    folder.clear_parts()


def _settled(job: Job) -> Job:
    """Return the job with what would otherwise depend on the moment: how much memory there is, and how fast reads are.

    For a run that is gone on with is to do what it would have done.
    """
    parameters = dict(job.parameters)
    known = signature(ESTIMATORS[job.kind]).parameters
    if "window_visits" in known and parameters.get("window_visits", "auto") == "auto":
        parameters["window_visits"] = 1
    return job._replace(parameters=parameters, memory=parse_memory("auto" if job.memory is None else job.memory))


def _check_files(job: Job) -> None:
    """Raise the error that a file of the job would end with, before a folder is made."""
    for path in (job.train, job.test):
        if path is not None:
            check_input(path)


def _digest(job: Job) -> str:
    """Return a digest of what the model depends on."""
    words = {name: value for name, value in job._asdict().items() if name not in _NOT_OF_THE_MODEL}
    return hashlib.blake2b(json.dumps(words, sort_keys=True, default=dict).encode(), digest_size=8).hexdigest()


def _with_time(job: Job, spent: float) -> Job:
    """Return the job with the time that is left of its limit."""
    return job if job.seconds is None else job._replace(seconds=max(1e-3, job.seconds - spent))


def _versions() -> dict[str, str]:
    from fastsvm import __version__

    return {"fastsvm": __version__, "python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
