"""What is made of numba: the decorator, its cache, and scalars that LLVM can vectorise.

Every compiled function of the package is made by `jit`. Its machine code is cached in a folder named
after a digest of the package's sources, because numba itself only looks at the file in which a function
stands: an edit of a helper in another file would be answered by old code. Code for a user's classes is not cached.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import caching, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import IRLegalization
from numba.extending import intrinsic, overload

__all__ = [
    "BYTE_TILE",
    "HAS_BYTE_PRODUCTS",
    "JIT_DISABLED",
    "byte_tile",
    "exp",
    "generic",
    "jit",
    "maximum",
    "minimum",
    "multiply_add",
    "multiply_add_bytes",
    "thread_count",
]

JIT_DISABLED = bool(numba.config.DISABLE_JIT)

# Neither `nnan` nor `ninf`: infinity stands for "not a member" and "no bound".
_FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}
_PACKAGE = Path(__file__).parent


def thread_count() -> int:
    """Return the number of threads to use: numba's own setting, hence NUMBA_NUM_THREADS and the CPU mask."""
    return int(numba.config.NUMBA_NUM_THREADS)


# --- where machine code is kept --------------------------------------------------------------------------


def source_digest() -> str:
    """Return a digest of all sources of the package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    digest.update(os.environ.get("FASTSVM_WIDE_VECTORS", "").encode())  # a constant of compiled code
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    if numba.config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return Path(numba.config.CACHE_DIR)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser()


def _private_root() -> Path:
    """Return a folder of the user's own below the shared one for temporary files: code is loaded from it."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    root = Path(tempfile.gettempdir()) / f"fastsvm-cache-{user}"
    with contextlib.suppress(OSError):
        root.mkdir(mode=0o700)
    if hasattr(os, "getuid") and (not root.is_dir() or root.is_symlink() or root.stat().st_uid != os.getuid()):
        return Path(tempfile.mkdtemp(prefix="fastsvm-cache-"))
    return root


def _cache_folder() -> Path:
    name = f"fastsvm-{source_digest()}"
    for root in (_cache_root(), _private_root()):
        folder = root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        _prune(root, keep=folder)
        return folder
    return Path(tempfile.mkdtemp(prefix="fastsvm-"))


def _prune(root: Path, keep: Path, newest: int = 3) -> None:
    """Remove the code of old versions, but not of the last few: two checkouts may be in use at once."""
    ours = re.compile(r"fastsvm-[0-9a-f]{16}")
    with contextlib.suppress(OSError):  # another process may be pruning too
        old = [folder for folder in root.iterdir() if ours.fullmatch(folder.name) and folder != keep]
        old.sort(key=lambda folder: folder.stat().st_mtime)
        for folder in old[: max(0, len(old) - newest)]:
            shutil.rmtree(folder, ignore_errors=True)


CACHE_FOLDER: Path | None = None if JIT_DISABLED else _cache_folder()


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    users = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(CACHE_FOLDER)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = users


def _is_ours(kind: Any) -> bool:
    """Return whether the NamedTuple classes in an argument's type are all of the package."""
    owner = getattr(kind, "instance_class", None)
    ours = owner is None or owner.__module__.partition(".")[0] == __package__
    return ours and all(_is_ours(part) for part in getattr(kind, "types", ()))


class _OurCode(caching.FunctionCache):
    """Code on disk of the package's own classes; that of a user's class is compiled in each process.

    The digest knows nothing of a user's sources, so an edit of a body would be answered by old code. And numba writes
    the class into an index, which without the user's module could not be read, be it for a class of ours.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for the types `sig`, or None."""
        return super().load_overload(sig, target_context) if all(map(_is_ours, sig)) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for the types `sig`."""
        if all(map(_is_ours, sig)):
            super().save_overload(sig, data)


# --- the same code in every process ------------------------------------------------------------------------


class _Closed(JITCodeLibrary):
    """Machine code in which all that a function calls is its own.

    Numba puts copies of what a function calls beside it under public names, and the linker takes for a name the first
    copy that came to memory. Copies were optimised within different callers, so that their last bits differ. Which
    came first depends on what was compiled, and what loaded from disk, in this process before.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            copied = not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr
            if copied and not function.name.startswith("NRT_"):  # of these numba looks for the names
                function.linkage = "internal"
        super()._optimize_final_module()


