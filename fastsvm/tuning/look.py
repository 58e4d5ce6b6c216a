"""Sizes of pictures."""

from typing import NamedTuple

__all__ = ["Look"]


class Look(NamedTuple):
    """How pictures of models and reports look. Lengths are in pixels of a chart, which browsers scale."""

    # A chart is so wide, and 9/16 as high.
    width: int = 480
    # A line of text is so high, and its letters half as wide.
    line: int = 16
    # An axis has about so many ticks, and a legend names so many curves.
    ticks: int = 6
    # More points are smaller, drawn faintly and, in a chart, thinned out.
    points: int = 2000
    # The points of a curve are marked if there are fewer.
    marked: int = 40
    # So many curves of two-class problems are drawn, and so many means of losses and speeds.
    curves: int = 100
    # Objectives whose quotient is larger are drawn on a logarithmic axis.
    wide: float = 50.0
    # Gaps below this share of the tolerance, as exact steps leave, are drawn there.
    below: float = 0.01
    # Beyond the points, this share of their range is shown on each side, as Matplotlib does.
    padding: float = 0.05
    # Numbers have so many digits. Longer names of columns are vertical.
    digits: int = 4
    # Samples may be images from this side on, and are drawn with this side at most.
    least_side: int = 8
    most_side: int = 96
    # In images, neighbours differ by less than this share of the difference of other pixels.
    smooth: float = 0.8
    # An image takes this share of the side of its cell in a matrix.
    cell: float = 0.66
    # The deepest shade of a class has this share of its colour, and the tube of a regression the other.
    tint: float = 0.5
    tube: float = 0.18
