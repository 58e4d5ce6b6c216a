"""Reading of the arrays in a pickle, without calling any function that the pickle names.

A pickle may name any function and call it. Here the few names that an array needs are replaced by inert classes, and
any other name is an error.

A pickle is also a program, and a few bytes of it can allocate gigabytes. Its opcodes are checked before it runs: only
those of published batches are allowed, and their number is bounded. The result must be a dictionary of
numbers, strings, arrays, and flat lists of numbers and strings.
"""

import io
import pickle
import pickletools
import re
from typing import IO, Any, Literal

import numpy as np

from fastsvm.tuning import current_tuning

__all__ = ["load_plain"]

_WORDS = """
PROTO FRAME STOP MARK GLOBAL STACK_GLOBAL REDUCE BUILD NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT
BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 UNICODE SHORT_BINUNICODE BINUNICODE
BINUNICODE8 LIST EMPTY_LIST APPEND APPENDS TUPLE EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 DICT EMPTY_DICT SETITEM SETITEMS PUT
BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET
"""
_STEPS = frozenset(_WORDS.split())
_DTYPE = re.compile(r"[<>|=]?[biuf][1248]")


class _Type:
    """Stands for a NumPy dtype."""

    def __init__(self, code: object = "u1", *_: object) -> None:
        self._code = code.decode("ascii") if isinstance(code, bytes) else str(code)
        if not _DTYPE.fullmatch(self._code):
            raise pickle.UnpicklingError(f"it holds an array of type {self._code[:20]!r}, not of numbers")
        self._order: Any = "|"  # NumPy checks the state

    def __setstate__(self, state: tuple) -> None:
        order = state[1]
        self._order = order.decode("ascii") if isinstance(order, bytes) else str(order)

    def dtype(self) -> np.dtype:
        return np.dtype(self._code).newbyteorder(self._order)


class _Array:
    """Stands for a NumPy array."""

    def __init__(self, *_: object) -> None:
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, raw = state
        order: Literal["C", "F"] = "F" if fortran else "C"
        self.values = np.frombuffer(raw, kind.dtype()).reshape(shape, order=order)


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._left = len(content)  # characters that may still be encoded: the pickle holds each one once

    def find_class(self, module: str, name: str) -> object:
        # Created anew for each name, because a pickle can set attributes of a function.
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _Type,
            ("_codecs", "encode"): lambda *args: self._encode(*args),
        }
        found = allowed.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}; only arrays, strings and plain containers are read"
            )
        return found

    def _encode(self, text: str, encoding: str = "latin1") -> bytes:
        if encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}")
        self._left -= len(text)
        if self._left < 0:
            raise pickle.UnpicklingError("it encodes more text than it holds")
        return text.encode("latin-1")


def _content(stream: IO[bytes]) -> bytes:
    """Return the bytes of a pickle. Raise UnpicklingError unless its opcodes are few and those of plain data."""
    limits = current_tuning().limits
    pieces: list[bytes] = []
    while piece := stream.read(current_tuning().storage.piece_bytes):
        pieces.append(piece)
        if sum(map(len, pieces)) > limits.bytes:
            raise pickle.UnpicklingError(f"it has more than {limits.bytes} bytes")
    content = b"".join(pieces)
    for number, (step, argument, place) in enumerate(pickletools.genops(content)):
        if step.name not in _STEPS:
            raise pickle.UnpicklingError(f"its byte {place} is {step.name}, which plain data does not need")
        if number >= limits.steps:
            raise pickle.UnpicklingError(f"it has more than {limits.steps} steps")
        if step.name.endswith("PUT") and isinstance(argument, int) and argument > number:  # one entry for each number
            raise pickle.UnpicklingError(f"its byte {place} stores object number {argument} of {number}")
        if isinstance(argument, int) and argument.bit_length() > 64:  # large ints may share one hash
            raise pickle.UnpicklingError(f"its byte {place} holds an int of {argument.bit_length()} bits")
    return content


def _plain(value: object) -> object:
    """Return a value, with the array in place of an `_Array`."""
    if isinstance(value, _Array):
        return value.values
    if isinstance(value, (list, tuple)):
        if not all(isinstance(item, (int, float, str, bytes)) for item in value):
            raise pickle.UnpicklingError("it holds lists of other things than numbers and strings")
        return value
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    raise pickle.UnpicklingError("it holds dictionaries or types within its dictionary")


def load_plain(stream: IO[bytes], where: object) -> dict[str, Any]:
    """Return the dictionary in a pickle, with keys as str. Other strings of Python 2 become bytes.

    It raises ValueError if the pickle is damaged, asks for anything but arrays, strings and plain containers, or holds
    no dictionary. The message starts with `where`.
    """
    try:
        found = _Unpickler(_content(stream)).load()
        if isinstance(found, dict):
            if len(found) > current_tuning().limits.entries:
                raise pickle.UnpicklingError(f"its dictionary has {len(found)} keys")
            found = {_text(key): _plain(item) for key, item in found.items()}
    except Exception as error:  # a damaged pickle may raise anything
        reason = str(error) or type(error).__name__
        raise ValueError(f"{where} cannot be read as a pickle: {reason}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{where} holds {type(found).__name__.strip('_')}, not a dictionary.")
    return found


def _text(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)
