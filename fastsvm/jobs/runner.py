"""Run a job in a folder of its own, resume an interrupted run, and show the status of a run."""

import hashlib
import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from inspect import signature
from pathlib import Path

import numpy as np

from fastsvm.files.atomic_file import check_input
from fastsvm.formats import FORMATS, recognise
from fastsvm.jobs.inputs import Expected, InputOptions, Json, converted, fingerprint, is_hdf5, naming
from fastsvm.jobs.report.page import write_report
from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import Stopped, StopSignals
from fastsvm.jobs.training.checkpoints import Checkpoint, Checkpoints, JobCheckpointer, check_bound
from fastsvm.jobs.training.job_file import Job, estimators_of
from fastsvm.jobs.training.run_folder import RunFolder
from fastsvm.jobs.training.search import best_of, check_grid, search
from fastsvm.jobs.training.train import Trained, TrainingReport, measured, train, written_surely
from fastsvm.memory import parse_memory
from fastsvm.persistence.model_file import load
from fastsvm.sources import open_hdf5
from fastsvm.tuning import current_tuning

# Keys that do not change a model.
_NOT_OF_THE_MODEL = {"threads", "seconds", "checkpoint_seconds", "report", "test", "cluster"}
_BAD_INPUT = (ValueError, TypeError, BlockingIOError, FileNotFoundError)
_PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "h5py")


def run(job: Job, path: str | Path) -> Json:
    """Run a job in a new folder, which does not exist or is empty; return the result, which `result.json` has too.

    After an error in the job the folder is left as it was found if nothing was trained, so that the corrected job can
    have it. After a signal Stopped is raised, and the run can be resumed.
    """
    _check_files(job)
    check_grid(job)
    begun: RunFolder | None = None  # until then it may be that of another process
    try:
        with RunFolder.begun(path, _settled(job)) as folder:
            begun = folder
            return _Run(folder, folder.job).go()
    except _BAD_INPUT:
        if begun is not None and not begun.has_results():
            begun.undo()
        raise


def resume(path: str | Path, scheduler: str | None = None) -> Json:
    """Resume a run from its latest checkpoint; return the result, of `result.json` if the run has already ended.

    `scheduler` is the address of the scheduler of a cluster, in place of that of the job.
    """
    folder = RunFolder.found(path)
    with folder.locked():
        result = folder.result
        if result is not None:  # the process may have been killed since it wrote this
            if not folder.report_file.exists():
                with _result_stays(folder):
                    if folder.job.report:
                        _Run(folder, folder.job).report(result)
            _clear(folder)
            return result
        job = folder.job
        if scheduler is not None:
            if job.cluster is None:
                raise ValueError(f"The job of {path} has no [cluster]: it resumes without a scheduler.")
            job = job._replace(cluster={"shards": job.cluster["shards"], "scheduler": scheduler})
        return _Run(folder, job).go()


