"""Accuracy over time: a panel for each case. Numbers are budgets."""

from typing import Any

from bench.harness.axes import colours_of, plain_ticks
from bench.harness.suite import Finished
from bench.millions.table import Point, points_of

__all__ = ["figure"]

_MARKS = "osDv^PX*"
_ACCURACIES = 0.08  # below the best that are shown: worse ones would squeeze the others together
_NAMES = 4  # in a line of the legend
_APART = 0.04  # share of the height of a panel between two labels, at least


def figure(finished: list[Finished], clock: str, timeout: float) -> Any:
    """Return a figure. Raise ImportError if matplotlib is missing."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    colours = colours_of(finished)
    marks = dict(zip(colours, _MARKS * len(colours), strict=False))
    drawn = Figure(figsize=(9, 1.6 + 3.8 * len(finished)), layout="constrained")
    for axes, one in zip(drawn.subplots(len(finished), 1, squeeze=False)[:, 0], finished, strict=True):
        accuracies, curves = [], {}
        for each in one.results:
            points = curves[colours[each.competitor]] = points_of(each)
            accuracies += [point.accuracy for point in points]
            seconds = [point.seconds for point in points]
            look = {"color": colours[each.competitor], "marker": marks[each.competitor], "ms": 5}
            axes.plot(seconds, [point.accuracy for point in points], **look)
            _write_first_budget(axes, points, colours[each.competitor])
        if accuracies and min(accuracies) < max(accuracies) - _ACCURACIES:
            axes.set_ylim(bottom=max(accuracies) - _ACCURACIES)
        _write_last_budgets(axes, curves)
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set_xlabel(f"seconds of {clock}")
        axes.grid(alpha=0.3)
        axes.set_title(f"{one.case.name}, {one.data_shape[0]:,} × {one.data_shape[1]}: accuracy", fontsize=11)
        axes.set_ylabel("share of test samples")
    handles = [Line2D([], [], color=colours[name], marker=marks[name], ms=5, label=name) for name in colours]
    drawn.legend(handles=handles, loc="outside lower center", ncols=min(_NAMES, len(handles)), frameon=False)
    return drawn


def _write_first_budget(axes: Any, points: list[Point], colour: str) -> None:
    if len(points) > 1:
        at = points[0].seconds, points[0].accuracy
        axes.annotate(
            f"{points[0].budget:,}", at, (0, -5), textcoords="offset points", fontsize=8, color=colour, ha="center",
            va="top",
        )  # fmt: skip


def _write_last_budgets(axes: Any, curves: dict[str, list[Point]]) -> None:
    """Write the last budgets beside the panel, with lines to their points: these lie close together."""
    ends = [(curve[-1], colour) for colour, curve in curves.items() if curve and curve[-1].budget]
    low, high = axes.get_ylim()
    place = -_APART
    for point, colour in sorted(ends, key=lambda end: end[0].accuracy):
        place = max(place + _APART, (point.accuracy - low) / (high - low))
        axes.annotate(
            f"{point.budget:,}", (point.seconds, point.accuracy), (1.03, place), textcoords="axes fraction",
            fontsize=8, color=colour, va="center", arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.4},
        )  # fmt: skip
