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
from typing import Any

import numpy as np

from fastsvm.files.atomic_file import check_input
from fastsvm.formats import FORMATS, recognise
from fastsvm.jobs.fingerprint import fingerprint
from fastsvm.jobs.inputs import Expected, InputOptions, converted, is_hdf5, naming
from fastsvm.jobs.report.page import write_report
from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import Stopped, StopSignals
from fastsvm.jobs.training.checkpoint_file import Checkpoints, FoundCheckpoint, check_bound
from fastsvm.jobs.training.checkpointer import JobCheckpointer
from fastsvm.jobs.training.cluster import estimators_of
from fastsvm.jobs.training.finished import written_surely
from fastsvm.jobs.training.job_file import OF_FORMATS, Job, learns_labels
from fastsvm.jobs.training.run_folder import RunFolder
from fastsvm.jobs.training.search import best_of, check_grid, search
from fastsvm.jobs.training.train import Trained, TrainingReport, measured, train
from fastsvm.memory import parse_memory
from fastsvm.persistence.model_file import load
from fastsvm.sources import open_hdf5
from fastsvm.tuning import current_tuning

__all__ = ["resume", "run", "status"]

# Keys that do not change a model.
_NOT_OF_THE_MODEL = {"threads", "seconds", "checkpoint_seconds", "report", "test", "cluster"}
_BAD_INPUT = (ValueError, TypeError, BlockingIOError, FileNotFoundError)
_PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "h5py")


def run(job: Job, path: str | Path) -> dict[str, Any]:
    """Run a job in a new folder, which does not exist or is empty; return the result, which `result.json` has too.

    ValueError or FileNotFoundError says that the folder, a file or a parameter is not usable, or that another process
    has the folder. If nothing was trained until then, the folder is left as it was found, so that the corrected job can
    have it. After SIGTERM, SIGHUP or Ctrl-C, Stopped is raised, and the run can be resumed.
    """
    _check_files(job)
    check_grid(job)
    own: RunFolder | None = None  # until then it may be that of another process
    try:
        with RunFolder.begun(path, _settled(job)) as folder:
            own = folder
            return _Run(folder, folder.job).go()
    except _BAD_INPUT:
        if own is not None and not own.has_results():
            own.undo()
        raise


def resume(path: str | Path, scheduler: str | None = None) -> dict[str, Any]:
    """Resume a run from its latest checkpoint; return the result, of `result.json` if the run has already ended.

    `scheduler` is the address of the scheduler of a cluster, in place of that of the job. FileNotFoundError says that
    the folder holds no run, ValueError that the job or the data changed, or that all checkpoints are damaged. After
    SIGTERM, SIGHUP or Ctrl-C, Stopped is raised, and the run can be resumed again.
    """
    folder = RunFolder.found(path)
    with folder.locked():
        found = folder.result
        if found is not None:
            _complete(folder, found)
            return found
        job = folder.job
        if scheduler is not None:
            if job.cluster is None:
                raise ValueError(f"The job of {path} has no [cluster]: it resumes without a scheduler.")
            job = job._replace(cluster={"shards": job.cluster["shards"], "scheduler": scheduler})
        return _Run(folder, job).go()


def status(path: str | Path) -> dict[str, Any]:
    """Return the state of a run ("running", "interrupted" or "done"), its progress or result, and its checkpoint.

    It raises FileNotFoundError if the folder holds no run, ValueError if `result.json` is damaged.
    """
    folder = RunFolder.found(path)
    process, result, events = folder.runner(), folder.result, folder.events(last=True)
    progress, checkpoint = _last(events, "progress"), _last(events, "checkpoint")
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


