"""Run a job in a folder of its own, with checkpoints and a log; resume an interrupted run; show the status of a run.

A stop signal takes effect between two steps of the fit, after a checkpoint of that moment. A step that takes too long
is interrupted; the run is then resumed from the checkpoint before.
"""

import hashlib
import json
import os
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from inspect import signature
from pathlib import Path

import numpy as np

from fastsvm.files.atomic_file import atomic_write, check_folder, check_input, is_taken, take
from fastsvm.formats import FORMATS, recognise
from fastsvm.jobs.inputs import (
    Expected,
    Json,
    check_parts,
    converted,
    fingerprint,
    is_streamed,
    named_parts,
    naming,
    open_data,
    refer,
)
from fastsvm.jobs.report.page import write_report
from fastsvm.jobs.signals import Stopped, StopSignals
from fastsvm.jobs.training.checkpoints import Checkpoint, Checkpoints, Tree, check_bound
from fastsvm.jobs.training.job_file import Job, estimators_of
from fastsvm.jobs.training.search import best_of, check_grid, search, told
from fastsvm.jobs.training.train import Trained, measured, train, written_surely
from fastsvm.memory import parse_memory, peak_memory
from fastsvm.messages import say
from fastsvm.persistence.model_file import load
from fastsvm.sources.opening import is_zarr
from fastsvm.tuning import current_tuning

# Keys that do not change a model.
_NOT_OF_THE_MODEL = {"threads", "seconds", "checkpoint_seconds", "report", "test", "cluster"}
_BAD_INPUT = (ValueError, TypeError, BlockingIOError, FileNotFoundError)
_PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "h5py")


def run(job: Job, path: str | Path) -> Json:
    """Run a job in a new folder, which does not exist or is empty; return the result, which `result.json` has too.

    After an error in the job the corrected job can have the folder. After a signal, Stopped, the run can be resumed.
    """
    files = [path for path in (job.train, job.test) if path is not None]
    for file in files:
        check_input(file)
        if is_streamed(file) and (parts := named_parts(file, job.inputs())):
            check_parts(file, parts)
    check_grid(job)
    with RunFolder.begun(path, _settled(job)) as folder:
        return _Run(folder, folder.job).go()


