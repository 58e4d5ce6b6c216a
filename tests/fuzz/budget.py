"""How many cases, and from which seed."""

import os

__all__ = ["CASES", "CHUNK", "SEED", "chunks"]

CASES = int(os.environ.get("FASTSVM_FUZZ", "200"))
"""Cases of each kind: 200 in the ordinary suite, many more by night."""

SEED = int(os.environ.get("FASTSVM_FUZZ_SEED", "0"))

CHUNK = 200
"""Cases of a test: what one of them finds does not hide what others would find."""


def chunks(most: int = CASES) -> list[tuple[int, int]]:
    """Return number and size of each chunk of cases."""
    return [(k, min(CHUNK, most - k * CHUNK)) for k in range(-(-most // CHUNK))]
