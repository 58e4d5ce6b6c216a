"""What this process has compiled, and how long that took, which is no part of the time of a fit."""

import time
from collections.abc import Callable

from numba.core import event

from fastsvm._compiled.code_cache import PACKAGE
from fastsvm._compiled.processor import LEVEL, SHIPPED, VERSIONS, shipped_levels
from fastsvm.messages import tell

_SILENT_SECONDS = 1.0  # Compiling takes so long before a line says so.


class _Compilations(event.Listener):
    """Counts what this process compiles of ours, and says once why that takes seconds. Code that is loaded is no part.

    The compiler's lock guards it.
    """

    def __init__(self) -> None:
        self.functions: list[str] = []
        self._seconds, self._depth, self._begin, self._is_ours, self.is_told = 0.0, 0, 0.0, False, False

    def on_start(self, happened: event.Event) -> None:
        """Begin with a function, or with one that it calls."""
        if self._depth == 0:
            self._begin, self._is_ours = time.perf_counter(), _name_of(happened).startswith(f"{PACKAGE.name}.")
        self._depth += 1
        self._tell()

    def on_end(self, happened: event.Event) -> None:
        """End with a function; its time contains that of the functions that it calls."""
        self.functions.append(_name_of(happened))
        self._depth -= 1
        self._tell()
        if self._depth == 0:
            self._seconds, self._is_ours = self.seconds, False

    @property
    def seconds(self) -> float:
        """The time until now."""
        return self._seconds + (time.perf_counter() - self._begin if self._is_ours else 0.0)

    def _tell(self) -> None:
        """Say why this takes seconds: at once where a compiled wheel is for another system, else after a second."""
        if self.is_told or not self._is_ours:
            return
        words = "compiling; this takes some seconds, once on this machine. `fastsvm warmup` does it beforehand."
        is_misfit = SHIPPED.is_dir() and LEVEL.name not in shipped_levels()
        if is_misfit:
            words = f"the machine code of this wheel is not for {VERSIONS} on {LEVEL.name}; {words}"
        if is_misfit or self.seconds > _SILENT_SECONDS:
            self.is_told = True
            tell(words)


def _name_of(happened: event.Event) -> str:
    function = happened.data["dispatcher"].py_func
    return f"{function.__module__}.{function.__qualname__}"


COMPILATIONS = _Compilations()
event.register("numba:compile", COMPILATIONS)


def work_clock() -> float:
    """Return the time of time.perf_counter, in which compiling takes no time."""
    return time.perf_counter() - COMPILATIONS.seconds


def stopwatch() -> Callable[[], dict[str, float]]:
    """Return what tells the seconds from now on, with those of compiling apart."""
    begin, compiled = work_clock(), COMPILATIONS.seconds
    return lambda: {"seconds": work_clock() - begin, "compile_seconds": COMPILATIONS.seconds - compiled}
