"""What Numba compiles while a block of code runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from numba.core import event

__all__ = ["Recording", "recorded"]


@dataclass
class Recording:
    """Names of the functions that were compiled, and the seconds that took. Code that was loaded is not among them."""

    functions: set[str] = field(default_factory=set)
    seconds: float = 0.0


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record compilations, in all threads. The result is complete at the end of the block."""
    found = Recording()
    with event.install_recorder("numba:compile") as recorder:
        yield found
    depth, begin = 0, 0.0
    for moment, happened in recorder.buffer:  # the compilation of a function contains those of its callees
        if happened.is_start:
            begin = moment if depth == 0 else begin
            depth += 1
            continue
        depth -= 1
        function = happened.data["dispatcher"].py_func
        found.functions.add(f"{function.__module__}.{function.__qualname__}")
        found.seconds += moment - begin if depth == 0 else 0.0
