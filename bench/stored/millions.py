"""The tables of kernel machines of a million samples and more."""

from collections.abc import Callable
from functools import partial
from math import log

from bench.stored.kept import Spot, limit, spots
from bench.stored.markdown import seconds, table

__all__ = ["MILLIONS_TABLES"]

_MILLION, _SMALLER, _COD_RNA, _KDD = "vessels-75-1000000", "vessels-75-100000", "cod-rna-271617", "kdd-494021"
_ROWS = {_MILLION: 1_000_000, _SMALLER: 100_000, _COD_RNA: 271_617, _KDD: 494_021}
_GROWING = 250_000, 1_000_000, 3_600_000
_OURS, _EXACT, _LINEAR = "fastsvm", "fastsvm SVC", "fastsvm LinearSVC"
_SUPPORT = "fastsvm support"
_PIPELINE, _DESCENT, _BOOSTING = "sklearn Nystroem", "sklearn Nystroem SGD", "sklearn boosting"


def _share(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def _pair(spot: Spot | None) -> str:
    return f"{seconds(spot.seconds)} s, {spot.accuracy:.4f}" if spot else ""


def _most(case: str) -> str:
    """Return the cell of the exact machine of the most samples."""
    found = spots(case, _EXACT)
    most = max(found)
    return f"{_pair(found[most])} ({'all' if most == _ROWS[case] else f'{most:,}'})"


def _best_boosting(case: str) -> Spot | None:
    """Return boosting with the number of iterations that predicts best."""
    return max(spots(case, _BOOSTING).values(), key=lambda spot: spot.accuracy, default=None)


def _parts_and_landmarks() -> list[str]:
    """Return the table of the guide to the solver."""
    cases = (_SMALLER, _MILLION, _COD_RNA, _KDD)

    def across(label: str, cell: Callable[[str], str]) -> list[str]:
        return [label, *map(cell, cases)]

    def reached(competitor: str, budget: int) -> Callable[[str], str]:
        return lambda case: _pair(spots(case, competitor).get(budget))

    names = "retina, {:,} × 75 bytes", "retina, {:,} × 75 bytes", "cod-rna, {:,} × 8", "KDD Cup 99, {:,} × 41"
    heading = ["seconds and accuracy", *(name.format(_ROWS[case]) for name, case in zip(names, cases, strict=True))]
    return table(heading, [
        *(across(f"`SVC`, {n:,} samples", reached(_EXACT, n)) for n in (20_000, 80_000)),
        across("`SVC`, most samples", _most),
        *(across(f"`NystroemSVC`, {m:,} landmarks", reached(_OURS, m)) for m in (256, 512, 1024, 2048)),
        *(across(f"the same, `landmarks=\"support\"`, {m:,}", reached(_SUPPORT, m)) for m in (1024, 2048)),
        across("`LinearSVC`", reached(_LINEAR, 0)),
        across("scikit-learn's Nystroem and LinearSVC, 1,024", reached(_PIPELINE, 1024)),
        across("scikit-learn's gradient boosting, 100 or 300", lambda case: _pair(_best_boosting(case))),
    ])  # fmt: skip


def _all_fits(case: str) -> list[str]:
    """Return all fits of a case."""
    kinds = (
        ("`NystroemSVC`", _OURS, " landmarks"),
        ('the same, `landmarks="support"`', _SUPPORT, " landmarks"),
        ("`SVC`", _EXACT, " samples"),
        ("`LinearSVC`, tol 1e-2", _LINEAR, ""),
        ("gradient boosting of scikit-learn", _BOOSTING, " iterations"),
    )
    rows = []
    for label, competitor, unit in kinds:
        for spot in spots(case, competitor).values():
            budget = f"{spot.budget:,}{unit}" if spot.budget else ""
            measured = (seconds(spot.seconds), f"{spot.peak_mb:,.0f}", _share(spot.accuracy))
            rows.append((label, budget, *measured))
            label, unit = "", ""
    return table(["", "budget", "fit s", "peak MB", "accuracy"], rows)


def _pipelines() -> list[str]:
    """Return landmarks beside scikit-learn's pipelines."""
    rows = []
    for m in spots(_SMALLER, _OURS):
        cells = []
        for name in (_OURS, _PIPELINE, _DESCENT):
            one = spots(_SMALLER, name).get(m)
            ended = f"not in {limit(_SMALLER, name):g}", ""
            cells += (seconds(one.seconds), _share(one.accuracy)) if one else ended
        rows.append((f"{m:,}", *cells))
    names = "`NystroemSVC`", "scikit-learn, `LinearSVC`", "scikit-learn, SGD"
    return table(["landmarks", *(word for name in names for word in (name, "accuracy"))], rows)


def _other_files() -> list[str]:
    """Return what landmarks, exact machines and boosting reach on two tables."""
    units = ((_OURS, "landmarks"), (_EXACT, "`SVC`, samples"), (_BOOSTING, "boosting"))
    rows = []
    for competitor, unit in units:
        found = spots(_COD_RNA, competitor), spots(_KDD, competitor)
        for budget in sorted(found[0].keys() | found[1].keys()):
            cells = ((seconds(one.seconds), _share(one.accuracy)) if one else ("", "") for one in
                     (each.get(budget) for each in found))  # fmt: skip
            rows.append((f"{unit}, {budget:,}" if budget else unit, *(cell for pair in cells for cell in pair)))
    return table(["", "cod-rna.t: fit s", "accuracy", "KDD: fit s", "accuracy"], rows)


def _growth() -> list[str]:
    """Return the seconds of landmarks by the number of samples, and the exponent at which they grow."""
    found = {n: spots(f"vessels-75-{n}", _OURS) for n in _GROWING}
    (few, least), *_, (many, most) = found.items()
    rows = []
    for m in most:
        exponent = log(most[m].seconds / least[m].seconds) / log(many / few)
        rows.append((f"{m:,}", *(seconds(each[m].seconds) for each in found.values()), f"n^{exponent:.2f}"))
    return table(["landmarks", *(f"{n:,} samples" for n in found), "growth"], rows)


MILLIONS_TABLES: dict[str, Callable[[], list[str]]] = {
    "landmarks or a part": _parts_and_landmarks,
    "a million samples": partial(_all_fits, _MILLION),
    "a million images": partial(_all_fits, "mnist-deformed-1000000"),
    "3,600,000 samples": partial(_all_fits, "vessels-75-3600000"),
    "a million samples of 243 bytes": partial(_all_fits, "vessels-243-1000000"),
    "3,600,000 samples of 243 bytes": partial(_all_fits, "vessels-243-3600000"),
    "growth of landmarks": _growth,
    "pipelines": _pipelines,
    "two other files": _other_files,
}
