"""What is each path of a fit worth? `python -m bench.ablation`, from the root of the repository.

Each case is fitted with every path on, and in turn with one path off, by a change of the tuning. The table shows the
seconds without a path in multiples of those with it: the geometric mean of the cases in which it changes something, the
case in which it is worth most, and the one in which it costs most. Beside it stand the lines and compiled functions
that serve the path alone, and the seconds that those take to compile. Certificates must hold on both sides.
"""

import argparse
import fnmatch
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from bench.cases import cases_of
from bench.harness.data import DataMissing
from bench.harness.outcomes import Options
from bench.harness.processes import ROOT, limited_to
from bench.harness.study import RESULTS, Study
from bench.harness.suite import Case
from bench.harness.text import aligned
from bench.paired.aside import ASIDE
from bench.paired.paths import PATHS, WorthOf, weight_of
from bench.paired.turns import Pairing, Side, compare

__all__ = ["main", "rows", "summary"]

_LIMIT = 1.1  # times the seconds from which on a path is worth something
_THREADS = 2
_ENOUGH_S = 10.0  # of turns of one side: many paths are measured on many cases
_CHOSEN = {
    "kernel": ("breast_cancer", "a9a", "a9a-C100", "mnist-odd-even-20000", "cifar-animal-vehicle-20000"),
    "tables": ("cod-rna-C1-gamma2", "cod-rna-C100-gamma0.5", "kdd-attacks", "board-C100", "sums-C100", "one-hot-C10"),
    "multiclass": ("iris", "digits", "mnist-10", "cifar-10-20000"),
    "small": ("cancer-linear", "7-classes-of-200-C100", "noisy-2000", "noisy-2000-C100", "60-classes-of-100"),
    "wide_sparse": ("functions-rbf", "words-20000-long"),
    "machines": ("svr-houses", "nu-svc-cod-rna", "one-class-cod-rna-nu0.1", "svr-digits"),
    "linear": ("digits-linear", "a9a-linear", "mnist-linear-squared", "cifar-10-20000-linear-C0.1"),
    "linear_machines": (
        "cancer-logistic",
        "cod-rna-l1",
        "functions-l1",
        "functions-logistic",
        "texts-hinge",
        "a9a-nu0.1",
    ),
    "sgd": ("digits-sgd", "a9a-sgd", "cod-rna-sgd", "words-200000-sgd", "functions-sgd"),
}  # a few of each suite, which differ


def main(arguments: list[str] | None = None) -> int:
    """Measure the paths and print a table. Returns 1 if a certificate is wrong, else 0."""
    parser = argparse.ArgumentParser("python -m bench.ablation", description=__doc__)
    parser.add_argument("--path", action="append", metavar="NAME", help="only this path, * is any text (repeatable)")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case, * is any text (repeatable)")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="limit of a fit (300)")
    parser.add_argument("--processor", action="store_true", help="count what processors spend: other work is going on")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="a study that ended early: its cases are kept")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    options = Options(0, asked.timeout, min(_THREADS, os.cpu_count() or 1), 4000, True, False)
    clock = "processor_s" if asked.processor else "seconds"
    study = Study("ablation", asked.out, options=options.json() | {"clock": clock})
    chosen = [path for path in PATHS if _is_asked(path.name, asked.path)]
    found: dict[str, list[Pairing]] = {path.name: [] for path in chosen}
    kept = json.loads(asked.resume.read_text(encoding="utf-8"))["cases"] if asked.resume else []
    for one in kept:
        study.content["cases"].append(one)
        for result in one["results"]:
            if result["sides"][1] in found:
                found[result["sides"][1]].append(Pairing.of_json(result, clock))
    done = {one["name"] for one in kept}
    work = [pair for pair in _cases() if _is_asked(pair[1].name, asked.case) and pair[1].name not in done]
    for suite, case in tqdm(work, desc="cases", unit="case", disable=None):
        paths = [path for path in chosen if suite in path.suites]
        sides = [Side(path.name, tuning=path.off) for path in paths]
        try:
            pairings = compare(case, suite, [Side("all"), *sides], options, _LIMIT, clock, _ENOUGH_S) if sides else []
        except DataMissing as error:
            tqdm.write(f"{case.name} is skipped: {error}.")
            continue
        for pairing in pairings:
            found[pairing.sides[1]].append(pairing)
            tqdm.write(f"{case.name}: {_said(pairing)}")
        if pairings:
            study.add(case.name, [one.json() for one in pairings], in_suite=suite, aside="aside" in case.suites)
    study.content["paths"] = [asdict(weight_of(path)) | {"name": path.name} for path in chosen]
    study.content["compile_s"] = {} if asked.case else _compile_seconds()
    study.save()
    lines = [summary(path, found[path.name], study.content["compile_s"]) for path in chosen if found[path.name]]
    heading = "path", "", "mean", "worth most", "costs most", "lines", "compiled", "compile s"
    print(*aligned([heading, *lines]), "", f"Saved {study.path}", sep="\n")
    wrong = [text for pairings in found.values() for one in pairings for text in one.wrong]
    print(*wrong, sep="\n")
    return int(bool(wrong))


def _is_asked(name: str, asked: list[str] | None) -> bool:
    return not asked or any(fnmatch.fnmatch(name, one) for one in asked)


def _cases() -> list[tuple[str, Case]]:
    known = [(suite, cases_of(suite)[name]) for suite, names in _CHOSEN.items() for name in names]
    return known + [(suite, case) for suite, cases in ASIDE.items() for case in cases]


def _said(pairing: Pairing) -> str:
    low, high = (1 / end if end else math.inf for end in reversed(pairing.interval))
    seconds = f"{pairing.seconds(0):.3g} s, {pairing.seconds(1):.3g} without"
    return (
        f"{pairing.sides[1]}: {seconds}, {1 / pairing.ratio:.3f} ({low:.3f} to {high:.3f}) {'; '.join(pairing.wrong)}"
    )


def rows(pairings: list[Pairing]) -> list[tuple[str, float]]:
    """Return the cases that take a path, with the seconds without it in multiples of those with it."""
    return [(one.case, 1 / one.ratio) for one in pairings if one.differs]


def summary(path: WorthOf, pairings: list[Pairing], compile_s: dict[str, float]) -> tuple[str, ...]:
    """Return the row of a path."""
    touched, weight = rows(pairings), weight_of(path)
    most = max(touched, key=lambda one: one[1], default=("", math.nan))
    least = min(touched, key=lambda one: one[1], default=("", math.nan))
    mean = statistics.geometric_mean([ratio for _, ratio in touched]) if touched else math.nan
    seconds = sum(compile_s.get(module, 0.0) for module in weight.modules)
    return (
        path.name, f"{len(touched)} of {len(pairings)} cases", f"{mean:.2f}", f"{most[1]:.2f} {most[0]}",
        f"{least[1]:.2f} {least[0]}", str(weight.lines), str(weight.compiled), f"{seconds:.1f}",
    )  # fmt: skip


def _compile_seconds() -> dict[str, float]:
    """Return the seconds that the functions of each module take to compile for `warmup`, without what they call."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        environment = {**limited_to(_THREADS), "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-m", "bench.workers.compiling"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
