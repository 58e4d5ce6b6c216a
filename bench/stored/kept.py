"""What did the runs find that were kept? `runs/` has their JSON, as `python -m bench` wrote it."""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Kept", "Ratio", "Spot", "kept", "limit", "newest", "ratios", "run", "soak", "spots"]

_RUNS = Path(__file__).parent / "runs"


class Spot(NamedTuple):
    """What a competitor of the suite `millions` reaches with a budget."""

    budget: int
    seconds: float
    peak_mb: float
    accuracy: float


class Ratio(NamedTuple):
    """A case of an exact kernel SVM: the result of fastsvm beside those of others, by their names."""

    name: str
    shape: tuple[int, int]
    ours: dict[str, Any]
    peers: dict[str, dict[str, Any]]

    @property
    def ratio(self) -> float:
        """How many times as long the fastest of the others takes; one that was ended takes its limit, or longer."""
        took = (peer for peer in self.peers.values() if peer["status"] != "failed")
        return min(peer["median_s"] or peer["limit"] for peer in took) / self.ours["median_s"]


class Kept(NamedTuple):
    """A result and the limit of its fits, its case, and the file and the content of its run."""

    path: Path
    run: dict[str, Any]
    case: dict[str, Any]
    result: dict[str, Any]


@functools.cache
def _newest(suite: str) -> dict[tuple[str, str], Kept]:
    """Return the newest result of each case and competitor."""
    found = {}
    for path in sorted(_RUNS.glob(f"{suite}-*.json")):  # names have the date
        run = json.loads(path.read_text(encoding="utf-8"))
        for case in run["cases"]:
            for result in case["results"]:
                limited = result | {"limit": run["options"]["timeout"]}
                found[case["name"], result["competitor"]] = Kept(path, run, case, limited)
    return found


def kept(suite: str) -> list[Kept]:
    """Return the newest result of each case and competitor of a suite."""
    return list(_newest(suite).values())


def spots(case: str, competitor: str) -> dict[int, Spot]:
    """Return what a competitor reached in a case of the suite `millions`, by its budget."""
    found = {}
    one = _newest("millions").get((case, competitor))
    for point in one.result["curve"] if one else []:
        found[point["budget"]] = Spot(*(point[name] for name in ("budget", "seconds", "peak_mb", "accuracy")))
    return found


def limit(case: str, competitor: str) -> float:
    """Return after how many seconds the fits of a competitor were ended in a case of the suite `millions`."""
    return float(_newest("millions")[case, competitor].result["limit"])


def ratios(suite: str) -> list[Ratio]:
    """Return all cases of a suite of exact kernel SVMs."""
    runs = _newest(suite)
    found = []
    for name in dict.fromkeys(name for name, _ in runs):
        ours = runs[name, "fastsvm"]
        peers = {other: one.result for (of, other), one in runs.items() if of == name and other != "fastsvm"}
        found.append(Ratio(name, tuple(ours.case["shape"]), ours.result, peers))
    return found


def newest(suite: str) -> dict[str, Any]:
    """Return the newest results of each case of a measurement on clusters, by its name."""
    found = {}
    for path in sorted(_RUNS.glob(f"{suite}-*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        found.update({case["name"]: case["results"] for case in run["cases"]})
    return found


def run(suite: str) -> dict[str, Any]:
    """Return the newest run of a suite."""
    return json.loads(max(_RUNS.glob(f"{suite}-*.json")).read_text(encoding="utf-8"))


def soak() -> dict[str, Any]:
    """Return the summary of the newest soak of clusters."""
    return json.loads(max(_RUNS.glob("soak-*.json")).read_text(encoding="utf-8"))
