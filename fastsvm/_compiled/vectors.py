"""Products of rows in vectors that LLVM does not choose by itself, written for it. Several addresses are one tuple.

Tiles multiply a few rows by vectors of 512 bits; callers have plain loops for processors without them. A panel stores
one feature of all its rows, then the next, so that a vector holds one sum per row and needs no reduction. Each sum adds
its features in order, those of one call before they are added to what is there, so that rounding errors grow with the
length of a call and not with that of the row. A sum depends on its two rows alone, not on the other rows of the panel.
Lanes are sums that stand side by side in a vector.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.processor import HAS_WIDE_VECTORS, PLAIN, VECTOR_BYTES

if TYPE_CHECKING:
    from numba.core.base import BaseContext

_ROWS = 4  # A tile has so many rows, whose dot products with up to five others fit in the registers.


_BYTES = VECTOR_BYTES if HAS_WIDE_VECTORS else VECTOR_BYTES // 2  # of a vector
PANEL_VECTORS = 2  # A panel has so many vectors.
_TOGETHER = 4 if HAS_WIDE_VECTORS else 2  # features in an iteration of the loop; with four, ARM runs out of registers
PANEL_BYTES = PANEL_VECTORS * _BYTES
"""Bytes of one feature in a panel."""
PANEL_ROWS = 8 if HAS_WIDE_VECTORS else 6
"""Number of rows that `panel_tile` multiplies with a panel; their sums fit in the registers."""
LANES = 16
"""Number of sums in a vector: in float32 a cache line, which is also the longest vector of processors."""


Step = Callable[[ir.Value, list[ir.Value], ir.Value | None], list[ir.Value]]
"""Writes what a loop does for a vector, given its start, the values carried and a mask; returns the values."""


class _Writer:
    """Writes code for vectors of `lanes` numbers of the type `real`; rows are stored in the type `stored`."""

    def __init__(
        self, context: "BaseContext", builder: ir.IRBuilder, stored: Any, real: types.Float, lanes: int = 0
    ) -> None:
        self.builder, self.unsigned = builder, isinstance(stored, types.Integer)
        self.real, self.stored = context.get_value_type(real), context.get_value_type(stored)
        self.real_bytes, self.stored_bytes = real.bitwidth // 8, stored.bitwidth // 8
        self.lanes = lanes or VECTOR_BYTES // self.real_bytes
        self.vector = ir.VectorType(self.real, self.lanes)
        self._suffix = f"v{self.lanes}f{real.bitwidth}"
        self.zeros = ir.Constant(self.vector, [0.0] * self.lanes)

    def multiply_add(self, name: str) -> ir.Function:
        """Return LLVM's function of three vectors: "fma" rounds once, "fmuladd" where the processor can."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.builder.module.declare_intrinsic(f"llvm.{name}.{self._suffix}", (), kind)

    def pointer(self, address: ir.Value, kind: ir.Type) -> ir.Value:
        """Return the address of a value of some kind as a pointer."""
        return self.builder.inttoptr(address, kind.as_pointer())

    def load_as(self, kind: ir.Type, address: ir.Value, size: int, mask: ir.Value | None = None) -> ir.Value:
        """Load a vector of some kind, of numbers with so many bytes; those where the mask is false are zero."""
        pointer = self.pointer(address, kind)
        if mask is None:
            value = self.builder.load(pointer)
            value.align = size
            return value
        word = ir.IntType(32)
        name = f"llvm.masked.load.v{self.lanes}{'i8' if size == 1 else f'f{8 * size}'}.p0"
        signature = ir.FunctionType(kind, [pointer.type, word, mask.type, kind])
        load = self.builder.module.declare_intrinsic(name, (), signature)
        return self.builder.call(load, [pointer, word(size), mask, ir.Constant(kind, None)])

    def load(self, address: ir.Value, mask: ir.Value | None = None) -> ir.Value:
        """Load numbers of the type `real`; those where the mask is false are zero."""
        return self.load_as(self.vector, address, self.real_bytes, mask)

    def load_row(self, address: ir.Value, mask: ir.Value | None = None) -> ir.Value:
        """Load numbers of a row and convert them to the type `real`."""
        value = self.load_as(ir.VectorType(self.stored, self.lanes), address, self.stored_bytes, mask)
        if self.unsigned:
            return self.builder.uitofp(value, self.vector)
        return value if self.stored_bytes == self.real_bytes else self.builder.fpext(value, self.vector)

    def broadcast(self, address: ir.Value) -> ir.Value:
        """Load one number into all lanes."""
        return self.spread(self.builder.load(self.pointer(address, self.real)))

    def spread(self, value: ir.Value) -> ir.Value:
        """Return a vector of one number."""
        kind = ir.VectorType(value.type, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes)

    def store(self, value: ir.Value, address: ir.Value, mask: ir.Value | None = None) -> None:
        """Store the numbers for which the mask is true."""
        pointer = self.pointer(address, value.type)
        if mask is None:
            self.builder.store(value, pointer).align = self.real_bytes
            return
        word = ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, word, mask.type])
        name = f"llvm.masked.store.{self._suffix}.p0"
        store = self.builder.module.declare_intrinsic(name, (), signature)
        self.builder.call(store, [value, pointer, word(self.real_bytes), mask])

    def sum(self, value: ir.Value) -> ir.Value:
        """Return the sum over the lanes."""
        kind = ir.FunctionType(self.real, [self.real, self.vector])
        add = self.builder.module.declare_intrinsic(f"llvm.vector.reduce.fadd.{self._suffix}", (), kind)
        return self.builder.call(add, [ir.Constant(self.real, 0.0), value], fastmath=("reassoc",))

    def each(self, n: ir.Value, carried: list[ir.Value], body: Step) -> list[ir.Value]:
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
        results = body(start, values, None)
        start.add_incoming(builder.add(start, word(self.lanes)), builder.block)
        for phi, first, value in zip(values, carried, results, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        left = self.spread(builder.trunc(builder.sub(n, start), ir.IntType(32)))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), list(range(self.lanes)))
        return body(start, values, builder.icmp_signed("<", lanes, left))

    def at(self, base: ir.Value, index: ir.Value, size: int) -> ir.Value:
        """Return the address of an element."""
        return self.builder.add(base, self.builder.mul(index, index.type(size)))


