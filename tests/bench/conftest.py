"""The benchmarks on the path, and workers that run in the process of the tests."""

import gc
import importlib
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are not part of the installed package

from bench.harness.competitor import OURS
from bench.harness.data import Data
from bench.harness.outcomes import Options, Result
from bench.harness.processes import Crew
from bench.harness.suite import Case
from bench.kernel.competitors import KernelParameters
from bench.workers import Watch

FINDING = {
    "objective": 2.0, "bound_violation": 0.0, "balance_violation": 0.0, "kkt_gap": 1e-4, "duality_gap": 0.0,
    "n_support": 3, "accuracy": 0.9, "agreement": 1.0,
}  # fmt: skip


class InProcess:
    """Runs the workers' code in this process, which saves an import and a compilation for each competitor."""

    def __init__(self):
        self._ready = None, None

    def __enter__(self):
        gc.collect()
        gc.freeze()  # a measurement collects garbage, and need not look through all objects of the session for it
        return self

    def __exit__(self, *error):
        """Nothing was started."""

    dismiss = __exit__

    def run(self, module, task, out, environment, stays):
        if self._ready[0] != (module, task):
            watch = Watch(lambda text: None, task.timeout)
            self._ready = (module, task), importlib.import_module(module).prepare(task, watch)
        self._ready[1](out)


class Together(Crew):
    """Runs all competitors in one process for each module. Their times are not compared, and it starts only once."""

    def key(self, module, task):
        return "all", module

    def run(self, module, task, out, environment, stays):
        # Threads that wait would compete with those of other tests.
        super().run(module, task, out, {**environment, "OMP_WAIT_POLICY": "passive"}, stays)


@pytest.fixture(scope="module")
def crew_for():
    """Return a function that returns the crew for a competitor; only those with threads of their own need a process."""
    with InProcess() as here, Together() as process:
        yield lambda competitor: here if competitor.module in ("fastsvm", "sklearn", "numpy") else process


@pytest.fixture
def command_in_process(monkeypatch):
    """Make `bench.__main__` run its workers in this process, and draw small pictures: nobody looks at them."""
    monkeypatch.setattr("bench.__main__.Crew", InProcess)
    monkeypatch.setattr("bench.__main__.DPI", 40)


@pytest.fixture(scope="session")
def options():
    return Options(repeat=2, timeout=60, threads=2, memory_mb=100, gap=True, quick=True)


@pytest.fixture(scope="session")
def reversed_digits():
    """Return few digits whose classes do not appear in order, and whose labels are not their numbers."""

    def make(n_classes, form, n_rows=300):
        rows, labels = load_digits(n_class=n_classes, return_X_y=True)
        rows, labels = rows[::-1] / 16, labels[::-1] + 3
        return Data(form(rows[:n_rows]), labels[:n_rows], form(rows[n_rows:]), labels[n_rows:])

    return make


def _kernel_result(name=OURS, seconds=1.0, added_mb=10.0, status="ok", **finding):
    record = {
        "seconds": seconds, "parts": {"warm-up": 0.1}, "before_mb": 50.0, "peak_mb": 50 + added_mb,
        "added_mb": added_mb, "rows_mb": 20.0, "warnings": [], "claimed": {"kkt_violation_": 1e-4}, "n_iter": [1],
    }  # fmt: skip
    return Result(name, status, records=[record], findings=[FINDING | finding])


def _kernel_case(name="case", series="", **given):
    return Case(name, ("kernel",), lambda: None, KernelParameters(**given), series=series)


def _curve_result(name, seconds, objectives, status="ok", off=None):
    """Return a result of two runs, of which the second took twice as long."""
    records = [
        {
            "seconds": factor * seconds[-1], "parts": {"warm-up": 0.1}, "peak_mb": 60.0, "added_mb": 10.0,
            "points": [{"budget": k + 1, "seconds": factor * s} for k, s in enumerate(seconds)],
            "chosen": None, "warnings": [],
        }
        for factor in (1, 2)
    ]  # fmt: skip
    points = [{"budget": k + 1, "objective": value, "accuracy": 0.9, "off": off} for k, value in enumerate(objectives)]
    return Result(name, status, records=records, findings=[{**points[-1], "points": points}])


@pytest.fixture(scope="session")
def kernel_result():
    return _kernel_result


@pytest.fixture(scope="session")
def kernel_case():
    return _kernel_case


@pytest.fixture(scope="session")
def curve_result():
    return _curve_result
