"""A process beside the tests that reads damaged files or writes on a full disk, and may die of it.

`Servant` starts it from the tests, tells how it died, and starts it again.

A line that it receives names a kind of file and a folder, and for the disk how many bytes a file may have; a line
answers. What takes more than some seconds of the processor ends by a signal, and memory is limited to
some more than the process has at the start.
"""

import io
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forked import Forks, Process

__all__ = ["Servant"]

MEMORY = 768 << 20
SECONDS = 5.0
_WAITS = 120.0  # seconds for what takes no time of the processor, and for a machine that is busy
_TESTS = Path(__file__).parents[1]
_CODE = f"import sys; sys.path[:0] = {[str(_TESTS), str(_TESTS / 'support')]}; from fuzz.worker import main; main()"


class Servant:
    """A process that answers lines of JSON by lines of JSON.

    Parameters
    ----------
    forks : Forks
        Starts the process, which says "ready" before the first answer.
    *words : str or Path
        Arguments of the process.
    """

    def __init__(self, forks: Forks, *words: str | Path) -> None:
        self._forks, self._words = forks, words
        self._process: Process | None = None
        self._lines = io.StringIO()

    def ask(self, *words: Any) -> list[str]:
        """Return the answer, or how the process died: "crash" or "hang", and by what."""
        process = self._started()
        print(json.dumps(words), file=self._lines, flush=True)
        try:
            line = self._lines.readline()
        except TimeoutError:
            self.close()
            return ["hang", f"no answer in {_WAITS:.0f} seconds, and little work"]
        except ConnectionError:
            line = ""
        if line:
            return json.loads(line)
        number = -process.wait()
        self.close()
        name = signal.Signals(number).name if number > 0 else f"exit code {-number}"
        return ["hang" if number == signal.SIGPROF else "crash", f"the process ended by {name}"]

    def _started(self) -> Process:
        if self._process is None:
            with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
                door.bind(f"{folder}/door")
                door.listen()
                door.settimeout(_WAITS)
                self._process = self._forks.start(f"{folder}/door", *self._words, code=_CODE)
                line, _ = door.accept()
            line.settimeout(_WAITS)
            self._lines = line.makefile("rw", buffering=1)
            line.close()  # what is made of it stays open
            if self._lines.readline() != "ready\n":
                process = self._process
                self.close()
                raise RuntimeError(f"the process does not work on whole files: {process.communicate()[1]}")
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._lines.close()
            self._process = None


# --- the process itself ----------------------------------------------------------------------------------


def main() -> None:
    """Answer until there is nothing more to do; first do to whole files what is done to damaged ones.

    So that what is loaded or compiled once counts for no case.
    """
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", UserWarning)  # of which ConvergenceWarning is one
    warnings.simplefilter("ignore", ResourceWarning)
    line = socket.socket(socket.AF_UNIX)
    line.connect(sys.argv[1])
    lines = line.makefile("rw", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    answer = {"read": _read, "write": _write}[sys.argv[2]]
    for folder in sys.argv[3:]:
        found = answer(Path(folder).name, folder)
        if found[0] != "found":
            raise RuntimeError(f"{folder}: {found}")
    os.dup2(1, 2)
    _limit_memory()
    print("ready", file=lines, flush=True)
    while asked := lines.readline():
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # whose signal ends the process
        found = answer(*json.loads(asked))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(found), file=lines, flush=True)


def _limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _tried(work: Callable[[], Any], folder: Path) -> list[str]:
    """Return what came of it: a word found, or the kind of the error, its message, and where it was raised."""
    try:
        return ["found", work()]
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        allowed = isinstance(error, (ValueError, OSError)) and not isinstance(error, UnicodeError)
        kind = "refused" if allowed and _names_file(str(error), folder) else "raw"
        return [kind, type(error).__name__, str(error)[:300], where]


def _names_file(message: str, folder: Path) -> bool:
    return str(folder) in message or any(path.name in message for path in folder.rglob("*"))


# --- damaged files ---------------------------------------------------------------------------------------


def _read(name: str, given: str) -> list[str]:
    from fuzz.specimens import SPECIMENS

    folder = Path(given)
    return _tried(lambda: SPECIMENS[name].read(folder), folder)


# --- a full disk -----------------------------------------------------------------------------------------


def _write(name: str, given: str, limit: int | None = None) -> list[str]:
    """Do a task with files of at most `limit` bytes, look at what it left, and do it again with room."""
    from fuzz.tasks import TASKS

    task, folder = TASKS[name], Path(given)
    task.prepare(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if limit is None else limit, hard))
    try:
        came = _tried(lambda: task.do(folder), folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if came[0] == "raw":
        return came
    if came[0] == "refused":
        wrong = _left(folder, before, task.may_leave)
        if wrong:
            return ["wrong", f"after {came[1:3]}: {wrong}"]
    again = _tried(lambda: task.again(folder), folder)
    return again if again[0] == "found" else ["wrong", f"after {came[:3]}, with room again: {' '.join(again)}"]


def _left(folder: Path, before: dict[Path, bytes], may_leave: Callable[[str], bool]) -> str:
    """Return what is wrong with the files after a refusal: none is there that was not, none is changed."""
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in after.keys() | before.keys():
        name = str(path.relative_to(folder))
        if after.get(path) != before.get(path) and not may_leave(name):
            return f"{name} is {'gone' if path not in after else 'left' if path not in before else 'changed'}"
    return ""