# --- tiles of rows ---------------------------------------------------------------------------------------


def _product_tile(count: int) -> Callable:
    """Return an intrinsic for the dot products of four rows with `count` rows of weights."""

    @intrinsic
    def tile(typing_context, x, w, rows, weights, stride, n, out):
        def codegen(context, builder, signature, arguments):
            _, _, rows, weights, stride, n, out = arguments
            rows = cgutils.unpack_tuple(builder, rows)
            write = _Writer(context, builder, signature.args[0], signature.args[1])
            fma = write.multiply_add("fma")
            starts = [builder.add(weights, builder.mul(stride, stride.type(c))) for c in range(count)]

            def step(start: ir.Value, sums: list[ir.Value], mask: ir.Value | None) -> list[ir.Value]:
                x = [write.load_row(write.at(row, start, write.stored_bytes), mask) for row in rows]
                w = [write.load(write.at(first, start, write.real_bytes), mask) for first in starts]
                pairs = [(row, weight) for row in x for weight in w]
                return [builder.call(fma, [*pair, total]) for pair, total in zip(pairs, sums, strict=True)]

            sums = write.each(n, [write.zeros] * (_ROWS * count), step)
            for place, value in enumerate(sums):
                write.store(write.sum(value), builder.add(out, out.type(place * write.real_bytes)))
            return context.get_dummy_value()

        return types.void(x, w, rows, weights, stride, n, out), codegen

    return tile


def _add_tile(count: int) -> Callable:
    """Return an intrinsic that adds four rows times factors to `count` rows."""

    @intrinsic
    def tile(typing_context, x, w, rows, factors, stride, n, out):
        def codegen(context, builder, signature, arguments):
            _, _, rows, factors, stride, n, out = arguments
            rows = cgutils.unpack_tuple(builder, rows)
            write = _Writer(context, builder, signature.args[0], signature.args[1])
            fma = write.multiply_add("fma")
            targets = [builder.add(out, builder.mul(stride, stride.type(c))) for c in range(count)]
            numbers = range(_ROWS * count)
            f = [write.broadcast(builder.add(factors, factors.type(k * write.real_bytes))) for k in numbers]

            def step(start: ir.Value, _: list[ir.Value], mask: ir.Value | None) -> list[ir.Value]:
                x = [write.load_row(write.at(row, start, write.stored_bytes), mask) for row in rows]
                for c, target in enumerate(targets):
                    address = write.at(target, start, write.real_bytes)
                    total = write.load(address, mask)
                    for i, row in enumerate(x):
                        total = builder.call(fma, [row, f[_ROWS * c + i], total])
                    write.store(total, address, mask)
                return []

            write.each(n, [], step)
            return context.get_dummy_value()

        return types.void(x, w, rows, factors, stride, n, out), codegen

    return tile


