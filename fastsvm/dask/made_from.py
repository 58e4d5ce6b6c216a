"""Estimators on a cluster are made from those of one machine: what they do not say is as it is there."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from distributed import Client

__all__ = ["made_from"]

_Estimator = TypeVar("_Estimator", bound=type)
_UNDERLINE = re.compile("-{3,}")
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
            cls.__doc__ = _documentation(cls, local, list(parameters)[1:], left_out)
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


def _documentation(cls: type, local: type, parameters: list[str], left_out: set[str]) -> str:
    """Return the docstring of a class with what it does not say, as its bases or the estimator of one machine say."""
    own = _sections(cls)
    above = [_sections(base) for base in [*cls.__mro__[1:-1], local] if base.__doc__]
    for name in ("Parameters", "Attributes"):
        said: dict[str, str] = {}
        for sections in reversed([own, *above]):
            said.update(_entries(sections.get(name, "")))
        order = parameters if name == "Parameters" else [one for one in said if one not in left_out]
        own[name] = "\n".join(said[one] for one in order)
    titles = [title for title in ("Parameters", "Attributes", "References", "Examples") if title in own]
    return "\n\n".join([own[""], *(f"{title}\n{'-' * len(title)}\n{own[title]}" for title in titles)]) + "\n"


def _sections(cls: type) -> dict[str, str]:
    """Return the sections of a docstring by their titles; what comes before the first one has none."""
    found: dict[str, list[str]] = {"": []}
    title, lines = "", inspect.cleandoc(cls.__doc__ or "").splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _UNDERLINE.fullmatch(below):
            title, found[line] = line, []
        elif not _UNDERLINE.fullmatch(line):
            found[title].append(line)
    return {name: "\n".join(some).strip() for name, some in found.items()}


def _entries(text: str) -> dict[str, str]:
    """Return the entries of a section by the names of what they describe."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith(" "):
            found[name := line.partition(" : ")[0]] = []
        found[name].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}
