"""SIGTERM and Ctrl-C as a wish to stop, which work that can be gone on with meets between two of its steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["StopSignals", "Stopped"]

_PATIENCE = 1.0  # seconds from a signal until a step is interrupted
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(KeyboardInterrupt):
    """A signal asked the run to stop, be it Ctrl-C or another.

    Attributes
    ----------
    number : int
        Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StopSignals:
    """Takes signals while it listens, and remembers the first."""

    def __init__(self) -> None:
        self._signal: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM and Ctrl-C as a wish to stop, raised as `Stopped` if a step does not end in time."""
        if threading.current_thread() is not threading.main_thread():  # where signals do not arrive
            yield
            return
        before = {number: signal.signal(number, self._asked) for number in _SIGNALS}
        alarm = signal.signal(signal.SIGALRM, self._impatient) if hasattr(signal, "SIGALRM") else None
        try:
            yield
        finally:
            quiet_alarm()
            if alarm is not None:
                signal.signal(signal.SIGALRM, alarm)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, number: int, frame: Any) -> None:
        if self._signal is not None or not hasattr(signal, "SIGALRM"):
            raise Stopped(number)
        self._signal = number
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)

    def _impatient(self, number: int, frame: Any) -> None:
        raise Stopped(self._signal or number)

    def raise_if_asked(self) -> None:
        """Raise `Stopped` if a signal came."""
        if self._signal is not None:
            quiet_alarm()  # what is written on the way out should not be lost
            raise Stopped(self._signal)


def quiet_alarm() -> None:
    """Let a step that was given time to end have all it needs."""
    if hasattr(signal, "SIGALRM"):
        signal.setitimer(signal.ITIMER_REAL, 0)
