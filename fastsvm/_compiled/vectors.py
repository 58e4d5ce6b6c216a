"""Products of a few rows by vectors of 512 bits, which LLVM does not choose for loops by itself.

Beside `_jit` the only file that imports numba. Where the processor has no such vectors, callers have loops instead.
"""

import os
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic

from fastsvm._compiled.byte_tile import multiply_add_bytes
from fastsvm._compiled.compiler import JIT_DISABLED

__all__ = [
    "HAS_WIDE_VECTORS",
    "PANEL_BYTES",
    "PANEL_ROWS",
    "PANEL_VECTORS",
    "add_tile_1",
    "add_tile_2",
    "add_tile_5",
    "byte_square_tile",
    "pack_tile",
    "panel_tile",
    "product_tile_1",
    "product_tile_2",
    "product_tile_5",
]

_BYTES = 64
_ROWS = 4  # of a tile: their products with up to five others stay in registers, beside what is multiplied


def _has_wide_vectors() -> bool:
    """Return whether numba's target has AVX-512."""
    if JIT_DISABLED or os.environ.get("FASTSVM_WIDE_VECTORS") == "0":
        return False
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES:  # the user's target, not this machine
        return "+avx512f" in (numba.config.CPU_FEATURES or "")
    return bool(binding.get_host_cpu_features().get("avx512f", False))


HAS_WIDE_VECTORS = _has_wide_vectors()
"""Whether tiles are of use; the environment's FASTSVM_WIDE_VECTORS=0 says no."""


