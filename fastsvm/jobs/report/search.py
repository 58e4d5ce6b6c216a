"""Results of a search: scores over one parameter, a curve for each choice of the others, and a table of all cells."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastsvm.jobs.report.html import Html, joined, shown, table
from fastsvm.jobs.report.svg import Axes, Line, chart
from fastsvm.jobs.training.job_file import Job
from fastsvm.jobs.training.search import best_of
from fastsvm.tuning import current_tuning

__all__ = ["search_results"]

_LOOKS = ("line first", "line second", "line third")


def search_results(cells: Sequence[dict[str, Any]], job: Job) -> Html:
    """Return a chart and a table of the cells of a search, nothing without a search."""
    if not cells:
        return Html("")
    best = best_of(job, cells)
    note = Html(f'<p class="note">Mean scores over {job.folds:,} folds of the training samples.</p>')
    return joined([note, Html(f'<div class="pair">{joined([_curves(cells, best, job), _cells(cells, best)])}</div>')])


def _curves(cells: Sequence[dict[str, Any]], best: dict[str, Any], job: Job) -> Html:
    """Return the scores over the parameter with the most values, on a logarithmic axis if they span a factor of 10."""
    numbers = {name: values for name, values in job.grid.items() if len(values) > 1 and all(map(_is_number, values))}
    if not numbers:
        return Html("")
    along = max(numbers, key=lambda name: len(numbers[name]))
    is_log = min(numbers[along]) > 0 and max(numbers[along]) >= 10 * min(numbers[along])
    groups: dict[str, list] = {}
    for cell in cells:
        others = {name: value for name, value in cell["parameters"].items() if name != along}
        value = cell["parameters"][along]
        groups.setdefault(str(shown(others)), []).append((np.log10(value) if is_log else value, cell["mean_score"]))
    name = str(shown({name: value for name, value in best["parameters"].items() if name != along}))
    lines = [_line(words, points, k, len(groups), words == name) for k, (words, points) in enumerate(groups.items())]
    note = "" if len(groups) <= len(_LOOKS) else f"Curves of {len(groups):,} choices; the best one is named."
    axis = f"log₁₀ {along}" if is_log else along
    return chart(lines, Axes("Mean score", axis, "score"), note)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _line(name: str, points: list[tuple], k: int, n: int, is_best: bool) -> Line:
    x, y = np.array(sorted(points), np.float64).T
    if n <= len(_LOOKS):
        return Line(name if n > 1 else "", x, y, _LOOKS[k])
    return Line(name, x, y, "line second") if is_best else Line("", x, y, "pale first")


def _cells(cells: Sequence[dict[str, Any]], best: dict[str, Any]) -> Html:
    order = sorted(cells, key=lambda cell: (cell is not best, -cell["mean_score"]))
    names = list(best["parameters"])
    head = ("", *names, "mean score", "standard deviation")
    rows = [
        ("chosen" if cell is best else "", *(shown(cell["parameters"][name]) for name in names), cell["mean_score"],
         cell["std_score"])
        for cell in order
    ]  # fmt: skip
    most = current_tuning().limits.shown
    parts = [table(head, rows[:most])]
    if rest := rows[most:]:
        parts.append(Html(f"<details><summary>{len(rest):,} more</summary>{table(head, rest)}</details>"))
    return Html(f"<div>{joined(parts)}</div>")
