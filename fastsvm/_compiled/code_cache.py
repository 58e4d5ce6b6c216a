"""Machine code on disk: the folders where it is kept, and digests of what it was compiled from.

Thanks to the digests, an edit compiles anew only what it concerns.

Numba's own cache compares the time and the contents of one file, that of the function. After an edit of a helper in
another file it would load stale code, and after one of a comment it would compile everything in the file.

A digest covers the bytecode of a function, the numbers that it uses, the functions and classes that it names, what
these name, and so on, and the bodies for these classes of functions with a body for each class. It covers no version of
NumPy; the name of a file has those of Python and Numba.
"""

import functools
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

from fastsvm._compiled.processor import SHIPPED, VERSIONS

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

_NAME = "fastsvm-machine-code"
PACKAGE = Path(__file__).parents[1]
_MACHINERY = ("compiler", "numba_internals", "processor")  # All code depends on these files.
# Functions of these packages are known by name. Some of SciPy's have a memory of this process among their globals.
_FOREIGN = sys.stdlib_module_names | {"h5py", "joblib", "llvmlite", "numba", "numpy", "scipy", "sklearn"}
_WAIT_SECONDS, _POLL_SECONDS = 60.0, 0.02  # A process waits so long for another one's code, and asks so often.
_WRAPPED = "py_func", "_defn", "__func__", "fget", "func", "__wrapped__"  # Where wrappers keep their functions.
_OF_CODE = "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_argcount"
_PLAIN, _UNORDERED, _SEQUENCES = {bool, int, float, str, bytes, type(None)}, {dict, set, frozenset}, (tuple, list)
_FOLLOWED = (FunctionType, type)
KEPT = 4
"""So many versions of the code of a function for some types are kept, as of several checkouts."""


# --- folders ---------------------------------------------------------------------------------------------


@functools.cache
def folders() -> tuple[Path, ...]:
    """Return the folders where machine code may be found, the preferred one first. They need not exist."""
    root, taking = _cache_root(), writeable_folder()
    shipped = SHIPPED if SHIPPED.is_dir() else None
    preferred = None if root is None else root / _NAME
    return tuple(dict.fromkeys(folder for folder in (shipped, preferred, taking) if folder is not None))


@functools.cache
def writeable_folder() -> Path | None:
    """Return the first folder that takes new machine code, made where it is missing; None if there is none."""
    for root_of in (_cache_root, _private_root):  # the second makes a folder, so it is asked only where it is needed
        with suppress(OSError):
            root = root_of()
            if root is None:
                continue
            folder = root / _NAME
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


def _cache_root() -> Path | None:
    config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them
    if config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return Path(config.CACHE_DIR)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser()
    except RuntimeError:  # a container may run as a user without a home
        return None


def _private_root() -> Path | None:
    """Return a temporary folder to which only the user can write, because code is loaded from it, or None."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    try:
        root = Path(tempfile.gettempdir()) / f"fastsvm-cache-{user}"
    except FileNotFoundError:  # a container may have no folder that can be written to
        return None
    with suppress(OSError):
        root.mkdir(mode=0o700)
    if hasattr(os, "getuid") and (not root.is_dir() or root.is_symlink() or root.stat().st_uid != os.getuid()):
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="fastsvm-cache-"))
        return None
    return root


class Claim:
    """The right to compile something or to change a file: others wait for its end, a while, then go on without it."""

    def __init__(self, path: Path) -> None:
        self._path, self.has_waited, end = path, False, time.monotonic() + _WAIT_SECONDS
        self._file: int | None = None
        if fcntl is not None:  # else the file, which Windows does not remove while it is open, would stay
            with suppress(OSError):  # the disk may be full
                self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        while not self._is_locked() and time.monotonic() < end:
            self.has_waited = True
            time.sleep(_POLL_SECONDS)

    def _is_locked(self) -> bool:
        try:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # some file systems have no locks
            pass
        return True

    def release(self) -> None:
        """Let others go on."""
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> "Claim":
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


# --- digests ---------------------------------------------------------------------------------------------


def digest(function: Callable, classes: Iterable[type]) -> str:
    """Return the digest of a compiled function for arguments of some classes. It is the same in each process."""
    wanted: list[Any] = [*classes]
    lines, known = {_machinery(), VERSIONS, _text(function, wanted)}, dict.fromkeys(wanted)
    while wanted:
        named: list[Any] = []
        lines.update(_definition(value, named) for value in wanted)
        for generic in [each for each in known if hasattr(each, "bodies")]:
            bodies = [pair for pair in generic.bodies.items() if pair[0] in known]
            lines.update(f"{generic.__qualname__}: {_text(pair, named)}" for pair in bodies)
        wanted = [each for each in dict.fromkeys(named) if each not in known]
        known.update(dict.fromkeys(wanted))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


@functools.cache
def _machinery() -> str:
    """Return the sources of the compiler."""
    return "".join(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in _MACHINERY)


def _definition(value: Any, named: list[Any]) -> str:
    """Return what a function or a class consists of, and add what it names to `named`."""
    if isinstance(value, type):
        facts = {name: part for name, part in vars(value).items() if callable(part) or not name.startswith("__")}
        return f"{value.__qualname__}: {_text((value.__bases__, facts), named)}"
    if hasattr(value, "bodies"):
        return f"{value.__qualname__}: {_text(value.defaults, named)}"
    code, names = value.__code__, set(_names(value.__code__))
    uses = {name: value.__globals__[name] for name in names & value.__globals__.keys()}
    for module in [each for each in uses.values() if isinstance(each, ModuleType) and not _is_foreign(each.__name__)]:
        uses |= {f"{module.__name__}.{name}": vars(module)[name] for name in names & vars(module).keys()}
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    code = code.replace(co_consts=tuple(None if each == value.__doc__ else each for each in code.co_consts))
    parts = code, value.__defaults__, value.__kwdefaults__, cells, uses, vars(value)
    return f"{value.__qualname__}: {_text(parts, named)}"


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code uses, and those of the functions within it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _text(value: Any, named: list[Any]) -> str:
    """Return what tells a value from others, in each process; add the functions and classes in it to `named`."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind in _UNORDERED:
        return str(sorted([_text(part, named) for part in (value.items() if kind is dict else value)]))
    if isinstance(value, _SEQUENCES):
        owner = "" if kind in _SEQUENCES else _text(kind, named)
        return f"{owner}{[_text(part, named) for part in value]}"
    if kind is CodeType:
        constants = [_text(each, named) for each in value.co_consts]
        return f"{[getattr(value, name) for name in _OF_CODE]}{constants}"
    if kind is np.ndarray:
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if kind is ModuleType:
        return value.__name__
    options = getattr(value, "targetoptions", None)
    if kind is not FunctionType or "__wrapped__" in vars(value):
        for name in () if hasattr(value, "bodies") or isinstance(value, type) else _WRAPPED:
            value = getattr(value, name, value)
    if not isinstance(value, _FOLLOWED):
        return re.sub(" at 0x[0-9a-f]+", "", repr(value))
    text = f"{value.__module__}.{value.__qualname__}"
    if not _is_foreign(value.__module__):
        named.append(value)
        cells = [] if isinstance(value, type) else [cell.cell_contents for cell in value.__closure__ or ()]
        text += str([each for each in cells if type(each) in _PLAIN])
    return f"{text}{_text(options, named)}" if options else text


@functools.cache
def _is_foreign(module: str) -> bool:
    """Return whether a module is of another package, or of the compiler."""
    package, _, within = module.partition(".")
    return package in _FOREIGN or (package == PACKAGE.name and within.removeprefix("_compiled.") in _MACHINERY)
