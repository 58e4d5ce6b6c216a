"""Objective and accuracy over time: two panels for each case, one curve for each competitor."""

from typing import Any

from bench.harness.axes import colours_of, plain_ticks
from bench.harness.suite import Finished
from bench.linear.curves import Point, curve_of

__all__ = ["figure"]

_MARKS = "osDv^PX*"
_LEAST = 1e-6  # smaller distances are drawn here
_ACCURACIES = 0.1  # below the best that are shown: worse ones would squeeze the others together
_NAMES = 6  # in a line of the legend


def figure(finished: list[Finished], clock: str, timeout: float, goal: float | None = None) -> Any:
    """Return a figure with a line at the `goal`, a relative distance. Raise ImportError if matplotlib is missing."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    colours = colours_of(finished)
    marks = dict(zip(colours, _MARKS * len(colours), strict=False))
    drawn = Figure(figsize=(12, 1.6 + 3.6 * len(finished)), layout="constrained")
    for (left, right), one in zip(drawn.subplots(len(finished), 2, squeeze=False), finished, strict=True):
        curves = {each.competitor: curve_of(each) for each in one.results}
        found = sorted({point.objective for curve in curves.values() for point in curve}) or [1.0]
        best, floor = found[0], _floor(found)
        for name, curve in curves.items():
            look = {"color": colours[name], "marker": marks[name], "ms": 5, "label": name}
            seconds = [point.seconds for point in curve]
            left.plot(seconds, _above(curve, best, floor), **look)
            right.plot(seconds, [point.accuracy for point in curve], **look)
            _write_budgets(left, curve, seconds, _above(curve, best, floor), colours[name])
        left.axhline(floor, color="grey", linewidth=0.8, linestyle=":")
        if goal:
            left.axhline(goal, color="black", linewidth=1, linestyle="--")
        _dress(left, right, one, best, clock)
        _leave_out_the_worst(right, [point.accuracy for curve in curves.values() for point in curve])
    handles = [Line2D([], [], color=colours[name], marker=marks[name], ms=5, label=name) for name in colours]
    if goal:
        handles.append(Line2D([], [], color="black", linewidth=1, linestyle="--", label=f"{goal:.1%} above the best"))
    drawn.legend(handles=handles, loc="outside lower center", ncols=min(_NAMES, len(handles)), frameon=False)
    return drawn


def _floor(found: list[float]) -> float:
    """Return where the best is drawn: its distance, 0, has no logarithm, so it is put below the next."""
    return max(_LEAST, 0.5 * (found[1] / found[0] - 1)) if len(found) > 1 else 1.0


def _above(curve: list[Point], best: float, floor: float) -> list[float]:
    """Return the relative distance of each point from the best objective. The best itself is on the floor."""
    return [max(point.objective / best - 1, floor) for point in curve]


def _leave_out_the_worst(axes: Any, accuracies: list[float]) -> None:
    least = max(accuracies, default=0) - _ACCURACIES
    if min(accuracies, default=0) < least:
        axes.set_ylim(bottom=least)


def _write_budgets(axes: Any, curve: list[Point], x: list[float], y: list[float], colour: str) -> None:
    """Write the budget at the first and the last point."""
    for place in (0, -1) if curve else ():
        axes.annotate(
            f"{curve[place].budget:g}",
            (x[place], y[place]),
            (4, 4),
            textcoords="offset points",
            fontsize=8,
            color=colour,
        )


def _dress(left: Any, right: Any, one: Finished, best: float, clock: str) -> None:
    for axes in (left, right):
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set_xlabel(f"seconds of {clock}")
        axes.grid(alpha=0.3)
    left.set_yscale("log")
    left.set_title(f"{one.case.name}: objective, numbers are budgets", fontsize=11)
    left.set_ylabel(f"relative distance from the best, {best:.6g} (dotted)")
    right.set_title(f"{one.case.name}: accuracy", fontsize=11)
    right.set_ylabel("share of test samples")
