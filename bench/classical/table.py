"""Times, objectives and gaps of textbook methods as a table, and what is wrong."""

import statistics
from typing import Any

import numpy as np

from bench.classical.competitors import ClassicalCompetitor, classical_competitor
from bench.classical.parameters import ClassicalParameters
from bench.classical.referee import SAME, relative_gap
from bench.harness.outcomes import Options, Result
from bench.harness.suite import Finished
from bench.harness.text import aligned, ending, number

__all__ = ["compared", "failures", "lines", "reached"]

_HEADING = (
    "case", "competitor", "median s", "min-max s", "there after s", "ratio", "objective", "gap", "claimed", "accuracy",
    "signs",
)  # fmt: skip
_TOLD_GAP = 1e-4  # allowed difference between a relative gap and the claimed one
_ROUNDING = 1e-6  # relative, in float32
_CLOSE = 1e-3  # competitors with smaller gaps must agree on signs
_SAME_SIGNS, _AGREEMENT = 0.99, 0.999


def compared(result: Result, finished: Finished) -> dict[str, Any]:
    """Return gaps, time to the goal, and ratios of times to those of the first competitor."""
    first = finished.results[0]
    there = _reached_s(first, finished) if result is not first else None
    return {
        "gaps": _gaps(result, finished),
        "reached_s": _reached_s(result, finished),
        "ratio": _ratio(result.median_s, first.median_s),
        "ratio_to_goal": _ratio(result.median_s, there),
    }


def lines(finished: list[Finished], options: Options) -> list[str]:
    """Return the table, with the choices made outside the clock below."""
    rows = [_HEADING, *(_row(one, each, options) for one in finished for each in one.results)]
    chosen = [_chosen(one.case.name, one.case.parameters) for one in finished if one.case.parameters.rates]
    ended = [(one.case.name, each) for one in finished for each in one.results if each.status != "ok"]
    return [*aligned(rows), *chosen, *(f"{name}, {each.competitor}: {each.message}" for name, each in ended)]


def failures(finished: Finished) -> list[str]:
    """Return a sentence for each wrong answer."""
    return [
        f"{finished.case.name}, {result.competitor}: {text}"
        for result in finished.results
        if result.status == "ok"
        for text in _wrong(result, finished)
    ]


def _chosen(name: str, parameters: ClassicalParameters) -> str:
    best = f", the best of {len(parameters.rates)}" if len(parameters.rates) > 1 else ""
    return f"{name}: rate {parameters.rate:.3g}{best}; tol {parameters.tol:g} for exact steps."


def _ratio(seconds: float | None, reference: float | None) -> float | None:
    return seconds / reference if seconds and reference else None


def _row(finished: Finished, result: Result, options: Options) -> tuple[str, ...]:
    seconds, found = result.seconds, compared(result, finished)
    primal = finished.case.parameters.primal
    worst = max(result.findings, key=lambda one: one["primal"] if primal else -one["dual"], default={})
    ratio = found["ratio"] if found["ratio_to_goal"] is None else found["ratio_to_goal"]
    certified = classical_competitor(result.competitor).certified
    return (
        finished.case.name,
        result.competitor,
        number(result.median_s, ".4f") if result.status == "ok" else ending(result, options),
        f"{min(seconds):.4f}-{max(seconds):.4f}" if seconds else "",
        number(found["reached_s"], ".4f"),
        number(ratio, ".2f"),
        number(worst.get("primal" if primal else "dual"), ".8g"),
        number(max((gap for gap in found["gaps"] if gap is not None), default=None), ".1e"),
        number(_claimed_gap(result) if certified else None, ".1e"),
        number(worst.get("accuracy"), ".4f"),
        number(worst.get("same_signs"), ".4f"),
    )


# --- gaps ---------------------------------------------------------------------------------------------------


def _gaps(result: Result, finished: Finished) -> list[float | None]:
    """Return the relative gap of each answer, to the bound of the competitor it is measured against, if any."""
    name = classical_competitor(result.competitor).against
    others = (finding for one in finished.results if one.competitor == name for finding in one.findings)
    bound = max((one["dual"] for one in others if one["feasible"]), default=None)
    return [one["own_gap"] if bound is None else relative_gap(one["primal"], bound) for one in result.findings]


