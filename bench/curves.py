"""Who reaches which objective after which time? Curves over budgets, as text and as numbers."""

import statistics
from typing import Any, NamedTuple

from bench.cases import Case
from bench.competitors import OURS
from bench.outcomes import Options, Result
from bench.tables import Finished, aligned, ending, number, parts_of, told

__all__ = ["Point", "chosen_by", "compared", "curve_of", "lines", "notes_on", "ours", "reached"]

_ROUNDING = 1e-6  # of an objective: what is claimed is found by sums in another order


class Point(NamedTuple):
    """Where a competitor is with some budget: median seconds, and what the referee found."""

    budget: float
    seconds: float
    objective: float
    accuracy: float


def curve_of(result: Result) -> list[Point]:
    """Return the points of a competitor, of several different answers the one that ends worst.

    If it was ended in its first run they are those before; if it failed there are none.
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


def compared(result: Result, results: list[Result]) -> dict[str, Any]:
    """Return a competitor's curve and when ours reaches what it ends with, for the JSON file."""
    curve, found = curve_of(result), _ours_reaches(result, results)
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
    """Return our curve, which is empty if we took no part."""
    return next((curve_of(one) for one in results if one.competitor == OURS), [])


def lines(finished: list[Finished], options: Options) -> list[str]:
    """Return the table, with notes below."""
    parts = parts_of(finished)
    rows = [(
        "case", "competitor", "epochs", "median s", "min-max s", "objective", "accuracy", f"{OURS} there after s",
        "ratio", "chosen", "peak MB", "added MB", *(f"{part} s" for part in parts),
    )]  # fmt: skip
    notes = []
    for case, _, results in finished:
        rows += [_row(case, one, results, options, parts) for one in results]
        notes += [f"{case.name}, {one.competitor}: {text}" for one in results for text in notes_on(one)]
    return [*aligned(rows), *notes]


def _row(case: Case, result: Result, results: list[Result], options: Options, parts: list[str]) -> tuple[str, ...]:
    seconds, last = result.seconds, curve_of(result)[-1:]
    return (
        case.name,
        result.competitor,
        "".join(f"{point.budget:g}" for point in last),
        f"{result.median_s:.3f}" if result.status == "ok" else ending(result, options),
        f"{min(seconds):.3f}-{max(seconds):.3f}" if seconds else "",
        *(f"{point.objective:.6g}" for point in last),
        *(f"{point.accuracy:.4f}" for point in last),
        *(() if last else ("", "")),
        *_comparison(result, results),
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
    """Return why a competitor did not finish, what it warned of, and what it claims wrongly."""
    off = max((one["off"] or 0 for each in result.findings for one in each["points"]), default=0)
    wrong = [f"objectives that it claims are off by up to {off:.1e} of those found"] if off > _ROUNDING else []
    return [*wrong, *told(result)]


def _comparison(result: Result, results: list[Result]) -> tuple[str, str]:
    """Return after which seconds, and in how much less time, ours is as good as a competitor ends."""
    if result.competitor == OURS or not curve_of(result) or not ours(results):
        return "", ""
    found = compared(result, results)
    if not found["reached"]:
        return "not in its epochs", ""
    return f"{found['reached']['seconds']:.3f}", f"{found['ratio']:.2f}"
