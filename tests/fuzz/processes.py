"""A process beside the tests that may die of what it is asked to do, and is begun again then."""

import json
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["Servant"]

_WAITS = 120.0  # seconds for what takes no time of the processor, and for a machine that is busy


class Servant:
    """A process that answers lines of JSON by lines of JSON.

    Parameters
    ----------
    command : sequence of str
        After the interpreter. The process says "ready" before the first answer.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = [sys.executable, *command]
        self._process: subprocess.Popen | None = None

    def ask(self, *words: Any) -> list[str]:
        """Return the answer, or how the process died: "crash" or "hang", and by what."""
        process = self._started()
        print(json.dumps(words), file=process.stdin, flush=True)
        if not select.select([process.stdout], [], [], _WAITS)[0]:
            self.close()
            return ["hang", f"no answer in {_WAITS:.0f} seconds, and little work"]
        line = process.stdout.readline()
        if line:
            return json.loads(line)
        number = -process.wait()
        self.close()
        name = signal.Signals(number).name if number > 0 else f"exit code {-number}"
        return ["hang" if number == signal.SIGPROF else "crash", f"the process ended by {name}"]

    def _started(self) -> subprocess.Popen:
        if self._process is None:
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            self._process = process
            if process.stdout.readline() != "ready\n":
                self.close()
                raise RuntimeError(f"the process does not work on whole files; run {' '.join(self._command)}")
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None
