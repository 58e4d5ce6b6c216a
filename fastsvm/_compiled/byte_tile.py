"""Dot products of bytes, some rows by some rows at a time, by the instructions that the processor has for integers.

They are those of AVX-512 VNNI, of AVX-VNNI and of ARM's dot product extension, which multiply four pairs of bytes in
each lane and add the products to the sum of 32 bits there, or else x86's multiplication of two pairs of 16-bit numbers
in each lane. All results are exact, so that all processors find the same.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic

from fastsvm._compiled.processor import PLAIN, processor_has

_INT = ir.IntType(32)


Multiply = Callable[[ir.Value, ir.Value, ir.Value], ir.Value]
"""Adds products of other rows and of the operand to sums."""


class Instruction(NamedTuple):
    """A way to multiply bytes, and the size of the tile whose sums fit in the registers."""

    vector_bytes: int
    rows: int  # A tile has so many rows of the operand.
    columns: int  # It has so many others.
    dtype: type  # All rows are stored so, as features of 8 bits or of 16.
    shift: int  # It is subtracted from the operand's features: 128 if they are multiplied as signed bytes.
    cost: float  # It is about the nanoseconds for a product of two features.

    @property
    def together(self) -> int:
        """Number of features in a lane of 32 bits."""
        return 4 // np.dtype(self.dtype).itemsize


INSTRUCTIONS = {
    "avx512vnni": Instruction(64, 32, 8, np.uint8, 128, 1 / 200),
    "avxvnni": Instruction(32, 24, 4, np.uint8, 128, 1 / 100),
    "dotprod": Instruction(16, 16, 4, np.uint8, 0, 1 / 50),
    "madd": Instruction(32, 16, 4, np.int16, 0, 1 / 60),
}
"""By LLVM's names of the processors' features; "madd" is an instruction that all of x86 have."""


def _has(name: str) -> bool:
    """Return whether the processor has an instruction."""
    if name == "madd":
        return not PLAIN and binding.get_process_triple().startswith(("x86_64", "i686", "amd64"))
    return processor_has(name)


def _chosen() -> Instruction | None:
    """Return the fastest that the processor has."""
    names = [name for name in INSTRUCTIONS if _has(name)]
    return INSTRUCTIONS[names[0]] if names else None


PRODUCTS = _chosen()
"""What `byte_tile` is compiled with, or None."""


def multiply_add(builder: ir.IRBuilder, instruction: Instruction) -> Multiply:
    """Return a function that writes the instruction: it adds products of other rows and of the operand to sums."""
    lanes = instruction.vector_bytes // 4
    sums = ir.VectorType(_INT, lanes)
    if instruction.dtype == np.int16:
        return _pairs_of_16_bits(builder, lanes)
    features = ir.VectorType(ir.IntType(8), instruction.vector_bytes)
    whole = True
    if instruction.shift:
        whole = binding.llvm_version_info[0] >= 22  # older versions pass four bytes as one int32
        name = f"llvm.x86.avx512.vpdpbusd.{8 * instruction.vector_bytes}"
    else:
        name = "llvm.aarch64.neon.udot.v4i32.v16i8"
    kind = ir.FunctionType(sums, [sums, features, features] if whole else [sums] * 3)
    function = builder.module.declare_intrinsic(name, (), kind)

    def write(total: ir.Value, other: ir.Value, operand: ir.Value) -> ir.Value:
        kind = features if whole else sums
        return builder.call(function, [total, builder.bitcast(other, kind), builder.bitcast(operand, kind)])

    return write


def _pairs_of_16_bits(builder: ir.IRBuilder, lanes: int) -> Multiply:
    """Return a function that writes what LLVM recognises as one multiplication (pmaddwd) and one addition."""
    pairs, wide = ir.VectorType(ir.IntType(16), 2 * lanes), ir.VectorType(_INT, 2 * lanes)
    lane_numbers = ir.VectorType(_INT, lanes)
    nothing = ir.Constant(wide, ir.Undefined)

    def write(total: ir.Value, other: ir.Value, operand: ir.Value) -> ir.Value:
        products = builder.mul(*(builder.sext(builder.bitcast(one, pairs), wide) for one in (other, operand)))
        halves = (ir.Constant(lane_numbers, list(range(first, 2 * lanes, 2))) for first in (0, 1))
        return builder.add(total, builder.add(*(builder.shuffle_vector(products, nothing, half) for half in halves)))

    return write


def _transposed(builder: ir.IRBuilder, columns: list[ir.Value]) -> Iterator[ir.Value]:
    """Yield the rows of four columns, given as vectors with a multiple of four numbers."""
    lanes = columns[0].type.count

    def pick(a: ir.Value, b: ir.Value, *pattern: int) -> ir.Value:
        """Pick places of each 128 bits of two vectors; 4 to 7 mean the second vector."""
        lanes_of_row = [place % 4 + 4 * part + lanes * (place // 4) for part in range(lanes // 4) for place in pattern]
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT, lanes), lanes_of_row))

    a, b, c, d = columns
    low, high = (pick(a, c, 0, 4, 1, 5), pick(b, d, 0, 4, 1, 5)), (pick(a, c, 2, 6, 3, 7), pick(b, d, 2, 6, 3, 7))
    fours = [pick(*pair, *pattern) for pair in (low, high) for pattern in ((0, 4, 1, 5), (2, 6, 3, 7))]
    for row in range(lanes):
        part, k = divmod(row, 4)
        lanes_of_row = ir.Constant(ir.VectorType(_INT, 4), list(range(4 * part, 4 * part + 4)))
        yield builder.shuffle_vector(fours[k], ir.Constant(fours[k].type, ir.Undefined), lanes_of_row)


def write_byte_tile(builder: ir.IRBuilder, instruction: Instruction, arguments: tuple[ir.Value, ...]) -> None:
    """Write the code of `byte_tile`."""
    operand, rows, row_stride, n_features, out, out_stride = arguments
    word, lanes = operand.type, instruction.vector_bytes // 4
    size, together = np.dtype(instruction.dtype).itemsize, instruction.together
    sums_kind = ir.VectorType(_INT, lanes)
    vectors, zeros = instruction.rows // lanes, ir.Constant(sums_kind, [0] * lanes)
    add = multiply_add(builder, instruction)

    def place(base: ir.Value, stride: ir.Value, k: int) -> ir.Value:
        return builder.add(base, builder.mul(stride, word(k)))

    def load(address: ir.Value, kind: ir.Type) -> ir.Value:
        value = builder.load(builder.inttoptr(address, kind.as_pointer()))
        value.align = 1
        return value

    def broadcast(value: ir.Value) -> ir.Value:
        undefined = ir.Constant(sums_kind, ir.Undefined)
        return builder.shuffle_vector(builder.insert_element(undefined, value, _INT(0)), undefined, zeros)

    starts = [place(rows, row_stride, k) for k in range(instruction.columns)]
    last = builder.sub(n_features, word(together))
    before, body = builder.block, builder.append_basic_block("features")
    after = builder.append_basic_block("sums")
    builder.branch(body)
    builder.position_at_end(body)
    start = builder.phi(word)
    start.add_incoming(word(0), before)
    sums = [[builder.phi(sums_kind) for _ in range(vectors)] for _ in starts]
    overlapped = builder.mul(builder.select(builder.icmp_signed("<", start, last), start, last), word(size))
    group = place(operand, start, instruction.rows * size)
    x = [load(builder.add(group, word(v * instruction.vector_bytes)), sums_kind) for v in range(vectors)]
    z = [broadcast(load(builder.add(row, overlapped), _INT)) for row in starts]
    pairs = zip(sums, z, strict=True)
    added = [[add(total, other, own) for total, own in zip(totals, x, strict=True)] for totals, other in pairs]
    following = builder.add(start, word(together))
    start.add_incoming(following, body)
    for totals, values in zip(sums, added, strict=True):
        for total, value in zip(totals, values, strict=True):
            total.add_incoming(zeros, before)
            total.add_incoming(value, body)
    builder.cbranch(builder.icmp_signed("<", following, n_features), body, after)
    builder.position_at_end(after)
    for first in range(0, instruction.columns, 4):
        for v in range(vectors):
            for k, four in enumerate(_transposed(builder, [values[v] for values in added[first : first + 4]])):
                address = builder.add(place(out, out_stride, v * lanes + k), word(4 * first))
                builder.store(four, builder.inttoptr(address, four.type.as_pointer())).align = 4


@intrinsic
def byte_tile(typing_context, operand, rows, row_stride, n_features, out, out_stride):
    """Write the dot products of some rows of the operand with others, as `PRODUCTS` says, as int32; all are addresses.

    The operand holds a group of features of all its rows, then the next; there is at least one group. If `n_features`
    is no multiple of it, the last group overlaps the one before and holds zeros there, so that nothing is read beyond
    the end of a row.
    """
    signature = types.void(operand, rows, row_stride, n_features, out, out_stride)

    def codegen(context, builder, signature, arguments):
        # Each vector of sums belongs to one of the other rows, of which a group of features is broadcast.
        write_byte_tile(builder, PRODUCTS, arguments)
        return context.get_dummy_value()

    return signature, codegen
