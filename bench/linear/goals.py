"""Who comes near the best objective after which time?

Nothing is interpolated: the time is that of the fastest whole fit with a budget that suffices.
"""

from typing import Any

from bench.harness.competitor import OURS
from bench.harness.outcomes import Options, Result
from bench.harness.suite import Finished
from bench.harness.text import aligned, number, parts_of
from bench.linear.curves import Point, chosen_by, curve_of, notes_on, ours

__all__ = ["GOAL", "compared", "lines"]

GOAL, SAME = 0.005, 1e-6
"""Relative distances from the best objective that count as near, and as the same."""


def compared(result: Result, finished: Finished, goal: float = GOAL) -> dict[str, Any]:
    """Return a competitor's curve, where it is within the `goal`, and the ratio to ours, for the JSON file."""
    curve, best = curve_of(result), _best(finished.results)
    there, ours_there = _arrival(curve, best, goal), _arrival(ours(finished.results), best, goal)
    return {
        "best": best,
        "curve": [{**point._asdict(), "above": _above(point, best)} for point in curve],
        "arrival": there._asdict() if there else None,
        "ratio": there.seconds / ours_there.seconds if there and ours_there else None,
    }


def _best(results: list[Result]) -> float | None:
    """Return the best objective that anyone has reached."""
    return min((point.objective for one in results for point in curve_of(one)), default=None)


def _arrival(curve: list[Point], best: float | None, goal: float) -> Point | None:
    near = (point for point in curve if best is not None and _above(point, best) <= goal)
    return min(near, key=lambda point: point.seconds, default=None)


def _above(point: Point, best: float) -> float:
    return (point.objective - best) / abs(best)


def lines(finished: list[Finished], options: Options, goal: float = GOAL) -> list[str]:
    """Return the table, with notes below."""
    parts = parts_of(finished)
    rows = [(
        "case", "competitor", f"to {_words(goal)} s", "min-max s", "ratio", "budget", "accuracy", "last above best",
        "after s", "chosen", "peak MB", "added MB", *(f"{part} s" for part in parts),
    )]  # fmt: skip
    notes = []
    for each in finished:
        results = each.results
        rows += [_row(each, one, parts, goal) for one in results]
        told = ((one.competitor, text) for one in results for text in _notes(one, results, options, goal))
        notes += [f"{each.case.name}, {name}: {text}" for name, text in told]
    return [*aligned(rows), *notes]


def _words(goal: float) -> str:
    return f"{goal:.1%}" if goal >= GOAL else f"{goal:g}"


def _row(finished: Finished, result: Result, parts: list[str], goal: float) -> tuple[str, ...]:
    curve, best = curve_of(result), _best(finished.results)
    there = _arrival(curve, best, goal)
    return (
        finished.case.name,
        result.competitor,
        *_times(result, there),
        number(compared(result, finished, goal)["ratio"], ".2f"),
        number(there and there.budget, "g"),
        *_end(curve, there, best),
        chosen_by(result),
        number(result.most("peak_mb"), ".0f"),
        number(result.most("added_mb"), ".0f"),
        *(number(result.part(part), ".2f") for part in parts),
    )


def _times(result: Result, there: Point | None) -> tuple[str, str]:
    """Return the median and the extremes of the seconds with the budget that suffices."""
    if not there:
        return ("failed" if result.status == "failed" else "not"), ""
    points = (point for record in result.records for point in record["points"])
    seconds = [point["seconds"] for point in points if point["budget"] == there.budget]
    return f"{there.seconds:.3f}", f"{min(seconds):.3f}-{max(seconds):.3f}"


def _end(curve: list[Point], there: Point | None, best: float | None) -> tuple[str, str, str]:
    """Return the accuracy near the best or at the end, the distance of the end from the best, and its seconds."""
    if not curve:
        return "", "", ""
    last = curve[-1]
    return f"{(there or last).accuracy:.4f}", f"{_above(last, best):.1e}", f"{last.seconds:.3f}"


def _notes(result: Result, results: list[Result], options: Options, goal: float) -> list[str]:
    curve = curve_of(result)
    notes = notes_on(result)
    if result.status != "failed" and not _arrival(curve, _best(results), goal):
        notes.insert(0, _missed(options.timeout if result.status == "timeout" else curve[-1].seconds, results, goal))
    return notes


def _missed(seconds: float, results: list[Result], goal: float) -> str:
    """Return a sentence about a competitor that does not come near the best."""
    there = _arrival(ours(results), _best(results), goal)
    ratio = f", which is {seconds / there.seconds:.3g} times as long as {OURS} takes" if there else ""
    return f"not within {_words(goal)} of the best objective after {seconds:.3g} s{ratio}"
