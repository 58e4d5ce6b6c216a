"""Who took how many seconds, and how good are the answers? Competitors run in turn."""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bench.harness.competitor import Competitor
from bench.harness.data import Data, save
from bench.harness.outcomes import Options, Result
from bench.harness.processes import AVX2, Crew, Ended
from bench.harness.suite import Case, Finished, Suite
from bench.workers import ANSWER, RECORD, Task

__all__ = ["run_case"]


@dataclass(frozen=True)
class _Setting:
    """What does not change while a case is run."""

    case: Case
    suite: Suite
    options: Options
    folder: Path

    def task(self, competitor: str) -> Task:
        return Task(
            competitor=competitor,
            stage=self.suite.stage,
            parameters=asdict(self.case.parameters),
            threads=self.options.threads,
            memory_mb=self.options.memory_mb,
            data=str(self.folder / "data"),
            timeout=self.options.timeout,
        )

    def environment(self) -> dict[str, str]:
        """Return for which processor machine code is, unless it is this one."""
        return AVX2 if self.case.avx2 else {}


def run_case(
    case: Case, competitors: list[Competitor], suite: Suite, options: Options, crew: Crew
) -> tuple[Finished, Data]:
    """Let the competitors run in turn, several times, then judge each distinct answer once."""
    results = [Result(one.name) for one in competitors]
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        case, data = suite.prepare(case, options, Path(temporary))
        setting = _Setting(case, suite, options, Path(temporary))
        (setting.folder / "data").mkdir()
        save(data, setting.folder / "data")
        turns = [(turn, result) for turn in range(min(options.repeat, suite.most_repeats)) for result in results]
        for turn, result in tqdm(turns, desc=case.name, unit="run", disable=None, leave=False):
            if result.status == "ok" and max(result.seconds, default=0) <= suite.enough_s:
                _run(setting, result, turn, crew)
        if not options.quick:
            crew.dismiss()  # the referee needs the processors and the memory
        _judge(setting, data, results)
    return Finished(case, data.X.shape, results), data


def _run(setting: _Setting, result: Result, turn: int, crew: Crew) -> None:
    """Run one competitor once and add to its result."""
    suite, name = setting.suite, result.competitor
    out = setting.folder / f"{name}.{turn}"
    out.mkdir()
    stays = suite.stays_quick if setting.options.quick else suite.stays
    try:
        crew.run(suite.worker, setting.task(name), out, setting.environment(), stays)
    except Ended as end:
        result.status, result.message = end.status, str(end)
        if result.records:
            return
    if (out / RECORD).exists():  # a competitor that was ended may have left the beginning of a curve
        result.records.append(json.loads((out / RECORD).read_text()))


def _judge(setting: _Setting, data: Data, results: list[Result]) -> None:
    """Judge each distinct answer of each competitor, all at once, because they share kernel values."""
    answers = [(result, stored) for result in results for stored in _distinct(setting.folder, result)]
    stored = [one for _, one in answers]
    found = setting.suite.judge(setting.case.parameters, data, stored, setting.options.gap)
    for (result, _), finding in zip(answers, found, strict=True):
        if isinstance(finding, str):
            result.status, result.message = "failed", f"the answer cannot be judged: {finding}"
        else:
            result.findings.append(finding)


def _distinct(folder: Path, result: Result) -> Iterator[dict[str, np.ndarray]]:
    """Yield the answers of a competitor. Of answers that are equal to the last bit, only one is yielded."""
    seen = set()
    for turn in range(len(result.records)):
        with np.load(folder / f"{result.competitor}.{turn}" / ANSWER) as file:
            stored = dict(file)
        digest = hashlib.sha256(b"".join(values.tobytes() for values in stored.values())).digest()
        if digest not in seen:
            seen.add(digest)
            yield stored
