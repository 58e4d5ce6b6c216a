"""How does the memory of a process change during an action?"""

import threading
import time
from pathlib import Path
from types import TracebackType

from bench.workers.memory import give_back, lifetime_peak_mb, status_mb

__all__ = ["MemoryCurve"]

_STATUS = Path("/proc/self/status")


class MemoryCurve:
    """Records the memory of the process at short intervals, in a separate thread.

    If the system reports only the peak, the curve is that of the peak and cannot fall.

    Attributes
    ----------
    falls : bool
        Whether the curve shows the current memory, not the peak.
    points : list of tuple of float
        Seconds since the beginning, and megabytes added since then.

    Examples
    --------
    >>> with MemoryCurve() as curve:
    ...     block = bytearray(50_000_000)
    >>> curve.points[-1][1] > 40
    True
    """

    def __init__(self, every_s: float = 0.01) -> None:
        self.falls, self.points = _STATUS.exists(), []
        self._every_s, self._stop = every_s, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryCurve":
        give_back()
        self._begin, self._before_mb = time.perf_counter(), self._now_mb()
        self._note()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._note()

    def _watch(self) -> None:
        while not self._stop.wait(self._every_s):
            self._note()

    def _note(self) -> None:
        self.points.append((time.perf_counter() - self._begin, self._now_mb() - self._before_mb))

    def _now_mb(self) -> float:
        return status_mb("VmRSS") if self.falls else lifetime_peak_mb()
