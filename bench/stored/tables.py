"""The tables of the pages, each a list of rows of text."""

from collections.abc import Callable
from functools import partial
from math import inf
from statistics import geometric_mean
from typing import Any

from bench.stored import studies, worth
from bench.stored.clusters import beside_local, kills_in_the_soak, model_of_a_cluster, peers, rounds_on_shards
from bench.stored.kept import Ratio, ratios
from bench.stored.markdown import table
from bench.stored.millions import MILLIONS_TABLES

__all__ = ["TABLES"]

_ONEDAL = "sklearnex"  # in float32
_SUITES = {
    "tables": "ordinary tables, 2 to 123 features; oneDAL",
    "kernel": "two classes, most of them images or 0/1 features; oneDAL",
    "multiclass": "3 to 10 classes, most of them images; oneDAL",
    "small": "100 to 6,000 samples; the faster of scikit-learn and oneDAL",
}


def _beside(peer: dict[str, Any] | None, ours: float) -> tuple[str, str]:
    """Return the seconds of a competitor, or its limit, and how many times as long as ours they are."""
    if peer is None or peer["status"] == "failed":
        return "", ""
    more, seconds = ("", peer["median_s"]) if peer["status"] == "ok" else ("> ", peer["limit"])
    return f"{more}{seconds:.3g}", f"{more}{seconds / ours:.1f}"


def _beside_onedal(one: Ratio) -> tuple[str, ...]:
    ours, theirs = one.ours, one.peers[_ONEDAL]
    deficit = theirs["objective_deficit"]
    return (
        one.name,
        f"{one.shape[0]:,} × {one.shape[1]:,}",
        f"{ours['findings'][0]['n_support']:,}",
        f"{ours['median_s']:.3g}",
        *_beside(theirs, ours["median_s"]),
        "" if deficit is None else f"{'−' if deficit > 0 else ''}{abs(deficit):.1e}",
        f"{ours['records'][0]['added_mb']:,.0f}",
        f"{theirs['records'][0]['added_mb']:,.0f}" if theirs["records"] else "",
    )


def fits_beside_onedal(suite: str) -> list[str]:
    """Return all cases of a suite that oneDAL was measured on."""
    heading = [
        "case", "samples × features", "support vectors", "fastsvm", "oneDAL", "ratio", "objective", "added MB",
        "oneDAL's",
    ]  # fmt: skip
    return table(heading, map(_beside_onedal, ratios(suite)))


def ordinary_ratios() -> list[str]:
    """Return a sentence about all cases of the suite `tables`."""
    found = ratios("tables")
    values, sizes = [each.ratio for each in found], zip(*(each.shape for each in found), strict=True)
    (least, most), (narrowest, widest) = ((min(size), max(size)) for size in sizes)
    return [
        f"{len(found)} cases of {narrowest} to {widest} features and {least:,} to {most:,} samples: oneDAL takes",
        f"{min(values):.1f} to {max(values):.1f} times as long. The geometric mean is {geometric_mean(values):.1f}.",
    ]


def small_problems() -> list[str]:
    """Return milliseconds of all cases of the suite `small`."""

    def row(one: Ratio) -> tuple[str, ...]:
        fits = one.ours, *(one.peers[name] for name in ("sklearn", _ONEDAL, "sklearnex-f64"))
        milliseconds = (f"{1e3 * fit['median_s']:.2f}" for fit in fits)
        return one.name, f"{one.shape[0]:,} × {one.shape[1]}", *milliseconds, f"{one.ratio:.1f}"

    heading = ["case", "samples × features", "fastsvm", "scikit-learn", "oneDAL f32", "oneDAL f64", "ratio"]
    return table(heading, map(row, ratios("small")))


_BOTH = ["fastsvm", "scikit-learn", "ratio", "oneDAL", "ratio"]


def _beside_both(one: Ratio) -> tuple[str, ...]:
    """Return the cells of `_BOTH`: seconds of ours, and those of two competitors with ratios."""
    took = one.ours["median_s"]
    theirs = (cell for name in ("sklearn", _ONEDAL) for cell in _beside(one.peers.get(name), took))
    return f"{took:.3g}", *theirs


def predictions() -> list[str]:
    """Return all cases of the suite `predict`."""
    rows = ((one.name, f"{one.ours['findings'][0]['n_support']:,}", *_beside_both(one)) for one in ratios("predict"))
    return table(["model", "support vectors", *_BOTH], rows)


def all_suites() -> list[str]:
    """Return how many times as long others take: the least, the mean and the most of each suite of kernel SVMs."""

    def row(suite: str, title: str) -> tuple[str, ...]:
        values = [one.ratio for one in ratios(suite)]
        return title, str(len(values)), *(f"{found(values):.1f}" for found in (min, geometric_mean, max))

    heading = ["exact kernel SVMs", "cases", "least", "geometric mean", "most"]
    return table(heading, (row(*suite) for suite in _SUITES.items()))


