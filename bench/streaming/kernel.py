"""What does an exact kernel SVM from a file cost against one from memory?

`python -m bench.streaming.kernel FILE.h5 --memory 512MB`

Each runs in a fresh process. Peak memory is that of the whole process, interpreter and libraries included.
"""

import argparse
import json
import subprocess
import sys
import time

_FIT = """
import json, resource, sys, time
import fastsvm
path, test, given, memory, resident = json.loads(sys.argv[1])
with fastsvm.open_hdf5(path) as data:
    few = data.X.read(0, min(600, len(data)))
    fastsvm.SVC(**given).fit(few.user_array(), data.y[: few.shape[0]])  # compiles outside the clock
    X = data.X.in_memory().block.user_array() if resident else data
    data.X.reads.nbytes = 0
    begin = time.perf_counter()
    model = fastsvm.SVC(memory=memory, **given).fit(X, data.y)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    passes = data.X.reads.nbytes / data.X.nbytes
accuracy = None
if test:
    with fastsvm.open_hdf5(test) as data:
        accuracy = model.score(data)
print(json.dumps({"seconds": seconds, "peak MB": peak, "passes": passes, "objective": model.objective_,
    "violation": model.kkt_violation_, "support": len(model.support_), "accuracy": accuracy}))
"""


def main() -> None:
    """Fit from memory, then from the file for every memory budget, and print one line each."""
    parser = argparse.ArgumentParser("python -m bench.streaming.kernel", description=__doc__)
    parser.add_argument("file", help="HDF5 file with X and y")
    parser.add_argument("--test", default=None, help="HDF5 file to measure the accuracy on")
    parser.add_argument("--memory", action="append", default=[], help="budget of a fit from the file (repeatable)")
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--gamma", type=float, default=0.002 / 255**2)
    parser.add_argument("--no-resident", action="store_true", help="leave the fit from memory out")
    asked = parser.parse_args()
    runs = [] if asked.no_resident else [("auto", True)]
    runs += [(memory, False) for memory in asked.memory or ["512MB"]]
    given = {"C": asked.C, "gamma": asked.gamma}
    for memory, resident in runs:
        told = json.dumps([asked.file, asked.test, given, memory, resident])
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", _FIT, told], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout)
        where = "from memory" if resident else f"from the file, {memory}"
        print(where, {name: value if value is None else round(value, 6) for name, value in found.items()})
        print(f"  whole process {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
