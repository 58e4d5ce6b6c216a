"""Who has which objective after which time, of the fit and of the loop?"""

from itertools import pairwise
from typing import Any

from bench.tables import aligned, number

__all__ = ["ALLOWED_MB", "LOOPS", "claim_is_off", "lines", "with_times"]

LOOPS = "loop", "loop without average"
"""By what names the loops are found: averaged weights are what people take, and the last ones may be better early."""
ALLOWED_MB = 900
"""What the process of the fit may have at most, libraries included."""
_ROUNDING = 1e-6  # of an objective: what is claimed is found by sums in another order
_FULLY = 10  # epochs that are all shown; later ones are as they are


def with_times(found: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured with, for each point of one, when the other, of the loops the first, was as good."""
    epochs = _epochs(found)
    ours = [(one["after_s"], one["objective"]) for one in epochs if one["objective"] is not None]
    theirs = sorted((one["seconds"], one["objective"]) for name in LOOPS for one in found[name]["points"])
    epochs = [{**one, "loop_there_s": _first(theirs, one["objective"])} for one in epochs]
    loops = {name: {**found[name], "points": _compared(found[name]["points"], ours)} for name in LOOPS}
    return {**found, "fit": {**found["fit"], "points": epochs}, **loops}


def _compared(points: list[dict[str, Any]], ours: list[tuple[float, float]]) -> list[dict[str, Any]]:
    return [{**one, "fit_there_s": _first(ours, one["objective"])} for one in points]


def _epochs(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the history of the fit, one epoch after the other; of the first, no objective may be known."""
    history, once_s = found["fit"]["history"], found["reading"]["first_s"]
    spent, read = (
        [after - before for before, after in pairwise([0, *history[name]])] for name in ("time", "bytes_read")
    )
    return [
        {
            "epoch": place + 1,
            "after_s": history["time"][place],
            "epoch_s": spent[place],
            "reads": spent[place] / once_s,
            "read_mb": read[place] / 1e6,
            "objective": history["objective"][place],
            "gap": history["gap"][place],
        }
        for place in range(len(spent))
    ]


def _first(curve: list[tuple[float, float]], objective: float | None) -> float | None:
    """Return the first seconds at which a curve is as good as an objective."""
    return None if objective is None else next((seconds for seconds, value in curve if value <= objective), None)


def claim_is_off(found: dict[str, Any]) -> str | None:
    """Return a sentence if the fit's objective is not that of its weights."""
    claimed, true = found["fit"]["objective"], found["fit"]["found"]
    off = abs(claimed / true - 1)
    return f"the fit claims the objective {claimed:.10g}, found is {true:.10g}" if off > _ROUNDING else None


def lines(found: dict[str, Any]) -> list[str]:
    """Return tables of both curves, and what was read and taken."""
    return [*_reading(found), "", *_fit(found), "", *_loops(found), "", *_memory(found)]


def _reading(found: dict[str, Any]) -> list[str]:
    read = found["reading"]
    speeds = [f"{read[name]:.3g} s ({read['mb'] / read[name]:,.0f} MB/s)" for name in ("first_s", "again_s")]
    where = "from the disk" if read["from_disk"] else "(the system cannot be told to forget the file)"
    return [f"{read['mb']:,.0f} MB are read once {where} in {speeds[0]}, and again in {speeds[1]}."]


def _fit(found: dict[str, Any]) -> list[str]:
    points, limit = found["fit"]["points"], found["asked"]["limit"]
    rows = [
        ("epoch", "after s", "epoch s", "of a reading", "read MB", "objective", "largest gap / P", "loop there after s")
    ]
    rows += [
        (
            str(one["epoch"]),
            f"{one['after_s']:.3f}",
            f"{one['epoch_s']:.3f}",
            f"{one['reads']:.2f}",
            f"{one['read_mb']:,.0f}",
            number(one["objective"], ".8g"),
            number(one["gap"], ".1e"),
            _text(one["loop_there_s"], "" if one["objective"] is None else f"not in {limit:g}"),
        )
        for one in points
        if one["epoch"] <= _FULLY or one is points[-1]
    ]
    fit = found["fit"]
    head = (
        f"LinearSVC: {fit['seconds']:.3f} s, {fit['epochs']} epochs, stopped by {fit['stopped']}; referee's objective "
    )
    return [f"{head}{fit['found']:.10g}.", *aligned(rows)]


def _loops(found: dict[str, Any]) -> list[str]:
    end = found["fit"]["found"]
    rows = [
        ("SGDClassifier.partial_fit", "epochs", "after s", "objective", "above the fit's", "fit there after s", "ratio")
    ]
    rows += [
        (
            name,
            f"{one['epochs']:.3f}",
            f"{one['seconds']:.3f}",
            f"{one['objective']:.8g}",
            f"{one['objective'] / end - 1:.1e}",
            _text(one["fit_there_s"], "not"),
            f"{one['seconds'] / one['fit_there_s']:.1f}" if one["fit_there_s"] else "",
        )
        for name in LOOPS
        for one in found[name]["points"]
    ]
    return aligned(rows)


def _text(seconds: float | None, otherwise: str) -> str:
    return otherwise if seconds is None else f"{seconds:.3f}"


def _memory(found: dict[str, Any]) -> list[str]:
    peaks = {name: found[name]["peak_mb"] for name in ("reading", "fit", *LOOPS)}
    told = ", ".join(f"{name} {peak:,.0f} MB" for name, peak in peaks.items())
    return [f"Peak memory of the processes: {told}; the fit's is {peaks['fit'] / ALLOWED_MB:.2f} of {ALLOWED_MB} MB."]