def _claimed_gap(result: Result) -> float | None:
    """Return the largest duality gap that the fits claim, relative to the primal objective that was found."""
    claimed = [one["claimed"]["duality_gap_"] for one in result.records if "duality_gap_" in one["claimed"]]
    return max(claimed) / min(one["primal"] for one in result.findings) if claimed and result.findings else None


# --- times to a goal ----------------------------------------------------------------------------------------


def _reached_s(result: Result, finished: Finished) -> float | None:
    """Return the median seconds to the goal. None if there is no goal or a fit did not reach it."""
    name = classical_competitor(result.competitor).goal
    goals = [finding for one in finished.results if one.competitor == name for finding in one.findings]
    if not goals or not result.findings:
        return None
    key, sign = ("primal", 1) if finished.case.parameters.primal else ("dual", -1)
    goal, end = min(sign * one[key] for one in goals), max(sign * one[key] for one in result.findings)
    found = [reached(record, sign, goal, end) for record in result.records]
    return None if None in found else statistics.median(found)


def reached(record: dict[str, Any], sign: int, goal: float, end: float) -> float | None:
    """Return the seconds until the objective was as good as the goal, None if it never was.

    The recorded times begin after the fit did. The seconds that are missing count as spent before the first record.

    Parameters
    ----------
    record : dict
        Seconds of the fit, and the curve of the objective over time.
    sign : int
        1 if the objective falls, -1 if it rises.
    goal, end : float
        The objective to reach, and the fit's last one as the referee found it, both times `sign`.
    """
    allowed = goal + SAME * abs(goal)
    times, objectives = np.array(record["curve"]["time"]), sign * np.array(record["curve"]["objective"])
    there = np.flatnonzero(objectives <= allowed)
    if end > allowed:
        return None
    return record["seconds"] - float(times[-1] - times[there[0]]) if len(there) else record["seconds"]


# --- what is wrong ------------------------------------------------------------------------------------------


def _wrong(result: Result, finished: Finished) -> list[str]:
    competitor, first = classical_competitor(result.competitor), finished.results[0]
    told = (text for record in result.records for text in record["warnings"] if text and competitor.stops)
    texts = sorted({text.splitlines()[0] for text in told})
    close = max((_size(gap) for gap in _gaps(first, finished)), default=np.inf) <= _CLOSE
    for finding, gap in zip(result.findings, _gaps(result, finished), strict=True):
        texts += [*_wrong_constraints(competitor, finding), *_wrong_gap(competitor, result, finding, gap)]
        if close and _size(gap) <= _CLOSE and finding["same_signs"] < _SAME_SIGNS:
            texts.append(f"only {finding['same_signs']:.2%} of the signs agree with the first competitor")
        if finding["agreement"] < _AGREEMENT:
            texts.append("its predictions are not those of its own coefficients")
    if competitor.goal and _reached_s(result, finished) is None:
        texts.append(f"the objective of {competitor.goal} was not reached")
    return list(dict.fromkeys(texts))


def _size(gap: float | None) -> float:
    return np.inf if gap is None else gap


def _wrong_constraints(competitor: ClassicalCompetitor, finding: dict[str, Any]) -> list[str]:
    if not competitor.feasible or finding["feasible"]:
        return []
    return [f"constraints of the dual problem are violated by {finding['violation']:.1e}, relatively"]


def _wrong_gap(
    competitor: ClassicalCompetitor, result: Result, finding: dict[str, Any], gap: float | None
) -> list[str]:
    texts, own, claimed, most = [], finding["own_gap"], _claimed_gap(result), competitor.most_gap
    if gap is not None and gap < -_ROUNDING:
        texts.append(f"the objective is below a lower bound, by {-gap:.1e}: the answer or the referee is wrong")
    if most is not None and _size(gap) > most + _ROUNDING:
        texts.append(f"the gap is {number(gap, '.2e') or 'unknown'}, allowed is {most:g}")
    if competitor.certified and claimed is not None and own is not None and abs(own - claimed) > _TOLD_GAP:
        texts.append(f"it claims a gap of {claimed:.2e}, the referee finds {own:.2e}")
    return texts
