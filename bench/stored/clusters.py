"""The tables of the guide to clusters."""

from collections import Counter
from math import log

from bench.stored.kept import newest, soak
from bench.stored.markdown import seconds, table

__all__ = ["kills_in_the_soak", "model_of_a_cluster", "rounds_on_shards"]

_TEN_CLASSES = "cifar-10-hinge"
_SHARDED = {
    _TEN_CLASSES: "CIFAR-10, ten classes, hinge",
    "animals-hinge": "animals or vehicles, hinge",
    "animals-squared-hinge": "the same, squared hinge",
    "kdd-hinge": "KDD Cup 99, two classes, hinge",
}
_BYTES_PER_SECOND, _LATENCY, _PARTS = 1e9, 0.002, 4  # of a network; parts of a round, after each of which all wait
_STEPS = {  # the words of tasks and questions, of which the first that was found counts
    "reading or gathering rows": {"rows", "block", "facts"},
    "computing landmarks and features": {"features", "landmarks", "drawn", "columns", "length"},
    "a round": {"round", "sums", "order"},
    "the certificate, or the objective of SGD": {"losses", "certificate", "certificate_sums", "objectives", "asked"},
    "beginning, or taking over states": {"begin", "session", "moments", "plan", "metric", "kept", "settled"},
}


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
