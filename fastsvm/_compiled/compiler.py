"""The decorators of all compiled functions, and arrays in the form for which they are compiled.

`jit` makes every compiled function of the package, `generic` one with a body for each class of its first argument.
Machine code is cached in a folder of our own; code for a user's classes is not cached.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

import joblib
import numba
import numpy as np
from numba.extending import overload

from fastsvm._compiled import compilations  # noqa: F401, counts what this file compiles
from fastsvm._compiled.processor import JIT_DISABLED, PLAIN

if not PLAIN:
    from fastsvm._compiled import numba_internals

_config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them

# Neither `nnan` nor `ninf`: infinity stands for "not a member" and "no bound".
FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}
OPTIONS: Any = {"fastmath": FASTMATH, "error_model": "numpy"}


def thread_count() -> int:
    """Return the number of threads to use, as Numba's settings, the CPU mask and the quota of a container allow."""
    count = int(_config.NUMBA_NUM_THREADS)
    if "NUMBA_NUM_THREADS" not in os.environ:
        count = min(count, _processor_count())
    try:
        numba.threading_layer()
    except ValueError:  # its threads do not run: nobody has set a number, and asking for it would start them
        return count
    return min(count, numba.get_num_threads())


@functools.cache
def _processor_count() -> int:
    return int(joblib.cpu_count())


def jit(function: Callable) -> Callable:
    """Compile `function` on first use, to run without the GIL, and cache its code on disk."""
    return _compiled(function, OPTIONS)


def jit_in_order(function: Callable) -> Callable:
    """Compile `function` as `jit` does, with sums in the order in which they are written."""
    # Otherwise LLVM sums scattered values in vectors that it gathers, which takes up to twice the time.
    return _compiled(function, OPTIONS | {"fastmath": FASTMATH - {"reassoc"}})


def jit_as_written(function: Callable) -> Callable:
    """Compile `function` as `jit` does, with the operations that are written, each of which is rounded correctly."""
    return _compiled(function, OPTIONS | {"fastmath": False})


def _compiled(function: Callable, options: Any) -> Callable:
    if JIT_DISABLED:
        return function
    if PLAIN:
        return numba.njit(nogil=True, **options)(function)
    # A wrapper for calls by address would take a twentieth of the time to compile; nothing calls by address.
    more = {"nopython": True, "boundscheck": None, "nogil": True, "no_cfunc_wrapper": True}
    return numba_internals.compiled(function, more | options)


def outlined(function: Callable) -> Callable:
    """Compile a long function as `jit` does, but once for all its callers. Its name must be unique in the package."""
    if not PLAIN:
        numba_internals.OUTLINED.add(function.__qualname__)
        vars(function)["outlined"] = True  # so that its digest differs
    return jit(function)


def inlined(function: Callable) -> Callable:
    """Compile `function` as part of its callers, for inner loops that are too short for a call."""
    return function if JIT_DISABLED else numba.njit(inline="always")(function)


_NAMED: dict[str, type] = {}


def _name_apart(kind: type) -> None:
    """Make the name of a class unique: Numba cannot tell NamedTuples with the same name and fields apart."""
    while _NAMED.setdefault(kind.__name__, kind) is not kind:
        kind.__name__ += "_"


class generic:
    """A function that chooses its body by the NamedTuple class of its first argument, in compiled code at compile time.

    The code can be cached, unlike code that takes functions or jitclass instances as arguments.
    """

    def __new__(cls, stub: Callable) -> Any:
        """Return the dispatching function, whose `register` adds the body for a class."""
        bodies: dict[type, Callable] = {}
        defaults: list[Callable[[type], Callable | None]] = []  # They may return the body for a class without one.

        def body_for(kind: type) -> Callable | None:
            body = bodies.get(kind)
            return defaults[0](kind) if body is None and defaults else body

        @functools.wraps(stub)
        def dispatch(first: tuple, *rest: object) -> object:
            body = body_for(type(first))
            if body is None:
                raise KeyError(f"{stub.__name__} has no body for {type(first)}")
            return body(first, *rest)

        def choose(first: object, *rest: object) -> Callable | None:
            kind = getattr(first, "instance_class", None)
            return None if kind is None else body_for(kind)

        def register(kind: type) -> Callable[[Callable], Callable]:
            if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
                raise TypeError(f"{stub.__name__} can only be compiled for classes of NamedTuple; {kind} is none.")
            if kind in bodies:  # code that is already compiled would keep the first one
                raise ValueError(f"{kind} has a {stub.__name__} already: define the class anew for another.")

            def add(body: Callable) -> Callable:
                _name_apart(kind)
                bodies[kind] = body
                return body

            return add

        ours = {} if PLAIN else {"no_cfunc_wrapper": True, "pipeline_class": numba_internals.Compiler}
        overload(dispatch, strict=False, jit_options=OPTIONS | ours)(choose)
        vars(dispatch).update(register=register, bodies=bodies, default=defaults.append, defaults=defaults)
        return dispatch


def writeable(array: np.ndarray) -> np.ndarray:
    """Return a view that NumPy takes for writeable: Numba compiles functions anew for arrays that are read-only."""
    if array.flags.writeable:
        return array
    interface = array.__array_interface__ | {"data": (array.__array_interface__["data"][0], False)}
    return np.asarray(_Memory(array, interface))


class _Memory:
    """Memory of an array, which it keeps alive, described to NumPy in another way."""

    def __init__(self, owner: np.ndarray, interface: dict[str, object]) -> None:
        self.owner, self.__array_interface__ = owner, interface
