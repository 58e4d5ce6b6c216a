"""What does an exact kernel SVM from a file cost? `python -m bench.streaming.kernel`, from the root.

Arguments are names of cases. The samples of a case, bytes, are written to an HDF5 file. Then models are fitted from
memory and from the file with several values of `memory`, each in a new process, which compiles before the clock starts.
The table shows seconds, the peak memory of the whole process with interpreter and libraries, how often the file was
read, and the objective. The run is written as JSON.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py

from bench import recipes
from bench.harness.data import Data, DataMissing
from bench.harness.study import RESULTS, Study
from bench.harness.text import aligned

__all__ = ["RESIDENT"]

RESIDENT = "auto, rows in memory"

_FIT = """
import json, sys, time
import fastsvm
from fastsvm.memory import peak_memory
path, test, given, memory, resident = json.loads(sys.argv[1])
with fastsvm.open_hdf5(path) as data:
    few = data.X.read(0, min(600, len(data)))
    fastsvm.SVC(**given).fit(few.user_array(), data.y[: few.shape[0]])  # compiles
    X = data.X.in_memory().block.user_array() if resident else data
    data.X.reads.nbytes = 0
    begin = time.perf_counter()
    model = fastsvm.SVC(memory=memory, **given).fit(X, data.y)
    seconds, peak = time.perf_counter() - begin, peak_memory()
    passes = data.X.reads.nbytes / data.X.nbytes
with fastsvm.open_hdf5(test) as data:
    accuracy = model.score(data)
print(json.dumps({"seconds": seconds, "peak_mb": peak, "passes": passes, "objective": model.objective_,
    "violation": model.kkt_violation_, "n_support": len(model.support_), "accuracy": accuracy}))
"""


class Case(NamedTuple):
    """Samples, parameters, and values of `memory`."""

    recipe: Callable[[], Data]
    parameters: dict[str, float]
    memory: list[str]


_IMAGES = {"C": 10.0, "gamma": 0.002 / 255**2}
_CASES = {
    "cifar-10-20000": Case(partial(recipes.cifar10, 20_000), _IMAGES, [RESIDENT, "512MB", "60MB"]),
    "cifar-10-50000": Case(partial(recipes.cifar10, 50_000), _IMAGES, ["2GB"]),
    "mnist-60000": Case(recipes.mnist, _IMAGES | {"gamma": 0.02 / 255**2}, [RESIDENT, "512MB", "60MB"]),
}


def _written(path: Path, X: Any, y: Any) -> str:
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(256, X.shape[1]))
        file["y"] = y
    return str(path)


def _fitted(told: list[Any]) -> dict[str, Any]:
    """Return what a new process measures."""
    done = subprocess.run([sys.executable, "-c", _FIT, json.dumps(told)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases, print a table of each and write JSON."""
    parser = argparse.ArgumentParser("python -m bench.streaming.kernel", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="NAME", help="only these cases")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    study = Study("from_file", asked.out)
    for name in asked.cases or _CASES:
        case, results = _CASES[name], []
        try:
            data = case.recipe()
        except DataMissing as missing:
            print(f"{name}: {missing}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = _written(Path(folder) / "train.h5", data.X, data.y)
            test = _written(Path(folder) / "test.h5", data.X_test, data.y_test)
            for memory in case.memory:
                is_resident = memory == RESIDENT
                found = _fitted([path, test, case.parameters, "auto" if is_resident else memory, is_resident])
                results.append({"memory": memory, **found})
        study.add(name, results, shape=list(data.X.shape), parameters=case.parameters)
        rows = [tuple(f"{value:.7g}" if isinstance(value, float) else str(value) for value in one.values())
                for one in results]  # fmt: skip
        print("", name, *aligned([tuple(results[0]), *rows]), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
