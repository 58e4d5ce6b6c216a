"""The decorators of all compiled functions.

`jit` makes every compiled function of the package. Machine code is cached in a folder of our own; code for a user's
classes is not cached.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import joblib
import numba

from fastsvm._compiled.processor import JIT_DISABLED, PLAIN

if not PLAIN:
    from fastsvm._compiled import numba_internals

__all__ = [
    "OPTIONS",
    "inlined",
    "jit",
    "jit_in_order",
    "outlined",
    "overload_options",
    "thread_count",
]

_config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them

# Neither `nnan` nor `ninf`: infinity stands for "not a member" and "no bound".
FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}
OPTIONS: Any = {"fastmath": FASTMATH, "error_model": "numpy"}


def thread_count() -> int:
    """Return the number of threads to use.

    It is Numba's setting, which follows NUMBA_NUM_THREADS and the CPU mask, at most `numba.set_num_threads` of the
    calling thread, and, where NUMBA_NUM_THREADS is not set, the CPU quota of a container.
    """
    count = int(_config.NUMBA_NUM_THREADS)
    if "NUMBA_NUM_THREADS" not in os.environ:
        count = min(count, _processor_count())
    # Asking Numba starts its threads, which we do not need; nobody has set a number before they run.
    return min(count, numba.get_num_threads()) if PLAIN or numba_internals.threads_are_started() else count


@functools.cache
def _processor_count() -> int:
    return int(joblib.cpu_count())


def jit(function: Callable) -> Callable:
    """Compile `function` on first use, to run without the GIL, and cache its code on disk."""
    return _compiled(function, OPTIONS)


def jit_in_order(function: Callable) -> Callable:
    """Compile `function` as `jit` does, with sums in the order in which they are written.

    Otherwise LLVM sums scattered values in vectors that it gathers, which takes up to twice the time.
    """
    return _compiled(function, OPTIONS | {"fastmath": FASTMATH - {"reassoc"}})


def _compiled(function: Callable, options: dict[str, Any]) -> Callable:
    if JIT_DISABLED:
        return function
    if PLAIN:
        return numba.njit(nogil=True, **options)(function)
    # A wrapper for calls by address would take a twentieth of the time to compile; nothing calls by address.
    more = {"nopython": True, "boundscheck": None, "nogil": True, "no_cfunc_wrapper": True}
    return numba_internals.compiled(function, more | options)


def overload_options() -> Any:
    """Return the options with which the bodies of a generic function are compiled."""
    return OPTIONS if PLAIN else OPTIONS | {"no_cfunc_wrapper": True, "pipeline_class": numba_internals.Compiler}


def outlined(function: Callable) -> Callable:
    """Compile `function` as `jit` does, for a long one with several callers: each would be compiled with a copy of it.

    Its name must be unique in the package.
    """
    if not PLAIN:
        numba_internals.OUTLINED.add(function.__qualname__)
    return jit(function)


def inlined(function: Callable) -> Callable:
    """Compile `function` as part of its callers, for inner loops that are too short for a call."""
    return function if JIT_DISABLED else numba.njit(inline="always")(function)
