"""Each assumption about Numba's private classes: a version that breaks one fails here, by name, and not in a fit."""

import gc
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from llvmlite import binding
from numba.core import caching, codegen, compiler, event, typeinfer
from numba.core.compiler_machinery import PassManager
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import _nrt_python, rtsys
from numba.core.typed_passes import NativeLowering

from fastsvm._compiled.compiler import generic, jit, outlined
from fastsvm._compiled.processor import PLAIN

pytestmark = pytest.mark.skipif(PLAIN, reason="nothing private of Numba is used")
if not PLAIN:
    from fastsvm._compiled import numba_internals


class Twice(NamedTuple):
    factor: float


@generic
def of_internals(kind, x):
    """Return a multiple."""


@of_internals.register(Twice)
def _(kind, x):
    return kind.factor * x


@outlined
def apart_in_tests(x):
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
    return total


@jit
def callee_in_tests(x):
    return np.sqrt(x) + 1.0


@jit
def caller_in_tests(kind, x):
    return of_internals(kind, callee_in_tests(x[0])) + apart_in_tests(x)


class Pair(NamedTuple):
    rows: np.ndarray
    last: np.ndarray


@jit
def views_in_tests(pair, n):
    rows, last = pair
    first, total = rows[0], 0.0
    for i in range(n):
        part = pair.rows[i, 1:]
        chosen = part if i > 0 else first
        total += chosen[0]
    made = rows.copy()
    return total, last[1:], first, made[2]


@jit
def sum_in_tests(pair, n):
    row, total = pair.last, 0.0
    for i in range(n):
        row = pair.rows[i]
        total += row[0]
    return total, row[1]


@jit
def ours_in_tests(n):
    return np.zeros(n)


