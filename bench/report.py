"""What came out? A table for the terminal, and JSON with everything that was measured."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.cases import Case
from bench.competitors import OURS
from bench.data import Data
from bench.machine import describe
from bench.runs import Options, Result

__all__ = ["Report"]

_COLUMNS = (
    "case", "competitor", "median s", "min-max s", "ratio", "objective", "KKT gap", "accuracy", "SVs",
    "peak MB", "warm-up s",
)  # fmt: skip


class Report:
    """Collects the results of a suite; saved after every case, so that an interrupt loses only one.

    Parameters
    ----------
    suite : str
        Name of the suite.
    options : Options
        How it was run.
    folder : Path
        Where to save.
    """

    def __init__(self, suite: str, options: Options, folder: Path) -> None:
        now = datetime.now(UTC)
        self.options = options
        self.path = folder / f"{suite}-{now:%Y%m%d-%H%M%S}.json"
        self.cases: list[tuple[Case, list[Result]]] = []
        self.content: dict[str, Any] = {
            "suite": suite,
            "date": now.isoformat(timespec="seconds"),
            "machine": describe(),
            "options": asdict(options),
            "cases": [],
            "skipped": [],
        }

    def add(self, case: Case, data: Data, results: list[Result]) -> None:
        """Add what came out for a case."""
        self.cases.append((case, results))
        self.content["cases"].append({
            "name": case.name,
            "parameters": asdict(case.parameters),
            "shape": list(data.X.shape),
            "dtype": str(data.X.dtype),
            "classes": len(set(data.y.tolist())),
            "test_rows": len(data.y_test),
            "results": [_measured(result, results) for result in results],
        })  # fmt: skip
        self.save()

    def skip(self, name: str, why: str) -> None:
        """Note a case or a competitor that does not take part."""
        self.content["skipped"].append({"name": name, "why": why})
        self.save()

    def save(self) -> None:
        """Write the JSON file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1, allow_nan=False) + "\n")

    def lines(self, only_last: bool = False) -> list[str]:
        """Return the table, with a line below for whatever went wrong."""
        rows, notes = [_COLUMNS], []
        for case, results in self.cases[-1:] if only_last else self.cases:
            rows += [_row(case, result, results, self.options) for result in results]
            for one in results:
                notes += [f"{case.name}, {one.competitor}: {text}" for text in _notes(case, one)]
        return [*_aligned(rows), *notes]


def _measured(result: Result, results: list[Result]) -> dict[str, Any]:
    return {**result.json(), "ratio": _ratio(result, results), "objective_deficit": _deficit(result, results)}


def _ratio(result: Result, results: list[Result]) -> float | None:
    """Return how many times as long as ours a competitor took."""
    ours = next((one.median_s for one in results if one.competitor == OURS), None)
    return None if ours is None or result.median_s is None else result.median_s / ours


def _deficit(result: Result, results: list[Result]) -> float | None:
    """Return how much lower than the best the objective is, relatively."""
    found = [one["objective"] for each in results for one in each.findings]
    if not result.findings:
        return None
    best = max(found)
    return (best - result.verdict["objective"]) / abs(best) if best else 0.0


def _row(case: Case, result: Result, results: list[Result], options: Options) -> tuple[str, ...]:
    verdict, seconds = result.verdict, result.fit_s
    deficit, gap = _deficit(result, results), _worst_gap(result)
    return (
        case.name,
        result.competitor,
        _number(result.median_s, ".3f") if result.status == "ok" else _ending(result, options),
        f"{min(seconds):.3f}-{max(seconds):.3f}" if seconds else "",
        _ratio_text(result, results, options),
        "" if deficit is None else "best" if deficit == 0 else f"-{deficit:.1e}",
        _number(gap, ".1e"),
        _number(result.accuracy, ".4f"),
        _number(verdict.get("n_support"), "d"),
        _number(max((one["peak_mb"] for one in result.records), default=None), ".0f"),
        _number(max((one["warm_up_s"] for one in result.records), default=None), ".1f"),
    )


def _ending(result: Result, options: Options) -> str:
    return f"> {options.timeout:g}" if result.status == "timeout" else "failed"


def _ratio_text(result: Result, results: list[Result], options: Options) -> str:
    found = _ratio(result, results)
    if result.status == "timeout":
        ours = next((one.median_s for one in results if one.competitor == OURS), None)
        return f"> {options.timeout / ours:.1f}" if ours else ""
    return _number(found, ".2f")


def _worst_gap(result: Result) -> float | None:
    gaps = [one["kkt_gap"] for one in result.findings if one.get("kkt_gap") is not None]
    return max(gaps, default=None)


def _notes(case: Case, result: Result) -> list[str]:
    """Return what a reader of the table must not overlook."""
    notes = [result.message] if result.message else []
    gap = _worst_gap(result)
    if gap is not None and gap > 1.01 * case.parameters.tol:
        notes.append(f"KKT gap {gap:.2e} is above the tolerance {case.parameters.tol:g}")
    claimed = max((one["claimed"].get("kkt_violation_", 0) for one in result.records), default=0)
    if gap is not None and claimed and gap > claimed + 0.1 * case.parameters.tol:
        notes.append(f"it claims a KKT gap of {claimed:.2e}, the referee finds {gap:.2e}")
    violation = max((one["bound_violation"] for one in result.findings), default=0)
    balance = max((one["balance_violation"] for one in result.findings), default=0)
    if max(violation, balance) > 1e-6 * case.parameters.C:
        notes.append(f"constraints are violated: bounds by {violation:.1e}, balance by {balance:.1e}")
    notes += sorted({text.splitlines()[0] for one in result.records for text in one["warnings"] if text})
    return notes


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        left = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
        right = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join(left + right).rstrip())
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]
