"""Scalar functions that LLVM vectorises, or that are an instruction: minimum, maximum, a b + c, float16, exp."""

from collections.abc import Callable

import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic, overload, register_jitable

from fastsvm._compiled.processor import PLAIN, processor_has


def _extremum(name: str) -> Callable:
    """Return an intrinsic for llvm.minnum or llvm.maxnum."""

    @intrinsic
    def extremum(typing_context, a, b):
        if a != b or not isinstance(a, types.Float):
            return None

        def codegen(context, builder, signature, arguments):
            real = arguments[0].type
            function = builder.module.declare_intrinsic(f"llvm.{name}", [real], ir.FunctionType(real, [real, real]))
            # LLVM vectorises a running minimum only if it may ignore NaN and the sign of 0, as is safe here.
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return a(a, b), codegen

    return extremum


@register_jitable
def _plain_minimum(a: float, b: float) -> float:
    return a if a < b else b


@register_jitable
def _plain_maximum(a: float, b: float) -> float:
    return a if a > b else b


minimum = _plain_minimum if PLAIN else _extremum("minnum")
maximum = _plain_maximum if PLAIN else _extremum("maxnum")


@intrinsic
def _multiply_add(typing_context, a, b, c):
    def codegen(context, builder, signature, arguments):
        real = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.fmuladd", [real], ir.FunctionType(real, [real] * 3))
        return builder.call(function, arguments)  # without the flags that let LLVM change the order of additions

    return a(a, a, a), codegen


@register_jitable
def _plain_multiply_add(a: float, b: float, c: float) -> float:
    return a * b + c


multiply_add = _plain_multiply_add if PLAIN else _multiply_add
"""`multiply_add(a, b, c)` is a b + c, all of one type. LLVM does not change the order of sums that are made of it."""


HAS_HALF_FLOATS = not PLAIN and (processor_has("f16c") or binding.get_process_triple().startswith(("aarch64", "arm64")))
"""Whether the processor has an instruction for `half_as_single`."""


@intrinsic
def half_as_single(typing_context, bits):
    """Return a number in float16, given by its bits as uint16, in float32."""

    def codegen(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(bits), codegen


def exp(x: float) -> float:
    """Return e**x. Compiled code uses a polynomial that vectorises, with an error of at most 2 units in the last place.

    `math.exp` would be called for every scalar, and pip does not install the vector library that Numba supports.
    """
    limit = 88 if isinstance(x, np.float32) else 709
    return np.exp(type(x)(min(max(x, -limit), limit)))


# ln 2 in two parts (Cody and Waite): n times the first is exact.
_LN2_32 = (np.float32(0.693359375), np.float32(-2.12194440e-4))
_LN2_64 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
# A sum with such a number is rounded to an integer, which is in its last bits. Processors without AVX-512 have no
# instruction that converts float64 to int64, but shift and add these bits by one instruction each.
_ROUNDING_32, _ROUNDING_64 = np.float32(1.5 * 2**23), 1.5 * 2**52


def _exp32(x):
    x = maximum(minimum(x, np.float32(88.0)), np.float32(-87.0))
    shifted = x * np.float32(1.4426950408889634) + _ROUNDING_32
    n = shifted - _ROUNDING_32
    r = (x - n * _LN2_32[0]) - n * _LN2_32[1]
    # x = n ln 2 + r, and e**r is 1 + r + r**2 q(r), with the q of least greatest relative error, which is 3e-9.
    p = np.float32(0.001381461)
    p = p * r + np.float32(0.00836871)
    p = p * r + np.float32(0.04166839)
    p = p * r + np.float32(0.16666521)
    p = p * r + np.float32(0.49999994)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    exponent = np.int32(np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(np.float32(p).view(np.int32) + exponent).view(np.float32)


def _exp64(x):
    x = maximum(minimum(x, 709.0), -708.0)
    shifted = x * 1.4426950408889634 + _ROUNDING_64
    n = shifted - _ROUNDING_64
    r = (x - n * _LN2_64[0]) - n * _LN2_64[1]
    p = 2.4806925189595207e-08  # as above, with a relative error of 2e-17
    p = p * r + 2.762363353502385e-07
    p = p * r + 2.755827883453774e-06
    p = p * r + 2.480151592310816e-05
    p = p * r + 0.00019841268611603033
    p = p * r + 0.001388888891572869
    p = p * r + 0.008333333333983329
    p = p * r + 0.041666666666670286
    p = p * r + 0.16666666666665475
    p = p * r + 0.4999999999999987
    p = p * r + 1.0
    p = p * r + 1.0
    exponent = np.float64(shifted).view(np.int64) << 52
    return np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)


@overload(exp, jit_options={"fastmath": {"contract", "nsz"}})
def _compiled_exp(x):
    return {types.float32: _exp32, types.float64: _exp64}.get(x)


vars(exp)["compiled"] = _compiled_exp  # so that digests cover it
