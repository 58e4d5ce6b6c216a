"""What came out, as aligned text, with a line for whatever went wrong."""

from typing import Any, NamedTuple

from bench.cases import Case
from bench.competitors import OURS
from bench.outcomes import Options, Result

__all__ = ["Finished", "aligned", "compared", "ending", "lines", "number", "parts_of", "told"]

_ROUNDING = 1e-5  # of C: sums of multipliers in float32 come so close
_SLACK_MB = 300.0  # what a fit of ours may add beyond its budget and a copy of the rows: libraries, threads


class Finished(NamedTuple):
    """A case with its results."""

    case: Case
    data_shape: tuple[int, ...]
    results: list[Result]


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


def parts_of(finished: list[Finished]) -> list[str]:
    """Return the names of the parts that were timed apart."""
    records = (record for one in finished for each in one.results for record in each.records)
    return list(dict.fromkeys(part for record in records for part in record["parts"]))


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows of text in columns, the first two to the left, below a heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        text.append("  ".join(left + right).rstrip())
    return [text[0], "-" * max(map(len, text)), *text[1:]]


def compared(result: Result, results: list[Result]) -> dict[str, Any]:
    """Return what the results of a case say about one of them, for the JSON file."""
    return {"ratio": _ratio(result, results), "objective_deficit": _deficit(result, results)}


def _ratio(result: Result, results: list[Result]) -> float | None:
    """Return how many times as long as ours a competitor took."""
    ours = _our_seconds(results)
    return None if ours is None or result.median_s is None else result.median_s / ours


def _deficit(result: Result, results: list[Result]) -> float | None:
    """Return how much lower than the best the objective is, relatively."""
    found = [one["objective"] for each in results for one in each.findings]
    if not result.findings:
        return None
    best = max(found)
    return (best - _verdict(result)["objective"]) / abs(best) if best else 0.0


def _verdict(result: Result) -> dict[str, Any]:
    """Return what was found about the worst of the answers."""
    return min(result.findings, key=lambda one: one["objective"]) if result.findings else {}


def _our_seconds(results: list[Result]) -> float | None:
    return next((one.median_s for one in results if one.competitor == OURS), None)


def _row(case: Case, result: Result, results: list[Result], options: Options, parts: list[str]) -> tuple[str, ...]:
    seconds, lower = result.seconds, _deficit(result, results)
    return (
        case.name,
        result.competitor,
        number(result.median_s, ".3f") if result.status == "ok" else ending(result, options),
        f"{min(seconds):.3f}-{max(seconds):.3f}" if seconds else "",
        _ratio_text(result, results, options),
        "" if lower is None else "best" if lower == 0 else f"-{lower:.1e}",
        number(_worst(result, "kkt_gap"), ".1e"),
        number(_verdict(result).get("accuracy"), ".4f"),
        number(_verdict(result).get("n_support"), "d"),
        number(result.most("peak_mb"), ".0f"),
        number(result.most("added_mb"), ".0f"),
        *(number(result.part(part), ".2f") for part in parts),
    )


def ending(result: Result, options: Options) -> str:
    """Return what stands instead of the seconds of a competitor that did not finish."""
    return f"> {options.timeout:g}" if result.status == "timeout" else "failed"


def _ratio_text(result: Result, results: list[Result], options: Options) -> str:
    if result.status == "timeout":
        ours = _our_seconds(results)
        return f"> {options.timeout / ours:.1f}" if ours else ""
    return number(_ratio(result, results), ".2f")


def number(value: float | None, form: str) -> str:
    """Return a number as text, or nothing."""
    return "" if value is None else format(value, form)


def _worst(result: Result, name: str) -> float | None:
    return max((one[name] for one in result.findings if one.get(name) is not None), default=None)


def _notes(case: Case, result: Result, options: Options) -> list[str]:
    """Return what a reader of the table must not overlook."""
    notes = _notes_on_answer(case, result) if result.findings else []
    return [*notes, *_notes_on_memory(result, options), *told(result)]


def told(result: Result) -> list[str]:
    """Return why a competitor did not finish, and what it warned of."""
    warnings = {text.splitlines()[0] for one in result.records for text in one["warnings"] if text}
    return [*([result.message] if result.message else []), *sorted(warnings)]


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
        notes.append(f"{other:.2%} of its predictions are not those of its own answer in float64")
    return notes


def _notes_on_memory(result: Result, options: Options) -> list[str]:
    """Return whether we kept to our budget: nobody else promises one."""
    notes: list[str] = []
    for record in result.records if result.competitor == OURS else ():
        allowed: Any = options.memory_mb * 2**20 / 1e6 + record["rows_mb"] + _SLACK_MB
        if record["added_mb"] > allowed:
            notes.append(f"{record['added_mb']:.0f} MB were added, {allowed:.0f} MB are budget, rows and slack")
    return notes[:1]