def resume(path: str | Path, scheduler: str | None = None) -> Json:
    """Resume a run from its latest checkpoint and return the result; `scheduler` replaces the address in the job."""
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
    process, result, events = folder.runner(), folder.result, folder.events()
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

    def __init__(self, folder: "RunFolder", job: Job) -> None:
        self.folder, self.job = folder, job
        self.cells: list[Json] = []
        self.bound: Json = {}
        self.stops = StopSignals()
        self.begin = time.perf_counter()

    def go(self) -> Json:
        """Do the rest of the job and return the result."""
        folder = self.folder
        folder.clear_parts()
        job = self._converted()
        self.bound = {"job": _digest(job), "training data": fingerprint(job.train)}
        checkpointer = JobCheckpointer(folder, Checkpoints(folder.path, self.bound), job.checkpoint_seconds, self.stops)
        checkpoint = checkpointer.checkpoints.latest()
        checkpointer.before = 0.0 if checkpoint is None else checkpoint.tree["seconds"]
        self._log_begin(checkpoint, checkpointer.before)
        try:
            with self.stops.listening(), naming(self.job.train, job.train), naming(str(self.job.test), str(job.test)):
                best = self._searched(job)
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

    def _searched(self, job: Job) -> Job:
        """Return the job with the best parameters of its grid, of which earlier processes may have evaluated cells."""
        if not job.grid:
            return job
        before = self.folder.search or {"bound_to": self.bound, "cells": []}
        check_bound(before["bound_to"], self.bound, self.folder.search_file)

        def keep(cells: list[Json]) -> None:
            self._write_search(cells)
            self.folder.log("compared", n_cells=len(cells), **told(best_of(job, cells)))
            self.stops.raise_if_asked()

        self.folder.log("search", grid=dict(job.grid))
        seconds = np.inf if job.seconds is None else job.seconds * current_tuning().jobs.search_share
        begin = time.perf_counter()
        self.cells = search(job, before["cells"], keep, seconds)
        best = best_of(job, self.cells)
        self.folder.log("searched", **told(best))
        job = job._replace(parameters={**job.parameters, **best["parameters"]})
        return _with_time(job, min(seconds, time.perf_counter() - begin))

    def _write_search(self, cells: list[Json]) -> None:
        """Write the cells that are evaluated; on a full disk they stay in memory and the run continues."""
        try:
            self.folder.write(self.folder.search_file, {"bound_to": self.bound, "cells": cells})
        except OSError as error:
            say(f"cannot write {self.folder.search_file}: {error}. The run continues.")

    def _converted(self) -> Job:
        """Return the job with HDF5 files; files in other formats are converted into the folder once."""
        job = self.job
        job = job._replace(train=self._hdf5(job.train, "train"))
        if job.test is None:
            return job
        with open_data(job.train) as data:
            expected = Expected.of(data)
        return job._replace(test=self._hdf5(job.test, "test", expected))

    def _hdf5(self, path: str, name: str, expected: Expected | None = None) -> str:
        file, job = self.folder.path / f"{name}.h5", self.job
        if is_streamed(path):
            parts = named_parts(path, job.inputs())
            if not parts and not is_zarr(path):
                return path
            return str(file if file.exists() else refer(file, path, parts))
        if not file.exists():
            self.folder.log("convert", file=path)
            has_parts = "split" in FORMATS[job.format or recognise(path)].options and Path(path).is_dir()
            options = job.inputs() | {"split": name if has_parts else None}
            converted(path, file, options, expected, seed=job.seed)
        return str(file)

    def _finished(self, job: Job, trained: Trained, checkpointer: "JobCheckpointer") -> Json:
        """Write the result and the report, then remove the checkpoints; return the result."""
        folder = self.folder
        seconds = checkpointer.before + time.perf_counter() - self.begin
        result = trained.report | {"run_seconds": seconds, "checkpoint_seconds": checkpointer.spent}
        result["seconds"] += checkpointer.before
        if self.cells:
            result["search"] = told(best_of(job, self.cells))
        written_surely(lambda: folder.write(folder.result_file, result), folder.result_file)
        if self.cells:  # the disk may have been full before; the result was written, so it has room again
            self._write_search(self.cells)
        logged = "stop_reason", "objective", "accuracy", "r2", "scores", "seconds"
        folder.log("end", **{name: result[name] for name in logged})
        if job.report:
            with _result_stays(folder):
                model, tested = trained.model, trained.tested
                write_report(folder.report_file, folder.events(), job, model, tested, result, self.cells)
        _clear(folder)
        return result

    def report(self, result: Json) -> None:
        """Write the report of a run that has ended, from its model and its result."""
        job, best = self._converted(), result.get("search")
        if best is not None and self.folder.search is not None:
            self.cells = self.folder.search["cells"]
            job = job._replace(parameters={**job.parameters, **best["parameters"]})
        model = load(self.folder.model_file)
        tested = measured(model, job)
        write_report(self.folder.report_file, self.folder.events(), job, model, tested, result, self.cells)


@contextmanager
def _result_stays(folder: "RunFolder") -> Iterator[None]:
    """Log an error of the report instead of raising it: the run has ended well without it."""
    try:
        yield
    except Exception as error:
        folder.log("report failed", error=f"{type(error).__name__}: {error}")
        say(f"cannot write the report: {error}")


def _clear(folder: "RunFolder") -> None:
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


def _digest(job: Job) -> str:
    """Return a digest of the keys that determine the model."""
    words = {name: value for name, value in job._asdict().items() if name not in _NOT_OF_THE_MODEL}
    return hashlib.blake2b(json.dumps(words, sort_keys=True, default=dict).encode(), digest_size=8).hexdigest()


def _with_time(job: Job, spent: float) -> Job:
    """Return the job with the rest of its time limit."""
    return job if job.seconds is None else job._replace(seconds=max(1e-3, job.seconds - spent))


# --- the folder -------------------------------------------------------------------------------------------------------


