"""Functions with one body for each NamedTuple class of their first argument, compiled and not."""

import functools
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from fastsvm._compiled.compiler import FASTMATH

__all__ = ["generic"]

_NAMED: dict[str, type] = {}


def _name_apart(kind: type) -> None:
    """Make the name of a class unique: Numba cannot tell NamedTuples with the same name and fields apart.

    Otherwise a user's RBF would run the code of ours, and a class that is defined again the code of the old one.
    """
    while _NAMED.setdefault(kind.__name__, kind) is not kind:
        kind.__name__ += "_"


class generic:
    """A function that chooses its body by the NamedTuple class of its first argument.

    It does so in Python and, at compile time, in compiled code. There the choice costs nothing and the code can be
    cached, which Numba does neither for functions as arguments nor for jitclass instances.
    """

    def __new__(cls, stub: Callable) -> Any:
        """Make the dispatching function: `register` adds a body for a class to its `bodies`."""
        bodies: dict[type, Callable] = {}

        @functools.wraps(stub)
        def dispatch(first: Any, *rest: Any) -> Any:
            return bodies[type(first)](first, *rest)

        def choose(first: Any, *rest: Any) -> Callable | None:
            kind = getattr(first, "instance_class", None)
            return None if kind is None else bodies.get(kind)

        def register(kind: type) -> Callable[[Callable], Callable]:
            if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
                raise TypeError(f"{stub.__name__} can only be compiled for classes of NamedTuple; {kind} is none.")
            if kind in bodies:  # code that is compiled already would use the first
                raise ValueError(f"{kind} has a {stub.__name__} already: define the class anew for another.")

            def add(body: Callable) -> Callable:
                _name_apart(kind)
                bodies[kind] = body
                return body

            return add

        overload(dispatch, strict=False, jit_options={"fastmath": FASTMATH, "error_model": "numpy"})(choose)
        dispatch.register, dispatch.bodies = register, bodies  # type: ignore[attr-defined]
        return dispatch
