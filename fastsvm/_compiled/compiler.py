"""The decorator of all compiled functions, and the cache of their machine code.

`jit` makes every compiled function of the package. Machine code is cached in a folder named after a digest of the
package's sources. Numba's own cache compares only the file of the function itself. After an edit of a helper in another
file, it would load stale code. Code for a user's classes is not cached.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numba
from llvmlite import binding
from numba.core import caching
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.registry import cpu_target
from numba.core.typed_passes import IRLegalization
from numba.np.ufunc import parallel as _parallel

__all__ = [
    "JIT_DISABLED",
    "OPTIONS",
    "inlined",
    "jit",
    "jit_in_order",
    "outlined",
    "processor_has",
    "thread_count",
]

_config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them
JIT_DISABLED = bool(_config.DISABLE_JIT)

# Neither `nnan` nor `ninf`: infinity stands for "not a member" and "no bound".
FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}
# A wrapper for calls by address would take a twentieth of the time to compile; nothing calls by address.
OPTIONS: Any = {"fastmath": FASTMATH, "error_model": "numpy", "no_cfunc_wrapper": True}
_PACKAGE = Path(__file__).parents[1]


def thread_count() -> int:
    """Return the number of threads to use.

    It is Numba's setting, which follows NUMBA_NUM_THREADS and the CPU mask, at most `numba.set_num_threads` of the
    calling thread, and, where NUMBA_NUM_THREADS is not set, the CPU quota of a container.
    """
    count = int(_config.NUMBA_NUM_THREADS)
    if "NUMBA_NUM_THREADS" not in os.environ:
        count = min(count, _processor_count())
    # Asking Numba starts its threads, which we do not need; nobody has set a number before they run.
    return min(count, numba.get_num_threads()) if getattr(_parallel, "_is_initialized", False) else count


@functools.cache
def _processor_count() -> int:
    return int(joblib.cpu_count())


def processor_has(feature: str, setting: str) -> bool:
    """Return whether Numba compiles for a processor with a feature; False if an environment variable is 0.

    Parameters
    ----------
    feature : str
        LLVM's name of the feature, such as "avx512f". LLVM ends the process if code needs a feature that is missing.
    setting : str
        Name of the environment variable.
    """
    if JIT_DISABLED or os.environ.get(setting) == "0":
        return False
    if _config.CPU_NAME or _config.CPU_FEATURES:  # the user's target, not this machine
        return f"+{feature}" in (_config.CPU_FEATURES or "")
    if feature == "dotprod" and binding.get_host_cpu_name().startswith("apple-"):
        return True  # LLVM names no features of the processors of Macs, which all have this one
    return bool(binding.get_host_cpu_features().get(feature, False))


if not JIT_DISABLED:
    # Numba would do this in the first fit: it takes 40 MB, which are not within the `memory` of a fit.
    cpu_target.target_context.refresh()


# --- where machine code is cached --------------------------------------------------------------------------


def source_digest() -> str:
    """Return a digest of all sources of the package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    for setting in ("FASTSVM_WIDE_VECTORS", "FASTSVM_BYTE_PRODUCTS"):  # constants of compiled code
        digest.update(os.environ.get(setting, "").encode() + b";")
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    if _config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return Path(_config.CACHE_DIR)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser()


def _private_root() -> Path:
    """Return a temporary folder to which only the user can write, because code is loaded from it."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    root = Path(tempfile.gettempdir()) / f"fastsvm-cache-{user}"
    with contextlib.suppress(OSError):
        root.mkdir(mode=0o700)
    if hasattr(os, "getuid") and (not root.is_dir() or root.is_symlink() or root.stat().st_uid != os.getuid()):
        return Path(tempfile.mkdtemp(prefix="fastsvm-cache-"))
    return root


def _cache_folder() -> Path:
    name = f"fastsvm-{source_digest()}"
    for root in (_cache_root(), _private_root()):
        folder = root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        _prune(root, keep=folder)
        return folder
    return Path(tempfile.mkdtemp(prefix="fastsvm-"))


def _prune(root: Path, keep: Path, newest: int = 3) -> None:
    """Remove all but the newest few folders: several checkouts of the package may be in use."""
    ours = re.compile(r"fastsvm-[0-9a-f]{16}")
    with contextlib.suppress(OSError):  # another process may prune too
        old = [folder for folder in root.iterdir() if ours.fullmatch(folder.name) and folder != keep]
        old.sort(key=lambda folder: folder.stat().st_mtime)
        for folder in old[: max(0, len(old) - newest)]:
            shutil.rmtree(folder, ignore_errors=True)


CACHE_FOLDER: Path | None = None if JIT_DISABLED else _cache_folder()


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    users = _config.CACHE_DIR
    _config.CACHE_DIR = str(CACHE_FOLDER)
    try:
        yield
    finally:
        _config.CACHE_DIR = users


def _is_ours(kind: Any) -> bool:
    """Return whether all NamedTuple classes in an argument's type belong to the package."""
    owner = getattr(kind, "instance_class", None)
    ours = owner is None or owner.__module__.partition(".")[0] == _PACKAGE.name
    return ours and all(_is_ours(part) for part in getattr(kind, "types", ()))


