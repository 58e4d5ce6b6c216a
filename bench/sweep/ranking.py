"""Where is fastsvm slower than scikit-learn, and where are its answers wrong? From the findings about all draws."""

from collections import Counter
from statistics import geometric_mean
from typing import Any, NamedTuple

from bench.harness.text import aligned

__all__ = ["Summary", "by_estimator", "compared", "line_of", "lines", "milliseconds", "slowest", "summary"]

_MOST_OF_SLOWEST = 10
_TINY_S = 2e-4  # calls that take both libraries less are not compared
_MUCH_SLOWER = 0.8

Finding = dict[str, Any]


class Summary(NamedTuple):
    """Numbers of draws: compared, below 0.8 of scikit-learn's speed, and from there to 1; the geometric mean."""

    n: int
    much_slower: int
    slower: int
    mean: float | None


def compared(findings: list[Finding]) -> list[Finding]:
    """Return the draws whose times say something."""
    timed = (one for one in findings if "ratio" in one)
    return [one for one in timed if max(one["ours"]["seconds"], one["theirs"]["seconds"]) > _TINY_S]


def slowest(findings: list[Finding]) -> list[Finding]:
    """Return the ten draws in which ours is slowest beside scikit-learn."""
    return sorted(compared(findings), key=lambda one: one["ratio"])[:_MOST_OF_SLOWEST]


def summary(findings: list[Finding]) -> Summary:
    """Count draws by how fast ours is."""
    ratios = [one["ratio"] for one in compared(findings)]
    much, all_slower = (sum(ratio < limit for ratio in ratios) for limit in (_MUCH_SLOWER, 1))
    return Summary(len(ratios), much, all_slower - much, geometric_mean(ratios) if ratios else None)


def milliseconds(side: Finding) -> str:
    """Return the time of a library with three digits."""
    return f"{1e3 * side['seconds']:.3g}"


def line_of(one: Finding) -> str:
    """Return a line about a draw: how fast ours is, milliseconds and values of both, or what happened."""
    if "by" not in one:
        said = "; ".join(f"{name}: {text}" for name, text in one["errors"].items())
        return f"{one['status']:>8} {one['line']}: {said}"
    warned = "".join(f" ({name} warned)" for name in ("ours", "theirs") if one[name]["warnings"])
    took = f"{milliseconds(one['ours'])} and {milliseconds(one['theirs'])} ms"
    values = " and ".join(_value(one[side]["value"]) for side in ("ours", "theirs"))
    mark = "  <-- wrong" if one["status"] == "wrong" else ""
    return f"{one['ratio']:8.2f} {one['line']}: {took}{warned}, {one['by']} {values}{mark}"


def _value(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.5g}"


def lines(findings: list[Finding]) -> list[str]:
    """Return the ranking, the counts, the means of the estimators, and all draws that need a look."""
    found = summary(findings)
    counts = Counter(one["status"] for one in findings)
    mean = "" if found.mean is None else f"; the geometric mean of the speeds is {found.mean:.2f}"
    text = [
        "", f"The {_MOST_OF_SLOWEST} draws in which fastsvm is slowest, with its speed in multiples of scikit-learn's:",
        *map(line_of, slowest(findings)), "", *aligned(by_estimator(findings)), "",
        f"Of {found.n} draws that take more than {1e3 * _TINY_S:g} ms, {found.much_slower} have less than "
        f"{_MUCH_SLOWER:g} of scikit-learn's speed and {found.slower} more, but less than 1{mean}.",
        f"{len(findings)} draws: {', '.join(f'{count} {status}' for status, count in counts.most_common())}.",
    ]  # fmt: skip
    return text + [line_of(one) for one in findings if one["status"] != "right"]


def by_estimator(findings: list[Finding]) -> list[tuple[str, ...]]:
    """Return a heading, and for each estimator its draws, speeds and answers that are not right."""
    rows: list[tuple[str, ...]] = [("estimator", "draws", "least", "mean", "most", "below 0.8", "below 1", "wrong")]
    for name in sorted({one["draw"]["estimator"] for one in findings}):
        mine = [one for one in findings if one["draw"]["estimator"] == name]
        ratios, counted = [one["ratio"] for one in compared(mine)], summary(mine)
        spread = [f"{value:.2f}" for value in (min(ratios), counted.mean, max(ratios))] if ratios else ["", "", ""]
        wrong = sum(one["status"] == "wrong" for one in mine)
        below = str(counted.much_slower), str(counted.much_slower + counted.slower)
        rows.append((name, str(len(mine)), *spread, *below, str(wrong)))
    return rows
