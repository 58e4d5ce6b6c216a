"""Who looks after the fit of a job: takes checkpoints, keeps the log, and stops it when it is asked to.

A signal asks a fit to stop between two of its steps. If that takes too long, the step is interrupted, and what is gone
on with is the last checkpoint.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from fastsvm.jobs.say import say
from fastsvm.jobs.stopping import Stopped, StopSignals, quiet_alarm
from fastsvm.jobs.training.checkpoint_file import Checkpoints
from fastsvm.jobs.training.run_folder import RunFolder
from fastsvm.memory import peak_memory

__all__ = ["JobCheckpointer", "Stopped"]

_LOG_SECONDS = 2.0  # between two events of progress
_SAY_SECONDS = 30.0  # between two lines where there is no terminal
_MOST_SHARE = 0.02  # of the time, that checkpoints may take


class JobCheckpointer(StopSignals):
    """Looks after the fits of a run.

    Parameters
    ----------
    folder : RunFolder
        Where the log is.
    checkpoints : Checkpoints
        Where they are written.
    every : float
        Seconds from one checkpoint to the next; more if one takes so long that they would cost much time.

    Attributes
    ----------
    before : float
        Seconds of fitting that the run had behind it when this process began.
    spent : float
        Seconds that checkpoints took.
    """

    def __init__(self, folder: RunFolder, checkpoints: Checkpoints, every: float) -> None:
        super().__init__()
        self.folder, self.checkpoints, self.every = folder, checkpoints, every
        self.spent = self.before = 0.0
        self._failing, self._lock = False, threading.Lock()
        self._last_logged: Any = None
        self.start()

    def start(self) -> None:
        """Count time from now on: the fit begins."""
        now = self._begin = time.perf_counter()
        self._next, self._next_log, self._next_line = now + self.every, now, now + _SAY_SECONDS

    # --- during a fit ------------------------------------------------------------------------------------------

    def observe(self, tree: Callable[[], Any], facts: dict[str, float]) -> None:
        """Look at a fit between two steps; raise `Stopped` if a signal came, with what there is in a checkpoint."""
        if not self._lock.acquire(blocking=False):  # another thread of the fit is at it
            return
        try:
            self._observe(tree, facts)
        finally:
            self._lock.release()

    def _observe(self, tree: Callable[[], Any], facts: dict[str, float]) -> None:
        now = time.perf_counter()
        self._tell(now, facts)
        if self._signal is not None:
            quiet_alarm()  # what is written now should not be lost
            self.save(tree())
            self.raise_if_asked()
        if now >= self._next:
            self.save(tree())

    def save(self, tree: Any) -> bool:
        """Write a checkpoint, and return whether that was possible; if not, the run goes on and tries again."""
        begin = time.perf_counter()
        try:
            path = self.checkpoints.save({"seconds": self.before + begin - self._begin, "tree": tree})
        except OSError as error:
            if not self._failing:
                say(f"a checkpoint could not be written: {error}. The run goes on and will try again.")
            self._failing = True
            self.folder.log("checkpoint failed", error=str(error))
        else:
            if self._failing:
                say("checkpoints can be written again.")
            self._failing = False
            self.folder.log("checkpoint", file=path.name, seconds=time.perf_counter() - begin)
        now = time.perf_counter()
        self.spent += now - begin
        self._next = now + max(self.every, (now - begin) / _MOST_SHARE)
        return not self._failing

    def _tell(self, now: float, facts: dict[str, float]) -> None:
        """Log how far it is, and say it where there is no bar."""
        if now >= self._next_log and facts != self._last_logged:
            self._next_log, self._last_logged = now + _LOG_SECONDS, facts
            shown = {"seconds" if name == "time" else name: value for name, value in facts.items()}
            self.folder.log("progress", peak_memory_mb=peak_memory(), **shown)
        if now >= self._next_line:
            self._next_line = now + _SAY_SECONDS
            if not sys.stderr.isatty():
                shown = ", ".join(f"{name} {value:.4g}" for name, value in facts.items() if name in _SHOWN)
                say(shown)


_SHOWN = ("epoch", "iteration", "objective", "gap", "problems")
