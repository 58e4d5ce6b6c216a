"""What came out, as a table in Markdown, what was chosen, and what failed."""

import statistics
from collections.abc import Sequence
from typing import Any

from bench.classical.cases import Case
from bench.classical.competitors import Competitor
from bench.outcomes import Result
from bench.tables import number

__all__ = ["HEADING", "chosen", "compared", "failures", "rows"]

HEADING = [
    "| case | who | median s | min-max s | there after s | ratio | objective | gap | claimed | accuracy | signs |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
]
_TOLD_GAP = 1e-4  # by which a relative gap may differ from what is claimed
_ROUNDING = 1e-6  # relative, in float32
_CLOSE = 1e-3  # gap of those who must agree on signs
_SAME_SIGNS, _AGREEMENT = 0.99, 0.999


def rows(case: Case, competitors: Sequence[Competitor], results: Sequence[Result]) -> list[str]:
    """Return one line a competitor."""
    pairs = zip(competitors, results, strict=True)
    return [_row(case, result, compared(result, results), one.certified) for one, result in pairs]


def compared(result: Result, results: Sequence[Result]) -> dict[str, Any]:
    """Return the ratios to the first of the case: of whole fits, and to its time to the goal if it had one."""
    first = results[0]
    there = _reached_s(first) if result is not first else None
    return {
        "reached_s": _reached_s(result),
        "ratio": _ratio(result.median_s, first.median_s),
        "ratio_to_goal": _ratio(result.median_s, there),
    }


def chosen(case: Case, competitors: Sequence[Competitor]) -> list[str]:
    """Return what was chosen outside the clock."""
    return [f"{case.name}, {one.name}: {one.chosen}." for one in competitors if one.chosen]


def failures(case: Case, competitors: Sequence[Competitor], results: Sequence[Result]) -> list[str]:
    """Return what a reader of the table must not overlook."""
    return [
        f"{case.name}, {one.name}: {text}"
        for one, result in zip(competitors, results, strict=True)
        for text in (_of_answers(one, result, results[0]) if result.status == "ok" else [result.message])
    ]


def _ratio(seconds: float | None, reference: float | None) -> float | None:
    return seconds / reference if seconds and reference else None


def _reached_s(result: Result) -> float | None:
    """Return the median seconds to the goal, None if a fit never was there."""
    found = [one.get("reached_s") for one in result.records]
    return statistics.median(found) if found and None not in found else None


def _row(case: Case, result: Result, found: dict[str, Any], certified: bool) -> str:
    seconds, worst = result.seconds, _worst(case, result)
    ratio = found["ratio"] if found["ratio_to_goal"] is None else found["ratio_to_goal"]
    cells = (
        case.name,
        result.competitor,
        number(result.median_s, ".4f") if result.status == "ok" else result.status,
        f"{min(seconds):.4f}-{max(seconds):.4f}" if seconds else "",
        number(found["reached_s"], ".4f"),
        number(ratio, ".2f"),
        number(worst.get("primal" if case.primal else "dual"), ".8g"),
        number(worst.get("gap"), ".1e"),
        number(_claimed_gap(result) if certified else None, ".1e"),
        number(worst.get("accuracy"), ".4f"),
        number(worst.get("same_signs"), ".4f"),
    )
    return f"| {' | '.join(cells)} |"


def _worst(case: Case, result: Result) -> dict[str, Any]:
    """Return what was found about the worst of the answers."""
    value = (lambda one: one["primal"]) if case.primal else (lambda one: -one["dual"])
    return max(result.findings, key=value, default={})


def _claimed_gap(result: Result) -> float | None:
    """Return the largest duality gap that fits said they have, in parts of the primal objective that was found."""
    claimed = [one["claimed"]["duality_gap_"] for one in result.records if "duality_gap_" in one["claimed"]]
    return max(claimed) / min(one["primal"] for one in result.findings) if claimed and result.findings else None


def _of_answers(one: Competitor, result: Result, first: Result) -> list[str]:
    told = (text for record in result.records for text in record["warnings"] if text and one.stops)
    texts = sorted({text.splitlines()[0] for text in told})
    for finding in result.findings:
        texts += [*_of_constraints(one, finding), *_of_gap(one, result, finding), *_of_signs(finding, first)]
    if one.goal and any(record.get("reached_s") is None for record in result.records):
        texts.append(f"the objective of {one.goal} was not reached")
    if any(record["agreement"] < _AGREEMENT for record in result.records):
        texts.append("its predictions are not those of its own coefficients")
    return list(dict.fromkeys(texts))


def _of_constraints(one: Competitor, finding: dict[str, Any]) -> list[str]:
    if not one.feasible or finding["feasible"]:
        return []
    return [f"constraints of the dual problem are violated by {finding['violation']:.1e}, relatively"]


def _of_gap(one: Competitor, result: Result, finding: dict[str, Any]) -> list[str]:
    texts, gap, own, claimed = [], finding["gap"], finding["own_gap"], _claimed_gap(result)
    if gap is not None and gap < -_ROUNDING:
        texts.append(f"the objective is below a lower bound, by {-gap:.1e}: an answer, or the judge, is wrong")
    if one.most_gap is not None and (gap is None or gap > one.most_gap + _ROUNDING):
        texts.append(f"the gap is {number(gap, '.2e') or 'unknown'}, allowed are {one.most_gap:g}")
    if one.certified and claimed is not None and own is not None and abs(own - claimed) > _TOLD_GAP:
        texts.append(f"it claims a gap of {claimed:.2e}, found are {own:.2e}")
    return texts


def _of_signs(finding: dict[str, Any], first: Result) -> list[str]:
    """Return whether an answer has other signs than the first, if both are close to the optimum."""
    gaps = [one["gap"] for one in (finding, *first.findings)]
    if None in gaps or max(gaps) > _CLOSE or finding["same_signs"] >= _SAME_SIGNS:
        return []
    return [f"only {finding['same_signs']:.2%} of the signs are the first one's"]
