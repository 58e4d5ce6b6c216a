"""Who fitted what, how often, in how many seconds? Starts a process for each run and collects the results."""

import hashlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from json import loads
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench.cases import Case
from bench.competitors import Competitor
from bench.data import Data, save
from bench.suites import Suite, predicted_accuracy
from bench.worker import ANSWER, RECORD, Task

__all__ = ["Options", "Result", "run_case"]

_ROOT = Path(__file__).parents[1]
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """How to run: repetitions, seconds for a fit, threads, whether to compute what needs all rows."""

    repeat: int
    timeout: float
    threads: int
    gap: bool


@dataclass
class Result:
    """All runs of one competitor on one case."""

    competitor: str
    status: str = "ok"  # or "timeout", "failed"
    message: str = ""
    fit_s: list[float] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)  # of each distinct answer
    accuracy: float | None = None

    @property
    def median_s(self) -> float | None:
        return statistics.median(self.fit_s) if self.fit_s and self.status == "ok" else None

    @property
    def verdict(self) -> dict[str, Any]:
        """What was found about the worst of the answers."""
        return min(self.findings, key=lambda one: one["objective"]) if self.findings else {}

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "median_s": self.median_s}


def run_case(
    case: Case, competitors: list[Competitor], suite: Suite, options: Options
) -> tuple[Data, list[Result]]:
    """Let the competitors fit in turn, several times, then judge each distinct answer once."""
    data = case.recipe()
    results = {one.name: Result(one.name) for one in competitors}
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        (folder / "data").mkdir()
        save(data, folder / "data")
        turns = [(turn, one.name) for turn in range(options.repeat) for one in competitors]
        for turn, name in tqdm(turns, desc=case.name, unit="run", disable=None, leave=False):
            if results[name].status == "ok":
                _run(case, results[name], folder, turn, options)
        for result in results.values():
            answers = sorted(folder.glob(f"{result.competitor}-*/{ANSWER}"))
            _judge(result, answers, (case, data, suite, options))
    return data, list(results.values())


def _run(case: Case, result: Result, folder: Path, turn: int, options: Options) -> None:
    """Run one competitor once, in a fresh process, and add to its result."""
    out = folder / f"{result.competitor}-{turn:03d}"
    out.mkdir()
    task = Task(
        competitor=result.competitor,
        parameters=asdict(case.parameters),
        data=str(folder / "data"),
        out=str(out),
        timeout=options.timeout,
        predict=turn == 0,  # predictions of equal answers are equal, and may take as long as the fit
    )
    task.write(out / "task.json")
    environment = {**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(options.threads))}
    process = subprocess.run(
        [sys.executable, "-m", "bench.worker", str(out / "task.json")],
        cwd=_ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if (out / RECORD).exists():
        result.records.append(loads((out / RECORD).read_text()))
        result.fit_s.append(result.records[-1]["fit_s"])
    _note_end(result, process, options.timeout)


def _note_end(result: Result, process: subprocess.CompletedProcess, timeout: float) -> None:
    fitted = bool(result.fit_s)
    if process.returncode == -signal.SIGALRM and fitted and "predict_s" not in result.records[0]:
        result.message = f"prediction took more than {timeout:g} s"
    elif process.returncode == -signal.SIGALRM:
        result.status, result.message = "timeout", f"fit took more than {timeout:g} s"
    elif process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"ended with exit code {process.returncode}"]
        result.status, result.message = "failed", lines[-1]


def _judge(result: Result, answers: list[Path], setting: tuple[Case, Data, Suite, Options]) -> None:
    """Have each distinct answer judged, and the first predictions."""
    case, data, suite, options = setting
    seen = set()
    for path in answers:
        with np.load(path) as file:
            stored = dict(file)
        result.accuracy = predicted_accuracy(data, stored) if result.accuracy is None else result.accuracy
        stored.pop("predicted", None)
        digest = hashlib.sha256(b"".join(values.tobytes() for values in stored.values())).digest()
        if digest in seen:
            continue
        seen.add(digest)
        try:
            result.findings.append(suite.judge(case.parameters, data, stored, options.gap))
        except ValueError as error:
            result.status, result.message = "failed", f"the answer cannot be judged: {error}"
