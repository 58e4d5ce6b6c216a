"""Numbers of kernel machines."""

from typing import NamedTuple

__all__ = ["KernelTuning"]


class KernelTuning(NamedTuple):
    """Which way a fit takes. Times are those of one core of 2024 in nanoseconds.

    The first ones say whether a fit may take a way that not all fits take.
    """

    # Problems of few samples may be solved whole, in compiled calls; else all are decomposed.
    small: bool = True
    # The rows of a problem may form one working set, which is solved in the order of LIBSVM.
    whole: bool = True
    # Newton steps on the free rows may be taken between steps of few multipliers.
    newton: bool = True
    # The interior-point method may solve a problem on which steps are slow.
    interior: bool = True
    # Equal rows may be merged into one.
    merged: bool = True
    # Dense rows whose values stand on a grid of 256 may be multiplied as bytes.
    byte_products: bool = True
    # A working set that is solved without working sets of its own has so many rows at most.
    block_rows: int = 3072
    # Whole kernel rows are computed only for multipliers that changed where rows are long: they have at least so many
    # times the values that a working set has.
    long_rows: int = 8
    # Kernel rows of values that take so little time are not stored, because reading them is slower.
    recomputed_ns: float = 0.8
    # Pairs of classes share the kernel within each class if one of them has more rows.
    shared_rows: int = 1024
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
