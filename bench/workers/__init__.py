"""What the processes that are measured have in common: tasks, orders and replies, the clock.

Nothing but the standard library is imported here, so that what a competitor imports is counted as its own.
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

__all__ = ["ANSWER", "DONE", "RECORD", "UNTIMED_S", "Task", "Watch", "serve"]

ANSWER, RECORD = "answer.npz", "record.json"
DONE = "done"
UNTIMED_S = 300.0  # that what is not compared may take beyond the timeout


@dataclass(frozen=True)
class Task:
    """What to measure.

    Attributes
    ----------
    competitor : str
        Who is measured.
    stage : str
        What the clock runs over, "fit" or "predict"; "start" for everything from the import on; for fits with a
        larger and larger budget the suite, "sgd" or "linear", in which the competitor has its budgets.
    parameters : dict
        Fields of the parameters of the case.
    threads, memory_mb : int
        Fields of `bench.kernel.competitors.Resources`.
    data : str
        Folder that `bench.harness.data.save` wrote.
    timeout : float
        Seconds until a fit or a prediction is ended; an import and a warm-up get five minutes more.
    """

    competitor: str
    stage: str
    parameters: dict[str, Any]
    threads: int
    memory_mb: int
    data: str
    timeout: float


class Watch:
    """Times one stage after the other, and says which it is at: if the process ends, the last one is to blame."""

    def __init__(self, reply: Callable[[str], None], timeout: float) -> None:
        self._reply = reply
        self._timeout = timeout

    def __call__(self, stage: str, action: Callable[[], Any], more: float = 0.0) -> float:
        """Return the seconds an action takes; the process ends by SIGALRM if they are too many, `more` allowed.

        The signal is left to the system, because Python would handle it only after the compiled code returns.
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
    """Carry out orders, one JSON line each, and reply to each when it is done.

    An order is a task, for which `prepare` returns the function that makes one run, or the folder in which a
    run leaves its record and its answer.
    """
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not be taken for a reply

    def reply(text: str) -> None:
        print(text, file=replies)

    run = None
    for line in sys.stdin:
        order = json.loads(line)
        if "task" in order:
            run = None  # the model of the last task is freed before the next one is measured
            task = Task(**order["task"])
            run = prepare(task, Watch(reply, task.timeout))
        elif run is not None:
            run(Path(order["out"]))
        reply(DONE)
