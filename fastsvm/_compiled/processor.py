"""The kinds of processors that code is compiled for: named levels, as of x86-64, rather than the one of this host.

Hosts of one level share machine code, and so have the same results to the last bit. What Numba compiles for others is
for the host, as ever.
"""

import os
import platform
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
from llvmlite import binding

_config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them
JIT_DISABLED = bool(_config.DISABLE_JIT)
PLAIN = JIT_DISABLED or os.environ.get("FASTSVM_PLAIN_NUMBA") == "1"
"""Whether functions are compiled by `numba.njit` alone, without Numba's private classes and code written for LLVM, or
not at all."""
_SETTING = "FASTSVM_PROCESSOR"
VERSIONS = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}.numba{numba.__version__}"
"""Versions of Python and Numba, for which alone machine code is."""
SHIPPED = Path(__file__).parents[1] / "_machine_code"
"""The folder with the machine code of a compiled wheel; other installations have none."""


class Level(NamedTuple):
    """A kind of processors: its name, and what LLVM calls a processor of the kind and its features."""

    name: str
    processor: str  # It is of the kind.
    needed: frozenset[str]  # By these features a processor is known to be of the kind.
    more: str = ""  # The kind has these features besides.


_V2 = frozenset(("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"))
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
_X86 = (
    Level("x86-64-v4-vnni", "x86-64-v4", _V4 | {"avx512vnni"}, "+avx512vnni"),
    Level("x86-64-v4", "x86-64-v4", _V4),
    Level("x86-64-v3-vnni", "x86-64-v3", _V3 | {"avxvnni"}, "+avxvnni"),
    Level("x86-64-v3", "x86-64-v3", _V3),
    Level("x86-64-v2", "x86-64-v2", _V2),
    Level("x86-64", "x86-64", frozenset()),
)
_ARM = (
    Level("armv8.2-dotprod", "generic", frozenset(("dotprod", "neon")), "+v8.2a,+dotprod"),
    Level("armv8", "generic", frozenset(("neon",))),
)
_APPLE = (Level("apple-m1", "apple-m1", frozenset(("dotprod", "neon"))),)  # LLVM names no features of these processors
_MACHINES = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "ARM64": _ARM, "arm64": _ARM}


def levels() -> list[Level]:
    """Return the levels of this host, the highest first."""
    if platform.machine() == "arm64" and "apple" in binding.get_process_triple():
        return list(_APPLE)
    features, host = binding.get_host_cpu_features(), binding.get_host_cpu_name()
    here = frozenset(name for name, has in features.items() if has)
    served = [level for level in _MACHINES.get(platform.machine(), ()) if level.needed <= here]
    return served or [Level(host, host, here, features.flatten())]


def shipped_levels() -> list[str]:
    """Return the levels for which a compiled wheel has code that these versions of Python and Numba can load."""
    try:
        return (SHIPPED / f"levels.{VERSIONS}").read_text(encoding="utf-8").split()
    except OSError:
        return []


def _level() -> Level:
    """Return the level that is asked for, or the highest of this host, of those with code in a compiled wheel."""
    served, shipped = levels(), shipped_levels()
    first = next((level.name for level in served if level.name in shipped), served[0].name)
    asked = os.environ.get(_SETTING) or first
    for level in served:
        if level.name == asked:
            return level
    names = ", ".join(level.name for level in served)
    raise ValueError(f"{_SETTING}={asked} is no level of this processor. It has {names}.")


LEVEL = _level()
"""What the package is compiled for. The environment variable FASTSVM_PROCESSOR names a lower level."""


def processor_has(feature: str) -> bool:
    """Return whether code is compiled for processors with a feature, by LLVM's name, such as "avx512f"."""
    return not PLAIN and feature in LEVEL.needed


VECTOR_BYTES = 64
"""The widest vectors have so many bytes, and a line of the cache as many."""
HAS_WIDE_VECTORS = processor_has("avx512f")
"""Whether there are vectors of 512 bits."""
