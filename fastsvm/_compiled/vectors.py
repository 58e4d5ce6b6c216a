"""Dot products of a few rows with vectors of 512 bits, which LLVM does not choose by itself.

Callers have plain loops for processors without such vectors. The addresses of several rows are passed as one tuple.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fastsvm._compiled.byte_tile import INSTRUCTIONS, PRODUCTS, multiply_add
from fastsvm._compiled.processor import VECTOR_BYTES

__all__ = [
    "HAS_BYTE_SQUARES",
    "add_tile_1",
    "add_tile_2",
    "add_tile_5",
    "byte_square_tile",
    "product_tile_1",
    "product_tile_2",
    "product_tile_5",
]

_ROWS = 4  # A tile has so many rows, whose dot products with up to five others fit in the registers.


HAS_BYTE_SQUARES = INSTRUCTIONS["avx512vnni"] == PRODUCTS
"""Whether `byte_square_tile` can be compiled. Elsewhere tiles of floats are as fast."""


class _Writer:
    """Writes vector code. `real` is the type of the products, `stored` the type of the rows."""

    def __init__(self, context: Any, builder: Any, stored: Any, real: Any) -> None:
        self.builder, self.unsigned = builder, isinstance(stored, types.Integer)
        self.real, self.stored = context.get_value_type(real), context.get_value_type(stored)
        self.real_bytes, self.stored_bytes = real.bitwidth // 8, stored.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.real_bytes
        self.vector = ir.VectorType(self.real, self.lanes)
        self._suffix = f"v{self.lanes}f{real.bitwidth}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        self.fma = builder.module.declare_intrinsic(f"llvm.fma.{self._suffix}", (), kind)
        self.zeros = ir.Constant(self.vector, [0.0] * self.lanes)

    def _pointer(self, address: Any, kind: Any) -> Any:
        return self.builder.inttoptr(address, kind.as_pointer())

    def _load(self, address: Any, kind: Any, size: int, mask: Any) -> Any:
        pointer = self._pointer(address, kind)
        if mask is None:
            value = self.builder.load(pointer)
            value.align = size
            return value
        word = ir.IntType(32)
        name = f"llvm.masked.load.v{self.lanes}{'i8' if size == 1 else f'f{8 * size}'}.p0"
        signature = ir.FunctionType(kind, [pointer.type, word, mask.type, kind])
        load = self.builder.module.declare_intrinsic(name, (), signature)
        return self.builder.call(load, [pointer, word(size), mask, ir.Constant(kind, None)])

    def load(self, address: Any, mask: Any = None) -> Any:
        """Load numbers of the type `real`; those where the mask is false are zero."""
        return self._load(address, self.vector, self.real_bytes, mask)

    def load_row(self, address: Any, mask: Any = None) -> Any:
        """Load numbers of a row and convert them to the type `real`."""
        value = self._load(address, ir.VectorType(self.stored, self.lanes), self.stored_bytes, mask)
        if self.unsigned:
            return self.builder.uitofp(value, self.vector)
        return value if self.stored_bytes == self.real_bytes else self.builder.fpext(value, self.vector)

    def broadcast(self, address: Any) -> Any:
        """Load one number into all lanes."""
        return self._spread(self.builder.load(self._pointer(address, self.real)))

    def _spread(self, value: Any) -> Any:
        kind = ir.VectorType(value.type, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)

    def store(self, value: Any, address: Any, mask: Any = None) -> None:
        """Store the numbers for which the mask is true."""
        pointer = self._pointer(address, value.type)
        if mask is None:
            self.builder.store(value, pointer).align = self.real_bytes
            return
        word = ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, word, mask.type])
        name = f"llvm.masked.store.{self._suffix}.p0"
        store = self.builder.module.declare_intrinsic(name, (), signature)
        self.builder.call(store, [value, pointer, word(self.real_bytes), mask])

    def sum(self, value: Any) -> Any:
        """Return the sum over the lanes."""
        kind = ir.FunctionType(self.real, [self.real, self.vector])
        add = self.builder.module.declare_intrinsic(f"llvm.vector.reduce.fadd.{self._suffix}", (), kind)
        return self.builder.call(add, [ir.Constant(self.real, 0.0), value], fastmath=("reassoc",))

    def each(self, n: Any, carried: list[Any], body: Callable[[Any, list[Any], Any], list[Any]]) -> list[Any]:
        """Write a loop that calls `body(start, values, mask)` for each vector of `n` numbers; return its last values.

        The mask is None for full vectors. The last call has a mask and fewer numbers than a vector, perhaps none.
        """
        builder, word = self.builder, n.type
        before, head = builder.block, builder.append_basic_block("columns")
        block, after = builder.append_basic_block("vector"), builder.append_basic_block("rest")
        last = builder.sub(n, word(self.lanes))
        builder.branch(head)
        builder.position_at_end(head)
        start = builder.phi(word)
        start.add_incoming(word(0), before)
        values = [builder.phi(value.type) for value in carried]
        builder.cbranch(builder.icmp_signed("<=", start, last), block, after)
        builder.position_at_end(block)
        found = body(start, values, None)
        start.add_incoming(builder.add(start, word(self.lanes)), builder.block)
        for phi, first, value in zip(values, carried, found, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        left = self._spread(builder.trunc(builder.sub(n, start), ir.IntType(32)))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), list(range(self.lanes)))
        return body(start, values, builder.icmp_signed("<", lanes, left))

    def at(self, base: Any, index: Any, size: int) -> Any:
        """Return the address of an element."""
        return self.builder.add(base, self.builder.mul(index, index.type(size)))


def _product_tile(count: int) -> Any:
    """Return an intrinsic for the dot products of four rows with `count` rows of weights."""

    @intrinsic
    def tile(typing_context, x, w, rows, weights, stride, n, out):
        def codegen(context, builder, signature, arguments):
            _, _, rows, weights, stride, n, out = arguments
            rows = cgutils.unpack_tuple(builder, rows)
            write = _Writer(context, builder, signature.args[0], signature.args[1])
            starts = [builder.add(weights, builder.mul(stride, stride.type(c))) for c in range(count)]

            def step(start: Any, sums: list[Any], mask: Any) -> list[Any]:
                x = [write.load_row(write.at(row, start, write.stored_bytes), mask) for row in rows]
                w = [write.load(write.at(first, start, write.real_bytes), mask) for first in starts]
                pairs = [(row, weight) for row in x for weight in w]
                return [builder.call(write.fma, [*pair, total]) for pair, total in zip(pairs, sums, strict=True)]

            sums = write.each(n, [write.zeros] * (_ROWS * count), step)
            for place, value in enumerate(sums):
                write.store(write.sum(value), builder.add(out, out.type(place * write.real_bytes)))
            return context.get_dummy_value()

        return types.void(x, w, rows, weights, stride, n, out), codegen

    return tile


def _add_tile(count: int) -> Any:
    """Return an intrinsic that adds four rows times factors to `count` rows."""

    @intrinsic
    def tile(typing_context, x, w, rows, factors, stride, n, out):
        def codegen(context, builder, signature, arguments):
            _, _, rows, factors, stride, n, out = arguments
            rows = cgutils.unpack_tuple(builder, rows)
            write = _Writer(context, builder, signature.args[0], signature.args[1])
            targets = [builder.add(out, builder.mul(stride, stride.type(c))) for c in range(count)]
            places = range(_ROWS * count)
            f = [write.broadcast(builder.add(factors, factors.type(k * write.real_bytes))) for k in places]

            def step(start: Any, _: list[Any], mask: Any) -> list[Any]:
                x = [write.load_row(write.at(row, start, write.stored_bytes), mask) for row in rows]
                for c, target in enumerate(targets):
                    address = write.at(target, start, write.real_bytes)
                    total = write.load(address, mask)
                    for i, row in enumerate(x):
                        total = builder.call(write.fma, [row, f[_ROWS * c + i], total])
                    write.store(total, address, mask)
                return []

            write.each(n, [], step)
            return context.get_dummy_value()

        return types.void(x, w, rows, factors, stride, n, out), codegen

    return tile


@intrinsic
def byte_square_tile(typing_context, rows, others, n, out):
    """Write x·(z - 128) for four rows x of `n` bytes and four rows z, as int32.

    AVX-512 VNNI multiplies unsigned bytes with signed bytes, so 128 is subtracted from the bytes of z.
    """
    signature = types.void(rows, others, n, out)

    def codegen(context, builder, signature, arguments):
        n, out = arguments[2:]
        rows, others = (cgutils.unpack_tuple(builder, given) for given in arguments[:2])
        sums, pieces = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(8), VECTOR_BYTES)
        multiply_add_bytes = multiply_add(builder, INSTRUCTIONS["avx512vnni"])
        kind = ir.FunctionType(ir.IntType(32), [sums])
        add = builder.module.declare_intrinsic("llvm.vector.reduce.add.v16i32", (), kind)
        less = ir.Constant(pieces, [128] * VECTOR_BYTES)
        write = _Writer(context, builder, types.uint8, types.float32)
        write.lanes = VECTOR_BYTES

        def step(start: Any, totals: list[Any], mask: Any) -> list[Any]:
            x = [write._load(builder.add(row, start), pieces, 1, mask) for row in rows]
            z = [builder.xor(write._load(builder.add(row, start), pieces, 1, mask), less) for row in others]
            pairs = [(one, other) for one in x for other in z]
            return [multiply_add_bytes(total, *pair) for total, pair in zip(totals, pairs, strict=True)]

        totals = write.each(n, [ir.Constant(sums, [0] * 16)] * 16, step)
        for place, total in enumerate(totals):
            write.store(builder.call(add, [total]), builder.add(out, out.type(4 * place)))
        return context.get_dummy_value()

    return signature, codegen


product_tile_1, product_tile_2, product_tile_5 = map(_product_tile, (1, 2, 5))
"""`product_tile_c(x, w, rows, weights, stride, n, out)` writes the dot products of four rows of `n` numbers with c
rows of weights, row by row. Rows of weights are `stride` bytes apart. The types of x and w are those of the rows and of
the products."""
add_tile_1, add_tile_2, add_tile_5 = map(_add_tile, (1, 2, 5))
"""`add_tile_c(x, w, rows, factors, stride, n, out)` adds to each of c rows the four rows times its four factors.
The c rows are `stride` bytes apart."""
