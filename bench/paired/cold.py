"""How long does a new process take to its first answer? `python -m bench.paired.cold`, from the root of the repository.

A process imports an estimator, fits a small data set and predicts it: with an empty folder of machine code, then with
the folder that the first one filled, as after `fastsvm warmup` in an image or from a compiled wheel, and with
scikit-learn's estimator. It prints and stores seconds of wall time, of the import alone and of all, the least of
some turns, and what the filled folder weighs. The answers of the first two must have the same bits.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.harness.processes import ROOT
from bench.harness.study import RESULTS, Study

__all__ = ["PROGRAM", "main"]

PROGRAM = """
import json, sys, time, warnings, zlib
begin = time.perf_counter()
from {module} import {name}
imported = time.perf_counter()
from sklearn import datasets
warnings.simplefilter("ignore")
if {data!r} == "5,000 rows":
    X, y = datasets.make_classification(5000, 20, n_informative=10, random_state=0)
else:
    X, y = getattr(datasets, "load_{data}")(return_X_y=True)
start = time.perf_counter()
answer = {name}({parameters}).fit(X, y).predict(X)
end = time.perf_counter()
print(json.dumps([imported - begin, imported - begin + end - start, zlib.crc32(answer.tobytes())]))
"""
"""What a process runs. It prints seconds of the import and of all, and a checksum of the answer."""


class Subject(NamedTuple):
    """An estimator, scikit-learn's with its module and name, a data set and parameters of both."""

    name: str
    peer: tuple[str, str]
    data: str
    parameters: str = ""


SUBJECTS = [
    Subject("SVC", ("sklearn.svm", "SVC"), "iris"),
    Subject("SVC", ("sklearn.svm", "SVC"), "digits"),
    Subject("SVC", ("sklearn.svm", "SVC"), "5,000 rows"),
    Subject("NuSVC", ("sklearn.svm", "NuSVC"), "iris"),
    Subject("SVR", ("sklearn.svm", "SVR"), "diabetes"),
    Subject("OneClassSVM", ("sklearn.svm", "OneClassSVM"), "iris"),
    Subject("LinearSVC", ("sklearn.svm", "LinearSVC"), "iris"),
    Subject("LinearSVC", ("sklearn.svm", "LinearSVC"), "digits"),
    Subject("LinearSVC", ("sklearn.svm", "LinearSVC"), "5,000 rows"),
    Subject("LinearSVR", ("sklearn.svm", "LinearSVR"), "diabetes"),
    Subject("LogisticRegression", ("sklearn.linear_model", "LogisticRegression"), "iris"),
    Subject("SGDClassifier", ("sklearn.linear_model", "SGDClassifier"), "iris", "random_state=0"),
    Subject("SGDRegressor", ("sklearn.linear_model", "SGDRegressor"), "diabetes", "random_state=0"),
]


class Row(NamedTuple):
    """Seconds to the first answer of a process, and of its import alone, and megabytes of machine code."""

    empty_s: float
    code_s: float
    import_s: float
    peer_s: float
    peer_import_s: float
    code_mb: float


class Turn(NamedTuple):
    """What a process took, and the checksum of its answer."""

    import_s: float
    total_s: float
    checksum: int


def turn(module: str, name: str, subject: Subject, cache: Path) -> Turn:
    """Run a process that keeps machine code in a folder."""
    program = PROGRAM.format(module=module, name=name, data=subject.data, parameters=subject.parameters)
    settings = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    printed = subprocess.check_output([sys.executable, "-c", program], env=os.environ | settings, text=True)
    return Turn(*json.loads(printed))


def _fastest(turns: list[Turn]) -> Turn:
    return min(turns, key=lambda each: each.total_s)


def main(arguments: list[str] | None = None) -> int:
    """Print a table. Returns 1 if an answer depends on where its code came from, else 0."""
    parser = argparse.ArgumentParser("python -m bench.paired.cold", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="only this estimator (repeatable)")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="turns with code and of scikit-learn (3)")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder of the JSON file ({RESULTS})")
    asked = parser.parse_args(arguments)
    study, differs = Study("first_answers", asked.out), False
    for subject in SUBJECTS:
        if asked.only and subject.name not in asked.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            empty = turn("fastsvm", subject.name, subject, Path(folder))
            ours = _fastest([turn("fastsvm", subject.name, subject, Path(folder)) for _ in range(asked.turns)])
            theirs = _fastest([turn(*subject.peer, subject, Path(folder)) for _ in range(asked.turns)])
            size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6
        differs |= empty.checksum != ours.checksum
        row = Row(empty.total_s, ours.total_s, ours.import_s, theirs.total_s, theirs.import_s, size)
        study.add(f"{subject.name}, {subject.data}", row._asdict())
        print(
            f"{subject.name}, {subject.data}: {', '.join(f'{k} {v:.2f}' for k, v in row._asdict().items())}", flush=True
        )
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