@register_pass(mutates_CFG=False, analysis_only=True)
class _CloseCode(AnalysisPass):
    """Make the library into which a function is compiled."""

    _name = "fastsvm_close_code"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Do so before numba makes one."""
        if state.library is None:
            state.library = _Closed(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return False


class _Compiler(CompilerBase):
    """Numba's own compiler, but for the library."""

    def define_pipelines(self) -> list:
        """Return its passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_CloseCode, IRLegalization)
        passes.finalize()
        return [passes]


def jit(function: Callable) -> Callable:
    """Compile `function` on first use, without the GIL, and keep its code on disk."""
    if JIT_DISABLED:
        return function
    compiled = numba.njit(nogil=True, error_model="numpy", fastmath=_FASTMATH, pipeline_class=_Compiler)(function)
    with _own_cache():
        compiled._cache = _OurCode(function)  # where cache=True would put numba's own
    return compiled


def inlined(function: Callable) -> Callable:
    """Compile `function` as part of its callers, for inner loops that are too short for a call."""
    return function if JIT_DISABLED else numba.njit(inline="always")(function)


# --- one name, one body a type ---------------------------------------------------------------------------


_NAMED: dict[str, type] = {}


def _name_apart(kind: type) -> None:
    """Give a class a name of its own: numba takes NamedTuples with the same name and fields for one class.

    A user's RBF would be computed by the code of ours, and a class that is defined anew by that of the old one.
    """
    while _NAMED.setdefault(kind.__name__, kind) is not kind:
        kind.__name__ += "_"


class generic:
    """A function that chooses its body by the NamedTuple class of its first argument.

    It does so alike in Python and, at compile time, in compiled code, where the choice costs nothing and
    can be cached, which numba does for neither functions as arguments nor jitclass instances.
    """

    def __new__(cls, stub: Callable) -> Any:
        """Make the dispatching function: `register` adds a body for a class to its `bodies`."""
        bodies: dict[type, Callable] = {}

        @functools.wraps(stub)
        def dispatch(first: Any, *rest: Any) -> Any:
            return bodies[type(first)](first, *rest)

        def choose(first: Any, *rest: Any) -> Callable | None:
            return bodies.get(getattr(first, "instance_class", None))

        def register(kind: type) -> Callable[[Callable], Callable]:
            if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
                raise TypeError(f"{stub.__name__} can only be compiled for classes of NamedTuple; {kind} is none.")
            if kind in bodies:  # the code compiled for the first would be used on
                raise ValueError(f"{kind} has a {stub.__name__} already: define the class anew for another.")

            def add(body: Callable) -> Callable:
                _name_apart(kind)
                bodies[kind] = body
                return body

            return add

        overload(dispatch, strict=False, jit_options={"fastmath": _FASTMATH, "error_model": "numpy"})(choose)
        dispatch.register, dispatch.bodies = register, bodies  # type: ignore[attr-defined]
        return dispatch


# --- scalars that vectorise ------------------------------------------------------------------------------


def _extremum(name: str) -> Any:
    """Return an intrinsic for llvm.minnum or llvm.maxnum.

    LLVM does not vectorise a running minimum written as a comparison unless it may ignore NaN and the
    sign of zero; here the values are known to have neither, in the rest of the code they are not.
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
        return builder.call(function, arguments)  # without the flags by which LLVM may add in another order

    return a(a, a, a), codegen


def _plain_multiply_add(a: float, b: float, c: float) -> float:
    return a * b + c


multiply_add = _plain_multiply_add if JIT_DISABLED else _multiply_add
"""`multiply_add(a, b, c)`, all of one type, is a b + c: sums that are made of it keep the order they are written in."""


def exp(x: float) -> float:
    """Return e**x; compiled, by a polynomial that vectorises, within 2 units of the last place.

    x = n ln 2 + r with |r| <= ln 2 / 2; e**r by its series, 2**n by its bits. `math.exp` would be a call
    for every scalar, and numba's vector library is not part of the packages that pip installs.
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


# --- products of bytes -----------------------------------------------------------------------------------


def _has_byte_products() -> bool:
    """Return whether numba's target has AVX-512 VNNI; on one without it LLVM would end the process."""
    if JIT_DISABLED or os.environ.get("FASTSVM_BYTE_PRODUCTS") == "0":
        return False
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES:  # the user's target, not this machine
        return "+avx512vnni" in (numba.config.CPU_FEATURES or "")
    return bool(binding.get_host_cpu_features().get("avx512vnni", False))


HAS_BYTE_PRODUCTS = _has_byte_products()
"""Whether `byte_tile` can be compiled; the environment's FASTSVM_BYTE_PRODUCTS=0 says no."""

_INT = ir.IntType(32)
_BYTES = ir.VectorType(ir.IntType(8), 64)
_SUMS = ir.VectorType(_INT, 16)
BYTE_TILE = 16, 8
"""Rows of int8 and of uint8 of which `byte_tile` takes the products."""


def multiply_add_bytes(builder: Any) -> Callable[[Any, Any, Any], Any]:
    """Return what writes the sum of 16 numbers and the products of 64 bytes without sign with 64 that have one."""
    whole = binding.llvm_version_info[0] >= 22  # before, bytes were passed as numbers of four
    kind = ir.FunctionType(_SUMS, [_SUMS, _BYTES, _BYTES] if whole else [_SUMS] * 3)
    function = builder.module.declare_intrinsic("llvm.x86.avx512.vpdpbusd.512", (), kind)

    def write(total: Any, unsigned: Any, signed: Any) -> Any:
        if not whole:
            unsigned, signed = builder.bitcast(unsigned, _SUMS), builder.bitcast(signed, _SUMS)
        return builder.call(function, [total, unsigned, signed])

    return write


def _in_lanes(*pattern: int) -> list[int]:
    """Return the places that `pattern` picks from each 128-bit lane of two vectors; 4 and more are of the second."""
    return [place % 4 + 4 * lane + 16 * (place // 4) for lane in range(4) for place in pattern]


def _transposed(builder: Any, columns: list[Any]) -> Iterator[Any]:
    """Yield the sixteen rows of eight columns."""

    def pick(a: Any, b: Any, places: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT, len(places)), places))

    fours = []  # of the first four columns, then of the last: rows k, 4 + k, 8 + k, 12 + k for k = 0 to 3
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
    """Write the 16 x 8 products of sixteen rows of int8 with eight of uint8 to int32, at the given addresses.

    `n_features` is at least 4. The operand has four features of all sixteen rows beside each other, then the next
    four; where the last four features of a row overlap those before, it has zeros, so nothing is read beyond a row.
    A vector of sums holds the products of one row of uint8, of which four features at a time are broadcast.
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
