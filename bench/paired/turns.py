"""Two sides fit the same case in turn, until their ratio is known well enough.

Each pair of turns gives a ratio of seconds. Both turns meet about the same load of the machine, and every other pair
begins with the other side. The mean of the logarithms has a standard error, and with Student's quantile an interval.
Turns end once the interval is narrow, or lies on one side of the limit that decides.
"""

import json
import math
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from bench.harness.data import save
from bench.harness.outcomes import Options
from bench.harness.processes import AVX2, ROOT, Ended, Worker
from bench.harness.suite import Case
from bench.workers import RECORD, Task

__all__ = ["Pairing", "Side", "compare"]

_WORKER = "bench.workers.paired"
_LEAST_PAIRS, _MOST_PAIRS = 3, 12
_NARROW = 1.04  # quotient of the ends of an interval that is narrow enough
_CONFIDENCE = 0.95
_ENOUGH_S = 120.0  # of turns of one side: a longer case has the fewest pairs
_SAME = 1e-9  # of the objective: rounding, by which two certified intervals may miss each other


@dataclass(frozen=True)
class Side:
    """Who fits: a name, the folder from which `fastsvm` is imported, and changes of the tuning by path."""

    name: str
    folder: Path = ROOT
    tuning: dict[str, Any] = field(default_factory=dict)


@dataclass
class Pairing:
    """All turns of two sides on a case.

    Attributes
    ----------
    case : str
        Its name.
    sides : tuple of str
        Their names.
    records : tuple of list of dict
        What each side recorded.
    message : str
        Why a side ended, if it did.
    """

    case: str
    sides: tuple[str, str]
    records: tuple[list[dict[str, Any]], list[dict[str, Any]]] = field(default_factory=lambda: ([], []))
    message: str = ""

    @property
    def ratios(self) -> list[float]:
        """Seconds of the first side, in multiples of the second one's."""
        return [one["seconds"] / other["seconds"] for one, other in zip(*self.records, strict=False)]

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios."""
        return statistics.geometric_mean(self.ratios) if self.ratios else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The interval in which the ratio lies."""
        logs = [math.log(one) for one in self.ratios]
        if len(logs) < 2:
            return 0.0, math.inf
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        half = float(student.ppf((1 + _CONFIDENCE) / 2, len(logs) - 1)) * error
        return self.ratio * math.exp(-half), self.ratio * math.exp(half)

    def seconds(self, side: int) -> float:
        """Return the median seconds of a side."""
        return statistics.median(one["seconds"] for one in self.records[side]) if self.records[side] else math.nan

    @property
    def wrong(self) -> list[str]:
        """What is wrong with the certificates: a side that did not converge, or two that cannot both be true."""
        if self.message or not all(self.records):
            return [self.message] if self.message else []
        last = [side[-1] for side in self.records]
        if last[0]["converged"] != last[1]["converged"]:
            return [f"only {self.sides[1 - last[0]['converged']]} converged"]
        optima = [_optimum(one["claimed"]) for one in last]
        if None in optima:
            return []
        (low, high), (least, most) = optima  # type: ignore[misc]
        slack = _SAME * max(1.0, abs(high), abs(most))
        return [] if low <= most + slack and least <= high + slack else ["no optimum is within both certificates"]

    def json(self) -> dict[str, Any]:
        """Return what is kept."""
        return {
            "case": self.case, "sides": self.sides, "ratio": self.ratio, "interval": self.interval,
            "seconds": [self.seconds(0), self.seconds(1)], "wrong": self.wrong, "records": self.records,
        }  # fmt: skip


def _optimum(claimed: dict[str, float]) -> tuple[float, float] | None:
    """Return the interval that a certificate states for the least objective."""
    if "objective_" not in claimed or not math.isfinite(claimed.get("duality_gap_", math.nan)):
        return None
    return claimed["objective_"] - claimed["duality_gap_"], claimed["objective_"]


def compare(case: Case, suite: str, sides: Sequence[Side], options: Options, limit: float) -> list[Pairing]:
    """Let the first side take turns with each of the others, and return what came out for each.

    Parameters
    ----------
    case : Case
        Data and parameters.
    suite : str
        The suite whose estimator is fitted.
    sides : sequence of Side
        The first one is compared with the others.
    options : Options
        How to run.
    limit : float
        The ratio that decides.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        (folder / "data").mkdir()
        save(case.recipe(), folder / "data")
        first: Worker | None = None
        try:
            for side in sides[1:]:
                found.append(Pairing(case.name, (sides[0].name, side.name)))
                first = first or _started(sides[0], case, options)
                second = _started(side, case, options)
                try:
                    turns = _Turns((sides[0], side), (first, second), _task(case, suite, options, folder), folder)
                    turns.take(found[-1], limit)
                except Ended as end:
                    found[-1].message = str(end)
                    first.close()
                    first = None
                finally:
                    second.close()
        finally:
            if first is not None:
                first.close()
    return found


def _started(side: Side, case: Case, options: Options) -> Worker:
    return Worker(_WORKER, options.threads, AVX2 if case.avx2 else {}, side.folder)


def _task(case: Case, suite: str, options: Options, folder: Path) -> Task:
    return Task(
        competitor="", stage=suite, parameters=asdict(case.parameters), threads=options.threads,
        memory_mb=options.memory_mb, data=str(folder / "data"), timeout=options.timeout,
    )  # fmt: skip


@dataclass(frozen=True)
class _Turns:
    """Two processes that stay for a case."""

    sides: tuple[Side, Side]
    workers: tuple[Worker, Worker]
    task: Task
    folder: Path

    def take(self, pairing: Pairing, limit: float) -> None:
        """Add pairs of turns until the ratio is known well enough."""
        for pair in range(_MOST_PAIRS):
            for side in (0, 1) if pair % 2 == 0 else (1, 0):
                pairing.records[side].append(self._turn(side, pair))
            low, high = pairing.interval
            is_known = high <= _NARROW * low or low > limit or high < 1 / limit
            taken = max(sum(one["seconds"] for one in records) for records in pairing.records)
            if pair + 1 >= _LEAST_PAIRS and (is_known or taken > _ENOUGH_S):
                return

    def _turn(self, side: int, pair: int) -> dict[str, Any]:
        out = Path(tempfile.mkdtemp(prefix=f"{side}-{pair}-", dir=self.folder))
        task = self.task
        if self.sides[side].tuning:
            task = Task(**{**asdict(task), "parameters": {**task.parameters, "tuning": self.sides[side].tuning}})
        self.workers[side].run(task, out)
        return json.loads((out / RECORD).read_text())