class _Writer:
    """Writes vector code: `real` is the type of products, `stored` that of rows."""

    def __init__(self, context: Any, builder: Any, stored: Any, real: Any) -> None:
        self.builder, self.unsigned = builder, isinstance(stored, types.Integer)
        self.real, self.stored = context.get_value_type(real), context.get_value_type(stored)
        self.real_bytes, self.stored_bytes = real.bitwidth // 8, stored.bitwidth // 8
        self.lanes = _BYTES // self.real_bytes
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
        """Return numbers of the type of products, zeros where a mask is false."""
        return self._load(address, self.vector, self.real_bytes, mask)

    def load_row(self, address: Any, mask: Any = None) -> Any:
        """Return numbers of a row in the type of products."""
        value = self._load(address, ir.VectorType(self.stored, self.lanes), self.stored_bytes, mask)
        if self.unsigned:
            return self.builder.uitofp(value, self.vector)
        return value if self.stored_bytes == self.real_bytes else self.builder.fpext(value, self.vector)

    def broadcast(self, address: Any) -> Any:
        """Return a number in all lanes."""
        return self._spread(self.builder.load(self._pointer(address, self.real)))

    def _spread(self, value: Any) -> Any:
        kind = ir.VectorType(value.type, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)

    def store(self, value: Any, address: Any, mask: Any = None) -> None:
        """Write numbers, where a mask is true."""
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
        """Call `body(start, values, mask)` for each vector of `n` numbers, and return the last values it returns.

        The mask is None but for the last numbers, fewer than a vector has and perhaps none.
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
    """Return an intrinsic for the products of four rows with `count` rows of weights."""

    @intrinsic
    def tile(typing_context, x, w, p0, p1, p2, p3, weights, stride, n, out):
        def codegen(context, builder, signature, arguments):
            _, _, *rows, weights, stride, n, out = arguments
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

        return types.void(x, w, p0, p1, p2, p3, weights, stride, n, out), codegen

    return tile


def _add_tile(count: int) -> Any:
    """Return an intrinsic that adds four rows times factors to `count` rows."""

    @intrinsic
    def tile(typing_context, x, w, p0, p1, p2, p3, factors, stride, n, out):
        def codegen(context, builder, signature, arguments):
            _, _, *rows, factors, stride, n, out = arguments
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

        return types.void(x, w, p0, p1, p2, p3, factors, stride, n, out), codegen

    return tile


@intrinsic
def byte_square_tile(typing_context, p0, p1, p2, p3, q0, q1, q2, q3, n, out):
    """Write the products of four rows of bytes at the addresses p with four at q to int32, less 128 Σ p each.

    `n` is how many bytes are multiplied. Needs AVX-512 VNNI, which multiplies bytes without sign with such that have
    one: those of q less 128.
    """
    signature = types.void(p0, p1, p2, p3, q0, q1, q2, q3, n, out)

    def codegen(context, builder, signature, arguments):
        *rows, n, out = arguments
        sums, pieces = ir.VectorType(ir.IntType(32), 16), ir.VectorType(ir.IntType(8), _BYTES)
        multiply_add = multiply_add_bytes(builder)
        kind = ir.FunctionType(ir.IntType(32), [sums])
        add = builder.module.declare_intrinsic("llvm.vector.reduce.add.v16i32", (), kind)
        less = ir.Constant(pieces, [128] * _BYTES)
        write = _Writer(context, builder, types.uint8, types.float32)
        write.lanes = _BYTES

        def step(start: Any, totals: list[Any], mask: Any) -> list[Any]:
            x = [write._load(builder.add(row, start), pieces, 1, mask) for row in rows[:4]]
            z = [builder.xor(write._load(builder.add(row, start), pieces, 1, mask), less) for row in rows[4:]]
            pairs = [(one, other) for one in x for other in z]
            return [multiply_add(total, *pair) for total, pair in zip(totals, pairs, strict=True)]

        totals = write.each(n, [ir.Constant(sums, [0] * 16)] * 16, step)
        for place, total in enumerate(totals):
            write.store(builder.call(add, [total]), builder.add(out, out.type(4 * place)))
        return context.get_dummy_value()

    return signature, codegen


PANEL_VECTORS, _TOGETHER = 2, 4  # vectors of a panel, features in a turn of the loop
PANEL_BYTES = PANEL_VECTORS * (_BYTES if HAS_WIDE_VECTORS else _BYTES // 2)
"""Of a panel: one feature of all its rows."""
PANEL_ROWS = 8 if HAS_WIDE_VECTORS else 6
"""Rows with which `panel_tile` multiplies a panel: their sums stay in the registers."""


@intrinsic
def pack_tile(typing_context, real, rows, row_stride, out):
    """Write the first 16 bytes of as many rows as a vector has numbers, at the given address, to a panel.

    That are four features in float32 and two in float64, of which one of all rows stands beside each other.
    """
    signature = types.void(real, rows, row_stride, out)

    def codegen(context, builder, signature, arguments):
        _, rows, row_stride, out = arguments
        kind, word = context.get_value_type(signature.args[0]), rows.type
        size = signature.args[0].bitwidth // 8
        features, parts = 16 // size, PANEL_BYTES // PANEL_VECTORS // 16

        def shuffled(a: Any, b: Any, lanes: list[int]) -> Any:
            return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

        def load(row: int) -> Any:
            address = builder.add(rows, builder.mul(row_stride, word(row)))
            value = builder.load(builder.inttoptr(address, ir.VectorType(kind, features).as_pointer()))
            value.align = size
            return value

        def joined(vectors: list[Any]) -> Any:
            while len(vectors) > 1:
                both = list(range(2 * vectors[0].type.count))
                vectors = [shuffled(a, b, both) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
            return vectors[0]

        # Part p of vector r is of row p * features + r: what is left is to transpose squares within the parts.
        vectors = [joined([load(part * features + r) for part in range(parts)]) for r in range(features)]
        lanes, half = parts * features, features // 2
        while half:
            low = [i if i % (2 * half) < half else lanes + i - half for i in range(lanes)]
            high = [i + half if i % (2 * half) < half else lanes + i for i in range(lanes)]
            found = list(vectors)
            for r in range(features):
                if not r & half:
                    found[r] = shuffled(vectors[r], vectors[r | half], low)
                    found[r | half] = shuffled(vectors[r], vectors[r | half], high)
            vectors, half = found, half // 2
        for k, value in enumerate(vectors):
            address = builder.add(out, word(k * PANEL_BYTES))
            builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = size
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def panel_tile(typing_context, real, rows, row_stride, last, panel, start, stop, begun, out, out_stride):
    """Write the products of `PANEL_ROWS` rows with the rows of a panel, all at the given addresses.

    A panel has one feature of all its rows beside each other, then the next. Row `last` stands for those after it, too.
    The features `start` to `stop` are met one after another, and every sum has one multiplication and addition a
    feature: it depends on nothing but the two rows. If `begun`, sums go on from what is in `out`.
    """
    signature = types.void(real, rows, row_stride, last, panel, start, stop, begun, out, out_stride)

    def codegen(context, builder, signature, arguments):
        _, rows, row_stride, last, panel, start, stop, begun, out, out_stride = arguments
        kind = context.get_value_type(signature.args[0])
        size, word = signature.args[0].bitwidth // 8, rows.type
        lanes = PANEL_BYTES // PANEL_VECTORS // size
        vector, half = ir.VectorType(kind, lanes), PANEL_BYTES // PANEL_VECTORS
        function = ir.FunctionType(vector, [vector] * 3)
        multiply_add = builder.module.declare_intrinsic(f"llvm.fmuladd.v{lanes}f{8 * size}", (), function)

        def place(base: Any, offset: int) -> Any:
            return builder.inttoptr(builder.add(base, word(offset)), vector.as_pointer())

        def load(base: Any, offset: int) -> Any:
            value = builder.load(place(base, offset))
            value.align = size
            return value

        def broadcast(address: Any) -> Any:
            value = builder.load(builder.inttoptr(address, kind.as_pointer()))
            undefined = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(undefined, value, ir.IntType(32)(0))
            return builder.shuffle_vector(
                one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            )

        def joined(*ways: tuple[list[Any], Any]) -> list[Any]:
            """Return values that come from several blocks."""
            found = []
            for values in zip(*(values for values, _ in ways), strict=True):
                phi = builder.phi(values[0].type)
                for value, (_, block) in zip(values, ways, strict=True):
                    phi.add_incoming(value, block)
                found.append(phi)
            return found

        def loop(first: Any, sums: list[Any], step: int) -> tuple[Any, list[Any]]:
            """Meet `step` features at a time, as long as there are so many."""
            before = builder.block
            body, after = builder.append_basic_block("features"), builder.append_basic_block("end")
            bound = builder.sub(stop, word(step))
            builder.cbranch(builder.icmp_signed("<=", first, bound), body, after)
            builder.position_at_end(body)
            k = builder.phi(word)
            k.add_incoming(first, before)
            totals = [builder.phi(vector) for _ in sums]
            found = totals
            for t in range(step):
                at = builder.add(k, word(t))
                x_place = builder.mul(at, word(size))
                of_panel = builder.add(panel, builder.mul(at, word(PANEL_BYTES)))
                z = [load(of_panel, v * half) for v in range(PANEL_VECTORS)]
                x = [broadcast(builder.add(row, x_place)) for row in x_rows]
                pairs = [(one, other) for one in x for other in z]
                found = [builder.call(multiply_add, [*pair, total]) for pair, total in zip(pairs, found, strict=True)]
            following = builder.add(k, word(step))
            k.add_incoming(following, body)
            for total, value, given in zip(totals, found, sums, strict=True):
                total.add_incoming(given, before)
                total.add_incoming(value, body)
            builder.cbranch(builder.icmp_signed("<=", following, bound), body, after)
            builder.position_at_end(after)
            reached, *values = joined(([first, *sums], before), ([following, *found], body))
            return reached, values

        numbers = [builder.select(builder.icmp_signed("<", word(r), last), word(r), last) for r in range(PANEL_ROWS)]
        x_rows = [builder.add(rows, builder.mul(number, row_stride)) for number in numbers]
        targets = [builder.add(out, builder.mul(number, out_stride)) for number in numbers]
        places = [(target, v * half) for target in targets for v in range(PANEL_VECTORS)]
        before, carry, head = builder.block, builder.append_basic_block("carry"), builder.append_basic_block("head")
        builder.cbranch(builder.icmp_signed("!=", begun, begun.type(0)), carry, head)
        builder.position_at_end(carry)
        carried = [load(*at) for at in places]
        builder.branch(head)
        builder.position_at_end(head)
        sums = joined(([ir.Constant(vector, [0.0] * lanes)] * len(places), before), (carried, carry))
        reached, sums = loop(start, sums, _TOGETHER)
        _, sums = loop(reached, sums, 1)
        for at, value in zip(places, sums, strict=True):
            builder.store(value, place(*at)).align = size
        return context.get_dummy_value()

    return signature, codegen


product_tile_1, product_tile_2, product_tile_5 = map(_product_tile, (1, 2, 5))
"""`product_tile_c(x, w, p0, p1, p2, p3, weights, stride, n, out)`: with x and w of the types of rows and products,
write the products of the rows at the addresses p with c rows of weights, `stride` bytes apart, row after row; `n` is
how many numbers are multiplied."""
add_tile_1, add_tile_2, add_tile_5 = map(_add_tile, (1, 2, 5))
"""`add_tile_c(x, w, p0, p1, p2, p3, factors, stride, n, out)`: add to each of c rows, `stride` bytes apart, the four
rows times its four factors."""
