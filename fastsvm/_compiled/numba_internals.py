"""All that depends on Numba's private classes: machine code that is the same in every process, and its cache.

A function of which compiled code alone is a caller needs neither machine code of its own nor a wrapper for calls from
Python. Both would take a third of the time to compile. Its code for LLVM is optimised and copied into its callers.

With the environment variable FASTSVM_PLAIN_NUMBA=1 nothing of this is imported: `numba.njit` compiles all, in each
process anew. `tests/_compiled/test_numba_internals.py` has a test for each assumption about Numba.
"""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from llvmlite import binding
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import caching, sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typed_passes import NativeLowering
from numba.np.ufunc import parallel as _parallel

from fastsvm._compiled.code_cache import KEPT, PACKAGE, folders, function_digest, writeable_folder
from fastsvm._compiled.processor import HAS_WIDE_VECTORS

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core.codegen import CPUCodegen
    from numba.core.compiler import StateDict
    from numba.core.cpu import CPUContext
    from numba.core.funcdesc import FunctionDescriptor
    from numba.core.types import Type
    from numba.core.typing import Signature

__all__ = ["OUTLINED", "Compiler", "compiled", "threads_are_started"]


# Numba would do this in the first fit: it takes 40 MB, which are not within the `memory` of a fit.
cpu_target.target_context.refresh()


def threads_are_started() -> bool:
    """Return whether Numba's own threads run, so that asking for their number does not start them."""
    return bool(getattr(_parallel, "_is_initialized", False))


# --- machine code ----------------------------------------------------------------------------------------

OUTLINED: set[str] = set()
"""Names of functions that stay apart in the machine code of their callers."""

_WIDTH = '"prefer-vector-width"="512"'
"""LLVM's attribute of functions. Without it, loops have vectors of 256 bits on Intel's processors."""


class _Closed(JITCodeLibrary):
    """Machine code with private copies of all functions that it calls.

    Numba copies callees into each caller under public names, and the linker resolves a name to the first copy loaded.
    Copies are optimised within different callers, so their results may differ in the last bits. Which copy is loaded
    first depends on what this process compiled or loaded before.
    """

    def __init__(self, codegen: "CPUCodegen", name: str, linked_only: bool) -> None:
        super().__init__(codegen, name)
        self.linked_only = linked_only
        self._apart: dict[JITCodeLibrary, None] = {}  # libraries of outlined functions, in the order of their calls

    def add_linking_library(self, library: JITCodeLibrary) -> None:
        """Add the code of a callee."""
        if library.name in OUTLINED:
            library._ensure_finalized()
            self._apart[library] = None
            self._reload_init.update(library._reload_init)
        else:
            super().add_linking_library(library)

    def add_ir_module(self, ir_module: "ir.Module") -> None:
        """Add code of this function in vectors of the full width; one that is outlined is not to be inlined."""
        for function in ir_module.functions:  # here, since llvmlite before 0.48 would set attributes on what it returns
            if function.is_declaration:
                continue
            if HAS_WIDE_VECTORS:
                set.add(function.attributes, _WIDTH)  # llvmlite lets only attributes pass that have no value
            if self.name in OUTLINED and f"{self.name}B" in function.name:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)

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
            copied = not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr
            if copied and not function.name.startswith("NRT_"):  # Numba looks these up by name
                function.linkage = "internal"

    def _finalize_final_module(self) -> None:
        """Make machine code, where it will run from here."""
        if self.linked_only:
            self._finalize_dynamic_globals()
            self._finalized = True
        else:
            super()._finalize_final_module()

    def serialize_using_object_code(self) -> tuple:
        """Return what a cache stores: without machine code, the code for LLVM."""
        return self.serialize_using_bitcode() if self.linked_only else super().serialize_using_object_code()

    @classmethod
    def restored(cls, codegen: "CPUCodegen", name: str, bitcode: bytes) -> "_Closed":
        """Return the code that `serialize_using_object_code` stored for callers alone."""
        library = cls(codegen, name, linked_only=True)
        library._final_module = binding.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library


def _unrunnable(library: _Closed, function: "FunctionDescriptor", environment: object) -> Callable:
    """Return what stands for a function that is linked only: Numba finds its code by this object."""
    name = function.qualname.split(".")[-1]
    return _dynfunc.make_function(function.lookup_module(), name, "code for callers", 0, environment, (library,))


def _is_linked_only(result: Any) -> bool:
    """Return whether a `CompileResult` can be linked into callers, but not run from Python."""
    return getattr(result.library, "linked_only", False)


