"""Objectives over time, and seconds of each epoch beside a reading of the file."""

from typing import Any

from bench.harness.axes import plain_ticks
from bench.harness.competitor import OURS
from bench.harness.suite import Finished
from bench.streaming.comparison import Measured, measured, with_times
from bench.streaming.competitors import LOOPS, READING

__all__ = ["figure"]

_FIT, _READ = "#1b6ca8", "black"
_LOOP = dict(zip(LOOPS, (("#e07a1f", "s"), ("#6a8f3c", "D")), strict=True))


def figure(finished: list[Finished], clock: str, timeout: float) -> Any:
    """Return matplotlib's figure, two panels a case."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(12, 0.6 + 4.8 * len(finished)), layout="constrained")
    panels = drawn.subplots(len(finished), 2, width_ratios=(3, 2), squeeze=False)
    for (left, right), one in zip(panels, finished, strict=True):
        found = with_times(measured(one))
        if OURS in found and READING in found:
            _draw_curves(left, found)
            _draw_epochs(right, found)
        rows, features = one.data_shape
        left.set_title(f"{rows:,} × {features:,} bytes, memory={one.case.parameters.memory}: objective", fontsize=11)
    return drawn


def _draw_curves(axes: Any, found: Measured) -> None:
    bound = max(value for value in found[OURS]["history"]["dual_objective"] if value is not None)
    ours = [(one["after_s"], one["objective"]) for one in found[OURS]["points"] if one["objective"] is not None]
    curves = [("fastsvm.LinearSVC, a point for each epoch", (_FIT, "o"), ours)]
    for name, look in _LOOP.items():
        curve = [(one["seconds"], one["objective"]) for one in found.get(name, {"points": []})["points"]]
        curves.append((f"scikit-learn's partial_fit, {name}", look, curve))
    for name, (colour, mark), curve in curves:
        if not curve:  # the time was over before an objective was known
            continue
        seconds, objectives = zip(*curve, strict=True)
        axes.plot(seconds, [value / bound - 1 for value in objectives], color=colour, marker=mark, ms=5, label=name)
    axes.axvline(found[READING]["first_s"], color=_READ, linestyle=":", label="one reading of the file from the disk")
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_ticks(axes.xaxis)
    axes.set_xlabel("seconds since the fit began")
    axes.set_ylabel(f"relative distance from a lower bound, {bound:.6g}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)


def _draw_epochs(axes: Any, found: Measured) -> None:
    points, read = found[OURS]["points"], found[READING]
    axes.bar([one["epoch"] for one in points], [one["epoch_s"] for one in points], color=_FIT, label="an epoch")
    for name, style, text in (("first_s", ":", "from the disk"), ("again_s", "--", "from the page cache")):
        axes.axhline(read[name], color=_READ, linestyle=style, label=f"one reading of the file {text}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("epoch")
    axes.set_ylabel("seconds")
    axes.margins(y=0.25)
    axes.legend(frameon=False, fontsize=9, loc="upper right")
    axes.set_title("epochs of the fit", fontsize=11)
