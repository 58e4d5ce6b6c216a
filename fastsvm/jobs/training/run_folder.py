"""The folder of a run: what is in it, who may write to it, and its log, one event a line."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastsvm.files.atomic_file import atomic_write
from fastsvm.files.locks import is_taken, take
from fastsvm.jobs.training.job_file import Job

__all__ = ["RunFolder"]

_TAIL_BYTES = 1 << 16  # of a log, in which its last events are


class RunFolder:
    """A folder with all that a run writes.

    Parameters
    ----------
    path : Path
        The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.job_file, self.result_file = self.path / "job.json", self.path / "result.json"
        self.model_file, self.report_file = self.path / "model.h5", self.path / "report.html"
        self.search_file = self.path / "search.json"
        self.log_file, self.lock_file = self.path / "log.jsonl", self.path / "lock"
        self._lost_events = 0

    @classmethod
    def begun(cls, path: str | Path, job: Job) -> "RunFolder":
        """Return a new folder for a job.

        Raises
        ------
        ValueError
            If there is something in it.
        PermissionError, FileNotFoundError
            If it cannot be made.
        """
        folder = cls(path)
        if folder.job_file.exists():
            raise ValueError(f"{path} holds a run already: go on with it by 'fastsvm resume {path}', or name another.")
        if folder.path.exists() and (not folder.path.is_dir() or any(folder._others())):
            raise ValueError(f"{path} exists and is not empty; name a folder that a run can have for itself.")
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write(folder.job_file, job._asdict())
        return folder

    @classmethod
    def found(cls, path: str | Path) -> "RunFolder":
        """Return a folder that holds a run.

        Raises
        ------
        FileNotFoundError
            If it holds none.
        """
        folder = cls(path)
        if not folder.job_file.is_file():
            raise FileNotFoundError(f"{path} holds no run: there is no {folder.job_file.name} in it.")
        return folder

    @property
    def job(self) -> Job:
        """The job of the run.

        Raises
        ------
        ValueError
            If its file is damaged.
        """
        try:
            return Job(**json.loads(self.job_file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.job_file} is damaged or of another version: {error}") from error

    @property
    def result(self) -> dict[str, Any] | None:
        """What the run ended with, None if it has not.

        Raises
        ------
        ValueError
            If its file is damaged.
        """
        if not self.result_file.exists():
            return None
        try:
            return json.loads(self.result_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.result_file} is damaged: {error}. Remove it to finish the run anew.") from error

    @property
    def search(self) -> dict[str, Any] | None:
        """What the search has found so far, None if there is none.

        Raises
        ------
        ValueError
            If its file is damaged.
        """
        if not self.search_file.exists():
            return None
        try:
            found = json.loads(self.search_file.read_text(encoding="utf-8"))
            names = ("parameters", "mean_score", "std_score")
            cells = [{name: cell[name] for name in names} for cell in found["cells"]]
            return {"bound_to": dict(found["bound_to"]), "cells": cells}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self.search_file} is damaged: {error}. Remove it to search anew.") from error

    def write(self, path: Path, words: dict[str, Any]) -> None:
        """Write a JSON file beside its place and rename it."""
        with atomic_write(path) as part:
            part.write_text(json.dumps(words, indent=1, default=_plain) + "\n", encoding="utf-8")

    def _others(self) -> Iterator[Path]:
        """Yield what is in the folder, but for what a process that was killed as it began had half written."""
        return (one for one in self.path.iterdir() if not one.match(f"{self.job_file.name}.*.part"))

    def clear_parts(self) -> None:
        """Remove what a process that was killed had half written."""
        for part in self.path.glob("*.part"):
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process; the lock ends with it, however it ends.

        Raises
        ------
        ValueError
            If another process has it.
        """
        with self.lock_file.open("a+", encoding="utf-8") as file:
            if not take(file):
                raise ValueError(f"{self.path} is in use by process {self.runner() or '?'}; wait for it to end.")
            with suppress(OSError):  # a full disk has room for a lock, if not for words about it
                file.truncate(0)
                os.write(file.fileno(), str(os.getpid()).encode())
            yield

    def runner(self) -> int | None:
        """Return the process that holds the folder, None if none does."""
        if not self.lock_file.exists():
            return None
        with self.lock_file.open("r+", encoding="utf-8") as file:
            return (int(file.read() or 0) or None) if is_taken(file) else None

    def log(self, event: str, **facts: Any) -> None:
        """Add an event to the log; if the disk is full, it is told of when there is room again."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
        if self._lost_events:
            line["events_lost_before"] = self._lost_events
        try:
            text = json.dumps(line, default=_plain) + "\n"
            with self.log_file.open("a", encoding="utf-8") as file:
                file.write("\n" + text if self._lost_events else text)  # after what a full disk took of a line
            self._lost_events = 0
        except OSError:
            self._lost_events += 1

    def events(self, last: bool = False) -> list[dict[str, Any]]:
        """Return the events of the log, or some of the last; lines that a kill cut short are left out."""
        if not self.log_file.exists():
            return []
        with self.log_file.open("rb") as file:
            if last:
                file.seek(max(0, self.log_file.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's own, a mapping as a dict, and anything else as words."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if hasattr(value, "item") else str(value)
