"""Who reaches which objective after which time? Curves over budgets as a table."""

import statistics
from typing import Any, NamedTuple

from bench.harness.competitor import OURS
from bench.harness.outcomes import Options, Result
from bench.harness.suite import Finished
from bench.harness.text import aligned, ending, number, parts_of, told

__all__ = ["Point", "chosen_by", "compared", "curve_of", "lines", "notes_on", "ours", "reached"]

_ROUNDING = 1e-6  # relative: the claimed objective is a sum in another order


class Point(NamedTuple):
    """A competitor with some budget: median seconds, and what the referee found."""

    budget: float
    seconds: float
    objective: float
    accuracy: float


def curve_of(result: Result) -> list[Point]:
    """Return the points of a competitor. Of several different curves, the worst at the end is taken.

    A competitor that was ended in its first run has the points before that. One that failed has none.
    """
    if result.status == "failed" or not result.findings:
        return []
    runs = zip(*(record["points"] for record in result.records), strict=True)
    points = max(result.findings, key=lambda one: one["objective"])["points"]
    return [
        Point(one["budget"], statistics.median(each["seconds"] for each in same), one["objective"], one["accuracy"])
        for one, same in zip(points, runs, strict=True)
    ]


def reached(curve: list[Point], objective: float) -> Point | None:
    """Return the first point of a curve that is as good as an objective."""
    return next((point for point in curve if point.objective <= objective), None)


def compared(result: Result, finished: Finished) -> dict[str, Any]:
    """Return a competitor's curve and where ours reaches its last objective, for the JSON file."""
    curve, found = curve_of(result), _ours_reaches(result, finished.results)
    return {
        "curve": [point._asdict() for point in curve],
        "reached": found._asdict() if found else None,
        "ratio": curve[-1].seconds / found.seconds if found else None,
    }


def _ours_reaches(result: Result, results: list[Result]) -> Point | None:
    """Return the first point of our curve that is as good as the last of a competitor's."""
    curve, own = curve_of(result), ours(results)
    return reached(own, curve[-1].objective) if curve else None


def ours(results: list[Result]) -> list[Point]:
    """Return the curve of fastsvm, which is empty if it took no part."""
    return next((curve_of(one) for one in results if one.competitor == OURS), [])


def lines(finished: list[Finished], options: Options) -> list[str]:
    """Return the table, with notes below."""
    parts = parts_of(finished)
    rows = [(
        "case", "competitor", "epochs", "median s", "min-max s", "objective", "accuracy", f"{OURS} there after s",
        "ratio", "chosen", "peak MB", "added MB", *(f"{part} s" for part in parts),
    )]  # fmt: skip
    notes = []
    for case in finished:
        rows += [_row(case, one, options, parts) for one in case.results]
        notes += [f"{case.case.name}, {one.competitor}: {text}" for one in case.results for text in notes_on(one)]
    return [*aligned(rows), *notes]


def _row(finished: Finished, result: Result, options: Options, parts: list[str]) -> tuple[str, ...]:
    seconds, last = result.seconds, curve_of(result)[-1:]
    return (
        finished.case.name,
        result.competitor,
        "".join(f"{point.budget:g}" for point in last),
        f"{result.median_s:.3f}" if result.status == "ok" else ending(result, options),
        f"{min(seconds):.3f}-{max(seconds):.3f}" if seconds else "",
        *(f"{point.objective:.6g}" for point in last),
        *(f"{point.accuracy:.4f}" for point in last),
        *(() if last else ("", "")),
        *_comparison(result, finished),
        chosen_by(result),
        number(result.most("peak_mb"), ".0f"),
        number(result.most("added_mb"), ".0f"),
        *(number(result.part(part), ".2f") for part in parts),
    )


def chosen_by(result: Result) -> str:
    """Return the learning rates, or rules, that were chosen."""
    names = {None: "", "": "default"}
    return ", ".join(dict.fromkeys(names.get(one["chosen"], str(one["chosen"])) for one in result.records))


def notes_on(result: Result) -> list[str]:
    """Return why a competitor did not finish, its warnings, and wrong claims."""
    off = max((one["off"] or 0 for each in result.findings for one in each["points"]), default=0)
    wrong = (
        [f"the objectives that it claims differ from those found by up to {off:.1e}, relatively"]
        if off > _ROUNDING
        else []
    )
    return [*wrong, *told(result)]


def _comparison(result: Result, finished: Finished) -> tuple[str, str]:
    """Return the seconds until ours is as good as the competitor at its end, and the ratio of times."""
    if result.competitor == OURS or not curve_of(result) or not ours(finished.results):
        return "", ""
    found = compared(result, finished)
    if not found["reached"]:
        return "not in its epochs", ""
    return f"{found['reached']['seconds']:.3f}", f"{found['ratio']:.2f}"
