"""Sizes of products and factorizations."""

from typing import NamedTuple

__all__ = ["ProductsTuning"]


class ProductsTuning(NamedTuple):
    """How much of a product is a piece of work. No result depends on it beyond rounding."""

    # A tile of a factorization has so many rows and columns, and rows of a kernel matrix are drawn so many at a time.
    tile: int = 192
    # A thread computes products, scores or sums of so many rows at a time.
    piece_rows: int = 1024
