"""Dot products of rows with a panel, which stores one feature of all its rows, then the next.

With this layout a vector holds one sum per row and needs no reduction. Each sum adds its features in order, those of
one call before they are added to what is there, so that rounding errors grow with the length of a call and not with
that of the row. A sum depends on its two rows alone, not on the other rows of the panel.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fastsvm._compiled.processor import HAS_WIDE_VECTORS, VECTOR_BYTES

__all__ = ["PANEL_BYTES", "PANEL_ROWS", "PANEL_VECTORS", "pack_tile", "panel_tile"]

_BYTES = VECTOR_BYTES if HAS_WIDE_VECTORS else VECTOR_BYTES // 2  # of a vector
PANEL_VECTORS = 2  # A panel has so many vectors.
_TOGETHER = 4 if HAS_WIDE_VECTORS else 2  # features in an iteration of the loop; with four, ARM runs out of registers
PANEL_BYTES = PANEL_VECTORS * _BYTES
"""Bytes of one feature in a panel."""
PANEL_ROWS = 8 if HAS_WIDE_VECTORS else 6
"""Number of rows that `panel_tile` multiplies with a panel; their sums fit in the registers."""


@intrinsic
def pack_tile(typing_context, real, rows, row_stride, out):
    """Write the first 16 bytes of some rows to a panel: four features in float32, two in float64.

    As many rows are read as a vector has numbers. The panel holds one feature of all rows, then the next.
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

        # Part p of vector r comes from row p * features + r. It remains to transpose squares within the parts.
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
def panel_tile(typing_context, real, rows, panel, features, out):
    """Write the dot products of `PANEL_ROWS` rows with the rows of a panel, all given by their addresses.

    Features are added in order, with one multiplication and one addition each, and their sum to the value in `out` if
    that is asked for, so that a sum depends on its two rows alone.

    `real` is a number of the type of all values. `rows` is the address of the first row, the bytes from one row to the
    next, and the number of the last row, which replaces rows beyond it. `features` is the first feature, the end of the
    features, and whether to add to `out`. `out` is the address of the first row of sums, and the bytes from one to the
    next.
    """
    signature = types.void(real, rows, panel, features, out)

    def codegen(context, builder, signature, arguments):
        panel = arguments[2]
        given, columns, target = (cgutils.unpack_tuple(builder, arguments[place]) for place in (1, 3, 4))
        rows, row_stride, last = given
        (start, stop, begun), (out, out_stride) = columns, target
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
            """Return the values at a point that several blocks branch to."""
            found = []
            for values in zip(*(values for values, _ in ways), strict=True):
                phi = builder.phi(values[0].type)
                for value, (_, block) in zip(values, ways, strict=True):
                    phi.add_incoming(value, block)
                found.append(phi)
            return found

        def loop(first: Any, sums: list[Any], step: int) -> tuple[Any, list[Any]]:
            """Add `step` features at a time while as many are left."""
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
        reached, sums = loop(start, [ir.Constant(vector, [0.0] * lanes)] * len(places), _TOGETHER)
        _, sums = loop(reached, sums, 1)
        before, carry, end = builder.block, builder.append_basic_block("carry"), builder.append_basic_block("end")
        builder.cbranch(builder.icmp_signed("!=", begun, begun.type(0)), carry, end)
        builder.position_at_end(carry)
        # Rows beyond the last are the last one: all of them read before any is written.
        carried = [builder.fadd(load(*at), value) for at, value in zip(places, sums, strict=True)]
        builder.branch(end)
        builder.position_at_end(end)
        sums = joined((sums, before), (carried, carry))
        for at, value in zip(places, sums, strict=True):
            builder.store(value, place(*at)).align = size
        return context.get_dummy_value()

    return signature, codegen
