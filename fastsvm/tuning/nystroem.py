"""Numbers of machines of landmarks."""

from typing import NamedTuple

__all__ = ["NystroemTuning"]


class NystroemTuning(NamedTuple):
    """How features are stored and read. Each of the first three says whether a way may be taken."""

    # Rows are learnt in an order that mixes classes, and few rows once each; else in their own order.
    mixed: bool = True
    # Features of bounded kernels are in half precision where memory does not hold more of them.
    halves: bool = True
    # Rows that bounds need again and again are read into memory.
    kept: bool = True
    # Up to so many values, features are in double precision, which costs little then.
    exact_values: int = 1 << 22
