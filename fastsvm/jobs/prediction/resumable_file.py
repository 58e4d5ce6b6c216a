"""A file of predictions that is written block by block: a process that ends loses those of the last seconds at most.

The rows are written to `OUT.part`. The journal `OUT.part.json` beside it names the model and the data, and says how
many rows are safely on disk, at which bytes, with which checksums. The complete part is renamed to `OUT`, or `OUT` is
written from it.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastsvm.files.atomic_file import atomic_write, complete, has_locks, name_beside, take
from fastsvm.jobs.prediction.layouts import Layout, Stretch, write_all
from fastsvm.jobs.say import say
from fastsvm.tuning import current_tuning

__all__ = ["PredictionFile", "PredictionState", "parts_of"]

FORMAT = "fastsvm-predictions"
VERSION = 1
Rewrite = Callable[[Path, Path], None]


class PredictionState(NamedTuple):
    """The progress of a prediction: rows that are written, in whole blocks."""

    rows: int = 0
    stretches: tuple[Stretch, ...] = ()  # They are the bytes that hold the rows; empty before the first block.
    tally: np.ndarray | None = None  # It is the sum of a `Measure` over the rows; None before the first block.


class _Unusable(Exception):
    """The reason why the part of an earlier process cannot be resumed."""


def parts_of(output: str | Path) -> tuple[Path, Path]:
    """Return the two files that exist beside an output while it is written: its part and its journal."""
    output = Path(output)
    return name_beside(output, ".part"), name_beside(output, ".part.json")


class PredictionFile:
    """A file of predictions while it is written, with the rows of `state`. Use `opened` to make one.

    `file` is the part, open for reading and writing without a buffer, and locked. A part whose `bound_to`, values for
    JSON that the predictions depend on, differs is not resumed. `rewrite(part, path)` writes the output from the
    complete part; None if the part is the output.
    """

    def __init__(
        self,
        output: str | Path,
        file: FileIO,
        layout: Layout,
        bound_to: dict[str, Any],
        rewrite: "Rewrite | None" = None,
    ) -> None:
        self.output = Path(output)
        self.part, self.journal = parts_of(output)
        self._new_journal = name_beside(self.output, ".part.json.new")
        self._rewritten = name_beside(self.output, ".part.new")
        self._file, self._layout, self._rewrite = file, layout, rewrite
        self._bound_to = json.loads(json.dumps(bound_to))
        self.state = PredictionState()
        self._safe_rows, self._next, self._sync_failed = 0, 0.0, False
        self._tuning = current_tuning().jobs

    @classmethod
    @contextmanager
    def opened(
        cls, output: str | Path, layout: Layout, bound_to: dict[str, Any], rewrite: "Rewrite | None" = None
    ) -> Iterator["PredictionFile"]:
        """Open the part of an output, with the rows of an earlier process if it made the same predictions.

        At the end the part is renamed to the output, or the output is written from it. After a ValueError the part is
        removed; after any other error, and after a signal, it stays. ValueError says that another process writes the
        output, or that a file of the same name is something else. OSError says that the part cannot be written.
        """
        with _locked(parts_of(output)[0]) as file:
            self = cls(output, file, layout, bound_to, rewrite)
            self._check_own()
            try:
                self._resume()
                yield self
                self._finish()
            except ValueError:
                self._discard()
                raise
            except BaseException:
                self._keep()
                raise

    def append(self, labels: np.ndarray, decisions: np.ndarray, tally: np.ndarray) -> None:
        """Add a block of rows; `tally` is the sum of a `Measure` over all rows to its end.

        If the block cannot be written, OSError is raised, and the rows before it stay.
        """
        with self._explained():
            stretches = self.state.stretches or self._layout.begun(self._file, labels, decisions)
            grown = list(stretches)
            for k, data in enumerate(self._layout.encoded(labels, decisions)):
                write_all(self._file, stretches[k].end, data)
                grown[k] = stretches[k].longer(data)
        self.state = PredictionState(self.state.rows + len(labels), tuple(grown), tally)
        if time.perf_counter() >= self._next:
            self.save()

    def save(self) -> None:
        """Flush the rows to the disk, then write the journal that counts them; OSError says that the disk is full or
        fails.
        """
        begin = time.perf_counter()
        state = self.state
        with self._explained():
            self._sync()
            self._write_journal(state)
        self._safe_rows = state.rows
        now = time.perf_counter()
        self._next = now + max(self._tuning.log_s, (now - begin) / self._tuning.save_share)

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError:  # the system may have dropped the bytes, and the next call would not report that
            self._sync_failed = True
            raise

    def _write_journal(self, state: PredictionState) -> None:
        tally = None if state.tally is None else state.tally.tolist()
        body = {"format": FORMAT, "version": VERSION, "bound_to": self._bound_to}
        body |= {"rows": state.rows, "stretches": state.stretches, "tally": tally}
        text = json.dumps({"checksum": _checksum(body), **body}, indent=1)
        with atomic_write(self.journal, self._new_journal) as part:
            part.write_text(text + "\n", encoding="utf-8")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add to an error in writing what the user can do."""
        try:
            yield
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot write {self.part}: {error.strerror or error}. Its rows stay; when there is room again, the "
                "same command resumes.",
            ) from error

    # --- at the beginning --------------------------------------------------------------------------------------

    def _check_own(self) -> None:
        """Raise ValueError if the part has no journal: `PredictionFile` writes the journal before the first row."""
        if os.fstat(self._file.fileno()).st_size and not self.journal.exists():
            raise ValueError(
                f"{self.part} exists and is not a part of predictions, which would be written there. Remove it, or "
                "name another output."
            )

    def _resume(self) -> None:
        """Take over the rows of an earlier process, or start again and say why."""
        try:
            self.state = self._found()
            self._safe_rows = self.state.rows
        except _Unusable as reason:
            say(f"cannot resume from {self.part}: {reason}. Starting again.")
        if not self.state.rows:
            self.state = PredictionState()
        self._cut()
        self.save()

    def _cut(self) -> None:
        """Remove all bytes behind the rows of `state`; in an HDF5 file, later rows are written to the same places."""
        self._file.truncate(max((stretch.end for stretch in self.state.stretches), default=0))

    def _found(self) -> PredictionState:
        """Return the state that an earlier process left."""
        if not self.journal.exists():
            return PredictionState()
        state = self._read_journal()
        if any(stretch.found(self._file) != stretch for stretch in state.stretches):
            raise _Unusable("it is damaged, its checksum differs")
        return state

    def _read_journal(self) -> PredictionState:
        try:
            body = json.loads(self.journal.read_text(encoding="utf-8"))
            checksum, known = body.pop("checksum"), (body["format"], body["version"])
            bound_to, rows, tally = body["bound_to"], body["rows"], body["tally"]
            stretches = tuple(Stretch(*numbers) for numbers in body["stretches"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Unusable(f"{self.journal.name} is damaged") from error
        if known != (FORMAT, VERSION):
            raise _Unusable(f"{self.journal.name} was written by another version of fastsvm")
        if checksum != _checksum(body):
            raise _Unusable(f"{self.journal.name} is damaged")
        for name in self._bound_to | bound_to:
            if self._bound_to.get(name) != bound_to.get(name):
                raise _Unusable(f"the {name} changed")
        return PredictionState(rows, stretches, None if tally is None else np.array(tally))

    # --- at the end --------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Rename the complete part to the output, or write the output from it."""
        self.save()
        if not has_locks():  # Windows renames no open file
            self._file.close()
        with self._explained():
            if self._rewrite is None:
                complete(self.part, self.output)
            else:
                with atomic_write(self.output, self._rewritten) as path:
                    self._rewrite(self.part, path)
                self.part.unlink()
        self.journal.unlink(missing_ok=True)

    def _keep(self) -> None:
        """Keep the rows that are written, if the disk allows it."""
        if not self.state.rows:
            self._discard()
        elif self._safe_rows < self.state.rows and not self._sync_failed:
            with suppress(OSError):
                self._cut()  # on a full disk, removing half a block makes room for the journal
                self.save()

    def _discard(self) -> None:
        """Remove the part and the journal."""
        if not has_locks():
            self._file.close()
        for path in (self.part, self.journal, self._new_journal):
            path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[FileIO]:
    """Open and lock a file; the lock ends with the process."""
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(number, "r+b", buffering=0) as file:
            if not take(file):
                raise ValueError(f"{path} is being written by another process. Wait until it has ended.")
            if _is_at(file, path):
                yield file
                return


def _is_at(file: FileIO, path: Path) -> bool:
    """Return whether a file still has its name: another process may have renamed it before it was locked."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()
