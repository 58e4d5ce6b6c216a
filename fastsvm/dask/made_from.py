"""Estimators on a cluster are made from those of one machine: what they do not say is as it is there."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from distributed import Client

from fastsvm.estimators.fitting.documentation import described, documentation

__all__ = ["made_from"]

_Estimator = TypeVar("_Estimator", bound=type)
_OF_CLUSTER = {
    name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    for name, kind in {"client": Client | None, "n_shards": int | None}.items()
}


def made_from(local: type, without: Iterable[str]) -> Callable[[_Estimator], _Estimator]:
    """Give a class the parameters and the documentation of an estimator of one machine.

    `without` names parameters and fitted attributes that the cluster does not have. The class has two parameters more,
    `client` and `n_shards`. Its docstring names those parameters and attributes that mean something else on a cluster.
    Those that several estimators share are in the docstrings of their bases.
    """

    def make(cls: Any) -> Any:
        left_out = set(without)
        known = inspect.signature(local.__init__).parameters.values()  # type: ignore[misc]
        parameters = {one.name: one for one in known if one.name not in left_out} | _OF_CLUSTER
        cls._local, cls.__init__ = local, _constructor(cls.__name__, list(parameters.values()))
        if cls.__doc__ and local.__doc__:  # python -OO has none
            about, attributes = (described(local, part) | described(cls, part) for part in ("Parameters", "Attributes"))
            attributes = {name: text for name, text in attributes.items() if name not in left_out}
            cls.__doc__ = documentation(cls, list(parameters)[1:], about, attributes)
        return cls

    return make


def _constructor(name: str, parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """Return a method that keeps its arguments as attributes of the same names."""
    signature = inspect.Signature(parameters)

    def __init__(self: Any, *args: Any, **given: Any) -> None:
        try:
            bound = signature.bind(self, *args, **given)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        bound.apply_defaults()
        vars(self).update({name: value for name, value in bound.arguments.items() if name != "self"})

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
