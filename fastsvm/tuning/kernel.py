"""Numbers of kernel machines."""

from typing import NamedTuple


class KernelTuning(NamedTuple):
    """Which way a fit takes, and when a solver changes its way. Times are those of one core of 2024 in nanoseconds.

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

    # --- which solver takes steps of two multipliers
    # A problem of so many multipliers is small: steps on all of them stay in the processor's cache, kernel values in
    # float64 take no time that one would notice, and equal rows are not sought.
    few_rows: int = 2048

    # --- working sets
    # A working set that is solved without working sets of its own has so many rows at most.
    block_rows: int = 3072
    # A working set has so many rows in float32, which fit the processor's cache, and at first a quarter. The working
    # sets within a large one have as many. A large one has twice, four or eight times as many, and a Newton step four
    # times as many free rows at most.
    working_set: int = 1024
    # A working set, or one with working sets of its own, is solved to this share of the gap.
    set_gap: float = 0.02
    nested_gap: float = 0.1
    # A working set takes at most so many steps a row, and has at most so many working sets of its own.
    set_steps: int = 100
    # A fit is past its beginning after so many working sets, and in vain after as many in a row without progress, if
    # they took `many_steps` each in the mean.
    many_sets: int = 32
    # Whole kernel rows are computed only for multipliers that changed where rows are long: they have at least so many
    # times the values that a working set has.
    long_rows: int = 8

    # --- Newton steps, and the interior-point method
    # A problem is difficult after so many steps: a Newton step is tried, a small problem is left to decomposition, and
    # the interior-point method waits for those steps only that take as long as it does.
    many_steps: int = 20_000
    # A small problem tries one after so many.
    small_steps: int = 500
    # A step takes as long as so many multiplications of a factorisation, and one of a small problem as long as so many
    # operations of its factorisation a row.
    multiplications_of_step: float = 1e6
    step_operations: int = 6
    # The bounds within a Newton step are found in so many rounds, and polishing takes as many.
    rounds: int = 30
    # If a Newton step fixes a greater share of the rows at bounds, the free set is far from the right one.
    most_fixed: float = 0.25
    # Polishing takes Newton steps on so many free rows at most, and in small problems as many other steps between them.
    polished_rows: int = 300

    # --- kernel values
    # Kernel rows of values that take so little time are not stored, because reading them is slower.
    recomputed_ns: float = 0.8
    # Values among some thousand rows that take so little time are not stored either.
    nested_ns: float = 0.2
    # Values that take so little time are cheap: F is corrected in float64 by all of them, and the kernel among the rows
    # of a working set is computed rather than gathered from rows in memory. Others are copied by symmetry where many
    # rows are computed at once.
    cheap_ns: float = 4.0
    # Values that take so long are copied where few are, and working sets are twice as large.
    expensive_ns: float = 20.0
    # Once so large a share of the rows of a search was computed, all others are.
    singly_share: float = 0.4
    # All rows of a problem are computed at once if so large a share of them is expected to be needed.
    filled_share: float = 0.9

    # --- bytes, equal rows, and what is said
    # A whole kernel matrix of so many multiplications takes long enough to look for bytes.
    byte_multiplications: int = 1 << 31
    # So do predictions by support vectors of so many values.
    byte_values: int = 1 << 20
    # If a smaller share of the rows is equal to others, merging them does not pay for a copy of the other rows.
    repeated_share: float = 0.01
    # From so many samples of the largest problem on, a fit of some of them costs little beside it.
    many_samples: int = 150_000
    # That fit, of which the time of the whole one is guessed, has about so many samples of the largest problem.
    timed_samples: int = 10_000
    # A fit of so many seconds is long, which is said before it begins.
    long_seconds: float = 600.0

    # --- how much is done at once
    # A task for a thread takes about this time, of which handing it over is a hundredth.
    task_ns: float = 1e6
    # A compiled call takes about this time at most, a nanosecond for a comparison: no interrupt is noticed meanwhile.
    # As long may a matrix for several small problems take for each of them.
    call_ns: float = 2.5e7