class RunFolder:
    """The folder of a run, with all files that the run writes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.job_file, self.model_file = self.path / "job.json", self.path / "model.fastsvm"
        self.result_file, self.report_file = self.path / "result.json", self.path / "report.html"
        self.search_file, self.log_file = self.path / "search.json", self.path / "log.jsonl"
        self.lock_file = self.path / "lock"
        self._lost_events = 0

    @classmethod
    @contextmanager
    def begun(cls, path: str | Path, job: Job) -> Iterator["RunFolder"]:
        """Make and lock the folder of a new run; undo that after an error in the job, unless something was computed."""
        folder, is_own = cls(path), False
        folder._check_new()
        made = [one for one in (folder.path, *folder.path.absolute().parents) if not one.exists()]
        folder.path.mkdir(parents=True, exist_ok=True)
        try:
            with folder.locked():
                folder._check_new()  # another process may have begun a run since
                folder.write(folder.job_file, job._asdict())
                is_own = True
                yield folder
        except _BAD_INPUT:
            computed = (folder.search_file, folder.model_file, folder.result_file)
            if is_own and not (any(folder.path.glob("checkpoint-*")) or any(file.exists() for file in computed)):
                folder._undo(made)
            raise

    def _check_new(self) -> None:
        """Raise ValueError if the folder exists and is not empty, NotADirectoryError if it is a file."""
        check_folder(self.path)
        if self.job_file.exists():
            raise ValueError(
                f"{self.path} holds a run already. Resume it by 'fastsvm resume {self.path}', or name a new folder."
            )
        # A process that was killed before it wrote the job left these.
        begun = (self.lock_file.name, f"{self.job_file.name}.*.part")
        if self.path.exists() and not all(any(map(one.match, begun)) for one in self.path.iterdir()):
            raise ValueError(f"{self.path} exists and is not empty. Name a new or an empty folder.")

    @classmethod
    def found(cls, path: str | Path) -> "RunFolder":
        """Return the folder of an existing run; FileNotFoundError says that the folder holds none."""
        folder = cls(path)
        if not folder.job_file.is_file():
            raise FileNotFoundError(f"{path} holds no run: it has no file {folder.job_file.name}.")
        return folder

    @property
    def job(self) -> Job:
        """The job of the run; ValueError says that the job file is damaged."""
        try:
            return Job(**json.loads(self.job_file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.job_file} is damaged or of another version: {error}") from error

    @property
    def result(self) -> Json | None:
        """The result of the run, None if it has not ended; ValueError says that the result file is damaged."""
        if not self.result_file.exists():
            return None
        try:
            return json.loads(self.result_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.result_file} is damaged: {error}. Remove it, then resume the run.") from error

    @property
    def search(self) -> Json | None:
        """The cells that the search has evaluated, and what they are bound to; None before the first."""
        if not self.search_file.exists():
            return None
        try:
            words = json.loads(self.search_file.read_text(encoding="utf-8"))
            cells = [dict(cell) for cell in words["cells"]]
            if not all({"parameters", "mean_score", "std_score"} <= cell.keys() for cell in cells):
                raise KeyError("a cell without parameters or scores")
            return {"bound_to": dict(words["bound_to"]), "cells": cells}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self.search_file} is damaged: {error}. Remove it to repeat the search.") from error

    def write(self, path: Path, words: Json) -> None:
        """Write a JSON file under a temporary name, then rename it; OSError says that it cannot be written."""
        with atomic_write(path) as part:
            part.write_text(json.dumps(words, indent=1, default=_plain) + "\n", encoding="utf-8")

    def clear_parts(self) -> None:
        """Remove half-written files of a process that was killed."""
        for part in self.path.glob("*.part"):
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)

    def _undo(self, made: list[Path]) -> None:
        """Empty the folder and remove those that were made. The job goes last: before, no process can begin a run."""
        for one in sorted(self.path.iterdir(), key=self.job_file.__eq__):
            shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink(missing_ok=True)
        with suppress(OSError):  # another process may have put something there
            for folder in made:
                folder.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder until the process ends; ValueError says that another process holds the lock."""
        with self.lock_file.open("a+", encoding="utf-8") as file:
            if not take(file):
                raise ValueError(f"{self.path} is in use by process {self.runner() or '?'}. Wait until it has ended.")
            with suppress(OSError):  # a full disk has no room for the process number, but the lock holds
                file.truncate(0)
                os.write(file.fileno(), str(os.getpid()).encode())
            yield

    def runner(self) -> int | None:
        """Return the number of the process that holds the lock, None if no process does."""
        if not self.lock_file.exists():
            return None
        with self.lock_file.open(encoding="utf-8") as file:
            text = file.read() if is_taken(file) else ""
        return int(text) if text.isdigit() else None

    def log(self, event: str, **facts: object) -> None:
        """Add an event to the log; if the disk is full, the next one that is written says how many were lost."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
        if self._lost_events:
            line["events_lost_before"] = self._lost_events
        try:
            text = json.dumps(line, default=_plain) + "\n"
            with self.log_file.open("a", encoding="utf-8") as file:
                file.write("\n" + text if self._lost_events else text)  # a full disk may have left half a line
            self._lost_events = 0
        except OSError:
            self._lost_events += 1

    def events(self) -> list[Json]:
        """Return the events of the log; half-written lines are left out."""
        events: list[Json] = []
        if not self.log_file.exists():
            return events
        for line in self.log_file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(json.JSONDecodeError):
                events.append(json.loads(line))
        return events


def _plain(value: object) -> object:
    """Return a NumPy scalar as a Python number, a mapping as a dict, and anything else as text."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if hasattr(value, "item") else str(value)


