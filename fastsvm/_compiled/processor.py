"""What Numba compiles for: this processor, or the one that its settings name."""

import os
from typing import Any

import numba
from llvmlite import binding

_config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them
JIT_DISABLED = bool(_config.DISABLE_JIT)
PLAIN = JIT_DISABLED or os.environ.get("FASTSVM_PLAIN_NUMBA") == "1"
"""Whether functions are compiled by `numba.njit` alone, without Numba's private classes and code written for LLVM, or
not at all."""


def processor_has(feature: str, setting: str = "") -> bool:
    """Return whether Numba compiles for a processor with a feature, by LLVM's name, such as "avx512f".

    LLVM ends the process if code needs a feature that is missing. The answer is False if the environment variable
    `setting` is 0.
    """
    if PLAIN or os.environ.get(setting) == "0":
        return False
    if _config.CPU_NAME or _config.CPU_FEATURES:  # the user's target, not this machine
        return f"+{feature}" in (_config.CPU_FEATURES or "")
    if feature == "dotprod" and binding.get_host_cpu_name().startswith("apple-"):
        return True  # LLVM names no features of the processors of Macs, which all have this one
    return bool(binding.get_host_cpu_features().get(feature, False))


VECTOR_BYTES = 64
"""The widest vectors have so many bytes, and a line of the cache as many."""
HAS_WIDE_VECTORS = processor_has("avx512f", "FASTSVM_WIDE_VECTORS")
"""Whether there are vectors of 512 bits; the environment variable FASTSVM_WIDE_VECTORS=0 disables them."""