def other_machines() -> list[str]:
    """Return all cases of the suite `machines`."""

    def row(one: Ratio) -> tuple[str, ...]:
        found = one.ours["findings"][0]
        size, gap = f"{one.shape[0]:,} × {one.shape[1]}", found["duality_gap"] / abs(found["objective"])
        return one.name, size, f"{found['n_support']:,}", *_beside_both(one), f"{gap:.0e}"

    return table(["case", "samples × features", "support vectors", *_BOTH, "gap"], map(row, ratios("machines")))


def _last(result: dict[str, Any]) -> dict[str, Any]:
    """Return the last point of a curve."""
    return result["curve"][-1]


def _there(one: Ratio, peer: str = "sklearn") -> float | None:
    """Return after how many seconds ours has the objective that another one's descent ends with."""
    wanted = _last(one.peers[peer])["objective"]
    return next((point["seconds"] for point in one.ours["curve"] if point["objective"] <= wanted), None)


def _descents() -> list[Ratio]:
    return [one for one in ratios("sgd") if one.peers.get("sklearn", {}).get("curve")]


def descent() -> list[str]:
    """Return what scikit-learn's SGD reaches in its epochs, and what ours does in as many seconds."""

    def row(one: Ratio) -> tuple[str, ...]:
        theirs, there = _last(one.peers["sklearn"]), _there(one)
        until = [point["objective"] for point in one.ours["curve"] if point["seconds"] <= theirs["seconds"]]
        return (
            one.name,
            f"{one.shape[0]:,} × {one.shape[1]:,}",
            f"{theirs['seconds']:.3f}",
            f"{theirs['objective']:.5g}",
            f"{min(until):.5g}" if until else "none",
            f"{there:.3f}" if there else "not in its epochs",
            f"{theirs['seconds'] / there:.1f}" if there else "",
        )

    heading = ["case", "samples × features", "scikit-learn s", "objective", "ours by then", "ours there after", "ratio"]
    return table(heading, map(row, _descents()))


_BESIDE_OTHERS = {
    "cifar-10-sgd": "CIFAR-10 50,000 × 3,072, standardised, hinge one-vs-rest, α=.01",
    "a9a-sgd": "a9a 32,561 × 123, sparse, hinge, α=1e-4",
}


def descent_beside_others() -> list[str]:
    """Return where the descents of several libraries end, and when ours is there."""
    found, rows = {one.name: one for one in ratios("sgd")}, []
    for case, label in _BESIDE_OTHERS.items():
        one = found[case]
        for name, result in {"fastsvm": one.ours, **one.peers}.items():
            if not result["curve"]:
                continue
            last, there = _last(result), None if result is one.ours else _there(one, name)
            ratio = f"{last['seconds'] / there:.1f}" if there else ""
            measured = f"{last['seconds']:.3g}", f"{last['objective']:.5g}", f"{last['accuracy']:.4f}"
            rows.append((label, name, *measured, f"{there:.3g}" if there else "", ratio))
            label = ""
    return table(["case", "library", "s", "objective", "accuracy", "ours there after s", "ratio"], rows)


def descent_in_short() -> list[str]:
    """Return a sentence about all cases of the suite `sgd`."""
    found = {one.name: _last(one.peers["sklearn"])["seconds"] / (_there(one) or inf) for one in _descents()}
    slower = [name for name, ratio in found.items() if ratio < 1]
    faster = [ratio for ratio in found.values() if ratio >= 1]
    return [
        f"Of {len(found)} cases, ours is {min(faster):.1f} to {max(faster):.0f} times as fast in {len(faster)}, slower",
        f"in {len(slower)}: {', '.join(f'`{name}` ({found[name]:.1f})' for name in slower)}.",
    ]


def _spread(title: str, values: list[float]) -> str:
    least, mean, most = min(values), geometric_mean(values), max(values)
    return f"{title} takes {least:.1f} to {most:.0f} times as long. The geometric mean is {mean:.1f}."


def arrivals_in_short() -> list[str]:
    """Return sentences about all cases of the suite `linear`."""
    found = [one.peers["liblinear"] for one in ratios("linear")]
    ended = sum(not peer["arrival"] for peer in found)
    lines = [_spread("LIBLINEAR", [peer["ratio"] for peer in found if peer["arrival"]])]
    return [*lines, f"It was ended after {found[0]['limit']:g} s in {ended} case more."] if ended else lines


