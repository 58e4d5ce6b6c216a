"""Processes that are forked from one that has imported what takes long, because most of them work for a shorter time.

As a program, it is the process that they are forked from; its arguments are the modules to import.
"""

import contextlib
import gc
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "OURS", "THEIRS", "Forks", "Process", "beginning"]

OURS = "fastsvm.formats", "fastsvm.jobs.predict", "fastsvm.jobs.runner"
"""Modules that import most of fastsvm."""
THEIRS = "numba", "joblib", "h5py", "scipy.stats", "sklearn.svm"
"""Modules that fastsvm imports and that take long."""

COMMAND = "import runpy; runpy.run_module('fastsvm', run_name='__main__', alter_sys=True)"
"""Does what `python -m fastsvm` does."""


class Process:
    """A process, which a test treats as it treats a `subprocess.Popen`.

    Parameters
    ----------
    forks : Forks
        Where it was started.
    pid : int
        Its number.
    out, err : Path
        Files that receive standard output and standard error.
    """

    def __init__(self, forks: "Forks", pid: int, out: Path, err: Path) -> None:
        self._forks, self.pid, self.out, self.err = forks, pid, out, err
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forks.ask("poll", self.pid)
        return self.returncode

    def wait(self, timeout: float = 120.0) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.005)
        return self.returncode

    def communicate(self, timeout: float = 120.0) -> tuple[str, str]:
        """Wait until it ends; return what it wrote. What went to a device was written elsewhere."""
        self.wait(timeout)
        return tuple(path.read_text() if path.is_file() else "" for path in (self.out, self.err))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # nobody else can have its number until its end is known
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def beginning(environment: dict[str, str]) -> str:
    """Return code that gives a process an environment and the path of `python -c`, and makes warnings errors.

    Numba read its settings when it was imported; it reads them again.
    """
    return f"""
import os, sys, warnings
import numba
os.environ.update({environment!r})
numba.core.config.reload_config()
sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
sys.path[:] = ["", *os.environ["PYTHONPATH"].split(os.pathsep), *sys.path]
warnings.simplefilter("error")
"""


class Forks:
    """Starts processes.

    Parameters
    ----------
    *modules : str
        What they have imported already.
    others : Forks, optional
        Forks the process that they are forked from, which need not import again what is imported there.
    """

    def __init__(self, *modules: str, others: "Forks | None" = None) -> None:
        self._folder, self._numbers = tempfile.TemporaryDirectory(), itertools.count()
        self._started: list[Process] = []
        self._server: subprocess.Popen | Process
        if others is None:
            command = [sys.executable, __file__, *modules]
            server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            self._server, self._to, self._from = server, server.stdin, server.stdout
            return
        pipes = [str(Path(self._folder.name) / name) for name in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe)
        self._server = others.start(*pipes, *modules, code=SERVER)
        others._started.remove(self._server)  # it outlives the tests
        self._to, self._from = open(pipes[0], "w"), open(pipes[1])  # noqa: SIM115

    def ask(self, *words: Any) -> Any:
        print(json.dumps(words), file=self._to, flush=True)
        return json.loads(self._from.readline())

    def start(self, *words: Any, code: str = COMMAND, folder: Path | None = None, err: str | None = None) -> Process:
        """Start a process that runs code. Words are its arguments, `err` is a device for standard error."""
        name = Path(self._folder.name) / str(next(self._numbers))
        out, err = name.with_suffix(".out"), Path(err or name.with_suffix(".err"))
        pid = self.ask("start", code, list(map(str, words)), str(folder or self._folder.name), str(out), str(err))
        self._started.append(Process(self, pid, out, err))
        return self._started[-1]

    def end_all(self) -> None:
        """Kill processes that a test has left."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
                process.wait()

    def close(self) -> None:
        self._server.kill()
        self._server.wait()
        self._to.close()
        self._from.close()
        self._folder.cleanup()


# --- the process itself ----------------------------------------------------------------------------------


def serve() -> str | None:
    """Start processes and tell whether they have ended; in a new process, return the code that it is to run."""
    running = set()
    for line in sys.stdin:
        what, *words = json.loads(line)
        if what == "start":
            number = os.fork()
            if number == 0:
                return prepared(*words)
            running.add(number)
        else:
            number, status = os.waitpid(*words, os.WNOHANG)
            running.discard(number)
            number = os.waitstatus_to_exitcode(status) if number else None
        print(json.dumps(number), flush=True)
    for number in running:  # nobody will wait for them
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)
    return None


def prepared(code: str, words: list[str], folder: str, out: str, err: str) -> str:
    """Make this process what one would be that had just begun."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever started the tests may ignore them
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        opened = os.open(path, flags | (os.O_CREAT if number else 0), 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    sys.argv[1:] = words
    return code


SERVER = """
import os, sys
import forked
for number, path, flags in ((0, sys.argv[1], os.O_RDONLY), (1, sys.argv[2], os.O_WRONLY)):
    opened = os.open(path, flags)
    os.dup2(opened, number)
    os.close(opened)
forked.main(sys.argv[3:])
"""


def main(modules: list[str]) -> None:
    """Be the process that others are forked from, or one of those."""
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # a new process would copy every object at its end, in order to collect it
    wanted = serve()
    if wanted is not None:
        exec(compile(wanted, "<process>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main(sys.argv[1:])
