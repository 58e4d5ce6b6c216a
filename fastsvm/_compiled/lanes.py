"""Sums that stand side by side in a vector, a lane each, and the bits of a set."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, register_jitable

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.processor import PLAIN

__all__ = ["LANES", "add_to_lanes", "lowest_bit"]

LANES = 16
"""Number of sums in a vector: in float32 a cache line, which is also the longest vector of processors."""


@intrinsic
def _add_list(typing_context, real, factors, span, lanes, sums):
    """Add factor times `lanes` to the sums of each row of a list. Arguments but the first and the span are addresses.

    LLVM would load the lanes again for each row, because it cannot know that the sums are elsewhere.
    """
    signature = types.void(real, factors, span, lanes, sums)

    def codegen(context, builder, signature, arguments):
        (row_list, factor_list), (start, stop) = (cgutils.unpack_tuple(builder, pair) for pair in arguments[1:3])
        lanes, sums = arguments[3:]
        size, number, word = signature.args[0].bitwidth // 8, ir.IntType(32), ir.IntType(64)
        kind = context.get_value_type(signature.args[0])
        vector = ir.VectorType(kind, LANES)
        multiply_add = builder.module.declare_intrinsic(
            f"llvm.fmuladd.v{LANES}f{8 * size}", (), ir.FunctionType(vector, [vector] * 3)
        )

        def pointer(address: Any, index: Any, step: int, kind: Any) -> Any:
            return builder.inttoptr(builder.add(address, builder.mul(index, word(step))), kind.as_pointer())

        def spread(value: Any) -> Any:
            undefined = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(undefined, value, number(0))
            return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(number, LANES), [0] * LANES))

        values = builder.load(pointer(lanes, word(0), 0, vector))
        values.align = size
        before, head = builder.block, builder.append_basic_block("head")
        body, after = builder.append_basic_block("row"), builder.append_basic_block("end")
        builder.branch(head)
        builder.position_at_end(head)
        t = builder.phi(word)
        t.add_incoming(start, before)
        builder.cbranch(builder.icmp_signed("<", t, stop), body, after)
        builder.position_at_end(body)
        row = builder.sext(builder.load(pointer(row_list, t, 4, number)), word)
        factor = spread(builder.load(pointer(factor_list, t, size, kind)))
        place = pointer(sums, row, LANES * size, vector)
        total = builder.load(place)
        total.align = size
        builder.store(builder.call(multiply_add, [factor, values, total]), place).align = size
        t.add_incoming(builder.add(t, word(1)), body)
        builder.branch(head)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return signature, codegen


def _vector_add(rows, factors, span, lanes, sums):
    _add_list(sums[0, 0], (rows.ctypes.data, factors.ctypes.data), span, lanes.ctypes.data, sums.ctypes.data)


def _plain_add(rows, factors, span, lanes, sums):
    for t in range(span[0], span[1]):
        sums[rows[t]] += factors[t] * lanes


add_to_lanes = jit(_plain_add if PLAIN else _vector_add)
"""`add_to_lanes(rows, factors, span, lanes, sums)` adds factors[t] times `lanes` to sums[rows[t]] for t in a span.
The rows are int32. Each sum is rounded once where the processor can multiply and add at once."""


@intrinsic
def _lowest_bit(typing_context, word):
    def codegen(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(1)])
        count = builder.module.declare_intrinsic("llvm.cttz.i64", (), kind)
        return builder.call(count, [*arguments, ir.IntType(1)(1)])

    return types.int64(types.uint64), codegen


@register_jitable
def _plain_lowest_bit(word: np.uint64) -> int:
    for bit in range(64):
        if (word >> np.uint64(bit)) & np.uint64(1):
            return bit
    return 64


lowest_bit = _plain_lowest_bit if PLAIN else _lowest_bit
"""`lowest_bit(word)` is the number of the lowest bit that is set in an unsigned word other than zero."""
