"""The decorator of all compiled functions, and the cache of their machine code.

Every compiled function of the package is made by `jit`. Its machine code is cached in a folder named
after a digest of the package's sources, because numba itself only looks at the file in which a function
stands: an edit of a helper in another file would be answered by old code. Code for a user's classes is not cached.
"""

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core import caching
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import IRLegalization

__all__ = ["FASTMATH", "JIT_DISABLED", "inlined", "jit", "thread_count"]

JIT_DISABLED = bool(numba.config.DISABLE_JIT)

# Neither `nnan` nor `ninf`: infinity stands for "not a member" and "no bound".
FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}
_PACKAGE = Path(__file__).parents[1]


def thread_count() -> int:
    """Return the number of threads to use: numba's own setting, hence NUMBA_NUM_THREADS and the CPU mask."""
    return int(numba.config.NUMBA_NUM_THREADS)


# --- where machine code is kept --------------------------------------------------------------------------


def source_digest() -> str:
    """Return a digest of all sources of the package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    digest.update(os.environ.get("FASTSVM_WIDE_VECTORS", "").encode())  # a constant of compiled code
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    if numba.config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return Path(numba.config.CACHE_DIR)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser()


def _private_root() -> Path:
    """Return a folder of the user's own below the shared one for temporary files: code is loaded from it."""
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
    """Remove the code of old versions, but not of the last few: two checkouts may be in use at once."""
    ours = re.compile(r"fastsvm-[0-9a-f]{16}")
    with contextlib.suppress(OSError):  # another process may be pruning too
        old = [folder for folder in root.iterdir() if ours.fullmatch(folder.name) and folder != keep]
        old.sort(key=lambda folder: folder.stat().st_mtime)
        for folder in old[: max(0, len(old) - newest)]:
            shutil.rmtree(folder, ignore_errors=True)


CACHE_FOLDER: Path | None = None if JIT_DISABLED else _cache_folder()


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    users = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(CACHE_FOLDER)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = users


def _is_ours(kind: Any) -> bool:
    """Return whether the NamedTuple classes in an argument's type are all of the package."""
    owner = getattr(kind, "instance_class", None)
    ours = owner is None or owner.__module__.partition(".")[0] == _PACKAGE.name
    return ours and all(_is_ours(part) for part in getattr(kind, "types", ()))


class _OurCode(caching.FunctionCache):
    """Code on disk of the package's own classes; that of a user's class is compiled in each process.

    The digest knows nothing of a user's sources, so an edit of a body would be answered by old code. And numba writes
    the class into an index, which without the user's module could not be read, be it for a class of ours.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for the types `sig`, or None."""
        return super().load_overload(sig, target_context) if all(map(_is_ours, sig)) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for the types `sig`."""
        if all(map(_is_ours, sig)):
            super().save_overload(sig, data)


# --- the same code in every process ------------------------------------------------------------------------


class _Closed(JITCodeLibrary):
    """Machine code in which all that a function calls is its own.

    Numba puts copies of what a function calls beside it under public names, and the linker takes for a name the first
    copy that came to memory. Copies were optimised within different callers, so that their last bits differ. Which
    came first depends on what was compiled, and what loaded from disk, in this process before.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            copied = not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr
            if copied and not function.name.startswith("NRT_"):  # of these numba looks for the names
                function.linkage = "internal"
        super()._optimize_final_module()


@register_pass(mutates_CFG=False, analysis_only=True)
class _CloseCode(AnalysisPass):
    """Make the library into which a function is compiled."""

    _name = "fastsvm_close_code"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Do so before numba makes one."""
        if state.library is None:
            state.library = _Closed(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return False


class _Compiler(CompilerBase):
    """Numba's own compiler, but for the library."""

    def define_pipelines(self) -> list:
        """Return its passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_CloseCode, IRLegalization)
        passes.finalize()
        return [passes]


def jit(function: Callable) -> Callable:
    """Compile `function` on first use, without the GIL, and keep its code on disk."""
    if JIT_DISABLED:
        return function
    compiled = numba.njit(nogil=True, error_model="numpy", fastmath=FASTMATH, pipeline_class=_Compiler)(function)
    with _own_cache():
        compiled._cache = _OurCode(function)  # where cache=True would put numba's own
    return compiled


def inlined(function: Callable) -> Callable:
    """Compile `function` as part of its callers, for inner loops that are too short for a call."""
    return function if JIT_DISABLED else numba.njit(inline="always")(function)
