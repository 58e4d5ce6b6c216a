"""A cluster of two processes on this machine against one process with two threads: `python -m bench.cluster.local`.

The same rows, parameters and duality gap. The workers read a file of HDF5, and the local fit opens it. `--folder DIR`
adds a file of 8 GB, which is written there once. Each fit is in a process of its own, after a small one that compiles.
The page cache has the file where memory has room for it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.cluster.rows import cluster_of_two, written
from bench.harness.data import Data
from bench.harness.processes import ROOT, limited_to
from bench.harness.study import RESULTS, Study
from bench.recipes import cifar10, cifar_bytes, digits, kdd
from bench.streaming.big_file import Plan, write

__all__ = ["fit_local", "fit_on_cluster"]


class Case(NamedTuple):
    """What is learned: a recipe of the rows, C and loss, and the rows of a large file of noisy copies, or 0."""

    recipe: Callable[[], Data]
    C: float
    loss: str = "hinge"
    large: int = 0


_CASES = {
    "cifar-10": Case(lambda: cifar10(50_000), 1e-6),
    "animals": Case(lambda: cifar_bytes(50_000), 1e-6),
    "kdd": Case(lambda: kdd(False, distinct=False), 1e-3),
    "cifar-10-8gb": Case(lambda: cifar10(50_000), 2e-8, large=2_650_000),
}
_QUICK = {"digits": Case(digits, 1e-2)}


def fit_local(path: str, C: float, loss: str) -> dict[str, Any]:
    """Fit in this process."""
    import fastsvm

    with fastsvm.open_hdf5(path) as data:
        model = fastsvm.LinearSVC(loss=loss, C=C, tol=1e-3, random_state=0).fit(data)
    return _facts(model) | {"peak_mb": _peak_of_this_process()}


def fit_on_cluster(path: str, C: float, loss: str, client: Any) -> dict[str, Any]:
    """Fit on the workers of a client."""
    import fastsvm.dask

    model = fastsvm.dask.LinearSVC(loss, C=C, tol=1e-3, random_state=0, client=client).fit([path])
    peaks = client.run(_peak_of_this_process)
    return _facts(model) | {
        "peak_mb": max(peaks.values()),
        "reading": max(did["reading"] for did in model.workers_.values()),
        "waiting": max(did["waiting"] for did in model.workers_.values()),
        "bytes": int(model.history_["bytes_sent"][-1]),
    }


def _peak_of_this_process() -> float:
    """Return the megabytes that this process had in memory at most."""
    from fastsvm.memory import peak_memory

    return peak_memory() or 0.0


def _facts(model: Any) -> dict[str, Any]:
    gap = model.duality_gap_ / model.objective_
    return {"rounds": int(model.n_iter_), "objective": float(model.objective_), "relative_gap": float(gap)}


def _work(how: str, path: str, warming: str, C: float, loss: str) -> dict[str, Any]:
    """Fit in this process, or on workers that it starts."""
    if how == "local":
        return _timed(lambda given: fit_local(given, C, loss), path, warming)
    with cluster_of_two() as client:
        return _timed(lambda given: fit_on_cluster(given, C, loss, client), path, warming)


def _timed(fit: Callable[[str], dict[str, Any]], path: str, warming: str) -> dict[str, Any]:
    fit(warming)
    begin = time.perf_counter()
    found = fit(path)
    return {"seconds": time.perf_counter() - begin, **found}


def _measured(how: str, path: Path, warming: Path, case: Case) -> dict[str, Any]:
    """Fit in a process of its own."""
    given = [how, str(path), str(warming), str(case.C), case.loss]
    done = subprocess.run(
        [sys.executable, "-m", "bench.cluster.local", "--work", *given],
        cwd=ROOT, env=limited_to(1 if how == "cluster" else 2), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases, print a table and write JSON."""
    parser = argparse.ArgumentParser("python -m bench.cluster.local", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small bundled data")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case (repeatable)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="fits of each, in turns (3)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="receives the file of 8 GB, which is kept")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.work:
        how, path, warming, C, loss = asked.work
        print(json.dumps(_work(how, path, warming, float(C), loss)))
        return 0
    cases = _QUICK if asked.quick else _CASES
    study = Study("cluster", asked.out)
    print("| case | where | seconds | rounds | objective | peak MB of a process |\n|---|---|---|---|---|---|")
    for name in asked.case or cases:
        case = cases[name]
        if case.large and asked.folder is None:
            print(f"{name} is left out: --folder is needed for its file")
            continue
        data = case.recipe()
        shape = (case.large or len(data.y), data.X.shape[1])
        results: dict[str, list[dict[str, Any]]] = {"local": [], "cluster": []}
        with tempfile.TemporaryDirectory() as folder:
            path, warming = written(data, Path(folder)), written(_first(data), Path(folder), "warming.h5")
            if case.large:
                path = write(asked.folder, Plan(case.large, 1000), data.X, data.y)
            for _ in range(asked.repeat):
                for how, known in results.items():
                    known.append(_measured(how, path, warming, case))
        for how, known in results.items():
            one = known[0]
            numbers = f"{one['rounds']} | {one['objective']:.6g} | {one['peak_mb']:,.0f}"
            print(f"| {name} | {how} | {np.median([each['seconds'] for each in known]):.2f} | {numbers} |", flush=True)
        study.add(name, results, C=case.C, loss=case.loss, shape=shape)
    return 0


def _first(data: Data) -> Data:
    """Return the first rows, which compile the same."""
    return data._replace(X=data.X[:2000], y=data.y[:2000])


if __name__ == "__main__":
    sys.exit(main())
