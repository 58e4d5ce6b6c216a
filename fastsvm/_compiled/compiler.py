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


if not JIT_DISABLED:
    # Numba would do this in the first fit: it takes 40 MB, which are not within the `memory` of a fit.
    cpu_target.target_context.refresh()


def _is_ours(kind: Any) -> bool:
    """Return whether all NamedTuple classes in an argument's type belong to the package."""
    owner = getattr(kind, "instance_class", None)
    ours = owner is None or owner.__module__.partition(".")[0] == PACKAGE.name
    return ours and all(_is_ours(part) for part in getattr(kind, "types", ()))


@functools.cache
def _tell_of_compiling() -> None:
    """Say, once in a process and on a terminal only, why this takes seconds."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error may be closed, or none
        if sys.stderr.isatty():
            words = "compiling; this takes some seconds, once on this machine. `fastsvm warmup` does it beforehand."
            print(f"fastsvm: {words}", file=sys.stderr, flush=True)


class _Stored(caching.CompileResultCacheImpl):
    """How code is stored: Numba's way, or as code for callers alone."""

    def __init__(self, function: Callable) -> None:  # Numba's own would look for a folder, of which we have several
        self._locator = SimpleNamespace(_py_file=inspect.getfile(function))  # where warnings point to
        self._lineno = function.__code__.co_firstlineno

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Return stored code; None where machine code is needed and only code for callers is stored."""
        found = linked_only(target_context, payload)
        if found is None:
            return super().rebuild(target_context, payload)
        return found if _Dispatcher.nested() else None


class _Index(caching.IndexDataCacheFile):
    """The code of a function by its types; none if some of them are classes that only another version has."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (AttributeError, ImportError):
            return {}


class _OurCode(caching.FunctionCache):
    """Cache on disk for code of the package's own classes; code of a user's class is compiled in each process.

    The digest does not cover a user's sources, so stale code would be loaded after an edit. Numba also pickles the
    class into an index. A process without the user's module could not read that index, not even for our classes.

    Code is read from the first folder that has it, and written to the first that takes it.
    """

    def __init__(self, function: Callable) -> None:
        self._name, self._py_func, self._impl = repr(function), function, _Stored(function)
        self.enable()

    @functools.cached_property
    def _name_of_files(self) -> str:
        """Name of the index and of the code, without what differs between versions of the function."""
        module = self._py_func.__module__.removeprefix(f"{PACKAGE.name}.")
        return f"{module}.{self._py_func.__qualname__}".replace("<", "").replace(">", "")

    @functools.cached_property
    def _version(self) -> str:
        top = self._py_func.__qualname__.partition(".")[0]
        digest = function_digest(self._py_func.__module__, top, inspect.getfile(self._py_func))
        return f"{digest}.py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"

    def _index(self, folder: Path) -> Any:
        return _Index(str(folder), f"{self._name_of_files}-{self._version}", self._version)

    @property
    def cache_path(self) -> str:
        """The folder that takes new code."""
        return str(writeable_folder() or "")

    def flush(self) -> None:
        """Forget the stored code."""
        if (folder := writeable_folder()) is not None:
            self._index(folder).flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for the types `sig`, or None."""
        found = super().load_overload(sig, target_context) if all(map(_is_ours, sig)) else None
        if found is None:
            _tell_of_compiling()
        return found

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        for folder in folders():
            try:
                stored = self._index(folder).load(key)
            except OSError:  # the folder belongs to somebody else
                continue
            found = None if stored is None else self._impl.rebuild(target_context, stored)
            if found is not None:
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for the types `sig`, where there is a place."""
        folder = writeable_folder()
        if folder is None or not all(map(_is_ours, sig)) or not self._impl.check_cachable(data):
            return
        with self._guard_against_spurious_io_errors():
            index = self._index(folder)
            is_new = not Path(index._index_path).exists()
            index.save(self._index_key(sig, data.codegen), self._impl.reduce(data))
            if is_new:
                self._prune(folder)

    def _prune(self, folder: Path) -> None:
        """Remove the code of all but the newest few versions of the function: several checkouts may be in use."""
        with contextlib.suppress(OSError):  # another process may prune too
            indices = list(folder.glob(f"{self._name_of_files}-*.nbi"))
            indices.sort(key=lambda path: path.stat().st_mtime)
            for path in indices[:-_KEPT_VERSIONS]:
                for code in folder.glob(f"{path.stem}.*"):
                    code.unlink(missing_ok=True)


class _Dispatcher(CPUDispatcher):
    """A compiled function; what only compiled code has called so far has code for callers alone."""

    _depth = 0  # of functions that are being compiled, each for the one before; the compiler's lock guards it

    @classmethod
    def nested(cls) -> bool:
        """Return whether the function that is being compiled is for another one that is, too."""
        return cls._depth > 1

    def compile(self, sig: Any) -> Any:
        """Compile for the types `sig`, anew where there is code for callers alone and Python calls."""
        with global_compiler_lock:
            kinds = tuple(sigutils.normalize_signature(sig)[0])
            if _Dispatcher._depth == 0 and kinds in self.overloads and is_linked_only(self.overloads[kinds]):
                del self.overloads[kinds]
            _Dispatcher._depth += 1
            try:
                return super().compile(sig)
            finally:
                _Dispatcher._depth -= 1

    def add_overload(self, cres: Any) -> None:
        """Keep code, and let Python call it where it can."""
        if is_linked_only(cres):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)


def _without_wrapper(flags: Any) -> Any:
    flags.no_cpython_wrapper |= _Dispatcher.nested()
    return flags


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
