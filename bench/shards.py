"""How many rounds and bytes does a linear machine take on 1 to 32 shards? `python -m bench.shards`, from the root.

All shards are on two workers of this machine, of one thread each. So rounds and bytes are those of a cluster, and
seconds are not. Fits end at the same duality gap. The run is written as JSON, and drawn.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.cluster.rows import cluster_of_two, written
from bench.harness.data import Data
from bench.harness.study import RESULTS, Study
from bench.recipes import cifar10, cifar_bytes, digits, kdd

__all__ = ["SHARDS", "draw", "measured"]

SHARDS = 1, 2, 4, 8, 16, 32


class Case(NamedTuple):
    """What is learned: a recipe of the data, and the parameters of `LinearSVC`."""

    recipe: Callable[[], Data]
    loss: str
    C: float


_CASES = {
    "cifar-10-hinge": Case(lambda: cifar10(50_000), "hinge", 1e-6),
    "animals-hinge": Case(lambda: cifar_bytes(50_000), "hinge", 1e-6),
    "animals-squared-hinge": Case(lambda: cifar_bytes(50_000), "squared_hinge", 1e-7),
    "kdd-hinge": Case(lambda: kdd(False, distinct=False), "hinge", 1e-3),
}
_QUICK = {"digits-hinge": Case(digits, "hinge", 1e-2)}


def measured(case: Case, counts: tuple[int, ...], client: Any) -> Iterator[dict[str, Any]]:
    """Fit a case on each number of shards, and yield what was found."""
    import fastsvm.dask

    data = case.recipe()
    with tempfile.TemporaryDirectory() as folder:
        path = written(data, Path(folder))
        for count in counts:
            begin = time.perf_counter()
            model = fastsvm.dask.LinearSVC(
                C=case.C, loss=case.loss, tol=1e-3, max_iter=2000, n_shards=count, random_state=0, client=client
            ).fit([str(path)])
            seconds, history = time.perf_counter() - begin, model.history_
            yield {
                "n_shards": count,
                "rounds": int(model.n_iter_),
                "bytes": int(history["bytes_sent"][-1]),
                "seconds": seconds,
                "seconds_of_a_round": float(np.median(np.diff(history["time"]))) if len(history["time"]) > 1 else 0.0,
                "objective": model.objective_,
                "relative_gap": model.duality_gap_ / model.objective_,
            }


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases, print a table and write JSON."""
    parser = argparse.ArgumentParser("python -m bench.shards", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small bundled data")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case (repeatable)")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    cases = _QUICK if asked.quick else _CASES
    study = Study("shards", asked.out)
    print("| case | shards | rounds | MB | seconds | objective |\n|---|---|---|---|---|---|")
    with cluster_of_two() as client:
        for name in asked.case or cases:
            results = []
            for found in measured(cases[name], SHARDS[:3] if asked.quick else SHARDS, client):
                megabytes = found["bytes"] / 1e6
                print(
                    f"| {name} | {found['n_shards']} | {found['rounds']} | {megabytes:.0f} | {found['seconds']:.1f} "
                    f"| {found['objective']:.6g} |",
                    flush=True,
                )
                results.append(found)
            study.add(name, results)
    draw(study.content["cases"], study.path.with_suffix(".png"))
    return 0


def draw(cases: list[dict[str, Any]], path: Path) -> None:
    """Draw rounds and bytes against shards."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for case in cases:
        counts = [found["n_shards"] for found in case["results"]]
        left.plot(counts, [found["rounds"] for found in case["results"]], "o-", label=case["name"])
        right.plot(counts, [found["bytes"] / 1e6 for found in case["results"]], "o-")
    for axes, what, ticks in (
        (left, "rounds", [10, 20, 50, 100, 200, 500]),
        (right, "megabytes that are sent in all", [0.1, 1, 10, 100, 1000, 10_000]),
    ):
        axes.set(xscale="log", yscale="log", xlabel="shards", ylabel=what, xticks=counts, xticklabels=counts)
        axes.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    left.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    sys.exit(main())