def _linked_only(context: "CPUContext", stored: tuple) -> CompileResult | None:
    """Return the code for callers that a cache has stored, or None if it has stored machine code.

    `stored` is what `CompileResult._reduce` returned.
    """
    (name, kind, code), function, environment, signature, objectmode, lifted, annotation, reload, environments = stored
    if kind != "bitcode":
        return None
    for initialise in reload:
        initialise()
    library = _Closed.restored(context.codegen(), name, code)
    kind_of_result: Any = CompileResult  # type checkers know none of its fields
    return kind_of_result(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=_unrunnable(library, function, environment),
        typing_error=None,
        type_annotation=annotation,
        signature=signature,
        objectmode=objectmode,
        lifted=lifted,
        fndesc=function,
        library=library,
        call_helper=None,
        environment=environment,
        metadata=None,
        reload_init=reload,
        referenced_envs=environments,
    )


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Numba's lowering into a library of ours."""

    _name = "fastsvm_lowering"

    def run_pass(self, state: "StateDict") -> bool:
        """Lower; make no machine code of a function without a wrapper for calls from Python."""
        alone = state.flags.no_cpython_wrapper
        state.library = _Closed(state.targetctx.codegen(), state.func_id.func_qualname, alone)
        state.library.enable_object_caching()
        state.flags.no_compile = alone
        super().run_pass(state)
        if alone:
            lowered = state.cr
            entry = _unrunnable(state.library, lowered.fndesc, lowered.env)
            state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
            state.reload_init.extend(state.library._reload_init)
            state.cr = lowered._replace(cfunc=entry)
        return True


class Compiler(CompilerBase):
    """Numba's own compiler with another library."""

    def define_pipelines(self) -> list:
        """Return the passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Lowering if kind is NativeLowering else kind, words) for kind, words in passes.passes]
        passes.finalize()
        return [passes]


# --- its cache -------------------------------------------------------------------------------------------


def _is_ours(kind: "Type") -> bool:
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

    def rebuild(self, target_context: "CPUContext", payload: tuple) -> CompileResult | None:
        """Return stored code; None where machine code is needed and only code for callers is stored."""
        for_callers = _linked_only(target_context, payload)
        if for_callers is None:
            return super().rebuild(target_context, payload)
        return for_callers if _Dispatcher.nested() else None


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

    def _index(self, folder: Path) -> _Index:
        return _Index(str(folder), f"{self._name_of_files}-{self._version}", self._version)

    @property
    def cache_path(self) -> str:
        """The folder that takes new code."""
        return str(writeable_folder() or "")

    def flush(self) -> None:
        """Forget the stored code."""
        if (folder := writeable_folder()) is not None:
            self._index(folder).flush()

    def load_overload(self, sig: tuple["Type", ...], target_context: "CPUContext") -> CompileResult | None:
        """Return the code for the types `sig`, or None."""
        code = super().load_overload(sig, target_context) if all(map(_is_ours, sig)) else None
        if code is None:
            _tell_of_compiling()
        return code

    def _load_overload(self, sig: tuple["Type", ...], target_context: "CPUContext") -> CompileResult | None:
        key = self._index_key(sig, target_context.codegen())
        for folder in folders():
            try:
                stored = self._index(folder).load(key)
            except OSError:  # the folder belongs to somebody else
                continue
            code = None if stored is None else self._impl.rebuild(target_context, stored)
            if code is not None:
                return code
        return None

    def save_overload(self, sig: tuple["Type", ...], data: Any) -> None:
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
            for path in indices[:-KEPT]:
                for code in folder.glob(f"{path.stem}.*"):
                    code.unlink(missing_ok=True)


class _Dispatcher(CPUDispatcher):
    """A compiled function; what only compiled code has called so far has code for callers alone."""

    _depth = 0  # of functions that are being compiled, each for the one before; the compiler's lock guards it

    @classmethod
    def nested(cls) -> bool:
        """Return whether the function that is being compiled is for another one that is, too."""
        return cls._depth > 1

    def compile(self, sig: "str | tuple[Type, ...] | Signature") -> Callable:
        """Compile for the types `sig`, anew where there is code for callers alone and Python calls."""
        with global_compiler_lock:
            kinds = tuple(sigutils.normalize_signature(sig)[0])
            if _Dispatcher._depth == 0 and kinds in self.overloads and _is_linked_only(self.overloads[kinds]):
                del self.overloads[kinds]
            _Dispatcher._depth += 1
            try:
                return super().compile(sig)
            finally:
                _Dispatcher._depth -= 1

    def add_overload(self, cres: Any) -> None:
        """Keep code, and let Python call it where it can."""
        if _is_linked_only(cres):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)


def _without_wrapper(flags: Any) -> Any:
    flags.no_cpython_wrapper |= _Dispatcher.nested()
    return flags


def compiled(function: Callable, options: dict[str, object]) -> Callable:
    """Return a function that is compiled on first use, with its code cached on disk."""
    dispatcher: Any = _Dispatcher(function, targetoptions=options, pipeline_class=Compiler)
    dispatcher._compiler._customize_flags = _without_wrapper
    dispatcher._cache = _OurCode(function)  # in place of Numba's own, which cache=True would set
    return dispatcher
