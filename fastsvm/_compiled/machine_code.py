"""Machine code that is the same in every process, and code that is made only to be linked into callers.

A function of which compiled code alone is a caller needs neither machine code of its own nor a wrapper for calls from
Python. Both would take a third of the time to compile. Its code for LLVM is optimised and copied into its callers.
"""

from typing import Any

from llvmlite import binding
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from fastsvm._compiled.processor import HAS_WIDE_VECTORS

__all__ = ["OUTLINED", "Compiler", "is_linked_only", "linked_only"]

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

    def __init__(self, codegen: Any, name: str, linked_only: bool) -> None:
        super().__init__(codegen, name)
        self.linked_only = linked_only
        self._apart: dict[Any, None] = {}  # libraries of outlined functions, in the order of their calls

    def add_linking_library(self, library: Any) -> None:
        """Add the code of a callee."""
        if library.name in OUTLINED:
            library._ensure_finalized()
            self._apart[library] = None
            self._reload_init.update(library._reload_init)
        else:
            super().add_linking_library(library)

    def add_ir_module(self, ir_module: Any) -> None:
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
    def restored(cls, codegen: Any, name: str, bitcode: bytes) -> "_Closed":
        """Return the code that `serialize_using_object_code` stored for callers alone."""
        library = cls(codegen, name, linked_only=True)
        library._final_module = binding.parse_bitcode(bitcode)
        library._finalize_final_module()
        return library


def _unrunnable(library: _Closed, function: Any, environment: Any) -> Any:
    """Return what stands for a function that is linked only: Numba finds its code by this object."""
    name = function.qualname.split(".")[-1]
    return _dynfunc.make_function(function.lookup_module(), name, "code for callers", 0, environment, (library,))


def is_linked_only(result: Any) -> bool:
    """Return whether a `CompileResult` can be linked into callers, but not run from Python."""
    return getattr(result.library, "linked_only", False)


def linked_only(context: Any, stored: tuple) -> CompileResult | None:
    """Return the code for callers that a cache has stored, or None if it has stored machine code.

    Parameters
    ----------
    context : numba.core.base.BaseContext
        Target.
    stored : tuple
        What `CompileResult._reduce` returned.
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

    def run_pass(self, state: Any) -> bool:
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
