"""Names of NamedTuples in checkpoints, which do not depend on their modules."""

from collections.abc import Callable

_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}


def storable(name: str) -> Callable[[type], type]:
    """Register a NamedTuple for checkpoints, under a name that stays when the class moves; a name that is taken raises.

    New fields need a default, with which older checkpoints are read. If a field goes or changes its meaning, choose
    another name or convert old checkpoints.
    """

    def register(kind: type) -> type:
        if name in _CLASSES:
            raise ValueError(f"{kind.__qualname__} cannot be stored as {name!r}: {_CLASSES[name].__qualname__} is.")
        _CLASSES[name], _NAMES[kind] = kind, name
        return kind

    return register


def stored_name(kind: type) -> str:
    """Return the name under which a class is stored; one that is not storable raises TypeError."""
    if kind not in _NAMES:
        raise TypeError(f"{kind.__qualname__} cannot be stored in a checkpoint: decorate it with `storable`.")
    return _NAMES[kind]


def storable_class(name: str) -> type | None:
    """Return the class with a name, or None."""
    return _CLASSES.get(name)
