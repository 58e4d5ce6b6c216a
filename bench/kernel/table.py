"""Times and verdicts of kernel machines as a table, with a line for whatever went wrong."""

from typing import Any

from bench.harness.competitor import OURS
from bench.harness.outcomes import Options, Result
from bench.harness.suite import Case, Finished
from bench.harness.text import aligned, ending, number, parts_of, told

__all__ = ["compared", "lines"]

_ROUNDING = 1e-5  # relative to C: the error of sums of multipliers in float32
_SLACK_MB = 300.0  # for libraries and threads, beyond the budget and a copy of the samples


def lines(finished: list[Finished], options: Options) -> list[str]:
    """Return the table, with notes below."""
    parts = parts_of(finished)
    rows = [(
        "case", "competitor", "median s", "min-max s", "ratio", "objective", "KKT gap", "accuracy", "SVs", "peak MB",
        "added MB", *(f"{part} s" for part in parts),
    )]  # fmt: skip
    notes = []
    for case, _, results in finished:
        rows += [_row(case, one, results, options, parts) for one in results]
        notes += [f"{case.name}, {one.competitor}: {text}" for one in results for text in _notes(case, one, options)]
    return [*aligned(rows), *notes]


def compared(result: Result, finished: Finished) -> dict[str, Any]:
    """Return what the JSON file says about a result beside what was measured."""
    return {"ratio": _ratio(result, finished.results), "objective_deficit": _deficit(result, finished.results)}


def _ratio(result: Result, results: list[Result]) -> float | None:
    """Return the time relative to ours."""
    ours = _our_seconds(results)
    return None if ours is None or result.median_s is None else result.median_s / ours


def _deficit(result: Result, results: list[Result]) -> float | None:
    """Return the relative distance of the objective from the best one."""
    found = [one["objective"] for each in results for one in each.findings]
    if not result.findings:
        return None
    best = max(found)
    return (best - _verdict(result)["objective"]) / abs(best) if best else 0.0


def _verdict(result: Result) -> dict[str, Any]:
    """Return the findings about the worst answer."""
    return min(result.findings, key=lambda one: one["objective"]) if result.findings else {}


def _our_seconds(results: list[Result]) -> float | None:
    return next((one.median_s for one in results if one.competitor == OURS), None)


def _row(case: Case, result: Result, results: list[Result], options: Options, parts: list[str]) -> tuple[str, ...]:
    seconds, lower = result.seconds, _deficit(result, results)
    return (
        case.name,
        result.competitor,
        _seconds(result.median_s) if result.status == "ok" else ending(result, options),
        f"{_seconds(min(seconds))}-{_seconds(max(seconds))}" if seconds else "",
        _ratio_text(result, results, options),
        "" if lower is None else "best" if lower == 0 else f"-{lower:.1e}",
        number(_worst(result, "kkt_gap"), ".1e"),
        number(_verdict(result).get("accuracy"), ".4f"),
        number(_verdict(result).get("n_support"), "d"),
        number(result.most("peak_mb"), ".0f"),
        number(result.most("added_mb"), ".0f"),
        *(number(result.part(part), ".2f") for part in parts),
    )


def _seconds(value: float | None) -> str:
    return number(value, ".3f" if value is None or value >= 0.1 else ".5f")


def _ratio_text(result: Result, results: list[Result], options: Options) -> str:
    if result.status == "timeout":
        ours = _our_seconds(results)
        return f"> {options.timeout / ours:.1f}" if ours else ""
    return number(_ratio(result, results), ".2f")


def _worst(result: Result, name: str) -> float | None:
    return max((one[name] for one in result.findings if one.get(name) is not None), default=None)


def _notes(case: Case, result: Result, options: Options) -> list[str]:
    """Return the notes below the table."""
    notes = _notes_on_answer(case, result) if result.findings else []
    return [*notes, *_notes_on_memory(result, options), *told(result)]


def _notes_on_answer(case: Case, result: Result) -> list[str]:
    notes, gap, tol = [], _worst(result, "kkt_gap"), case.parameters.tol
    if gap is not None and gap > 1.01 * tol:
        notes.append(f"KKT gap {gap:.2e} is above the tolerance {tol:g}")
    claimed = max((one["claimed"].get("kkt_violation_", 0) for one in result.records), default=0)
    if gap is not None and claimed and gap > claimed + 0.1 * tol:
        notes.append(f"it claims a KKT gap of {claimed:.2e}, the referee finds {gap:.2e}")
    bounds, balance = _worst(result, "bound_violation"), _worst(result, "balance_violation")
    if max(bounds, balance) > _ROUNDING * case.parameters.C:
        notes.append(f"constraints are violated: bounds by {bounds:.1e}, balance by {balance:.1e}")
    other = 1 - min(one["agreement"] for one in result.findings)
    if other > 1e-3:
        notes.append(f"{other:.2%} of its predictions differ from those of its own answer in float64")
    return notes


def _notes_on_memory(result: Result, options: Options) -> list[str]:
    """Return a note if fastsvm exceeded its memory budget. The other libraries promise none."""
    notes: list[str] = []
    for record in result.records if result.competitor == OURS else ():
        allowed: Any = options.memory_mb * 2**20 / 1e6 + record["rows_mb"] + _SLACK_MB
        if record["added_mb"] > allowed:
            notes.append(f"{record['added_mb']:.0f} MB were added; budget, samples and slack are {allowed:.0f} MB")
    return notes[:1]
