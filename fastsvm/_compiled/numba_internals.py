"""All that depends on Numba's private classes: machine code that is the same in every process, and its cache.

A function of which compiled code alone is a caller needs neither machine code of its own nor a wrapper for calls from
Python. Both would take a third of the time to compile. Its code for LLVM is optimised and copied into its callers.

With the environment variable FASTSVM_PLAIN_NUMBA=1 nothing of this is imported: `numba.njit` compiles all, in each
process anew. `tests/_compiled/test_numba_internals.py` has a test for each assumption about Numba.
"""

import contextlib
import functools
import gc
import hashlib
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from llvmlite import binding
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import caching, cgutils, ir, serialize, sigutils, typeinfer, types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import CompilerPass, PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import rtsys
from numba.core.typed_passes import AnnotateTypes, NativeLowering

from fastsvm._compiled.code_cache import KEPT, PACKAGE, Claim, digest, folders, writeable_folder
from fastsvm._compiled.processor import HAS_WIDE_VECTORS, LEVEL

if TYPE_CHECKING:
    from llvmlite import ir as llvm
    from numba.core.codegen import CPUCodegen
    from numba.core.compiler import StateDict
    from numba.core.cpu import CPUContext
    from numba.core.funcdesc import FunctionDescriptor
    from numba.core.types import Type
    from numba.core.typing import Signature


# --- machine code ----------------------------------------------------------------------------------------

OUTLINED: set[str] = set()
"""Names of functions that stay apart in the machine code of their callers."""

_WIDTH = '"prefer-vector-width"="512"'
"""LLVM's attribute of functions. Without it, loops have vectors of 256 bits on Intel's processors."""


@contextlib.contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Let an attribute have another value; the compiler's lock guards it."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _simplify(codegen: "CPUCodegen", module: binding.ModuleRef) -> None:
    """Put the variables of all functions of a module into registers, and drop needless references."""
    module.data_layout = codegen._data_layout
    builder, manager = codegen._pass_builder(), binding.create_new_function_pass_manager()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    manager.add_refprune_pass()
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, builder)


class _Ingredient(JITCodeLibrary):
    """Code of functions that are not ours and that ours call: machine code is made, and optimised, only on demand."""

    _is_runnable = False

    def _optimize_functions(self, ll_module: binding.ModuleRef) -> None:
        _simplify(self._codegen, ll_module)

    def _optimize_final_module(self) -> None:
        pass  # its copies in our functions are optimised there

    def _finalize_final_module(self) -> None:
        """Make the code ready to be linked; machine code is only what Numba writes the environment to."""
        self._finalize_dynamic_globals()
        engine, names = self._codegen._engine, [each.name for each in self._final_module.global_variables]
        new = [name for name in names if name.startswith("_ZN08NumbaEnv") and not engine.is_symbol_defined(name)]
        if new:
            module = binding.parse_assembly("\n".join(f'@"{name}" = common global ptr null' for name in new))
            module.triple, module.data_layout = self._final_module.triple, self._codegen._data_layout
            engine.add_module(module)
            engine.finalize_object()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return where the machine code of a function is, 0 if there is none, such as a wrapper for Python."""
        self._ensure_finalized()
        defined = [each.name for each in self._final_module.functions if not each.is_declaration]
        if name in defined and not self._is_runnable:
            self._is_runnable = True
            super()._optimize_final_module()
            super()._finalize_final_module()
        return super().get_pointer_to_function(name) if self._is_runnable else 0

    @classmethod
    def _unserialize(cls, codegen: "CPUCodegen", state: tuple) -> JITCodeLibrary:
        with _replaced(codegen, "_library_class", JITCodeLibrary):
            return JITCodeLibrary._unserialize(codegen, state)


class _Codegen(JITCPUCodegen):
    """Makes machine code for the level of processors, rather than for the one of this host."""

    _library_class = _Ingredient

    def _get_host_cpu_name(self) -> str:
        return LEVEL.processor

    def _get_host_cpu_features(self) -> str:
        return LEVEL.more


class _Closed(JITCodeLibrary):
    """Machine code with private copies of all functions that it calls.

    Numba's copies are public, and the linker takes the first one loaded: the last bits of results would depend on what
    this process loaded before.
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

    def add_ir_module(self, ir_module: "llvm.Module") -> None:
        """Add code of this function in vectors of the full width; one that is outlined is not to be inlined."""
        for function in ir_module.functions:  # here, since llvmlite before 0.48 would set attributes on what it returns
            if function.is_declaration:
                continue
            if HAS_WIDE_VECTORS:
                set.add(function.attributes, _WIDTH)  # llvmlite lets only attributes pass that have no value
            if self.name in OUTLINED and f"{self.name}B" in function.name:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)

    def _optimize_functions(self, ll_module: binding.ModuleRef) -> None:
        """Put variables into registers: the module is optimised as a whole later, and so would be done twice."""
        _simplify(self._codegen, ll_module)

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
    """Return the code for callers that `CompileResult._reduce` stored, or None if a cache has stored machine code."""
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


