"""Reading the arrays in a pickle without running anything that the pickle asks for.

A pickle may name any function and have it called. Here the few names that an array needs lead to inert
stand-ins, and any other name is an error.
"""

import pickle
from typing import Any, BinaryIO

import numpy as np

__all__ = ["load_plain"]


class _Type:
    """Stands for a NumPy dtype."""

    def __init__(self, code: object = "u1", *_: object) -> None:
        self._code = code.decode("ascii") if isinstance(code, bytes) else str(code)
        self._order = "|"

    def __setstate__(self, state: tuple) -> None:
        order = state[1]
        self._order = order.decode("ascii") if isinstance(order, bytes) else str(order)

    def dtype(self) -> np.dtype:
        found = np.dtype(self._code).newbyteorder(self._order)
        if found.kind not in "biuf":
            raise pickle.UnpicklingError(f"it holds an array of type {found}, not of numbers")
        return found


class _Array:
    """Stands for a NumPy array."""

    def __init__(self, *_: object) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, raw = state
        order = "F" if fortran else "C"
        self.values = np.frombuffer(raw, kind.dtype()).reshape(shape, order=order)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}")
    return text.encode("latin-1")


def _allowed() -> dict[tuple[str, str], object]:
    # Made anew for each name asked for: a pickle can set attributes of a function.
    return {
        ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
        ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Type,
        ("_codecs", "encode"): lambda *args: _encode(*args),
    }


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        found = _allowed().get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}; only arrays, strings and plain containers are read"
            )
        return found


def _plain(value: object) -> object:
    """Return a value with arrays in the place of their stand-ins."""
    if isinstance(value, _Array):
        return value.values
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def load_plain(stream: BinaryIO, where: object) -> dict[str, Any]:
    """Return the dictionary in a pickle, its keys as str; strings of Python 2 come as bytes.

    Raises
    ------
    ValueError
        If the pickle is damaged, asks for anything but arrays, strings and plain containers, or holds no
        dictionary. The message starts with `where`.
    """
    try:
        found = _plain(_Unpickler(stream, encoding="bytes").load())
    except Exception as error:  # a damaged pickle may raise anything
        reason = str(error) or type(error).__name__
        raise ValueError(f"{where} is not a pickle that can be read: {reason}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{where} holds {type(found).__name__}, not a dictionary.")
    return {_text(key): item for key, item in found.items()}


def _text(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)
