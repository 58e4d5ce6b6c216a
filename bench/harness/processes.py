"""The processes that measure: started, given orders, and told apart by how they end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bench.workers import DONE, Task

__all__ = ["AVX2", "ROOT", "Crew", "Ended", "Worker", "limited_to"]

ROOT = Path(__file__).parents[2]
AVX2 = {"FASTSVM_PROCESSOR": "x86-64-v3", "NUMBA_CPU_NAME": "haswell", "OPENBLAS_CORETYPE": "Haswell"}
"""The environment in which code is compiled, and OpenBLAS chooses its own, for a processor with no more than AVX2."""
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip


def limited_to(threads: int) -> dict[str, str]:
    """Return the environment in which libraries use so many threads."""
    return {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads))}


class Ended(Exception):
    """A process ended before it had done what it was told; `status` is "timeout" or "failed"."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Worker:
    """A process that runs `bench.workers.serve`, in a folder from which it imports `bench` and `fastsvm`."""

    def __init__(self, module: str, threads: int, environment: Mapping[str, str], folder: Path = ROOT) -> None:
        # A pipe that nobody reads would block.
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-")  # a process that is killed cannot clean up
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=folder,
            env={**limited_to(threads), "TMPDIR": self._scratch.name, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self._task: Task | None = None
        self._stage, self._limit = "start", ""

    def run(self, task: Task, out: Path) -> None:
        """Measure once; raise `Ended` if the process does not survive it."""
        if task != self._task:
            self._order({"task": asdict(task)})
            self._task = task
        self._order({"out": str(out)})

    def _order(self, order: dict) -> None:
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        for line in self._process.stdout:
            if line.strip() == DONE:
                return
            self._stage, _, self._limit = line.strip().rpartition(" ")
        raise self._end()

    def _end(self) -> Ended:
        code = self._process.wait()
        if code == -signal.SIGALRM:
            return Ended("timeout", f"{self._stage} took more than {self._limit} s")
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines() or [f"{self._stage} ended with exit code {code}"]
        return Ended("failed", lines[-1])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._scratch.cleanup()


class Crew:
    """Processes by competitor and module, which stay for a "run", a "case" or the "session"."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, str], Worker] = {}

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *error: object) -> None:
        self.dismiss()

    def run(self, module: str, task: Task, out: Path, environment: Mapping[str, str], stays: str) -> None:
        """Measure once, in a new process unless there is one that stayed; raise `Ended` if it ends too soon."""
        key = self.key(module, task)
        if key not in self._workers:
            self._workers[key] = Worker(module, task.threads, environment)
        try:
            self._workers[key].run(task, out)
        except Ended:
            stays = "run"
            raise
        finally:
            if stays == "run":
                self._workers.pop(key).close()

    def key(self, module: str, task: Task) -> tuple[str, str]:
        """Return what tells processes apart."""
        return task.competitor, module

    def dismiss(self) -> None:
        """End all processes."""
        while self._workers:
            self._workers.popitem()[1].close()