def _is_number(kind: Any) -> bool:
    """Return whether a type is that of numbers, or of nothing."""
    is_tuple = isinstance(kind, types.BaseTuple)
    return all(map(_is_number, kind)) if is_tuple else isinstance(kind, types.Number | types.Boolean | types.NoneType)


class _Lower(Lower):
    """Numba's lowering without references that nobody needs, as they take a part of the time to compile.

    The caller of a function holds a reference to each argument until it returns. So a variable that is assigned once,
    to an argument, or a part or a view of one, needs none. A function that returns only numbers has arguments without
    owners, of which nobody counts references: several threads that count those of one array wait for each other.
    """

    def init(self) -> None:
        """Find these variables."""
        super().init()
        assigned: dict[str, list] = {}
        for block in self.blocks.values():
            for each in block.find_insts(ir.Assign):
                assigned.setdefault(each.target.name, []).append(each.value)
        self._values = {name: values[0] for name, values in assigned.items() if len(values) == 1}
        self._borrowed: dict[str, bool] = {}
        if self.func_ir.func_id.is_generator:
            self._values = {}

    def _is_borrowed(self, name: str) -> bool:
        if name not in self._borrowed:
            self._borrowed[name] = name in self._values and self._borrows(self._values[name], self.typeof(name))
        return self._borrowed[name]

    def _borrows(self, value: object, kind: "Type") -> bool:
        """Return whether a value of some type belongs to the caller."""
        if isinstance(value, ir.Arg):
            return self.typeof(f"arg.{value.name}") == kind
        if isinstance(value, ir.Var):
            return self.typeof(value.name) == kind and self._is_borrowed(value.name)
        if not isinstance(value, ir.Expr) or value.op not in ("getattr", "static_getitem", "exhaust_iter", "getitem"):
            return False
        whole = self.typeof(value.value.name)
        if isinstance(whole, types.BaseTuple):
            is_part = value.op != "getitem" and not isinstance(kind, types.BoundFunction)
        else:
            is_view = isinstance(whole, types.Array) and isinstance(kind, types.Array) and value.op == "getitem"
            index = self.typeof(value.index.name) if is_view else None
            basic = types.Integer, types.SliceType
            is_part = is_view and all(isinstance(part, basic) for part in getattr(index, "types", (index,)))
        return is_part and self._is_borrowed(value.value.name)

    def lower_assign(self, ty: "Type", inst: ir.Assign) -> object:
        """Return the value of an assignment, with a reference where one is needed."""
        if not self._is_borrowed(inst.target.name):
            return super().lower_assign(ty, inst)
        if isinstance(inst.value, ir.Arg) and _is_number(self.fndesc.restype):
            return self._disowned(ty, self.fnargs[inst.value.index])
        before, self.context.enable_nrt = self.context.enable_nrt, False
        try:
            return super().lower_assign(ty, inst)
        finally:
            self.context.enable_nrt = before

    def _disowned(self, kind: Any, value: Any) -> Any:
        """Return an argument whose arrays have no owner."""
        is_tuple = isinstance(kind, types.BaseTuple)
        for place, part in enumerate(kind if is_tuple else ()):
            found = self._disowned(part, self.builder.extract_value(value, place))
            value = self.builder.insert_value(value, found, place)
        if not isinstance(kind, types.Array):
            return value
        array = self.context.make_array(kind)(self.context, self.builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()

    def storevar(self, value: object, name: str, argidx: int | None = None) -> None:
        """Store a value, and give up the reference to the one before."""
        if self._is_borrowed(name) and name not in self._singly_assigned_vars:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))
        else:
            super().storevar(value, name, argidx)

    def delvar(self, name: str) -> None:
        """Give up the reference of a variable."""
        if not self._is_borrowed(name):
            super().delvar(name)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Numba's lowering into a library of ours."""

    _name = "fastsvm_lowering"

    @property
    def lowering_class(self) -> type:
        """The class that writes the code."""
        return _Lower

    def run_pass(self, state: "StateDict") -> bool:
        """Lower; make no machine code of a function without a wrapper for calls from Python."""
        alone = state.flags.no_cpython_wrapper = state.is_for_callers
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


