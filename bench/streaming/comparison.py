"""Which objective do the fit and the loops reach after which time?"""

from itertools import pairwise
from typing import Any

from bench.harness.competitor import OURS
from bench.harness.outcomes import Options, Result
from bench.harness.suite import Finished
from bench.harness.text import aligned, number, told
from bench.streaming.competitors import LOOPS, READING

__all__ = ["ALLOWED_MB", "Measured", "compared", "failures", "lines", "measured", "with_times"]

ALLOWED_MB = 900
"""Memory that the process of the fit may take, libraries included."""
_ROUNDING = 1e-6  # relative: the claimed objective is a sum in another order
_FULLY = 10  # epochs that are all shown; of the others only the last

Measured = dict[str, dict[str, Any]]


def measured(finished: Finished) -> Measured:
    """Return the record of each competitor that finished, with what the referee found."""
    return {
        one.competitor: {**one.records[0], **_judged(one.records[0], one.findings[0])}
        for one in finished.results
        if one.records and one.findings
    }


def _judged(record: dict[str, Any], finding: dict[str, Any]) -> dict[str, Any]:
    if "points" not in record:
        return {"found": finding["objective"]}
    pairs = zip(record["points"], finding["objectives"], strict=True)
    return {"points": [{**point, "objective": value} for point, value in pairs]}


def compared(result: Result, finished: Finished) -> dict[str, Any]:
    """Return the points of a curve with times of the others, for the JSON file."""
    found = with_times(measured(finished))
    return {"points": found.get(result.competitor, {}).get("points", [])}


def failures(finished: Finished) -> list[str]:
    """Return a sentence if the objective that the fit claims is not that of its weights."""
    fit = measured(finished).get(OURS)
    if not fit or abs(fit["objective"] / fit["found"] - 1) <= _ROUNDING:
        return []
    told = f"it claims the objective {fit['objective']:.10g}, the referee finds {fit['found']:.10g}"
    return [f"{finished.case.name}, {OURS}: {told}"]


def with_times(found: Measured) -> Measured:
    """Return what was measured and, for each point of one curve, when the other was as good.

    Points of the fit are compared with the first loop that is as good.
    """
    epochs = _epochs(found[OURS], found.get(READING)) if OURS in found else []
    ours = [(one["after_s"], one["objective"]) for one in epochs if one["objective"] is not None]
    loops = {name: found[name] for name in LOOPS if name in found}
    theirs = sorted((one["seconds"], one["objective"]) for loop in loops.values() for one in loop["points"])
    epochs = [{**one, "loop_there_s": _first(theirs, one["objective"])} for one in epochs]
    fit = {OURS: {**found[OURS], "points": epochs}} if OURS in found else {}
    return {**found, **fit, **{name: {**loop, "points": _compared(loop, ours)} for name, loop in loops.items()}}


def _compared(loop: dict[str, Any], ours: list[tuple[float, float]]) -> list[dict[str, Any]]:
    return [{**one, "fit_there_s": _first(ours, one["objective"])} for one in loop["points"]]


def _epochs(fit: dict[str, Any], reading: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the history of the fit, epoch by epoch. The objective of the first epoch may be unknown."""
    history = fit["history"]
    spent, read = (
        [after - before for before, after in pairwise([0, *history[name]])] for name in ("time", "bytes_read")
    )
    return [
        {
            "epoch": place + 1,
            "after_s": history["time"][place],
            "epoch_s": spent[place],
            "reads": spent[place] / reading["first_s"] if reading else None,
            "read_mb": read[place] / 1e6,
            "objective": history["objective"][place],
            "gap": history["gap"][place],
        }
        for place in range(len(spent))
    ]


def _first(curve: list[tuple[float, float]], objective: float | None) -> float | None:
    """Return the first seconds at which a curve is as good as an objective."""
    return None if objective is None else next((seconds for seconds, value in curve if value <= objective), None)


def lines(finished: list[Finished], options: Options) -> list[str]:
    """Return tables of all curves, and what was read and how much memory was used."""
    return [line for one in finished for line in _lines(one)]


def _lines(finished: Finished) -> list[str]:
    found = with_times(measured(finished))
    ended = [f"{one.competitor}: {text}" for one in finished.results for text in told(one)]
    tables = [
        _reading(found[READING]) if READING in found else [],
        _fit(found[OURS], finished.case.parameters.limit_s) if OURS in found else [],
        _loops(found),
        _memory(found),
        ended,
    ]
    return [f"{finished.case.name}:", *(line for table in tables if table for line in ["", *table])]


def _reading(read: dict[str, Any]) -> list[str]:
    speeds = [f"{read[name]:.3g} s ({read['mb'] / read[name]:,.0f} MB/s)" for name in ("first_s", "again_s")]
    where = "from the disk" if read["from_disk"] else "(the system cannot drop the file from its cache)"
    return [f"{read['mb']:,.0f} MB are read once {where} in {speeds[0]}, and again in {speeds[1]}."]


def _fit(fit: dict[str, Any], limit_s: float) -> list[str]:
    points = fit["points"]
    rows = [
        ("epoch", "after s", "epoch s", "of a reading", "read MB", "objective", "largest gap / P", "loop there after s")
    ]
    rows += [
        (
            str(one["epoch"]),
            f"{one['after_s']:.3f}",
            f"{one['epoch_s']:.3f}",
            number(one["reads"], ".2f"),
            f"{one['read_mb']:,.0f}",
            number(one["objective"], ".8g"),
            number(one["gap"], ".1e"),
            _text(one["loop_there_s"], "" if one["objective"] is None else f"not in {limit_s:g}"),
        )
        for one in points
        if one["epoch"] <= _FULLY or one is points[-1]
    ]
    head = f"LinearSVC: {fit['seconds']:.3f} s, {fit['epochs']} epochs, stopped by {fit['stopped']}"
    return [f"{head}; the referee finds the objective {fit['found']:.10g}.", *aligned(rows)]


def _loops(found: Measured) -> list[str]:
    end = found[OURS]["found"] if OURS in found else None
    rows = [
        ("SGDClassifier.partial_fit", "epochs", "after s", "objective", "above the fit's", "fit there after s", "ratio")
    ]
    rows += [
        (
            name,
            f"{one['epochs']:.3f}",
            f"{one['seconds']:.3f}",
            f"{one['objective']:.8g}",
            number(end and one["objective"] / end - 1, ".1e"),
            _text(one["fit_there_s"], "not"),
            f"{one['seconds'] / one['fit_there_s']:.1f}" if one["fit_there_s"] else "",
        )
        for name in LOOPS
        if name in found
        for one in found[name]["points"]
    ]
    return aligned(rows) if len(rows) > 1 else []


def _text(seconds: float | None, otherwise: str) -> str:
    return otherwise if seconds is None else f"{seconds:.3f}"


def _memory(found: Measured) -> list[str]:
    told = ", ".join(f"{name} {one['peak_mb']:,.0f} MB" for name, one in found.items())
    share = f" The fit's is {found[OURS]['peak_mb'] / ALLOWED_MB:.2f} of {ALLOWED_MB} MB." if OURS in found else ""
    return [f"Peak memory of the processes: {told}.{share}"]
