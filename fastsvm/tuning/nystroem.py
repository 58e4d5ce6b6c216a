"""Numbers of machines of landmarks."""

from typing import NamedTuple

__all__ = ["NystroemTuning"]


class NystroemTuning(NamedTuple):
    """How landmarks are chosen, and features stored and read. The first two say whether a way may be taken."""

    # Rows are learnt in an order that mixes classes; else in their own order.
    mixed: bool = True
    # Features of bounded kernels are in half precision where memory does not hold more of them.
    halves: bool = True
    # Up to so many values, features are in double precision, which costs little then.
    exact_values: int = 1 << 22
    # `n_components="auto"` is the smallest of `first`, twice as many, ... `most`, whose trace error, measured on
    # `sample_rows` rows, is at most `trace_error`. The docstrings of the estimators say so.
    first: int = 64
    most: int = 2048
    trace_error: float = 0.01
    sample_rows: int = 1024
    # Pivots are drawn from so many rows for each landmark, as the docstrings of the estimators say.
    pool: int = 16
    # Support vectors are sought among so many rows for each landmark, and among `most` at least. Each of these rows
    # takes so many bytes beside its own.
    learnt: int = 10
    learnt_bytes: int = 512
    # They are those of a machine of this tolerance. A smaller one would change few of them.
    support_tol: float = 1e-3
    # So many distant runs of a file are mixed.
    runs: int = 32