def wide_samples_in_short() -> list[str]:
    """Return sentences about all cases of the suite `wide_sparse`."""
    titles, lines = {"sklearn": "scikit-learn (LIBSVM)", _ONEDAL: "oneDAL"}, []
    for name, title in titles.items():
        pairs = [(one.peers[name]["median_s"], one.ours["median_s"]) for one in ratios("wide_sparse")]
        lines.append(_spread(title, [theirs / ours for theirs, ours in pairs]))
    return lines


_SETTINGS = {"fastsvm": "{:g} epochs", "liblinear": "tol {:g}", "snapml": "{:g} epochs"}


def arrivals() -> list[str]:
    """Return the seconds until linear machines are near the best objective."""
    rows = []
    for one in ratios("linear"):
        label = f"{one.name}, {one.shape[0]:,} × {one.shape[1]:,}"
        for name, result in {"fastsvm": one.ours, **one.peers}.items():
            there = result.get("arrival")
            if there is None:
                rows.append((label, name, f"not in {result['limit']:g}", "", "", ""))
            else:
                setting, above = _SETTINGS[name].format(there["budget"]), there["objective"] / result["best"] - 1
                ratio = "" if result is one.ours else f"{result['ratio']:.1f}"
                rows.append((label, name, f"{there['seconds']:.3g}", setting, f"{above:.1e}", ratio))
            label = ""
    return table(["case, samples × features", "library", "s", "setting", "above the best", "ratio"], rows)


def linear_machines() -> list[str]:
    """Return the seconds until logistic regression, L1 penalties and one class have the same objective."""

    def row(one: Ratio) -> tuple[str, ...]:
        found = [peer for peer in one.peers.values() if peer["arrival"]]
        peer = min(found, key=lambda each: each["arrival"]["seconds"], default=one.peers["liblinear"])
        there = one.ours["arrival"], peer["arrival"]
        ended = f"not in {peer['limit']:g}" if peer["status"] == "timeout" else "not"
        seconds = (f"{each['seconds']:.3g}" if each else ended for each in there)
        ratio = f"{there[1]['seconds'] / there[0]['seconds']:.1f}" if all(there) else ""
        return one.name, f"{one.shape[0]:,} × {one.shape[1]:,}", *seconds, ratio

    heading = ["case", "samples × features", "fastsvm", "LIBLINEAR", "ratio"]
    return table(heading, map(row, ratios("linear_machines")))


def wide_samples() -> list[str]:
    """Return all cases of the suite `wide_sparse`."""
    found = ratios("wide_sparse")
    rows = ((one.name, f"{one.shape[0]:,} × {one.shape[1]:,}", *_beside_both(one)) for one in found)
    return table(["case", "samples × features", *_BOTH], rows)


TABLES: dict[str, Callable[[], list[str]]] = {
    **MILLIONS_TABLES,
    "ordinary tables": partial(fits_beside_onedal, "tables"),
    "ordinary tables in short": ordinary_ratios,
    "two classes": partial(fits_beside_onedal, "kernel"),
    "several classes": partial(fits_beside_onedal, "multiclass"),
    "small problems": small_problems,
    "all suites": all_suites,
    "predictions": predictions,
    "other machines": other_machines,
    "gradient descent": descent,
    "gradient descent in short": descent_in_short,
    "gradient descent beside others": descent_beside_others,
    "linear machines": arrivals,
    "linear machines in short": arrivals_in_short,
    "other linear machines": linear_machines,
    "wide sparse samples": wide_samples,
    "wide sparse samples in short": wide_samples_in_short,
    "growth": partial(fits_beside_onedal, "growth"),
    "rounds on shards": rounds_on_shards,
    "model of a cluster": model_of_a_cluster,
    "cluster and local": beside_local,
    "peers on a cluster": peers,
    "kills": kills_in_the_soak,
    "agreement": studies.agreement,
    "other searches": studies.other_searches,
    "grid search": studies.grid_search,
    "first answers": studies.first_answers,
    "without AVX-512": studies.without_avx512,
    "agreement in short": studies.agreement_in_short,
    "small linear machines": studies.small_linear,
    "small linear machines in short": studies.small_linear_in_short,
    "small linear regressions": studies.small_targets,
    "other models": studies.other_models,
    "textbook methods": studies.textbook,
    "paths that were weighed": worth.paths_that_were_weighed,
    "paths with a switch": worth.paths_with_a_switch,
    "cases of paths": worth.cases_of_paths,
    "loops of tutorials": studies.loops,
    "fewer support vectors": studies.compression,
    "a kernel machine from a file": studies.from_file,
    "a large file": studies.large_file,
    "reading a large file": studies.reading,
    "agreement of other machines in short": studies.machines_agreement_in_short,
    "agreement of other machines": studies.machines_agreement,
}
