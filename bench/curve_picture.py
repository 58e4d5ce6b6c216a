"""How do objective and accuracy come down and up with time? A line of panels a case, one curve a competitor."""

from typing import Any

from bench.curves import Point, curve_of
from bench.picture import colours_of, plain_ticks
from bench.tables import Finished

__all__ = ["figure"]

_MARKS = "osDv^P"


def figure(finished: list[Finished], clock: str, timeout: float) -> Any:
    """Return a figure; ImportError if matplotlib is missing."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    colours = colours_of(finished)
    marks = dict(zip(colours, _MARKS * len(colours), strict=False))
    drawn = Figure(figsize=(12, 1.6 + 3.6 * len(finished)), layout="constrained")
    for (left, right), one in zip(drawn.subplots(len(finished), 2, squeeze=False), finished, strict=True):
        curves = {each.competitor: curve_of(each) for each in one.results}
        found = sorted({point.objective for curve in curves.values() for point in curve}) or [0.0]
        best, floor = found[0], 0.5 * (found[1] - found[0] if len(found) > 1 else 1.0)
        for name, curve in curves.items():
            look = {"color": colours[name], "marker": marks[name], "ms": 5, "label": name}
            seconds = [point.seconds for point in curve]
            left.plot(seconds, _above(curve, best, floor), **look)
            right.plot(seconds, [point.accuracy for point in curve], **look)
            _write_epochs(left, curve, seconds, _above(curve, best, floor), colours[name])
        left.axhline(floor, color="grey", linewidth=0.8, linestyle=":")
        _dress(left, right, one, best, clock)
    handles = [Line2D([], [], color=colours[name], marker=marks[name], ms=5, label=name) for name in colours]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return drawn


def _above(curve: list[Point], best: float, floor: float) -> list[float]:
    """Return how far a curve is above the best objective; the best itself, of no logarithm, is on the floor."""
    return [max(point.objective - best, floor) for point in curve]


def _write_epochs(axes: Any, curve: list[Point], x: list[float], y: list[float], colour: str) -> None:
    """Write the number of epochs at the first and the last point."""
    for place in (0, -1) if curve else ():
        axes.annotate(
            f"{curve[place].epochs}", (x[place], y[place]), (4, 4), textcoords="offset points", fontsize=8, color=colour
        )


def _dress(left: Any, right: Any, one: Finished, best: float, clock: str) -> None:
    for axes in (left, right):
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set_xlabel(f"seconds of {clock}")
        axes.grid(alpha=0.3)
    left.set_yscale("log")
    left.set_title(f"{one.case.name}: objective, numbers are epochs", fontsize=11)
    left.set_ylabel(f"above the best, {best:.6g} (dotted line)")
    right.set_title(f"{one.case.name}: accuracy", fontsize=11)
    right.set_ylabel("share of test rows")
