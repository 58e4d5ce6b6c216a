"""How many cases, and from which seed."""

import os

__all__ = ["CHUNK", "SEED", "chunks"]

SEED = int(os.environ.get("FASTSVM_FUZZ_SEED", "0"))

CHUNK = 200
"""Cases of a test: what one of them finds does not hide what others would find."""


def chunks(usual: int = 200) -> list[tuple[int, int]]:
    """Return number and size of each chunk of cases: `usual` cases together, or as many as FASTSVM_FUZZ says."""
    n_cases = int(os.environ.get("FASTSVM_FUZZ", usual))
    return [(k, min(CHUNK, n_cases - k * CHUNK)) for k in range(-(-n_cases // CHUNK))]
