"""Parts that all measuring processes share: tasks, orders and replies, the clock.

Only the standard library is imported here, so that the imports of a competitor are counted as its own.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ANSWER", "DONE", "RECORD", "SIDE", "UNTIMED_S", "Task", "Watch", "serve"]

ANSWER, RECORD = "answer.npz", "record.json"
SIDE = "side"  # file in the folder of a run that names which of several sides is measured
DONE = "done"
UNTIMED_S = 300.0  # beyond the timeout, for work that is not compared


@dataclass(frozen=True)
class Task:
    """A measurement to make.

    Attributes
    ----------
    competitor : str
        Who is measured.
    stage : str
        What the clock runs over: "fit", the median of several "fits", "predict" or, from the import on, "start". For
        fits with increasing budgets, the suite of the budgets, "sgd" or "linear".
    parameters : dict
        Fields of the parameters of the case.
    threads, memory_mb : int
        Fields of `bench.kernel.competitors.Resources`.
    data : str
        Folder that `bench.harness.data.save` wrote.
    timeout : float
        Limit of a fit or a prediction in seconds. An import and a warm-up may take five minutes more.
    """

    competitor: str
    stage: str
    parameters: dict[str, Any]
    threads: int
    memory_mb: int
    data: str
    timeout: float


class Watch:
    """Times the stages of a run and prints the name of each, so that the harness knows in which one a process ended."""

    def __init__(self, reply: Callable[[str], None], timeout: float) -> None:
        self._reply = reply
        self._timeout = timeout

    def __call__(self, stage: str, action: Callable[[], Any], more: float = 0.0) -> float:
        """Return the seconds of an action. SIGALRM ends the process after the limit plus `more`.

        Python has no handler for the signal, because a handler would run only after the compiled code returns.
        """
        limit = self._timeout + more
        self._reply(f"{stage} {limit:g}")
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit)
        start = time.perf_counter()
        action()
        seconds = time.perf_counter() - start
        signal.setitimer(signal.ITIMER_REAL, 0)
        return seconds


def serve(prepare: Callable[[Task, Watch], Callable[[Path], None]]) -> None:
    """Read orders, one JSON line each, carry them out, and reply to each.

    An order is a task or a folder. For a task, `prepare` returns the function of one run. For a folder, that function
    makes a run, which leaves its record and its answer there.
    """
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries may print, which must not look like a reply

    def reply(text: str) -> None:
        print(text, file=replies)

    run = None
    for line in sys.stdin:
        order = json.loads(line)
        if "task" in order:
            run = None  # free the last model before the next measurement
            task = Task(**order["task"])
            run = prepare(task, Watch(reply, task.timeout))
        elif run is not None:
            run(Path(order["out"]))
        reply(DONE)
