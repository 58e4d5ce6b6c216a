"""SIGTERM, SIGHUP and Ctrl-C as a wish to stop, which work that can be gone on with meets between two of its steps."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["StopSignals", "Stopped", "ended_by_signals"]

_PATIENCE = 1.0  # seconds from a signal until a step is interrupted
_NAMES = ("SIGTERM", "SIGINT", "SIGHUP")  # of which a system may lack the last


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
        """Take signals as a wish to stop, raised as `Stopped` if a step does not end in time."""
        if threading.current_thread() is not threading.main_thread():  # where signals do not arrive
            yield
            return
        handlers: dict[int, Callable[[int, Any], None]] = dict.fromkeys(_asking(), self._asked)
        if hasattr(signal, "SIGALRM"):
            handlers[signal.SIGALRM] = self._impatient
        try:
            with _handled(handlers):
                yield
        finally:
            quiet_alarm()

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


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let all signals that ask to stop end work as Ctrl-C does: at once, and with what is half written removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(dict.fromkeys(_asking() - {signal.SIGINT}, _stop)):
        yield


def _stop(number: int, frame: Any) -> None:
    raise Stopped(number)


def _asking() -> set[int]:
    """Return the signals that ask to stop: not SIGHUP in a process that was told to outlive its terminal (nohup)."""
    found = {getattr(signal, name) for name in _NAMES if hasattr(signal, name)}
    return {one for one in found if one == signal.SIGINT or signal.getsignal(one) is not signal.SIG_IGN}


@contextmanager
def _handled(handlers: dict[int, Callable[[int, Any], None]]) -> Iterator[None]:
    """Set handlers of signals, and at the end those that were there."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # which was not set by Python
                signal.signal(number, handler)


def quiet_alarm() -> None:
    """Let a step that was given time to end have all it needs."""
    if hasattr(signal, "SIGALRM"):
        signal.setitimer(signal.ITIMER_REAL, 0)
