"""Numbers of kernel machines."""

from typing import NamedTuple

__all__ = ["KernelTuning"]


class KernelTuning(NamedTuple):
    """Which solver takes steps of two multipliers. Times are those of one core of 2024 in nanoseconds."""

    # Problems of few samples may be solved whole, in compiled calls; else all are decomposed.
    small: bool = True
    # Such a problem has at most so many multipliers. With more, steps on all of them leave the processor's cache.
    most_small_rows: int = 2048
    # Decomposition takes this time for a problem beside its kernel values.
    ns_of_problem: float = 1e6
    # A whole kernel matrix takes this time beside its values.
    ns_of_matrix: float = 2e5
    # A kernel value that is computed on demand takes this time, and more for each feature, by whether the samples of a
    # problem are within `near_bytes`, which stay near the processor.
    ns_of_value: float = 2.5
    ns_of_feature: float = 0.06
    ns_of_far_feature: float = 0.13
    near_bytes: int = 400_000
    # An only problem needs this share of the kernel rows, and one of many the other.
    used: float = 0.5
    used_of_many: float = 0.2
    # Decomposition is taken to cost so many times its own estimate: the slower the steps, the more is gained.
    slower: float = 2.0
