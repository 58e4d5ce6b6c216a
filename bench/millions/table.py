"""Accuracy after which time, with how much memory, and how far from the exact problem?"""

import statistics
from typing import Any, NamedTuple

from bench.harness.competitor import OURS
from bench.harness.outcomes import Options, Result
from bench.harness.suite import Finished
from bench.harness.text import aligned, number, told

__all__ = ["Point", "compared", "failures", "lines", "points_of"]

_ROUNDING = 1e-5  # relative: features are float32 or float16, the referee's values float64


class Point(NamedTuple):
    """A competitor with some budget."""

    budget: int
    seconds: float
    peak_mb: float
    accuracy: float
    told: dict[str, Any]


def points_of(result: Result) -> list[Point]:
    """Return the points of a competitor, with median seconds. One that was ended has those before that."""
    if not result.findings:
        return []
    runs = list(zip(*(record["points"] for record in result.records), strict=False))
    return [
        Point(
            same[0]["budget"],
            statistics.median(each["seconds"] for each in same),
            max(each["peak_mb"] for each in same),
            found["accuracy"],
            same[0] | found,
        )
        for same, found in zip(runs, result.findings[0]["points"], strict=False)
    ]


def compared(result: Result, finished: Finished) -> dict[str, Any]:
    """Return the points and, for each, the seconds of our first fit that predicts no worse."""
    own = next((points_of(one) for one in finished.results if one.competitor == OURS), [])
    return {"curve": [{**point._asdict(), "ours_there_s": _there(own, point.accuracy)} for point in points_of(result)]}


def _there(curve: list[Point], accuracy: float) -> float | None:
    return next((point.seconds for point in curve if point.accuracy >= accuracy), None)


def lines(finished: list[Finished], options: Options) -> list[str]:
    """Return the table, with notes below."""
    rows = [(
        "case", "competitor", "budget", "fit s", "peak MB", "accuracy", f"{OURS} there after s",
        "bounds of the exact optimum", "trace error", "support vectors",
    )]  # fmt: skip
    notes = []
    for case in finished:
        own = next((points_of(one) for one in case.results if one.competitor == OURS), [])
        rows += [_row(case, one, point, own) for one in case.results for point in points_of(one)]
        notes += [f"{case.case.name}, {one.competitor}: {text}" for one in case.results for text in told(one)]
    return [*aligned(rows), *notes]


def _row(finished: Finished, result: Result, point: Point, own: list[Point]) -> tuple[str, ...]:
    said, bounds = point.told, point.told.get("bounds")
    return (
        finished.case.name,
        result.competitor,
        f"{point.budget:,}" if point.budget else "",
        f"{point.seconds:.2f}",
        f"{point.peak_mb:,.0f}",
        f"{point.accuracy:.4f}",
        "" if result.competitor == OURS else number(_there(own, point.accuracy), ".2f") or "not",
        f"{bounds[0]:.5g} to {bounds[1]:.5g}" if bounds else "",
        number(said.get("trace_error"), ".1e"),
        number(said.get("n_support"), ",d"),
    )


def failures(finished: Finished) -> list[str]:
    """Return a sentence for each bound that the referee refutes."""
    wrong = []
    for result in finished.results:
        exact = result.findings[0]["exact"] if result.findings else None
        for point in points_of(result):
            name = f"{finished.case.name}, {result.competitor} {point.budget}"
            lower, upper, objective = (point.told.get(key) for key in ("lower", "upper", "objective"))
            if objective is not None and abs(upper - objective) > _ROUNDING * abs(objective):
                wrong.append(f"{name}: it claims the objective {upper:.8g}, the referee finds {objective:.8g}")
            if exact and lower is not None and lower > exact[1] * (1 + _ROUNDING):
                wrong.append(f"{name}: the lower bound {lower:.8g} is above the minimum, at most {exact[1]:.8g}")
            if exact and upper is not None and upper < exact[0] * (1 - _ROUNDING):
                wrong.append(f"{name}: the upper bound {upper:.8g} is below the minimum, at least {exact[0]:.8g}")
    return wrong
