"""Numbers of the commands and their jobs, and sizes of pictures."""

from typing import NamedTuple

__all__ = ["JobsTuning", "Look"]


class JobsTuning(NamedTuple):
    """How often a job speaks, saves and tries again, and how much it does in between. Times are in seconds."""

    # A block of rows that are predicted, or written in another order, has at most so many rows.
    block_rows: int = 16_384
    # It has at most so many decision values, which take 64 MiB.
    decisions: int = 1 << 23
    # Where there is no terminal, a line says every so often how far a job is. A full disk is given as much time.
    say_s: float = 30.0
    # The log gets an event of progress, and predictions a journal, no more often than this.
    log_s: float = 2.0
    # A step that a signal should end may take so long. As long is waited before writing is tried again.
    wait_s: float = 1.0
    # Saving what is done so far may take this share of the time.
    save_share: float = 0.02
    # A search may take this share of the limit of time, and its samples as much of the memory.
    search_share: float = 0.5
    # A run keeps so many checkpoints, for the last one may be damaged.
    checkpoints: int = 2
    # The samples of so many classes are counted where a file is described.
    counted_classes: int = 50
    # Code is compiled for so few samples, whose kernel values are float64, and for so many, which fit no working set.
    warm_few: int = 300
    warm_many: int = 5000
    # Samples have so many features then, enough for products of bytes. Further epochs run the same code.
    warm_features: int = 40
    warm_epochs: int = 5


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