@functools.cache
def _tell_of_compiling() -> None:
    """Say, once in a process and on a terminal only, why this takes seconds."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error may be closed, or none
        if sys.stderr.isatty():
            words = "compiling; this takes some seconds, once on this machine. `fastsvm warmup` does it beforehand."
            print(f"fastsvm: {words}", file=sys.stderr, flush=True)


class _OurCode(caching.FunctionCache):
    """Cache on disk for code of the package's own classes; code of a user's class is compiled in each process.

    The digest does not cover a user's sources, so stale code would be loaded after an edit. Numba also pickles the
    class into an index. A process without the user's module could not read that index, not even for our classes.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for the types `sig`, or None."""
        found = super().load_overload(sig, target_context) if all(map(_is_ours, sig)) else None
        if found is None:
            _tell_of_compiling()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for the types `sig`."""
        if all(map(_is_ours, sig)):
            super().save_overload(sig, data)


# --- the same code in every process ------------------------------------------------------------------------


_OUTLINED: set[str] = set()  # names of functions that stay apart in the machine code of their callers


class _Closed(JITCodeLibrary):
    """Machine code with private copies of all functions that it calls.

    Numba copies callees into each caller under public names, and the linker resolves a name to the first copy loaded.
    Copies are optimised within different callers, so their results may differ in the last bits. Which copy is loaded
    first depends on what this process compiled or loaded before.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._apart: dict[Any, None] = {}  # libraries of outlined functions, in the order of their calls

    def add_linking_library(self, library: Any) -> None:
        """Add the code of a callee."""
        if library.name in _OUTLINED:
            library._ensure_finalized()
            self._apart[library] = None
            self._reload_init.update(library._reload_init)
        else:
            super().add_linking_library(library)

    def _optimize_final_module(self) -> None:
        self._close()
        super()._optimize_final_module()
        if self._apart:  # these are optimised already: to do it again would take as long as the rest
            for library in self._apart:
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._close()
            builder = self._codegen._pass_builder()
            manager = binding.create_new_module_pass_manager()
            manager.add_global_dead_code_eliminate_pass()  # such as their wrappers for Python
            manager.run(self._final_module, builder)

    def _close(self) -> None:
        """Make the copies of other functions private."""
        for function in self._final_module.functions:
            if self.name in _OUTLINED and not function.is_declaration and f"{self.name}B" in function.name:
                function.add_function_attribute("noinline")
            copied = not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr
            if copied and not function.name.startswith("NRT_"):  # Numba looks these up by name
                function.linkage = "internal"


@register_pass(mutates_CFG=False, analysis_only=True)
class _CloseCode(AnalysisPass):
    """Choose the library into which a function is compiled."""

    _name = "fastsvm_close_code"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Set the library before Numba does."""
        if state.library is None:
            state.library = _Closed(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return False


class _Compiler(CompilerBase):
    """Numba's own compiler with another library."""

    def define_pipelines(self) -> list:
        """Return the passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_CloseCode, IRLegalization)
        passes.finalize()
        return [passes]


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
    compiled: Any = numba.njit(nogil=True, pipeline_class=_Compiler, **options)(function)
    with _own_cache():
        compiled._cache = _OurCode(function)  # in place of Numba's own, which cache=True would set
    return compiled


def outlined(function: Callable) -> Callable:
    """Compile `function` as `jit` does, for a long one with several callers: each would be compiled with a copy of it.

    Its name must be unique in the package.
    """
    _OUTLINED.add(function.__qualname__)
    return jit(function)


def inlined(function: Callable) -> Callable:
    """Compile `function` as part of its callers, for inner loops that are too short for a call."""
    return function if JIT_DISABLED else numba.njit(inline="always")(function)
