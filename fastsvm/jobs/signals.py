"""Stop requests by signals: SIGTERM, SIGHUP and Ctrl-C.

A request is remembered and raised as `Stopped` between two steps of the work, where a checkpoint can be written. If the
current step takes longer than a second, it is interrupted.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fastsvm.tuning import current_tuning

_NAMES = ("SIGTERM", "SIGINT", "SIGHUP")  # Windows has no SIGHUP

Handler = Callable[[int, FrameType | None], None]


class Stopped(KeyboardInterrupt):
    """The work was asked to stop, by Ctrl-C or another signal, whose number it has."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StopSignals:
    """Remembers the `number` of the first stop signal that arrives within `listening`."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._patience = current_tuning().jobs.wait_s

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Remember stop signals; raise `Stopped` in a step that does not end in time, and at a second signal."""
        if threading.current_thread() is not threading.main_thread():  # signals arrive in the main thread only
            yield
            return
        handlers: dict[int, Handler] = dict.fromkeys(_stop_signals(), self._on_signal)
        if hasattr(signal, "SIGALRM"):
            handlers[signal.SIGALRM] = self._on_alarm
        try:
            with _handled(handlers):
                yield
        finally:
            self.cancel_alarm()

    @staticmethod
    def cancel_alarm() -> None:
        """Let the current step take as long as it needs, such as a checkpoint that is about to be written."""
        if hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, 0)

    def raise_if_asked(self) -> None:
        """Raise `Stopped` if a stop signal has arrived."""
        if self.number is not None:
            self.cancel_alarm()  # files that are written on the way out should be complete
            raise Stopped(self.number)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None or not hasattr(signal, "SIGALRM"):
            raise Stopped(number)
        self.number = number
        signal.setitimer(signal.ITIMER_REAL, self._patience)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        raise Stopped(self.number or number)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let every stop signal end the work at once, as Ctrl-C does; files that are half written are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = {one for one in _stop_signals() if signal.getsignal(one) is not signal.SIG_IGN}
    with _handled(dict.fromkeys(heard, StopSignals()._on_alarm)):
        yield


def _stop_signals() -> set[int]:
    """Return the signals that stop this process: all but those that its parent told it to ignore, as nohup does."""
    signals = {getattr(signal, name) for name in _NAMES if hasattr(signal, name)}
    return {one for one in signals if one == signal.SIGINT or signal.getsignal(one) is not signal.SIG_IGN}


@contextmanager
def _handled(handlers: dict[int, Handler]) -> Iterator[None]:
    """Set handlers of signals; restore the former ones at the end."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None stands for a handler that was not set by Python
                signal.signal(number, handler)
