"""Dot products of bytes, 16 rows by 8 at a time, by the instructions of AVX-512 VNNI."""

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic

from fastsvm._compiled.compiler import processor_has

__all__ = ["BYTE_TILE", "HAS_BYTE_PRODUCTS", "byte_tile", "multiply_add_bytes"]


HAS_BYTE_PRODUCTS = processor_has("avx512vnni", "FASTSVM_BYTE_PRODUCTS")
"""Whether `byte_tile` can be compiled; the environment variable FASTSVM_BYTE_PRODUCTS=0 disables it."""

_INT = ir.IntType(32)
_BYTES = ir.VectorType(ir.IntType(8), 64)
_SUMS = ir.VectorType(_INT, 16)
BYTE_TILE = 16, 8
"""Numbers of rows of int8 and of uint8 that `byte_tile` multiplies."""


def multiply_add_bytes(builder: Any) -> Callable[[Any, Any, Any], Any]:
    """Return a function that writes the instruction: it adds 64 products, unsigned times signed bytes, to 16 sums."""
    whole = binding.llvm_version_info[0] >= 22  # older versions pass four bytes as one int32
    kind = ir.FunctionType(_SUMS, [_SUMS, _BYTES, _BYTES] if whole else [_SUMS] * 3)
    function = builder.module.declare_intrinsic("llvm.x86.avx512.vpdpbusd.512", (), kind)

    def write(total: Any, unsigned: Any, signed: Any) -> Any:
        if not whole:
            unsigned, signed = builder.bitcast(unsigned, _SUMS), builder.bitcast(signed, _SUMS)
        return builder.call(function, [total, unsigned, signed])

    return write


def _in_lanes(*pattern: int) -> list[int]:
    """Return the positions that `pattern` picks in each 128-bit lane of two vectors; 4 to 7 mean the second vector."""
    return [place % 4 + 4 * lane + 16 * (place // 4) for lane in range(4) for place in pattern]


def _transposed(builder: Any, columns: list[Any]) -> Iterator[Any]:
    """Yield the sixteen rows of eight columns."""

    def pick(a: Any, b: Any, places: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT, len(places)), places))

    fours = []  # rows k, 4 + k, 8 + k, 12 + k for k = 0 to 3: of the first four columns, then of the last four
    for a, b, c, d in (columns[:4], columns[4:]):
        twos = [(pick(x, z, _in_lanes(0, 4, 1, 5)), pick(x, z, _in_lanes(2, 6, 3, 7))) for x, z in ((a, b), (c, d))]
        for half in (0, 1):
            pair = twos[0][half], twos[1][half]
            fours += [pick(*pair, _in_lanes(0, 1, 4, 5)), pick(*pair, _in_lanes(2, 3, 6, 7))]
    for row in range(16):
        lane, k = divmod(row, 4)
        first = list(range(4 * lane, 4 * lane + 4))
        yield pick(fours[k], fours[4 + k], first + [16 + place for place in first])


@intrinsic
def byte_tile(typing_context, operand, rows, row_stride, n_features, out, out_stride):
    """Write the 16 x 8 dot products of sixteen rows of int8 with eight rows of uint8, as int32.

    All operands are addresses, and `n_features` is at least 4. The operand holds four features of all sixteen rows,
    then the next four. If `n_features` is no multiple of 4, its last group overlaps the one before and holds zeros
    there, so that nothing is read beyond the end of a row. Each vector of sums belongs to one row of uint8, whose
    features are broadcast four at a time.
    """
    signature = types.void(operand, rows, row_stride, n_features, out, out_stride)

    def codegen(context, builder, signature, arguments):
        word = arguments[0].type
        operand, rows, row_stride, n_features, out, out_stride = arguments
        multiply_add = multiply_add_bytes(builder)

        def place(base: Any, stride: Any, k: int) -> Any:
            return builder.add(base, builder.mul(stride, word(k)))

        def load(address: Any, kind: Any) -> Any:
            value = builder.load(builder.inttoptr(address, kind.as_pointer()))
            value.align = 1
            return value

        def broadcast(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(_SUMS, ir.Undefined), value, _INT(0))
            all_ = builder.shuffle_vector(one, ir.Constant(_SUMS, ir.Undefined), ir.Constant(_SUMS, [0] * 16))
            return builder.bitcast(all_, _BYTES)

        starts = [place(rows, row_stride, k) for k in range(BYTE_TILE[1])]
        last = builder.sub(n_features, word(4))
        before, body = builder.block, builder.append_basic_block("features")
        after = builder.append_basic_block("sums")
        builder.branch(body)
        builder.position_at_end(body)
        start = builder.phi(word)
        start.add_incoming(word(0), before)
        sums = [builder.phi(_SUMS) for _ in starts]
        overlapped = builder.select(builder.icmp_signed("<", start, last), start, last)
        x = load(place(operand, start, 16), _BYTES)
        z = [broadcast(load(builder.add(row, overlapped), _INT)) for row in starts]
        added = [multiply_add(total, four, x) for total, four in zip(sums, z, strict=True)]
        following = builder.add(start, word(4))
        start.add_incoming(following, body)
        for total, value in zip(sums, added, strict=True):
            total.add_incoming(ir.Constant(_SUMS, [0] * 16), before)
            total.add_incoming(value, body)
        builder.cbranch(builder.icmp_signed("<", following, n_features), body, after)
        builder.position_at_end(after)
        for k, eight in enumerate(_transposed(builder, added)):
            target = builder.inttoptr(place(out, out_stride, k), eight.type.as_pointer())
            builder.store(eight, target).align = 4
        return context.get_dummy_value()

    return signature, codegen
