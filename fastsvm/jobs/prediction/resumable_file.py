"""Predictions on their way to a file: a process that is ended loses no more than those of the last seconds.

They are written to `OUT.part`. Beside it `OUT.part.json` tells of which model and data they are, how many rows are
safely on disk, in which bytes, and with which checksum. When all rows are there, the part gets its name.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from fastsvm.files.atomic_file import complete, name_beside
from fastsvm.files.locks import has_locks, take
from fastsvm.jobs.prediction.layouts import Layout, Stretch, write_all
from fastsvm.jobs.say import say

__all__ = ["PredictionFile", "PredictionState", "parts_of"]

FORMAT = "fastsvm-predictions"
VERSION = 1
_SECONDS = 3.0  # from one time that rows are made safe to the next
_MOST_SHARE = 0.02  # of the time, that this may take


class PredictionState(NamedTuple):
    """How far predictions are.

    Attributes
    ----------
    rows : int
        Rows that are written, in whole blocks.
    stretches : tuple of Stretch
        Where they are; none before the first.
    tally : ndarray or None
        Sum of what was measured on them, None before the first.
    """

    rows: int = 0
    stretches: tuple[Stretch, ...] = ()
    tally: np.ndarray | None = None


class _Unusable(Exception):
    """Why what an earlier process left is not gone on with."""


def parts_of(output: str | Path) -> tuple[Path, Path]:
    """Return the files that are beside an output while it is written: its rows, and what tells of them."""
    output = Path(output)
    return name_beside(output, ".part"), name_beside(output, ".part.json")


class PredictionFile:
    """A file of predictions while it is written; `opened` makes one.

    Parameters
    ----------
    output : str or Path
        The file when it is complete.
    file : file
        Its part, open for reading and writing without a buffer, and locked.
    layout : Layout
        Its format.
    bound_to : dict
        What the predictions depend on, by name, in numbers and words for JSON.

    Attributes
    ----------
    reached : PredictionState
        How far it is.
    """

    def __init__(self, output: str | Path, file: IO[bytes], layout: Layout, bound_to: dict[str, Any]) -> None:
        self.output = Path(output)
        self.part, self.journal = parts_of(output)
        self._new_journal = name_beside(self.output, ".part.json.new")
        self._file, self._layout = file, layout
        self._bound_to = json.loads(json.dumps(bound_to))
        self.reached = PredictionState()
        self._safe_rows, self._next, self._sync_failed = 0, 0.0, False

    @classmethod
    @contextmanager
    def opened(cls, output: str | Path, layout: Layout, bound_to: dict[str, Any]) -> Iterator["PredictionFile"]:
        """Hold the part of an output, with the rows of an earlier process if they are of the same predictions.

        At the end the part gets its name. After an error of the input nothing is left of it; after any other, and
        after a signal, the rows that were written stay.

        Raises
        ------
        ValueError
            If another process writes it, or there is a file of this name that is something else.
        OSError
            If it cannot be written.
        """
        with _locked(parts_of(output)[0]) as file:
            self = cls(output, file, layout, bound_to)
            self._check_own()
            try:
                self._go_on()
                yield self
                self._finish()
            except ValueError:
                self._discard()
                raise
            except BaseException:
                self._keep()
                raise

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray) -> None:
        """Add a block of rows, and the sum of what was measured on all rows up to its end."""
        with self._told():
            stretches = self.reached.stretches or self._layout.begun(self._file, labels, decisions)
            grown = list(stretches)
            for k, data in enumerate(self._layout.encoded(labels, decisions)):
                write_all(self._file, stretches[k].end, data)
                grown[k] = stretches[k].longer(data)
        self.reached = PredictionState(self.reached.rows + len(labels), tuple(grown), tally)
        if time.perf_counter() >= self._next:
            self.save()

    def save(self) -> None:
        """Make the rows safe that are written: the bytes first, then that they are there."""
        begin = time.perf_counter()
        reached = self.reached
        with self._told():
            self._sync()
            self._write_journal(reached)
        self._safe_rows = reached.rows
        now = time.perf_counter()
        self._next = now + max(_SECONDS, (now - begin) / _MOST_SHARE)

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError:  # what was to be written may be gone by now, and the next call not say so
            self._sync_failed = True
            raise

    def _write_journal(self, reached: PredictionState) -> None:
        tally = None if reached.tally is None else reached.tally.tolist()
        body = {"format": FORMAT, "version": VERSION, "bound_to": self._bound_to}
        body |= {"rows": reached.rows, "stretches": reached.stretches, "tally": tally}
        text = json.dumps({"checksum": _checksum(body), **body}, indent=1)
        try:
            self._new_journal.write_text(text + "\n", encoding="utf-8")
            complete(self._new_journal, self.journal)
        finally:
            self._new_journal.unlink(missing_ok=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say of an error in writing what there is, and what can be done."""
        try:
            yield
        except OSError as error:
            raise OSError(
                error.errno,
                f"{self.part} cannot be written: {error.strerror or error}. The rows in it stay; when there is room "
                "again, the same command goes on.",
            ) from error

    # --- at the beginning --------------------------------------------------------------------------------------

    def _check_own(self) -> None:
        """Raise ValueError if the part is not one that this class began: those have a journal from the start."""
        if os.fstat(self._file.fileno()).st_size and not self.journal.exists():
            raise ValueError(
                f"{self.part}, to which predictions are written before they are complete, exists and is something "
                "else; remove it, or name another output."
            )

    def _go_on(self) -> None:
        """Take over what an earlier process left, or begin anew and say why."""
        try:
            self.reached = self._found()
            self._safe_rows = self.reached.rows
        except _Unusable as reason:
            say(f"{self.part} is not gone on with: {reason}. Beginning anew.")
        if not self.reached.rows:
            self.reached = PredictionState()
        self._cut()
        self.save()

    def _cut(self) -> None:
        """Remove what is behind the rows that are reached; in an HDF5 file its room is set aside again by writing."""
        self._file.truncate(max((stretch.end for stretch in self.reached.stretches), default=0))

    def _found(self) -> PredictionState:
        """Return how far an earlier process came."""
        if not self.journal.exists():
            return PredictionState()
        reached = self._read_journal()
        if any(stretch.found(self._file) != stretch for stretch in reached.stretches):
            raise _Unusable("it is damaged, what it holds is not what was written")
        return reached

    def _read_journal(self) -> PredictionState:
        try:
            body = json.loads(self.journal.read_text(encoding="utf-8"))
            checksum, known = body.pop("checksum"), (body["format"], body["version"])
            bound_to, rows, tally = body["bound_to"], body["rows"], body["tally"]
            stretches = tuple(Stretch(*numbers) for numbers in body["stretches"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Unusable(f"{self.journal.name} is damaged") from error
        if known != (FORMAT, VERSION):
            raise _Unusable(f"{self.journal.name} is of another version")
        if checksum != _checksum(body):
            raise _Unusable(f"{self.journal.name} is damaged")
        for name in self._bound_to | bound_to:
            if self._bound_to.get(name) != bound_to.get(name):
                raise _Unusable(f"the {name} changed since it was begun")
        return PredictionState(rows, stretches, None if tally is None else np.array(tally))

    # --- at the end --------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Give the complete part its name."""
        self.save()
        if not has_locks():  # where no open file can be renamed
            self._file.close()
        with self._told():
            complete(self.part, self.output)
        self.journal.unlink(missing_ok=True)

    def _keep(self) -> None:
        """Make safe what is there, if it can be."""
        if not self.reached.rows:
            self._discard()
        elif self._safe_rows < self.reached.rows and not self._sync_failed:
            with suppress(OSError):
                self._cut()  # on a full disk, what was cut short makes room for the journal
                self.save()

    def _discard(self) -> None:
        """Remove all there is."""
        if not has_locks():
            self._file.close()
        for path in (self.part, self.journal, self._new_journal):
            path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for this process alone; the lock ends with the process, however it ends."""
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(number, "r+b", buffering=0) as file:
            if not take(file):
                raise ValueError(f"{path} is being written by another process; wait for it to end.")
            if _is_at(file, path):
                yield file
                return


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Return whether a file still has its name: before it was locked, another process may have completed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()
