"""Numbers of searches for parameters."""

from typing import NamedTuple

__all__ = ["SearchTuning"]


class SearchTuning(NamedTuple):
    """Which fits of a search share kernel values."""

    # Fits with one kernel share its values; else each computes its own.
    shared: bool = True
    # With so many pairs of classes, each of at most so many rows, one compiled call solves all pairs of a fit alone.
    many_pairs: int = 45
    few_rows: int = 128
    # A multiplier takes so many bytes, with the number, label, bound and gradient of its row.
    multiplier_bytes: int = 48
