"""Parts of tables that all suites print."""

from bench.harness.outcomes import Options, Result
from bench.harness.suite import Finished

__all__ = ["aligned", "ending", "number", "parts_of", "told"]


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows of text in columns below a heading. The first two columns are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        text.append("  ".join(left + right).rstrip())
    return [text[0], "-" * max(map(len, text)), *text[1:]]


def number(value: float | None, form: str) -> str:
    """Return a number as text, or nothing."""
    return "" if value is None else format(value, form)


def parts_of(finished: list[Finished]) -> list[str]:
    """Return the names of the parts that were timed separately."""
    records = (record for one in finished for each in one.results for record in each.records)
    return list(dict.fromkeys(part for record in records for part in record["parts"]))


def ending(result: Result, options: Options) -> str:
    """Return what the table shows instead of the seconds of a competitor that did not finish."""
    return f"> {options.timeout:g}" if result.status == "timeout" else "failed"


def told(result: Result) -> list[str]:
    """Return why a competitor did not finish, and its warnings."""
    warnings = {text.splitlines()[0] for one in result.records for text in one["warnings"] if text}
    return [*([result.message] if result.message else []), *sorted(warnings)]
