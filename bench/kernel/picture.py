"""Bars of ratios beside seconds; for a series, curves over n."""

from textwrap import shorten
from typing import Any

import numpy as np

from bench.harness.axes import colours_of, plain_ticks
from bench.harness.competitor import OURS
from bench.harness.growth import exponent, points
from bench.harness.outcomes import Result
from bench.harness.suite import Finished

__all__ = ["figure"]

_LEAST_MB = 1.0  # smaller values are drawn here: the axis is logarithmic


def figure(finished: list[Finished], clock: str, timeout: float) -> Any:
    """Return a figure of the results; ImportError if matplotlib is missing. `timeout` is in seconds."""
    colours = colours_of(finished)
    series = list(dict.fromkeys(one.case.series for one in finished if one.case.series))
    return _curves(finished, series, colours) if series else _bars_and_points(finished, clock, timeout, colours)


# --- ratios and seconds -------------------------------------------------------------------------------------


def _bars_and_points(finished: list[Finished], clock: str, timeout: float, colours: dict[str, str]) -> Any:
    from matplotlib.figure import Figure

    names = list(colours)
    seconds = {name: np.array([_seconds(name, one.results) for one in finished]) for name in names}
    figure = Figure(figsize=(11, 2.1 + 0.16 * len(finished) * (len(names) + 1)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    ours = seconds.get(OURS, np.full((len(finished), 3), np.nan))[:, 1]
    others = [name for name in names if name != OURS]
    limits = {name: np.array([_limit(name, one.results, timeout) for one in finished]) / ours for name in others}
    _bars(left, {name: seconds[name][:, 1] / ours for name in others}, limits, colours)
    left.axvline(1, color=colours.get(OURS, "grey"), linewidth=2)
    left.set_xlabel(f"time relative to {OURS} (line at 1)")
    _points(right, seconds, colours)
    _mark_unfinished(right, names, finished)
    right.set_xlabel(f"seconds of {clock}: median, min to max")
    left.set_yticks(range(len(finished)), [one.case.name for one in finished])
    left.set_ylim(len(finished) - 0.5, -0.5)
    for axes in (left, right):
        for place in range(1, len(finished)):
            axes.axhline(place - 0.5, color="lightgrey", linewidth=0.8)
    marks = right.get_legend_handles_labels()
    figure.legend(*marks, loc="outside lower center", ncols=len(names), frameon=False)
    return figure


def _seconds(name: str, results: list[Result]) -> tuple[float, float, float]:
    """Return least, median and most seconds of a competitor, NaN if it did not finish."""
    for one in results:
        if one.competitor == name and one.median_s is not None:
            return min(one.seconds), one.median_s, max(one.seconds)
    return np.nan, np.nan, np.nan


def _places(names: list[str], name: str, n_cases: int) -> np.ndarray:
    """Return the vertical positions of a competitor's marks, one a case, the same in both panels."""
    return np.arange(n_cases) + (names.index(name) - (len(names) - 1) / 2) * 0.84 / len(names)


def _limit(name: str, results: list[Result], timeout: float) -> float:
    """Return the timeout if a competitor exceeded it, else NaN."""
    ended = any(one.competitor == name and one.status == "timeout" for one in results)
    return timeout if ended else np.nan


def _bars(axes: Any, ratios: dict[str, np.ndarray], limits: dict[str, np.ndarray], colours: dict[str, str]) -> None:
    """Draw bars from ratio 1 on a logarithmic axis. The bars of competitors that were ended are open."""
    names = list(colours)
    for kind, found in (("", ratios), ("> ", limits)):
        for name, values in found.items():
            look = {"facecolor": "none", "hatch": "////"} if kind else {"facecolor": colours[name]}
            places, height = _places(names, name, len(values)), 0.75 / len(names)
            bars = axes.barh(places, values - 1, left=1, height=height, edgecolor=colours[name], **look)
            texts = [f"{value:.0f}" if value >= 10 else f"{value:.2g}" for value in values]
            labels = ["" if np.isnan(value) else kind + text for value, text in zip(values, texts, strict=True)]
            axes.bar_label(bars, labels, padding=3, fontsize=8)
    found = np.concatenate([[1.0], *ratios.values(), *limits.values()])
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, np.nanmin(found) / 1.6), max(2, np.nanmax(found) * 1.6))
    plain_ticks(axes.xaxis)


def _points(axes: Any, seconds: dict[str, np.ndarray], colours: dict[str, str]) -> None:
    for name, values in seconds.items():
        places = _places(list(colours), name, len(values))
        spread = np.abs(values[:, [0, 2]] - values[:, 1:2]).T
        axes.errorbar(values[:, 1], places, xerr=spread, fmt="o", ms=4, color=colours[name], capsize=3, label=name)
    axes.set_xscale("log")
    plain_ticks(axes.xaxis)
    axes.grid(axis="x", alpha=0.3)


def _mark_unfinished(axes: Any, names: list[str], finished: list[Finished]) -> None:
    """Write why a competitor has no time."""
    for name in names:
        places = _places(names, name, len(finished))
        for place, (_, _, results) in zip(places, finished, strict=True):
            for one in results:
                if one.competitor == name and one.status != "ok":
                    text = f" {name}: {shorten(one.message or one.status, 60)}"
                    axes.text(0, place, text, va="center", fontsize=8, transform=axes.get_yaxis_transform())


# --- curves -------------------------------------------------------------------------------------------------


def _curves(finished: list[Finished], series: list[str], colours: dict[str, str]) -> Any:
    """Draw time and memory against the number of rows, one line of panels a series."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 0.8 + 4 * len(series)), layout="constrained")
    for (left, right), one in zip(figure.subplots(len(series), 2, squeeze=False), series, strict=True):
        for name, colour in colours.items():
            n, seconds, added = points(finished, one, name)
            slope = exponent(n, seconds)
            label = name if slope is None else f"{name}: $n^{{{slope:.2f}}}$"
            left.loglog(n, seconds, "o-", color=colour, label=label)
            right.loglog(n, np.maximum(added, _LEAST_MB), "o-", color=colour, label=name)
        left.set_ylabel("seconds of a fit")
        right.set_ylabel(f"MB added at the peak of a fit (at least {_LEAST_MB:g})")
        marks = left.get_legend_handles_labels()
        right.legend(*marks, frameon=False, title="time grows as", loc="center left", bbox_to_anchor=(1.02, 0.5))
        sizes = sorted({case.data_shape[0] for case in finished if case.case.series == one})
        for axes in (left, right):
            axes.set_title(one)
            axes.set_xlabel("samples")
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.minorticks_off()
            plain_ticks(axes.yaxis)
            axes.grid(alpha=0.3)
    return figure
