"""Functions with one body for each NamedTuple class of their first argument, compiled and not."""

import functools
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from fastsvm._compiled.compiler import overload_options

__all__ = ["generic"]

_NAMED: dict[str, type] = {}


def _name_apart(kind: type) -> None:
    """Make the name of a class unique: Numba cannot tell NamedTuples with the same name and fields apart.

    Otherwise a user's class RBF would run the code of ours, and a redefined class would run the code of the old one.
    """
    while _NAMED.setdefault(kind.__name__, kind) is not kind:
        kind.__name__ += "_"


class generic:
    """A function that chooses its body by the NamedTuple class of its first argument.

    In compiled code the choice is made at compile time, so it costs nothing. The code can be cached, unlike code that
    takes functions or jitclass instances as arguments.

    For a class without a body, the function passed to `default` may return one.
    """

    def __new__(cls, stub: Callable) -> Any:
        """Return the dispatching function, whose `register` adds the body for a class."""
        bodies: dict[type, Callable] = {}
        defaults: list[Callable[[type], Callable | None]] = []

        def body_for(kind: type) -> Callable | None:
            body = bodies.get(kind)
            return defaults[0](kind) if body is None and defaults else body

        @functools.wraps(stub)
        def dispatch(first: Any, *rest: Any) -> Any:
            body = body_for(type(first))
            if body is None:
                raise KeyError(f"{stub.__name__} has no body for {type(first)}")
            return body(first, *rest)

        def choose(first: Any, *rest: Any) -> Callable | None:
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

        overload(dispatch, strict=False, jit_options=overload_options())(choose)
        dispatch.register, dispatch.bodies = register, bodies  # type: ignore[attr-defined]
        dispatch.default = defaults.append  # type: ignore[attr-defined]
        return dispatch
