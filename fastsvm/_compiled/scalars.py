"""Scalar functions that LLVM vectorises: minimum, maximum, a b + c, numbers in float16 as float32, and exp."""

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic, overload

from fastsvm._compiled.processor import JIT_DISABLED, processor_has

__all__ = ["HAS_HALF_FLOATS", "exp", "half_as_single", "maximum", "minimum", "multiply_add"]


def _extremum(name: str) -> Any:
    """Return an intrinsic for llvm.minnum or llvm.maxnum.

    LLVM vectorises a running minimum that is written as a comparison only if it may ignore NaN and the sign of zero.
    That is safe for the values here, but not in the rest of the code.
    """

    @intrinsic
    def extremum(typing_context, a, b):
        if a != b or not isinstance(a, types.Float):
            return None

        def codegen(context, builder, signature, arguments):
            real = arguments[0].type
            function = builder.module.declare_intrinsic(f"llvm.{name}", [real], ir.FunctionType(real, [real, real]))
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return a(a, b), codegen

    return extremum


def _plain_minimum(a: float, b: float) -> float:
    return a if a < b else b


def _plain_maximum(a: float, b: float) -> float:
    return a if a > b else b


minimum = _plain_minimum if JIT_DISABLED else _extremum("minnum")
maximum = _plain_maximum if JIT_DISABLED else _extremum("maxnum")


@intrinsic
def _multiply_add(typing_context, a, b, c):
    def codegen(context, builder, signature, arguments):
        real = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.fmuladd", [real], ir.FunctionType(real, [real] * 3))
        return builder.call(function, arguments)  # without the flags that let LLVM change the order of additions

    return a(a, a, a), codegen


def _plain_multiply_add(a: float, b: float, c: float) -> float:
    return a * b + c


multiply_add = _plain_multiply_add if JIT_DISABLED else _multiply_add
"""`multiply_add(a, b, c)` is a b + c, all of one type. LLVM does not change the order of sums that are made of it."""


HAS_HALF_FLOATS = not JIT_DISABLED and (
    processor_has("f16c") or binding.get_process_triple().startswith(("aarch64", "arm64"))
)
"""Whether the processor has an instruction for `half_as_single`."""


@intrinsic
def half_as_single(typing_context, bits):
    """Return a number in float16, given by its bits as uint16, in float32."""

    def codegen(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(bits), codegen


def exp(x: float) -> float:
    """Return e**x. Compiled code uses a polynomial that vectorises, with an error of at most 2 units in the last place.

    x = n ln 2 + r with |r| <= ln 2 / 2. The series gives e**r, the bits of the exponent give 2**n. `math.exp` would be
    called for every scalar, and pip does not install the vector library that Numba supports.
    """
    limit = 88 if isinstance(x, np.float32) else 709
    return np.exp(type(x)(min(max(x, -limit), limit)))


# ln 2 in two parts (Cody and Waite): n times the first is exact.
_LN2_32 = (np.float32(0.693359375), np.float32(-2.12194440e-4))
_LN2_64 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)


def _exp32(x):
    x = maximum(minimum(x, np.float32(88.0)), np.float32(-87.0))
    n = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
    r = (x - n * _LN2_32[0]) - n * _LN2_32[1]
    p = np.float32(1 / 5040)
    p = p * r + np.float32(1 / 720)
    p = p * r + np.float32(1 / 120)
    p = p * r + np.float32(1 / 24)
    p = p * r + np.float32(1 / 6)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


def _exp64(x):
    x = maximum(minimum(x, 709.0), -708.0)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    r = (x - n * _LN2_64[0]) - n * _LN2_64[1]
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * np.int64((np.int64(n) + 1023) << 52).view(np.float64)


@overload(exp, jit_options={"fastmath": {"contract", "nsz"}})
def _compiled_exp(x):
    return {types.float32: _exp32, types.float64: _exp64}.get(x)
