"""How near is the optimum after which time, and how long is an epoch beside a reading of the file?"""

from typing import Any

from bench.picture import plain_ticks
from bench.streaming.comparison import LOOPS

__all__ = ["figure"]

_FIT, _READ = "#1b6ca8", "black"
_LOOP = dict(zip(LOOPS, (("#e07a1f", "s"), ("#6a8f3c", "D")), strict=True))


def figure(found: dict[str, Any]) -> Any:
    """Return matplotlib's figure."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(12, 5.4), layout="constrained")
    left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
    _draw_curves(left, found)
    _draw_epochs(right, found)
    asked, mb = found["asked"], found["reading"]["mb"]
    drawn.suptitle(
        f"A linear SVM of {asked['rows']:,} × {asked['features']:,} bytes ({mb:,.0f} MB) from a file, "
        f'memory="{asked["memory"]}"\n{found["machine"]["cpu"]}, {asked["threads"]} threads'
    )
    return drawn


def _draw_curves(axes: Any, found: dict[str, Any]) -> None:
    bound = max(value for value in found["fit"]["history"]["dual_objective"] if value is not None)
    ours = [(one["after_s"], one["objective"]) for one in found["fit"]["points"] if one["objective"] is not None]
    curves = [("fastsvm.LinearSVC, a point an epoch", (_FIT, "o"), ours)]
    for name, look in _LOOP.items():
        curve = [(one["seconds"], one["objective"]) for one in found[name]["points"]]
        curves.append((f"scikit-learn's partial_fit, {name}", look, curve))
    for name, (colour, mark), curve in curves:
        if not curve:  # of a fit whose time was over before an objective was known
            continue
        seconds, objectives = zip(*curve, strict=True)
        axes.plot(seconds, [value / bound - 1 for value in objectives], color=colour, marker=mark, ms=5, label=name)
    axes.axvline(found["reading"]["first_s"], color=_READ, linestyle=":", label="the file is read once, from the disk")
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_ticks(axes.xaxis)
    axes.set_xlabel("seconds since the fit began")
    axes.set_ylabel(f"objective above a lower bound, {bound:.6g}, relatively")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title("Objective", fontsize=11)


def _draw_epochs(axes: Any, found: dict[str, Any]) -> None:
    points, read = found["fit"]["points"], found["reading"]
    axes.bar([one["epoch"] for one in points], [one["epoch_s"] for one in points], color=_FIT, label="an epoch")
    for name, style, text in (("first_s", ":", "from the disk"), ("again_s", "--", "again")):
        axes.axhline(read[name], color=_READ, linestyle=style, label=f"the file is read once, {text}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("epoch")
    axes.set_ylabel("seconds")
    axes.margins(y=0.25)
    axes.legend(frameon=False, fontsize=9, loc="upper right")
    axes.set_title("Epochs of the fit", fontsize=11)
