"""How many cases, from which seed, and the loop over them."""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

__all__ = ["CHUNK", "SEED", "chunks", "examine"]

SEED = int(os.environ.get("FASTSVM_FUZZ_SEED", "0"))

CHUNK = 200
"""Cases of a test: what one of them finds does not hide what others would find."""


def chunks(usual: int = 200) -> list[tuple[int, int]]:
    """Return number and size of each chunk of cases: `usual` cases together, or as many as FASTSVM_FUZZ says."""
    n_cases = int(os.environ.get("FASTSVM_FUZZ", usual))
    return [(k, min(CHUNK, n_cases - k * CHUNK)) for k in range(-(-n_cases // CHUNK))]


def examine(cases: st.SearchStrategy, check: Callable[[Any], None], chunk: int, count: int) -> None:
    """Check the cases of a chunk; one that fails is made as simple as possible."""

    @seed(SEED + chunk)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(case=cases)
    def check_all(case):
        check(case)

    check_all()
