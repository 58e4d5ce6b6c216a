"""The checkpointer of a run: writes checkpoints, logs progress, and ends the fit when a signal asks for it.

A stop signal takes effect between two steps of the fit, after a checkpoint of that moment. A step that takes too long
is interrupted; the run is then resumed from the checkpoint before.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import StopSignals
from fastsvm.jobs.training.checkpoint_file import Checkpoints
from fastsvm.jobs.training.run_folder import RunFolder
from fastsvm.memory import peak_memory
from fastsvm.tuning import current_tuning

__all__ = ["JobCheckpointer"]

_SHOWN = ("epoch", "iteration", "objective", "gap", "problems")


class JobCheckpointer:
    """Watches the fit of a run, whose folder's log receives the events, and writes its checkpoints.

    They are `every` seconds apart. If writing one takes more than 2 % of that, the interval grows. `stops` tells
    whether a signal asked the run to stop. `before` are the seconds that earlier processes spent on the fit, up to the
    checkpoint that this process resumed from, and `spent` those spent on writing checkpoints.
    """

    def __init__(self, folder: RunFolder, checkpoints: Checkpoints, every: float, stops: StopSignals) -> None:
        self.folder, self.checkpoints, self.every, self.stops = folder, checkpoints, every, stops
        self.spent = self.before = 0.0
        self._tuning = current_tuning().jobs
        self._failing, self._lock = False, threading.Lock()
        self._last_logged: dict[str, float] | None = None
        self.start()

    def start(self) -> None:
        """Start the clock: the fit begins."""
        now = self._begin = time.perf_counter()
        self._next, self._next_log, self._next_line = now + self.every, now, now + self._tuning.say_s

    def observe(self, tree: Callable[[], Any], facts: dict[str, float]) -> None:
        """Watch a fit between two steps; `tree` returns its state, and `facts` are its progress, for the log.

        If a signal asked for it, Stopped is raised after writing a checkpoint.
        """
        if not self._lock.acquire(blocking=False):  # another thread of the fit is in here
            return
        try:
            self._observe(tree, facts)
        finally:
            self._lock.release()

    def _observe(self, tree: Callable[[], Any], facts: dict[str, float]) -> None:
        now = time.perf_counter()
        self._tell(now, facts)
        if self.stops.asked:
            self.stops.cancel_alarm()
            self.save(tree())
            self.stops.raise_if_asked()
        if now >= self._next:
            self.save(tree())

    def save(self, tree: Any) -> bool:
        """Write a checkpoint; return whether it was written. If not, the run continues and tries again later."""
        begin = time.perf_counter()
        try:
            path = self.checkpoints.save({"seconds": self.before + begin - self._begin, "tree": tree})
        except OSError as error:
            if not self._failing:
                say(f"cannot write a checkpoint: {error}. The run continues and tries again later.")
            self._failing = True
            self.folder.log("checkpoint failed", error=str(error))
        else:
            if self._failing:
                say("checkpoints are written again.")
            self._failing = False
            self.folder.log("checkpoint", file=path.name, seconds=time.perf_counter() - begin)
        now = time.perf_counter()
        self.spent += now - begin
        self._next = now + max(self.every, (now - begin) / self._tuning.save_share)
        return not self._failing

    def _tell(self, now: float, facts: dict[str, float]) -> None:
        """Log the progress; where there is no progress bar, print it too."""
        if now >= self._next_log and facts != self._last_logged:
            self._next_log, self._last_logged = now + self._tuning.log_s, facts
            logged = {"seconds" if name == "time" else name: value for name, value in facts.items()}
            self.folder.log("progress", peak_memory_mb=peak_memory(), **logged)
        if now >= self._next_line:
            self._next_line = now + self._tuning.say_s
            if not sys.stderr.isatty():
                say(", ".join(f"{name} {value:.4g}" for name, value in facts.items() if name in _SHOWN))
