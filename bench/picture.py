"""How do the times compare at a glance? Ratios as bars, and seconds on a logarithmic axis."""

from pathlib import Path
from typing import Any

import numpy as np

from bench.cases import Case
from bench.competitors import OURS
from bench.runs import Result

__all__ = ["draw"]

_COLOURS = ("#1b6ca8", "#e07a1f", "#6a8f3c", "#8e5ba6", "#b23a48", "#5f6b73")


def draw(title: str, cases: list[tuple[Case, list[Result]]], path: Path) -> None:
    """Draw the results to a file; ImportError if matplotlib is missing."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(one.competitor for _, results in cases for one in results))
    colours = dict(zip(names, _COLOURS * len(names), strict=False))
    seconds = {name: np.array([_fit_seconds(name, results) for _, results in cases]) for name in names}
    figure = Figure(figsize=(11, 1.8 + 0.32 * len(cases) * (len(names) + 1)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    ours = seconds.get(OURS, np.full((len(cases), 3), np.nan))[:, 1:2]
    _bars(left, {name: values / ours for name, values in seconds.items() if name != OURS}, colours)
    left.axvline(1, color=colours.get(OURS, "grey"), linewidth=2)
    left.set_xlabel(f"time relative to {OURS} (line at 1)")
    _points(right, seconds, colours)
    _mark_unfinished(right, names, cases)
    right.set_xlabel("seconds of a fit: median, min to max")
    left.set_yticks(range(len(cases)), [case.name for case, _ in cases])
    left.set_ylim(len(cases) - 0.5, -0.5)
    figure.suptitle(title)
    marks = right.get_legend_handles_labels()
    figure.legend(*marks, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(path, dpi=150)


def _fit_seconds(name: str, results: list[Result]) -> tuple[float, float, float]:
    """Return least, median and most seconds of a competitor, NaN if it did not finish."""
    for one in results:
        if one.competitor == name and one.median_s is not None:
            return min(one.fit_s), one.median_s, max(one.fit_s)
    return np.nan, np.nan, np.nan


def _places(count: int, index: int, n_cases: int) -> np.ndarray:
    """Return the heights of a competitor's marks, one a case."""
    return np.arange(n_cases) + (index - (count - 1) / 2) * 0.8 / max(count, 1)


def _bars(axes: Any, ratios: dict[str, np.ndarray], colours: dict[str, str]) -> None:
    for index, (name, values) in enumerate(ratios.items()):
        places = _places(len(ratios), index, len(values))
        bars = axes.barh(places, values[:, 1], height=0.75 / len(ratios), color=colours[name])
        axes.bar_label(bars, [f"{value:.2f}" if value == value else "" for value in values[:, 1]], padding=3)
    longest = np.nanmax([1.0, *(value for values in ratios.values() for value in values[:, 1])])
    axes.set_xlim(0, 1.15 * longest)


def _points(axes: Any, seconds: dict[str, np.ndarray], colours: dict[str, str]) -> None:
    for index, (name, values) in enumerate(seconds.items()):
        places = _places(len(seconds), index, len(values))
        spread = np.abs(values[:, [0, 2]] - values[:, 1:2]).T
        axes.errorbar(values[:, 1], places, xerr=spread, fmt="o", color=colours[name], capsize=3, label=name)
    axes.set_xscale("log")
    axes.grid(axis="x", alpha=0.3)


def _mark_unfinished(axes: Any, names: list[str], cases: list[tuple[Case, list[Result]]]) -> None:
    """Write why there is no time where a competitor did not finish."""
    for index, name in enumerate(names):
        places = _places(len(names), index, len(cases))
        for place, (_, results) in zip(places, cases, strict=True):
            for one in results:
                if one.competitor == name and one.status != "ok":
                    text = f" {name}: {one.message or one.status}"
                    axes.text(0, place, text, va="center", transform=axes.get_yaxis_transform())
