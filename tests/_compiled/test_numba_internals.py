"""Each assumption about Numba's private classes: a version that breaks one fails here, by name, and not in a fit."""

from typing import NamedTuple

import numba
import numpy as np
import pytest
from llvmlite import binding
from numba.core import caching, codegen, compiler, event
from numba.core.registry import CPUDispatcher
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
        (caching.FunctionCache, ("load_overload", "_load_overload", "save_overload", "_index_key", "enable")),
        (caching.FunctionCache, ("_guard_against_spurious_io_errors",)),
        (caching.IndexDataCacheFile, ("load", "save", "flush", "_load_index")),
        (caching.CompileResultCacheImpl, ("rebuild", "reduce", "check_cachable")),
        (CPUDispatcher, ("compile", "add_overload")),
        (compiler.CompilerBase, ("define_pipelines",)),
        (NativeLowering, ("run_pass",)),
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


def test_whether_threads_run_is_known(importing):
    code = [
        "import numba",
        "from fastsvm._compiled.numba_internals import threads_are_started",
        "before = threads_are_started()",
        "numba.get_num_threads()",
        "print(before, threads_are_started())",
    ]
    assert importing.run("\n".join(code)).split() == ["False", "True"]


def test_reduced_results_are_what_is_restored():
    (result,) = caller_in_tests.overloads.values()
    (name, kind, code), *rest = result._reduce()
    assert kind == "object" and len(rest) == 8 and isinstance(name, str) and code
    assert numba_internals._linked_only(None, result._reduce()) is None
