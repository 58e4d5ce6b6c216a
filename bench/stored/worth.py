"""Tables of what paths of a fit are worth: the seconds without them in multiples of those with them."""

from collections.abc import Iterator
from statistics import geometric_mean
from typing import Any

from bench.stored.kept import run
from bench.stored.markdown import table

__all__ = ["paths_that_were_weighed"]


def _ratios(results: list[dict[str, Any]]) -> list[tuple[float, str]]:
    return sorted((one["seconds_off"] / one["seconds_on"], one["case"]) for one in results)


def _unconverged(results: list[dict[str, Any]]) -> str:
    """Return in how many cases a fit did not converge, with and without the path, if any did not."""
    ends = [one["stop"] for one in results if "stop" in one]
    missed = [sum(pair[side] != "converged" for pair in ends) for side in (0, 1)]
    return f"{missed[0]}, {missed[1]} without" if any(missed) else ""


def _rows() -> Iterator[tuple[str, ...]]:
    for path in run("paths")["cases"]:
        found = _ratios(path["results"])
        (least, costs), (most, worth) = found[0], found[-1]
        mean = geometric_mean([ratio for ratio, _ in found])
        yield (
            path["name"], path["fate"], str(path["lines"]), str(len(found)), f"{mean:.2f}", f"{most:.2f} ({worth})",
            f"{least:.2f} ({costs})", _unconverged(path["results"]),
        )  # fmt: skip


def paths_that_were_weighed() -> list[str]:
    """Return each path with its worth, and whether it stayed."""
    heading = ["path", "now", "lines", "cases", "mean", "worth most", "costs most", "not converged"]
    return table(heading, _rows())
