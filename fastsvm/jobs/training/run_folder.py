"""The folder of a run: its files, its lock, and its log with one event per line."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from fastsvm.files.atomic_file import atomic_write, check_folder, is_taken, take
from fastsvm.jobs.inputs import Json
from fastsvm.jobs.training.job_file import Job
from fastsvm.tuning import current_tuning


class RunFolder:
    """The folder of a run, with all files that the run writes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.job_file, self.model_file = self.path / "job.json", self.path / "model.fastsvm"
        self.result_file, self.report_file = self.path / "result.json", self.path / "report.html"
        self.search_file, self.log_file = self.path / "search.json", self.path / "log.jsonl"
        self.lock_file = self.path / "lock"
        self._lost_events = 0
        self._made: list[Path] = []  # the folders that `begun` made, the innermost first

    @classmethod
    @contextmanager
    def begun(cls, path: str | Path, job: Job) -> Iterator["RunFolder"]:
        """Make the folder of a new run, with its job file, and yield it, locked for this process."""
        folder = cls(path)
        folder._check_new()
        folder._made = [one for one in (folder.path, *folder.path.absolute().parents) if not one.exists()]
        folder.path.mkdir(parents=True, exist_ok=True)
        with folder.locked():
            folder._check_new()  # another process may have begun a run since
            folder.write(folder.job_file, job._asdict())
            yield folder

    def _check_new(self) -> None:
        """Raise ValueError if the folder exists and is not empty, NotADirectoryError if it is a file."""
        check_folder(self.path)
        if self.job_file.exists():
            raise ValueError(
                f"{self.path} holds a run already. Resume it by 'fastsvm resume {self.path}', or name a new folder."
            )
        if self.path.exists() and any(self._others()):
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
            names = ("parameters", "mean_score", "std_score")
            cells = [{name: cell[name] for name in names} for cell in words["cells"]]
            return {"bound_to": dict(words["bound_to"]), "cells": cells}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self.search_file} is damaged: {error}. Remove it to repeat the search.") from error

    def write(self, path: Path, words: Json) -> None:
        """Write a JSON file under a temporary name, then rename it; OSError says that it cannot be written."""
        with atomic_write(path) as part:
            part.write_text(json.dumps(words, indent=1, default=_plain) + "\n", encoding="utf-8")

    def _others(self) -> Iterator[Path]:
        """Return the files in the folder, except those of a process that was killed before it wrote the job."""
        begun = (self.lock_file.name, f"{self.job_file.name}.*.part")
        return (one for one in self.path.iterdir() if not any(map(one.match, begun)))

    def clear_parts(self) -> None:
        """Remove half-written files of a process that was killed."""
        for part in self.path.glob("*.part"):
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)

    def has_results(self) -> bool:
        """Return whether anything that took time to compute is in the folder: cells, a checkpoint, a model."""
        checkpoints = any(self.path.glob("checkpoint-*"))
        return checkpoints or any(file.exists() for file in (self.search_file, self.model_file, self.result_file))

    def undo(self) -> None:
        """Leave the folder as `begun` found it. The job goes last: until then no other process can begin a run."""
        for one in sorted(self.path.iterdir(), key=self.job_file.__eq__):
            shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink(missing_ok=True)
        with suppress(OSError):  # another process may have put something there
            for folder in self._made:
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

    def events(self, last: bool = False) -> list[Json]:
        """Return the events of the log, or only the last ones; half-written lines are left out."""
        if not self.log_file.exists():
            return []
        with self.log_file.open("rb") as file:
            if last:
                file.seek(max(0, self.log_file.stat().st_size - current_tuning().storage.run_bytes))
            lines = file.read().decode("utf-8", "replace").splitlines()
        events = []
        for line in lines:
            with suppress(json.JSONDecodeError):
                events.append(json.loads(line))
        return events


def _plain(value: object) -> object:
    """Return a NumPy scalar as a Python number, a mapping as a dict, and anything else as text."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if hasattr(value, "item") else str(value)