class _Inferer(typeinfer.TypeInferer):
    """Numba's inference of types, which asks once for the result of a call with some types, not at each look."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._results: dict = {}

    def resolve_call(self, fnty: "Type", pos_args: tuple, kw_args: dict) -> "Signature | None":
        """Return the signature of a call."""
        call = fnty, tuple(pos_args), tuple(kw_args.items())
        if self._results.get(call) is None or isinstance(fnty, types.RecursiveCall):
            self._results[call] = super().resolve_call(fnty, pos_args, kw_args)
        return self._results[call]


class _Flags(Flags):
    """Options of a function that compare fast: Numba looks up by them what it compiled for others."""

    def __hash__(self) -> int:
        return 0  # as good as Numba's own, which depends on no value

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, _Flags) else super().__eq__(other)


class _Passes(PassManager):
    """Passes one after another. Numba's own analyses the whole function anew after each."""

    def _runPass(self, index: int, pss: CompilerPass, internal_state: "StateDict") -> None:
        pss.analysis = self._analysis
        for run in (pss.run_initialization, pss.run_pass, pss.run_finalizer):
            run(internal_state)


class Compiler(CompilerBase):
    """Numba's own compiler with another library."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.state.flags = _Flags(self.state.flags)
        # Equal options for all, so that what they call is compiled once. The wrapper alone depends on the two.
        self.state.is_for_callers = self.state.flags.no_cpython_wrapper
        self.state.flags.no_cpython_wrapper = self.state.flags.release_gil = True
        self.state.flags.forceinline = False

    def define_pipelines(self) -> list:
        """Return the passes but the one that annotates the source."""
        passes = _Passes("nopython")
        for kind, words in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if kind is not AnnotateTypes:
                passes.passes.append((_Lowering if kind is NativeLowering else kind, words))
        passes.finalize()
        return [passes]


# --- its cache -------------------------------------------------------------------------------------------


def _classes(kinds: Iterable["Type"]) -> set[type]:
    """Return the NamedTuple classes in the types of arguments."""
    found = set()
    for kind in kinds:
        found |= _classes(getattr(kind, "types", ()))
        if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
            found.add(kind.instance_class)
    return found


def _is_ours(kind: "Type") -> bool:
    """Return whether all NamedTuple classes in an argument's type belong to the package."""
    return all(each.__module__.partition(".")[0] == PACKAGE.name for each in _classes([kind]))