product_tile_1, product_tile_2, product_tile_5 = map(_product_tile, (1, 2, 5))
"""`product_tile_c(x, w, rows, weights, stride, n, out)` writes the dot products of four rows of `n` numbers with c
rows of weights, row by row. Rows of weights are `stride` bytes apart. The types of x and w are those of the rows and of
the products."""
add_tile_1, add_tile_2, add_tile_5 = map(_add_tile, (1, 2, 5))
"""`add_tile_c(x, w, rows, factors, stride, n, out)` adds to each of c rows the four rows times its four factors.
The c rows are `stride` bytes apart."""


# --- panels ----------------------------------------------------------------------------------------------


@intrinsic
def pack_tile(typing_context, real, rows, row_stride, out):
    """Write the first 16 bytes of as many rows as a vector has numbers to a panel: 4 float32 or 2 float64 each."""
    signature = types.void(real, rows, row_stride, out)

    def codegen(context, builder, signature, arguments):
        _, rows, row_stride, out = arguments
        write, word = _Writer(context, builder, signature.args[0], signature.args[0]), rows.type
        size = write.real_bytes
        features, parts = 16 // size, PANEL_BYTES // PANEL_VECTORS // 16
        some = ir.VectorType(write.real, features)

        def shuffled(a: ir.Value, b: ir.Value, lanes: list[int]) -> ir.Value:
            return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

        def load(row: int) -> ir.Value:
            return write.load_as(some, builder.add(rows, builder.mul(row_stride, word(row))), size)

        def joined(vectors: list[ir.Value]) -> ir.Value:
            while len(vectors) > 1:
                both = list(range(2 * vectors[0].type.count))
                vectors = [shuffled(a, b, both) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
            return vectors[0]

        # Part p of vector r comes from row p * features + r. It remains to transpose squares within the parts.
        vectors = [joined([load(part * features + r) for part in range(parts)]) for r in range(features)]
        lanes, half = parts * features, features // 2
        while half:
            low = [i if i % (2 * half) < half else lanes + i - half for i in range(lanes)]
            high = [i + half if i % (2 * half) < half else lanes + i for i in range(lanes)]
            transposed = list(vectors)
            for r in range(features):
                if not r & half:
                    transposed[r] = shuffled(vectors[r], vectors[r | half], low)
                    transposed[r | half] = shuffled(vectors[r], vectors[r | half], high)
            vectors, half = transposed, half // 2
        for k, value in enumerate(vectors):
            write.store(value, builder.add(out, word(k * PANEL_BYTES)))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def panel_tile(typing_context, real, rows, panel, features, out):
    """Write the dot products of `PANEL_ROWS` rows with the rows of a panel, all given by their addresses.

    `rows` is the address of the first row, the bytes from one row to the next, and the number of the last row, which
    replaces rows beyond it. `features` is the first feature, the end of the features, and whether to add to `out`,
    which is the address of the first row of sums, and the bytes from one to the next.
    """
    signature = types.void(real, rows, panel, features, out)

    def codegen(context, builder, signature, arguments):
        panel = arguments[2]
        row_addresses, columns, target = (cgutils.unpack_tuple(builder, arguments[place]) for place in (1, 3, 4))
        rows, row_stride, last = row_addresses
        (start, stop, begun), (out, out_stride) = columns, target
        real, word, half = signature.args[0], rows.type, PANEL_BYTES // PANEL_VECTORS
        size = real.bitwidth // 8
        write = _Writer(context, builder, real, real, half // size)
        multiply_add = write.multiply_add("fmuladd")

        def place(base: ir.Value, offset: int) -> ir.Value:
            return builder.add(base, word(offset))

        def joined(*ways: tuple[list[ir.Value], ir.Block]) -> list[ir.Value]:
            """Return the values at a point that several blocks branch to."""
            merged = []
            for values in zip(*(values for values, _ in ways), strict=True):
                phi = builder.phi(values[0].type)
                for value, (_, block) in zip(values, ways, strict=True):
                    phi.add_incoming(value, block)
                merged.append(phi)
            return merged

        def loop(first: ir.Value, sums: list[ir.Value], step: int) -> tuple[ir.Value, list[ir.Value]]:
            """Add `step` features at a time while as many are left."""
            before = builder.block
            body, after = builder.append_basic_block("features"), builder.append_basic_block("end")
            bound = builder.sub(stop, word(step))
            builder.cbranch(builder.icmp_signed("<=", first, bound), body, after)
            builder.position_at_end(body)
            k = builder.phi(word)
            k.add_incoming(first, before)
            totals = [builder.phi(write.vector) for _ in sums]
            products = totals
            for t in range(step):
                at = builder.add(k, word(t))
                x_place = builder.mul(at, word(size))
                of_panel = builder.add(panel, builder.mul(at, word(PANEL_BYTES)))
                z = [write.load(place(of_panel, v * half)) for v in range(PANEL_VECTORS)]
                x = [write.broadcast(builder.add(row, x_place)) for row in x_rows]
                pairs = [(one, other) for one in x for other in z]
                products = [
                    builder.call(multiply_add, [*pair, total]) for pair, total in zip(pairs, products, strict=True)
                ]
            following = builder.add(k, word(step))
            k.add_incoming(following, body)
            for total, value, first_sum in zip(totals, products, sums, strict=True):
                total.add_incoming(first_sum, before)
                total.add_incoming(value, body)
            builder.cbranch(builder.icmp_signed("<=", following, bound), body, after)
            builder.position_at_end(after)
            reached, *values = joined(([first, *sums], before), ([following, *products], body))
            return reached, values

        numbers = [builder.select(builder.icmp_signed("<", word(r), last), word(r), last) for r in range(PANEL_ROWS)]
        x_rows = [builder.add(rows, builder.mul(number, row_stride)) for number in numbers]
        targets = [builder.add(out, builder.mul(number, out_stride)) for number in numbers]
        sum_addresses = [(target, v * half) for target in targets for v in range(PANEL_VECTORS)]
        reached, sums = loop(start, [write.zeros] * len(sum_addresses), _TOGETHER)
        _, sums = loop(reached, sums, 1)
        before, carry, end = builder.block, builder.append_basic_block("carry"), builder.append_basic_block("end")
        builder.cbranch(builder.icmp_signed("!=", begun, begun.type(0)), carry, end)
        builder.position_at_end(carry)
        # Rows beyond the last are the last one: all of them read before any is written.
        carried = [builder.fadd(write.load(place(*at)), value) for at, value in zip(sum_addresses, sums, strict=True)]
        builder.branch(end)
        builder.position_at_end(end)
        sums = joined((sums, before), (carried, carry))
        for at, value in zip(sum_addresses, sums, strict=True):
            write.store(value, place(*at))
        return context.get_dummy_value()

    return signature, codegen


# --- sums side by side -----------------------------------------------------------------------------------


@intrinsic
def _add_list(typing_context, real, factors, span, lanes, sums):
    """Add factor times `lanes` to the sums of each row of a list. All but the first and the span are addresses."""
    signature = types.void(real, factors, span, lanes, sums)

    def codegen(context, builder, signature, arguments):
        (row_list, factor_list), (start, stop) = (cgutils.unpack_tuple(builder, pair) for pair in arguments[1:3])
        lanes, sums = arguments[3:]
        number, word = ir.IntType(32), ir.IntType(64)
        write = _Writer(context, builder, signature.args[0], signature.args[0], LANES)
        multiply_add, size = write.multiply_add("fmuladd"), write.real_bytes
        values = write.load(lanes)  # once: LLVM cannot know that the sums are elsewhere
        before, head = builder.block, builder.append_basic_block("head")
        body, after = builder.append_basic_block("row"), builder.append_basic_block("end")
        builder.branch(head)
        builder.position_at_end(head)
        t = builder.phi(word)
        t.add_incoming(start, before)
        builder.cbranch(builder.icmp_signed("<", t, stop), body, after)
        builder.position_at_end(body)
        row = builder.sext(builder.load(write.pointer(write.at(row_list, t, 4), number)), word)
        factor = write.broadcast(write.at(factor_list, t, size))
        place = write.at(sums, row, LANES * size)
        write.store(builder.call(multiply_add, [factor, values, write.load(place)]), place)
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
