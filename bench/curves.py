"""Who reaches which objective after which time? Curves over epochs, as text and as numbers."""

import statistics
from typing import Any, NamedTuple

from bench.cases import Case
from bench.competitors import OURS
from bench.outcomes import Options, Result
from bench.tables import Finished, aligned, ending, number, parts_of, told

__all__ = ["Point", "compared", "curve_of", "lines", "reached"]


class Point(NamedTuple):
    """Where a competitor is after some epochs: median seconds, and what the referee found."""

    epochs: int
    seconds: float
    objective: float
    accuracy: float


def curve_of(result: Result) -> list[Point]:
    """Return the points of a competitor, of several different answers the one that ends worst; none if it failed."""
    if result.median_s is None or not result.findings:
        return []
    seconds = [
        statistics.median(one["seconds"] for one in same)
        for same in zip(*(record["points"] for record in result.records), strict=True)
    ]
    points = max(result.findings, key=lambda one: one["objective"])["points"]
    return [
        Point(one["epochs"], spent, one["objective"], one["accuracy"])
        for one, spent in zip(points, seconds, strict=True)
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
    curve, ours = curve_of(result), _ours(results)
    return reached(ours, curve[-1].objective) if curve else None


def _ours(results: list[Result]) -> list[Point]:
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
        notes += [f"{case.name}, {one.competitor}: {text}" for one in results for text in told(one)]
    return [*aligned(rows), *notes]


def _row(case: Case, result: Result, results: list[Result], options: Options, parts: list[str]) -> tuple[str, ...]:
    seconds, last = result.seconds, curve_of(result)[-1:]
    return (
        case.name,
        result.competitor,
        str(case.parameters.epochs),
        f"{result.median_s:.3f}" if result.status == "ok" else ending(result, options),
        f"{min(seconds):.3f}-{max(seconds):.3f}" if seconds else "",
        *(f"{point.objective:.6g}" for point in last or ()),
        *(f"{point.accuracy:.4f}" for point in last or ()),
        *(() if last else ("", "")),
        *_comparison(result, results),
        ", ".join(dict.fromkeys(_chosen(one) for one in result.records)),
        number(result.most("peak_mb"), ".0f"),
        number(result.most("added_mb"), ".0f"),
        *(number(result.part(part), ".2f") for part in parts),
    )


def _chosen(record: dict[str, Any]) -> str:
    return {None: "", "": "default"}.get(record["chosen"], str(record["chosen"]))


def _comparison(result: Result, results: list[Result]) -> tuple[str, str]:
    """Return after which seconds, and in how much less time, ours is as good as a competitor ends."""
    if result.competitor == OURS or not curve_of(result) or not _ours(results):
        return "", ""
    found = compared(result, results)
    if not found["reached"]:
        return "not in its epochs", ""
    return f"{found['reached']['seconds']:.3f}", f"{found['ratio']:.2f}"
