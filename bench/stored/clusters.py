"""The tables of the guide to clusters."""

from collections import Counter
from math import log
from statistics import median
from typing import Any

from bench.stored.kept import newest, soak
from bench.stored.markdown import seconds, table

__all__ = ["beside_local", "kills_in_the_soak", "model_of_a_cluster", "peers", "rounds_on_shards"]

_TEN_CLASSES = "cifar-10-hinge"
_SHARDED = {
    _TEN_CLASSES: "CIFAR-10, ten classes, hinge",
    "animals-hinge": "animals or vehicles, hinge",
    "animals-squared-hinge": "the same, squared hinge",
    "kdd-hinge": "KDD Cup 99, two classes, hinge",
}
_BYTES_PER_SECOND, _LATENCY, _PARTS = 1e9, 0.002, 4  # of a network; parts of a round, after each of which all wait
_BESIDE = {
    "cifar-10": "CIFAR-10, 50,000 × 3,072 bytes, ten classes",
    "animals": "the same, animals or vehicles",
    "kdd": "KDD Cup 99, 494,021 × 118 numbers",
    "cifar-10-8gb": "noisy copies of CIFAR-10, 2,650,000 × 3,072 bytes, 8.1 GB",
}
_STEPS = {  # the words of tasks and questions, of which the first that was found counts
    "reading or gathering rows": {"rows", "block", "facts"},
    "computing landmarks and features": {"features", "landmarks", "drawn", "columns", "length"},
    "a round": {"round", "sums", "order"},
    "the certificate, or the objective of SGD": {"losses", "certificate", "certificate_sums", "objectives", "asked"},
    "beginning, or taking over states": {"begin", "session", "moments", "plan", "metric", "kept", "settled"},
}
_PEERED = {"animals": "CIFAR-10, animals or vehicles", "kdd": "KDD Cup 99"}


def rounds_on_shards() -> list[str]:
    """Return rounds and megabytes of all cases of `bench.shards`."""
    found = newest("shards")
    counts = [one["n_shards"] for one in found[_TEN_CLASSES]]
    rows = []
    for name, title in _SHARDED.items():
        rows.append((f"{title}: rounds", *(f"{one['rounds']:,}" for one in found[name])))
        rows.append(("MB in all", *(f"{one['bytes'] / 1e6:,.0f}" for one in found[name])))
    return table(["shards", *map(str, counts)], rows)


def model_of_a_cluster() -> list[str]:
    """Return the seconds of ten classes of CIFAR-10 on many workers, computed from rounds on few."""
    found = {one["n_shards"]: one for one in newest("shards")[_TEN_CLASSES]}
    most, half = found[max(found)], found[max(found) // 2]
    growth = log(most["rounds"] / half["rounds"], 2)
    rows = []
    for p in (4, 16, 64, 256):
        n_rounds = found[p]["rounds"] if p in found else most["rounds"] * (p / most["n_shards"]) ** growth
        computing = found[1]["seconds_of_a_round"] / p
        sending = most["bytes"] / most["rounds"] * p / most["n_shards"] / _BYTES_PER_SECOND + _PARTS * _LATENCY
        rows.append((str(p), f"{n_rounds:,.0f}", f"{1e3 * computing:.0f}", f"{1e3 * sending:.0f}",
                     seconds(n_rounds * (computing + sending))))  # fmt: skip
    return table(["workers", "rounds", "computing, ms a round", "messages, ms a round", "seconds in all"], rows)


def beside_local() -> list[str]:
    """Return seconds, rounds and peak memory of fits on a cluster of two processes beside those of one process."""
    rows = []
    for name, results in newest("cluster").items():
        here, there = ([one["seconds"] for one in results[how]] for how in ("local", "cluster"))
        first, other = results["local"][0], results["cluster"][0]
        rows.append((
            _BESIDE[name], seconds(median(here)), seconds(median(there)), f"{median(there) / median(here):.1f}",
            str(first["rounds"]), str(other["rounds"]), f"{first['peak_mb']:,.0f}", f"{other['peak_mb']:,.0f}",
        ))  # fmt: skip
    heading = ["hinge", "local s", "cluster s", "ratio", "epochs", "rounds", "local peak MB", "a worker's"]
    return table(heading, rows)


def peers() -> list[str]:
    """Return seconds, accuracy and objective of linear classifiers on a cluster of two processes."""
    found = {case: {one["competitor"]: one for one in results} for case, results in newest("peers").items()}
    names = list(next(iter(found.values())))
    titles = (word for case in found for word in (f"{_PEERED[case]}: s", "accuracy", "objective"))
    return table(
        ["", *titles], ((name, *(cell for one in found.values() for cell in _peer(one[name]))) for name in names)
    )


def _peer(one: dict[str, Any]) -> tuple[str, str, str]:
    if "error" in one:
        return one["error"] if one["error"].startswith("ended") else "an error", "", ""
    objective = "" if one["competitor"].endswith(", hinge") else f"{one['log_loss_objective']:.4g}"
    return seconds(median(one["seconds"])), f"{one['accuracy']:.4f}", objective


def kills_in_the_soak() -> list[str]:
    """Return at what the workers were killed in the newest soak of clusters, and how the fits ended."""
    found, kills = soak(), Counter[str]()
    for moment, count in found["kills_while"].items():
        words = set(moment.split()) - {"answering:", "and"}
        kills[next((title for title, known in _STEPS.items() if known & words), "none of these")] += count
    rows = [(title, str(kills[title])) for title in (*_STEPS, "none of these")]
    same, others = sum(found["fits_with_the_same_bits"].values()), len(found["finds"])
    stops, nannies = found["stops"], found["nannies_that_gave_up"]
    return [
        *table(["what the worker was doing", "kills"], [*rows, ("together", str(kills.total()))]),
        "",
        f"Of {same + others} fits, {same} ended with the same bits as without faults. Workers were stopped",
        f"{stops} times, and {nannies} nannies gave up; others were started in their place.",
    ]
