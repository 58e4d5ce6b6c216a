"""Tiles are assembled for processors that are not at hand, and their loops read."""

import re

import numpy as np
import pytest
from llvmlite import binding, ir
from numba.core import types
from numba.core.registry import cpu_target

from fastsvm._compiled import vectors
from fastsvm._compiled.byte_tile import INSTRUCTIONS, write_byte_tile

WORD = ir.IntType(64)
X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


@pytest.fixture(scope="module", autouse=True)
def targets():
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


def function_of(n_arguments):
    """Return a builder in a function of `n_arguments` integers, and the arguments."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD] * n_arguments), "tile")
    return ir.IRBuilder(function.append_basic_block()), function.args


def loops(builder, triple, processor, features=""):
    """Return the instructions of the innermost loops of a function in the making, once for each loop."""
    builder.ret_void()
    target = binding.Target.from_triple(triple).create_target_machine(processor, features, opt=3)
    builder.module.triple = triple
    module = binding.parse_assembly(str(builder.module))
    passes = binding.create_pass_builder(target, binding.create_pipeline_tuning_options(3))
    passes.getModulePassManager().run(module, passes)
    blocks = re.split(r"^(\.LBB\w+):", target.emit_assembly(module), flags=re.MULTILINE)[1:]
    return [body for label, body in zip(blocks[::2], blocks[1::2], strict=True) if f"{label}\n" in body]


def in_registers(loop):
    """Return whether no vector is stored on the stack."""
    return not re.search(r"mm.*\(%rsp|\(%rsp.*mm|[qv]\d+.*\[sp", loop)


def count(loop, instruction, register=""):
    return len(re.findall(rf"^\s+{instruction}\s.*{register}", loop, flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("kind", "target", "instruction", "register"),
    [
        ("avx512vnni", (X86, "cascadelake"), "vpdpbusd", "zmm"),
        ("avxvnni", (X86, "alderlake"), r"(\{vex\}\s)?vpdpbusd", "ymm"),
        ("madd", (X86, "haswell"), "vpmaddwd", "ymm"),
        ("madd", (X86, "x86-64"), "pmaddwd", "xmm"),
        ("dotprod", (ARM, "generic", "+neon,+dotprod"), "udot", "v"),
        ("dotprod", (ARM, "apple-m1"), "udot", "v"),
    ],
)
def test_bytes_are_multiplied_by_the_instruction_that_was_meant(kind, target, instruction, register):
    builder, arguments = function_of(6)
    write_byte_tile(builder, INSTRUCTIONS[kind], arguments)
    (loop,) = loops(builder, *target)
    rows, columns, narrower = INSTRUCTIONS[kind].rows, INSTRUCTIONS[kind].columns, 2 if register == "xmm" else 1
    assert count(loop, instruction, register) == rows * columns * 4 // INSTRUCTIONS[kind].vector_bytes * narrower
    if narrower == 1:
        assert in_registers(loop)


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("vector_bytes", "rows", "target", "instruction"),
    [
        (64, 8, (X86, "skylake-avx512"), r"vfmadd\d+p[sd]"),
        (32, 6, (X86, "haswell"), r"vfmadd\d+p[sd]"),
        (32, 6, (ARM, "generic", "+neon"), "fmla"),
        (32, 6, (ARM, "apple-m1"), "fmla"),
    ],
)
def test_panels_are_multiplied_by_fused_instructions(vector_bytes, rows, target, instruction, real, monkeypatch):
    monkeypatch.setattr(vectors, "PANEL_BYTES", vector_bytes * vectors.PANEL_VECTORS)
    monkeypatch.setattr(vectors, "PANEL_ROWS", rows)
    monkeypatch.setattr(vectors, "_TOGETHER", 4 if vector_bytes == 64 else 2)
    kind = types.float32 if real is np.float32 else types.float64
    builder, words = function_of(8)
    groups = [builder.add(word, word.type(0)) for word in words]
    three, two = (types.UniTuple(types.intp, n) for n in (3, 2))
    columns = types.Tuple((types.intp, types.intp, types.boolean))
    context = cpu_target.target_context
    signature, write = vectors.panel_tile._defn(None, kind, three, types.intp, columns, two)
    begun = builder.icmp_signed("!=", groups[6], WORD(0))
    given = [
        ir.Constant(context.get_value_type(kind), 0.0),
        context.make_tuple(builder, three, groups[:3]),
        groups[3],
        context.make_tuple(builder, columns, [groups[4], groups[5], begun]),
        context.make_tuple(builder, two, [groups[7], WORD(256)]),
    ]
    write(context, builder, signature, given)
    most = max(loops(builder, *target), key=lambda loop: count(loop, instruction))
    n_vectors = vectors.PANEL_VECTORS * (vector_bytes // 16 if target[0] == ARM else 1)
    assert count(most, instruction) == rows * n_vectors * vectors._TOGETHER
    assert in_registers(most)