@pytest.fixture(scope="module", autouse=True)
def nothing_stored():
    """Compile all functions of this file, whatever an earlier run of the tests has stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_internals._OurCode, "_stored", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def library():
    """The machine code of a function that calls three others."""
    assert caller_in_tests(Twice(2.0), np.array([4.0])) == 2 * 3 + 16
    (result,) = caller_in_tests.overloads.values()
    return result.library


def test_classes_that_are_extended_have_the_methods_that_ours_replace():
    for kind, names in (
        (codegen.JITCodeLibrary, ("add_ir_module", "add_linking_library", "_optimize_final_module")),
        (codegen.JITCodeLibrary, ("_finalize_final_module", "_finalize_dynamic_globals", "serialize_using_bitcode")),
        (codegen.JITCodeLibrary, ("serialize_using_object_code", "_get_module_for_linking", "_ensure_finalized")),
        (caching.NullCache, ("load_overload", "save_overload", "flush")),
        (compiler.CompileResult, ("_reduce", "_rebuild")),
        (CPUDispatcher, ("compile", "add_overload")),
        (compiler.CompilerBase, ("define_pipelines",)),
        (NativeLowering, ("run_pass",)),
        (Lower, ("init", "lower_assign", "storevar", "delvar", "_alloca_var", "getvar")),
        (typeinfer.TypeInferer, ("resolve_call",)),
        (PassManager, ("_runPass", "finalize")),
        (codegen.JITCodeLibrary, ("_optimize_functions",)),
        (codegen.JITCPUCodegen, ("_library_class",)),
        (codegen.JitEngine, ("is_symbol_defined", "add_module", "finalize_object")),
    ):
        assert all(callable(getattr(kind, name, None)) for name in names), (kind, names)


def test_results_of_the_compiler_have_the_fields_that_are_restored():
    assert set(compiler.CompileResult._fields) == {
        "typing_context", "target_context", "entry_point", "typing_error", "type_annotation", "signature", "objectmode",
        "lifted", "fndesc", "library", "call_helper", "environment", "metadata", "reload_init", "referenced_envs",
    }  # fmt: skip


def test_our_lowering_takes_the_place_of_numbas_only_once():
    names = []

    class Seen(numba_internals.Compiler):
        def define_pipelines(self):
            found = super().define_pipelines()
            names.extend(kind.__name__ for one in found for kind, _ in one.passes)
            return found

    assert numba.njit(pipeline_class=Seen)(lambda x: x + 1)(1) == 2
    assert names.count("_Lowering") == 1 and "NativeLowering" not in names


def test_code_is_lowered_into_our_library(library):
    assert type(library).__name__ == "_Closed" and not library.linked_only


def test_copies_of_callees_are_private(library):
    """So that the linker cannot take the copy of another caller, whose bits may be others."""
    shared = [
        function.name
        for function in library._final_module.functions
        if not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr
    ]
    assert all(name.startswith("NRT_") for name in shared)


def test_an_outlined_function_stays_apart_in_its_caller(library):
    names = [one.name for one in library._final_module.functions if not one.is_declaration]
    assert any("apart_in_tests" in name for name in names)


def test_a_function_that_python_did_not_call_has_no_machine_code(library):
    (inner,) = callee_in_tests.overloads.values()
    assert inner.library.linked_only
    assert callee_in_tests(9.0) == 4.0
    (inner,) = callee_in_tests.overloads.values()
    assert not inner.library.linked_only


def test_references_are_counted_where_they_outlive_the_function():
    pair = Pair(np.arange(12.0).reshape(4, 3), np.arange(6.0))
    views_in_tests(pair, 3)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    count = sys.getrefcount(pair.rows), sys.getrefcount(pair.last)
    total, rest, row, copy = views_in_tests(pair, 3)
    assert total == 0 + 4 + 7 and rest.tolist() == [1, 2, 3, 4, 5]
    assert row.tolist() == [0, 1, 2] and copy.tolist() == [6, 7, 8]
    assert sys.getrefcount(pair.rows) > count[0]
    pair.rows[0, 0] = -1.0
    assert row[0] == -1.0
    del rest, row, copy
    assert (sys.getrefcount(pair.rows), sys.getrefcount(pair.last)) == count
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


def test_no_references_are_counted_in_a_function_that_returns_numbers():
    """Threads that count those of one array wait for each other."""
    pair = Pair(np.arange(12.0).reshape(4, 3), np.arange(6.0))
    assert sum_in_tests(pair, 4) == (18.0, 10.0)
    (result,) = sum_in_tests.overloads.values()
    code = str(result.library._final_module.get_function(result.fndesc.llvm_func_name))
    assert "fadd" in code and "NRT" not in code


def test_functions_of_numba_that_ours_compiled_serve_others_too():
    """They have no machine code of their own, but that of their callers."""
    assert ours_in_tests(3).tolist() == [0, 0, 0]
    assert numba.njit(lambda n: np.zeros(n))(2).tolist() == [0, 0]
    assert codegen.JITCPUCodegen._library_class is codegen.JITCodeLibrary
    assert cpu_target.target_context.codegen()._library_class is codegen.JITCodeLibrary


def test_a_function_of_the_user_that_ours_call_runs_from_python_too():
    @numba.njit
    def of_user(x):
        return 2 * x + 1

    @jit
    def calls(x):
        return of_user(x) + 1

    assert calls(3.0) == 8.0
    assert of_user(3.0) == 7.0
    assert of_user(3) == 7


def test_no_garbage_is_collected_while_functions_compile():
    @jit
    def anew(x):
        return x + 1

    seen, is_collecting = [], gc.isenabled()

    def see(phase, _):
        seen.append((phase, numba_internals._Dispatcher._depth))

    gc.callbacks.append(see)
    gc.enable()  # processes that run tests may not collect
    try:
        anew(1)
        assert all(depth == 0 for _, depth in seen) and gc.isenabled()
    finally:
        gc.callbacks.remove(see)
        if not is_collecting:
            gc.disable()


def test_overloads_are_known_by_their_types():
    assert all(isinstance(kinds, tuple) for kinds in caller_in_tests.overloads)


def test_compilations_are_told_as_events():
    @jit
    def anew(x):
        return x + 1

    with event.install_recorder("numba:compile") as recorder:
        anew(1)
    begun = [one for _, one in recorder.buffer if one.is_start]
    assert begun and all(one.data["dispatcher"].py_func for one in begun)


def test_reduced_results_are_what_is_restored():
    (result,) = caller_in_tests.overloads.values()
    (name, kind, code), *rest = result._reduce()
    assert kind == "object" and len(rest) == 8 and isinstance(name, str) and code
    assert numba_internals._linked_only(None, result._reduce()) is None