def _last(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((event for event in reversed(events) if event["event"] == name), {})


class _Run:
    """The work of one process on a run."""

    def __init__(self, folder: RunFolder, job: Job) -> None:
        self.folder, self.job = folder, job
        self.cells: list[dict[str, Any]] = []
        self.unwritten: dict[str, Any] | None = None  # cells of the search for which the disk had no room
        self.stops = StopSignals()
        self.begin = time.perf_counter()

    def go(self) -> dict[str, Any]:
        """Do the rest of the job and return the result."""
        folder = self.folder
        folder.clear_parts()
        job = self._converted()
        bound = {"job": _digest(job), "training data": fingerprint(job.train)}
        checkpointer = JobCheckpointer(folder, Checkpoints(folder.path, bound), job.checkpoint_seconds, self.stops)
        found = checkpointer.checkpoints.latest()
        checkpoint = None if found is None else found.tree
        checkpointer.before = 0.0 if checkpoint is None else checkpoint["seconds"]
        self._log_begin(found, checkpointer.before)
        try:
            with self.stops.listening(), naming(self.job.train, job.train), naming(str(self.job.test), str(job.test)):
                best = self._searched(job, bound)
                checkpointer.start()
                trained = train(
                    _with_time(best, checkpointer.before),
                    folder.model_file,
                    checkpointer,
                    checkpoint and checkpoint["tree"],
                )
                return self._finished(best, trained, checkpointer)
        except Stopped as stop:
            folder.log("stopped", signal=stop.number)
            raise
        except Exception as error:
            folder.log("failed", error=f"{type(error).__name__}: {error}")
            raise

    def _log_begin(self, found: FoundCheckpoint | None, before: float) -> None:
        event = "resume" if found is not None or self.folder.search else "begin"
        self.folder.log(event, checkpoint=found and found.number, versions=_versions())
        if found is None:
            return
        for reason in found.refused:
            self.folder.log("checkpoint refused", error=reason)
            say(f"{reason} The checkpoint before it is used.")
        say(f"resumed after {before:.0f} s of work.")

    def _searched(self, job: Job, bound: dict[str, Any]) -> Job:
        """Return the job with the best parameters of its grid.

        Cells that an earlier process evaluated are not evaluated again. The search takes at most half of the time
        limit.
        """
        if not job.grid:
            return job
        known = self.folder.search or {"bound_to": bound, "cells": []}
        check_bound(known["bound_to"], bound, self.folder.search_file)

        def keep(cells: list[dict[str, Any]]) -> None:
            self._keep_search(job, {"bound_to": bound, "cells": cells})
            self.stops.raise_if_asked()

        self.folder.log("search", cells=int(np.prod([len(values) for values in job.grid.values()])))
        seconds = np.inf if job.seconds is None else job.seconds * current_tuning().jobs.search_share
        begin = time.perf_counter()
        self.cells = search(job, known["cells"], keep, seconds)
        best = best_of(job, self.cells)
        self.folder.log("searched", **best)
        job = job._replace(parameters={**job.parameters, **best["parameters"]})
        return _with_time(job, min(seconds, time.perf_counter() - begin))

    def _keep_search(self, job: Job, known: dict[str, Any]) -> None:
        """Write the cells that are evaluated; on a full disk they stay in memory and the run continues."""
        self._write_search(known)
        self.folder.log("compared", n_cells=len(known["cells"]), **best_of(job, known["cells"]))

    def _write_search(self, known: dict[str, Any]) -> None:
        try:
            self.folder.write(self.folder.search_file, known)
            self.unwritten = None
        except OSError as error:
            self.unwritten = known
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
            part = name if has_parts else None
            options = InputOptions(
                job.format,
                job.label,
                job.id,
                part,
                learns_labels(job.kind),
                job.sample_weight,
                job.first_index,
            )
            converted(path, file, options, expected, seed=job.seed)
        return str(file)

    def _finished(self, job: Job, trained: Trained, checkpointer: JobCheckpointer) -> dict[str, Any]:
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

    def report(self, result: dict[str, Any]) -> None:
        """Write the report of a run that has ended, from its model and its result."""
        job, best = self._converted(), result.get("search")
        if best is not None and self.folder.search is not None:
            self.cells = self.folder.search["cells"]
            job = job._replace(parameters={**job.parameters, **best["parameters"]})
        model = load(self.folder.model_file)
        report = TrainingReport(**{name: result[name] for name in TrainingReport._fields if name in result})
        write_report(self.folder, job, Trained(model, report, measured(model, job)), result, self.cells)


def _complete(folder: RunFolder, result: dict[str, Any]) -> None:
    """Complete a run whose process was killed after it had written the result."""
    if not folder.report_file.exists():
        with _result_stays(folder):
            if folder.job.report:
                _Run(folder, folder.job).report(result)
    _clear(folder)


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
    """Return the job with fixed values for parameters whose "auto" depends on free memory or on the speed of reads.

    A resumed run would otherwise end with another model than an uninterrupted one.
    """
    parameters = dict(job.parameters)
    known = signature(estimators_of(job.cluster)[job.kind]).parameters
    if "window_visits" in known and parameters.get("window_visits", "auto") == "auto":
        parameters["window_visits"] = 1
    return job._replace(parameters=parameters, memory=parse_memory("auto" if job.memory is None else job.memory))


def _check_files(job: Job) -> None:
    """Raise an error for a file that cannot be read, before the folder is made.

    It is FileNotFoundError without such a file, and ValueError if keys say how to read a table and no file is one.
    """
    files = [path for path in (job.train, job.test) if path is not None]
    for path in files:
        check_input(path)
    given = {name: getattr(job, name) for name in OF_FORMATS}
    given["label"] = None if job.label is False else job.label
    names = [f"data.{name}" for name, value in given.items() if value is not None]
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


def _versions() -> dict[str, str]:
    from fastsvm import __version__

    return {"fastsvm": __version__, "python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
