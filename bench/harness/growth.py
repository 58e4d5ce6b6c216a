"""How does time grow with the number of rows? The exponent of n over the cases of a series."""

import numpy as np

from bench.harness.suite import Finished
from bench.harness.text import aligned

__all__ = ["exponent", "exponent_lines", "exponents", "points"]


def points(finished: list[Finished], series: str, competitor: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, median seconds and MB added of a competitor, for the cases of a series that it finished."""
    found = [
        (one.data_shape[0], result.median_s, result.most("added_mb"))
        for one in finished
        for result in one.results
        if one.case.series == series and result.competitor == competitor and result.median_s is not None
    ]
    return tuple(np.array(sorted(found)).reshape(-1, 3).T)


def exponent(n: np.ndarray, seconds: np.ndarray) -> float | None:
    """Return the slope of a straight line through log(seconds) against log(n); None for fewer than two sizes."""
    return float(np.polyfit(np.log(n), np.log(seconds), 1)[0]) if len(n) > 1 else None


def exponents(finished: list[Finished]) -> dict[str, dict[str, float]]:
    """Return the exponents by series and competitor."""
    found: dict[str, dict[str, float]] = {}
    for series, name in dict.fromkeys((one.case.series, each.competitor) for one in finished for each in one.results):
        n, seconds, _ = points(finished, series, name)
        slope = exponent(n, seconds) if series else None
        if slope is not None:
            found.setdefault(series, {})[name] = slope
    return found


def exponent_lines(finished: list[Finished]) -> list[str]:
    """Return a table of the exponents; empty if no case belongs to a series."""
    found = exponents(finished)
    rows = [("series", "competitor", "exponent of time against n", "rows")]
    for series, by_name in found.items():
        for name, slope in by_name.items():
            n, _, _ = points(finished, series, name)
            rows.append((series, name, f"{slope:.2f}", f"{n[0]:.0f}-{n[-1]:.0f}"))
    return aligned(rows) if found else []
