"""Tables of what paths of a fit are worth: the seconds without them in multiples of those with them."""

from collections.abc import Iterator
from statistics import geometric_mean
from typing import Any

from bench.paired.paths import PATHS
from bench.stored.kept import run
from bench.stored.markdown import seconds, table

__all__ = ["cases_of_paths", "paths_that_were_weighed", "paths_with_a_switch"]


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


def _measured() -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return each path that has a switch, with what was measured of it."""
    found = run("ablation")
    for path in found["paths"]:
        of_path = [
            {**one, "aside": case["aside"]} for case in found["cases"] for one in case["results"]
            if one["sides"][1] == path["name"] and one["ratio"] is not None
        ]  # fmt: skip
        yield path, sorted(of_path, key=lambda one: one["ratio"])


def _compile_s(path: dict[str, Any]) -> str:
    of_modules = run("ablation")["compile_s"]
    return f"{sum(of_modules.get(module, 0.0) for module in path['modules']):.1f}" if path["modules"] else ""


def _rows_of_switches() -> Iterator[tuple[str, ...]]:
    names = {path.name for path in PATHS}
    for path, measured in _measured():
        found = [one for one in measured if one["differs"]]
        mean = f"{geometric_mean([1 / one['ratio'] for one in found]):.2f}" if found else ""
        worth, costs = (
            (f"{1 / one['ratio']:.2f} ({one['case']})" for one in (found[0], found[-1])) if found else ("", "")
        )
        weight = str(path["lines"] or ""), str(path["compiled"] or ""), _compile_s(path)
        now = "stayed" if path["name"] in names else "removed"
        yield path["name"], now, f"{len(found)} of {len(measured)}", mean, worth, costs, *weight


def paths_with_a_switch() -> list[str]:
    """Return each path that a switch turns off, with its worth and its weight."""
    heading = ["path", "now", "cases", "mean", "worth most", "costs most", "lines", "compiled", "compile s"]
    return table(heading, _rows_of_switches())


def _rows_of_cases() -> Iterator[tuple[str, ...]]:
    for path, measured in _measured():
        for one in measured:
            if one["differs"]:
                on, off = one["seconds"]
                aside = " (aside)" if one["aside"] else ""
                yield path["name"], one["case"] + aside, seconds(on), seconds(off), f"{1 / one['ratio']:.2f}"


def cases_of_paths() -> list[str]:
    """Return the seconds of each case with and without each path that changes something in it."""
    return table(["path", "case", "with", "without", "without / with"], _rows_of_cases())