class _OurCode(caching.NullCache):
    """Cache on disk for code of the package's own classes; code of a user's class is compiled in each process.

    A process without the user's module could not read it. Of several processes that need code at once, one compiles.
    """

    def __init__(self, function: Callable) -> None:
        self._function = function
        self._names: dict[tuple[Type, ...], str] = {}
        self._claims: dict[tuple[Type, ...], Claim] = {}

    def _name(self, sig: tuple["Type", ...]) -> str:
        """Return the name of the file with the code for the types `sig`, up to its end."""
        if sig not in self._names:
            module = self._function.__module__.removeprefix(f"{PACKAGE.name}.")
            name = f"{module}.{self._function.__qualname__}".replace("<", "").replace(">", "")
            kinds = hashlib.sha256(repr((sig, _codegen().magic_tuple())).encode()).hexdigest()[:16]
            self._names[sig] = f"{name}-{kinds}-{digest(self._function, _classes(sig))}"
        return self._names[sig]

    @property
    def cache_path(self) -> str:
        """The folder that takes new code."""
        return str(writeable_folder() or "")

    def load_overload(self, sig: tuple["Type", ...], target_context: "CPUContext") -> CompileResult | None:
        """Return the code for the types `sig`, or None."""
        code = None
        if all(map(_is_ours, sig)):
            rtsys.initialize(target_context)  # all else that Numba would prepare, code that is loaded does not need
            code = self._stored(sig, target_context)
            if code is None:
                self._claim(sig)
                code = self._stored(sig, target_context)  # another process may have stored it since
        if code is None:
            target_context.refresh()
        return code

    def _stored(self, sig: tuple["Type", ...], target_context: "CPUContext") -> CompileResult | None:
        """Return stored code; None where machine code is needed and only code for callers is stored."""
        for folder in folders():
            try:
                stored = pickle.loads((folder / f"{self._name(sig)}.nbc").read_bytes())
            except OSError:  # there is none, or the folder belongs to somebody else
                continue
            code = _linked_only(target_context, stored)
            if code is None:
                return CompileResult._rebuild(target_context, *stored)
            if _Dispatcher.nested():
                return code
        return None

    def _claim(self, sig: tuple["Type", ...]) -> None:
        """Claim the code for the types `sig`, once no other process has claimed it."""
        if (folder := writeable_folder()) is not None:
            self._claims[sig] = Claim(folder / f"{self._name(sig)}.lock")

    def release(self, sig: tuple["Type", ...]) -> None:
        """Let other processes compile, or load, the code for the types `sig`."""
        if (claim := self._claims.pop(sig, None)) is not None:
            claim.release()

    def save_overload(self, sig: tuple["Type", ...], data: Any) -> None:
        """Store the code for the types `sig`, where there is a place. Remove all but the newest few versions of it."""
        folder = writeable_folder()
        if folder is None or not all(map(_is_ours, sig)) or data.library.has_dynamic_globals:
            return
        path = folder / f"{self._name(sig)}.nbc"
        part = path.with_suffix(f".{uuid.uuid4().hex}")
        with contextlib.suppress(OSError):  # the disk may be full, and another process may remove versions too
            part.write_bytes(serialize.dumps(data._reduce()))
            part.replace(path)
            versions = list(folder.glob(f"{path.stem.rpartition('-')[0]}-*.nbc"))
            for old in sorted(versions, key=lambda each: each.stat().st_mtime)[:-KEPT]:
                old.unlink()
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@functools.cache
def _codegen() -> _Codegen:
    """Return what makes all machine code of ours."""
    return _Codegen("fastsvm")


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """Compile so: infer types once, keep functions of Numba apart from machine code, and leave garbage alone."""
    is_collecting = gc.isenabled()
    gc.disable()  # looking for garbage would take a tenth of the time
    context = cpu_target.target_context
    try:
        with _replaced(typeinfer, "TypeInferer", _Inferer), _replaced(context, "_internal_codegen", _codegen()):
            yield
    finally:
        if is_collecting:
            gc.enable()


class _Dispatcher(CPUDispatcher):
    """A compiled function; what only compiled code has called so far has code for callers alone."""

    _cache: _OurCode
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
                with _compiling() if _Dispatcher._depth == 1 else contextlib.nullcontext():
                    return super().compile(sig)
            finally:
                _Dispatcher._depth -= 1
                self._cache.release(kinds)

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