def status(path: str | Path) -> Json:
    """Return the state of a run ("running", "interrupted" or "done"), its progress or result, and its checkpoint."""
    folder = RunFolder.found(path)
    process, result, events = folder.runner(), folder.result, folder.events(last=True)
    latest = {event.get("event"): event for event in events}
    progress, checkpoint = latest.get("progress", {}), latest.get("checkpoint", {})
    last = events[-1] if events else {}
    state = "done" if result else "running" if process else "interrupted"
    shown = {name: value for name, value in progress.items() if name not in ("event", "time") and not result}
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
    """The work of one process on a run."""

    def __init__(self, folder: RunFolder, job: Job) -> None:
        self.folder, self.job = folder, job
        self.cells: list[Json] = []
        self.unwritten: Json | None = None  # cells of the search for which the disk had no room
        self.stops = StopSignals()
        self.begin = time.perf_counter()

    def go(self) -> Json:
        """Do the rest of the job and return the result."""
        folder = self.folder
        folder.clear_parts()
        job = self._converted()
        bound = {"job": _digest(job), "training data": fingerprint(job.train)}
        checkpointer = JobCheckpointer(folder, Checkpoints(folder.path, bound), job.checkpoint_seconds, self.stops)
        checkpoint = checkpointer.checkpoints.latest()
        checkpointer.before = 0.0 if checkpoint is None else checkpoint.tree["seconds"]
        self._log_begin(checkpoint, checkpointer.before)
        try:
            with self.stops.listening(), naming(self.job.train, job.train), naming(str(self.job.test), str(job.test)):
                best = self._searched(job, bound)
                checkpointer.start()
                state = None if checkpoint is None else checkpoint.tree["tree"]
                trained = train(_with_time(best, checkpointer.before), folder.model_file, checkpointer, state)
                return self._finished(best, trained, checkpointer)
        except Stopped as stop:
            folder.log("stopped", signal=stop.number)
            raise
        except Exception as error:
            folder.log("failed", error=f"{type(error).__name__}: {error}")
            raise

    def _log_begin(self, checkpoint: Checkpoint | None, before: float) -> None:
        from fastsvm import __version__

        event = "resume" if checkpoint is not None or self.folder.search else "begin"
        versions = {"fastsvm": __version__, "python": platform.python_version()}
        versions |= {name: version(name) for name in _PACKAGES}
        self.folder.log(event, checkpoint=checkpoint and checkpoint.number, versions=versions)
        if checkpoint is None:
            return
        for reason in checkpoint.refused:
            self.folder.log("checkpoint refused", error=reason)
            say(f"{reason} The checkpoint before it is used.")
        say(f"resumed after {before:.0f} s of work.")

    def _searched(self, job: Job, bound: Json) -> Job:
        """Return the job with the best parameters of its grid, of which earlier processes may have evaluated cells."""
        if not job.grid:
            return job
        before = self.folder.search or {"bound_to": bound, "cells": []}
        check_bound(before["bound_to"], bound, self.folder.search_file)

        def keep(cells: list[Json]) -> None:
            self._write_search({"bound_to": bound, "cells": cells})
            self.folder.log("compared", n_cells=len(cells), **best_of(job, cells))
            self.stops.raise_if_asked()

        self.folder.log("search", cells=int(np.prod([len(values) for values in job.grid.values()])))
        seconds = np.inf if job.seconds is None else job.seconds * current_tuning().jobs.search_share
        begin = time.perf_counter()
        self.cells = search(job, before["cells"], keep, seconds)
        best = best_of(job, self.cells)
        self.folder.log("searched", **best)
        job = job._replace(parameters={**job.parameters, **best["parameters"]})
        return _with_time(job, min(seconds, time.perf_counter() - begin))

    def _write_search(self, words: Json) -> None:
        """Write the cells that are evaluated; on a full disk they stay in memory and the run continues."""
        try:
            self.folder.write(self.folder.search_file, words)
            self.unwritten = None
        except OSError as error:
            self.unwritten = words
            say(f"cannot write {self.folder.search_file}: {error}. The run continues.")

    def _converted(self) -> Job:
        """Return the job with HDF5 files; files in other formats are converted into the folder once."""
        job = self.job
        job = job._replace(train=self._hdf5(job.train, "train"))
        if job.test is None:
            return job
        with open_hdf5(job.train) as data:
            expected = Expected.of(data)
        return job._replace(test=self._hdf5(job.test, "test", expected))

    def _hdf5(self, path: str, name: str, expected: Expected | None = None) -> str:
        if is_hdf5(path):
            return path
        file, job = self.folder.path / f"{name}.h5", self.job
        if not file.exists():
            self.folder.log("convert", file=path)
            has_parts = "split" in FORMATS[job.format or recognise(path)].options and Path(path).is_dir()
            options = job.inputs()._replace(split=name if has_parts else None)
            converted(path, file, options, expected, seed=job.seed)
        return str(file)

    def _finished(self, job: Job, trained: Trained, checkpointer: JobCheckpointer) -> Json:
        """Write the result and the report, then remove the checkpoints; return the result."""
        folder = self.folder
        seconds = checkpointer.before + time.perf_counter() - self.begin
        result = {**trained.report._asdict(), "run_seconds": seconds, "checkpoint_seconds": checkpointer.spent}
        result["seconds"] += checkpointer.before
        if self.cells:
            result["search"] = best_of(job, self.cells)
        written_surely(lambda: folder.write(folder.result_file, result), folder.result_file)
        if self.unwritten is not None:  # the result was written, so the disk has room again
            self._write_search(self.unwritten)
        folder.log("end", **{name: result[name] for name in ("stop_reason", "objective", "accuracy", "r2", "seconds")})
        if job.report:
            with _result_stays(folder):
                write_report(folder, job, trained, result, self.cells)
        _clear(folder)
        return result

    def report(self, result: Json) -> None:
        """Write the report of a run that has ended, from its model and its result."""
        job, best = self._converted(), result.get("search")
        if best is not None and self.folder.search is not None:
            self.cells = self.folder.search["cells"]
            job = job._replace(parameters={**job.parameters, **best["parameters"]})
        model = load(self.folder.model_file)
        report = TrainingReport(**{name: result[name] for name in TrainingReport._fields if name in result})
        write_report(self.folder, job, Trained(model, report, measured(model, job)), result, self.cells)


@contextmanager
def _result_stays(folder: RunFolder) -> Iterator[None]:
    """Log an error of the report instead of raising it: the run has ended well without it."""
    try:
        yield
    except Exception as error:
        folder.log("report failed", error=f"{type(error).__name__}: {error}")
        say(f"cannot write the report: {error}")


def _clear(folder: RunFolder) -> None:
    """Remove the checkpoints of a run that has ended."""
    for file in Checkpoints(folder.path, {}).files():
        file.unlink(missing_ok=True)
    folder.clear_parts()


def _settled(job: Job) -> Job:
    """Return the job with values for "auto" that depends on free memory: a resumed run must have the same."""
    parameters = dict(job.parameters)
    names = signature(estimators_of(job.cluster)[job.kind]).parameters
    if "window_visits" in names and parameters.get("window_visits", "auto") == "auto":
        parameters["window_visits"] = 1
    return job._replace(parameters=parameters, memory=parse_memory("auto" if job.memory is None else job.memory))


def _check_files(job: Job) -> None:
    """Raise the error of a file that cannot be read, or of keys that no file needs, before the folder is made."""
    files = [path for path in (job.train, job.test) if path is not None]
    for path in files:
        check_input(path)
    options = job.inputs()._replace(last_label=True, label=None if job.label is False else job.label)
    names = [f"data.{name}" for name, value in options._asdict().items() if value != InputOptions._field_defaults[name]]
    if names and all(map(is_hdf5, files)):
        raise ValueError(
            f"{' and '.join(names)} cannot be used: {job.train} is an HDF5 file, whose labels are its dataset y. These "
            "keys are for files that are converted."
        )


def _digest(job: Job) -> str:
    """Return a digest of the keys that determine the model."""
    words = {name: value for name, value in job._asdict().items() if name not in _NOT_OF_THE_MODEL}
    return hashlib.blake2b(json.dumps(words, sort_keys=True, default=dict).encode(), digest_size=8).hexdigest()


def _with_time(job: Job, spent: float) -> Job:
    """Return the job with the rest of its time limit."""
    return job if job.seconds is None else job._replace(seconds=max(1e-3, job.seconds - spent))