# --- the checkpoints of a fit -----------------------------------------------------------------------------------------


class JobCheckpointer:
    """Watches the fit of a run, writes checkpoints at least `every` seconds apart, and logs events in its folder."""

    def __init__(self, folder: RunFolder, checkpoints: Checkpoints, every: float, stops: StopSignals) -> None:
        self.folder, self.checkpoints, self.every, self.stops = folder, checkpoints, every, stops
        self.spent = self.before = 0.0  # seconds of writing checkpoints, and of earlier processes in the fit
        self._tuning = current_tuning().jobs
        self._failing, self._lock = False, threading.Lock()
        self._last_logged: Mapping[str, float] | None = None
        self.start()

    def start(self) -> None:
        """Start the clock: the fit begins."""
        now = self._begin = time.perf_counter()
        self._next, self._next_log = now + self.every, now

    def observe(self, tree: Callable[[], Tree], facts: Mapping[str, float]) -> None:
        """Watch a fit between two steps: log its progress, write a checkpoint if one is due, stop after a signal."""
        if not self._lock.acquire(blocking=False):  # another thread of the fit is in here
            return
        try:
            now = time.perf_counter()
            if now >= self._next_log and facts != self._last_logged:
                self._next_log, self._last_logged = now + self._tuning.log_s, facts
                logged: Json = {name: value for name, value in facts.items() if name != "time"}
                seconds = self.before + now - self._begin  # interruptions do not count
                self.folder.log("progress", seconds=seconds, peak_memory_mb=peak_memory(), **logged)
            if self.stops.number is not None:
                self.stops.cancel_alarm()
                self.save(tree())
                self.stops.raise_if_asked()
            if now >= self._next:
                self.save(tree())
        finally:
            self._lock.release()

    def save(self, tree: Tree) -> bool:
        """Write a checkpoint; return whether it was written. If not, the run continues and tries again later."""
        begin = time.perf_counter()
        try:
            path = self.checkpoints.save({"seconds": self.before + begin - self._begin, "tree": tree})
        except OSError as error:
            if not self._failing:
                say(f"cannot write a checkpoint: {error}. The run continues and tries again later.")
            self._failing = True
            self.folder.log("checkpoint failed", error=str(error))
        else:
            if self._failing:
                say("checkpoints are written again.")
            self._failing = False
            self.folder.log("checkpoint", file=path.name, seconds=time.perf_counter() - begin)
        now = time.perf_counter()
        self.spent += now - begin
        self._next = now + max(self.every, (now - begin) / self._tuning.save_share)
        return not self._failing
