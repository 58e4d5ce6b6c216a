"""Two sides fit the same case in turn, until their ratio is known well enough.

In each round every side fits once, and two sides give a ratio of seconds. They meet about the same load of the machine,
and every other round is in the opposite order. The mean of the logarithms has a standard error, and with Student's
quantile an interval. Rounds end once the interval is narrow, or lies on one side of the limit that decides.

Sides of one folder share a process. Two folders have a process each. The same code may be some percent slower in one
process than in another, by where its memory lies, so that such processes are started anew after some rounds, and the
means of the processes count as the samples.
"""

import json
import math
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from bench.harness.data import save
from bench.harness.outcomes import Options
from bench.harness.processes import AVX2, ROOT, Ended, Worker
from bench.harness.suite import Case
from bench.workers import RECORD, SIDE, Task

__all__ = ["Pairing", "Side", "compare"]

_WORKER = "bench.workers.paired"
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 12
_ROUNDS_OF_LONG_CASE = 2
_ROUNDS_OF_PROCESS = 2  # where each folder has a process of its own
_NARROW = 1.04  # quotient of the ends of an interval that is narrow enough
_CONFIDENCE = 0.95
_ENOUGH_S = 120.0  # of turns of one side: a longer case has no more rounds than it must
_UNTOUCHED = 1.1  # quotient of the seconds of two sides that did the same, beyond which they are measured further
_SAME = 1e-9  # of the objective: rounding, by which two certified intervals may miss each other


@dataclass(frozen=True, eq=False)
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
    untouched : bool
        The first round came to the same bits in the same time, and was the last one.
    clock : {"seconds", "processor_s"}
        What counts: seconds that pass, or those that all processors spend, which other work hardly changes.
    """

    case: str
    sides: tuple[str, str]
    records: tuple[list[dict[str, Any]], list[dict[str, Any]]] = field(default_factory=lambda: ([], []))
    message: str = ""
    untouched: bool = False
    clock: str = "seconds"

    @property
    def ratios(self) -> list[float]:
        """Seconds of the first side, in multiples of the second one's."""
        return [one[self.clock] / other[self.clock] for one, other in zip(*self.records, strict=False)]

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios."""
        return statistics.geometric_mean(self.ratios) if self.ratios else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The interval in which the ratio lies."""
        logs = self._samples()
        if len(logs) < 2:
            return 0.0, math.inf
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        half = float(student.ppf((1 + _CONFIDENCE) / 2, len(logs) - 1)) * error
        return self.ratio * math.exp(-half), self.ratio * math.exp(half)

    def _samples(self) -> list[float]:
        """Return the logarithms of the ratios, and only their means by process where there were several."""
        logs, processes = [math.log(ratio) for ratio in self.ratios], [one["process"] for one in self.records[0]]
        of_process = [[log for log, of in zip(logs, processes, strict=False) if of == one] for one in set(processes)]
        return [statistics.fmean(some) for some in of_process] if len(of_process) > 1 else logs

    @property
    def differs(self) -> bool:
        """Whether the sides came to other results, or one of them took longer beyond the noise."""
        low, high = self.interval
        return bool(self.ratios) and not self.untouched and not (self._is_same() and low < 1 < high)

    def is_untouched(self) -> bool:
        """Return whether a first round came to the same bits by the same steps in about the same time."""
        return len(self.ratios) == 1 and self._is_same() and 1 / _UNTOUCHED < self.ratio < _UNTOUCHED

    def _is_same(self) -> bool:
        """Return whether both sides came to the same bits by the same steps."""
        first, second = (side[-1] for side in self.records)
        return first["claimed"] == second["claimed"] and first["n_iter"] == second["n_iter"]

    def seconds(self, side: int) -> float:
        """Return the median seconds of a side."""
        return statistics.median(one[self.clock] for one in self.records[side]) if self.records[side] else math.nan

    @property
    def wrong(self) -> list[str]:
        """What is wrong with the certificates: a side that did not converge, or two that cannot both be true."""
        if self.message or not all(self.records):
            return [self.message] if self.message else []
        last = [side[-1] for side in self.records]
        if last[0]["converged"] != last[1]["converged"]:
            return [f"only {self.sides[1 - last[0]['converged']]} converged"]
        optima = [_optimum(one) for one in last]
        if None in optima:
            return []
        (low, high), (least, most) = optima  # type: ignore[misc]
        slack = _SAME * max(1.0, abs(high), abs(most))
        return [] if low <= most + slack and least <= high + slack else ["no optimum is within both certificates"]

    @classmethod
    def of_json(cls, kept: dict[str, Any], clock: str) -> "Pairing":
        """Return the pairing of which `json` told, with all its records."""
        sides, records = tuple(kept["sides"]), tuple(kept["records"])
        untouched = len(records[0]) == 1 and not kept["differs"]
        return cls(kept["case"], sides, records, "; ".join(kept["wrong"]), untouched, clock)

    def json(self) -> dict[str, Any]:
        """Return what is kept, with None for what is not known."""
        numbers = {"ratio": self.ratio, "interval": self.interval, "seconds": (self.seconds(0), self.seconds(1))}
        known = {name: value if np.all(np.isfinite(value)) else None for name, value in numbers.items()}
        return {
            "case": self.case, "sides": self.sides, **known, "wrong": self.wrong, "differs": self.differs,
            "records": self.records,
        }  # fmt: skip


def _optimum(record: dict[str, Any]) -> tuple[float, float] | None:
    """Return the interval that a certificate states for the optimum: the dual objective is its lower end."""
    claimed = record["claimed"]
    if "objective_" not in claimed or not math.isfinite(claimed.get("duality_gap_", math.nan)):
        return None
    low = claimed["objective_"] - claimed["duality_gap_"] * (not record["of_dual"])
    return low, low + claimed["duality_gap_"]


def compare(
    case: Case,
    suite: str,
    sides: Sequence[Side],
    options: Options,
    limit: float,
    clock: str = "seconds",
    enough_s: float = _ENOUGH_S,
) -> list[Pairing]:
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
    clock : {"seconds", "processor_s"}
        What counts.
    enough_s : float
        Seconds of turns of one side from which on no round is added.
    """
    found = {side: Pairing(case.name, (sides[0].name, side.name), clock=clock) for side in sides[1:]}
    with _Rounds(case, suite, sides, options) as rounds:
        left = list(found)
        while left:
            records, message = rounds.take([sides[0], *left])
            for side in list(left):
                pairing, of_side = found[side], (records.get(sides[0]), records.get(side))
                if None in of_side:
                    pairing.message = message
                    left.remove(side)
                    continue
                for kept, record in zip(pairing.records, of_side, strict=True):
                    kept.append(record)  # type: ignore[arg-type]
                pairing.untouched = side.folder == sides[0].folder and pairing.is_untouched()
                if pairing.untouched or _is_known(pairing, limit, enough_s):
                    left.remove(side)
    return list(found.values())


def _is_known(pairing: Pairing, limit: float, enough_s: float) -> bool:
    """Return whether the ratio is known well enough, or as well as may be afforded."""
    n_rounds, (low, high) = len(pairing.ratios), pairing.interval
    is_known = high <= _NARROW * low or low > limit or high < 1 / limit
    taken = max(sum(one["seconds"] for one in records) for records in pairing.records)
    if taken > enough_s:
        return n_rounds >= _ROUNDS_OF_LONG_CASE
    return n_rounds == _MOST_ROUNDS or (n_rounds >= _LEAST_ROUNDS and is_known)


class _Rounds:
    """The processes of a case, one a folder, and the turns that their sides take."""

    def __init__(self, case: Case, suite: str, sides: Sequence[Side], options: Options) -> None:
        self._case, self._options, self._n_rounds, self._process = case, options, 0, 0
        self._restarts = len({side.folder for side in sides}) > 1
        self._workers: dict[Path, Worker] = {}
        self._temporary = tempfile.TemporaryDirectory(prefix="bench-")
        self._folder = Path(self._temporary.name)
        (self._folder / "data").mkdir()
        save(case.recipe(), self._folder / "data")
        self._task = Task(
            competitor="", stage=suite, threads=options.threads, memory_mb=options.memory_mb,
            parameters={**asdict(case.parameters), "tunings": {side.name: side.tuning for side in sides}},
            data=str(self._folder / "data"), timeout=options.timeout,
        )  # fmt: skip

    def __enter__(self) -> "_Rounds":
        return self

    def __exit__(self, *error: object) -> None:
        self._dismiss()
        self._temporary.cleanup()

    def _dismiss(self) -> None:
        while self._workers:
            self._workers.popitem()[1].close()

    def take(self, sides: Sequence[Side]) -> tuple[dict[Side, dict[str, Any]], str]:
        """Let each side fit once. Returns the records of those that came to an end, and why the last other did not."""
        if self._restarts and self._n_rounds % _ROUNDS_OF_PROCESS == 0:
            self._dismiss()
            self._process += 1
        records, message = {}, ""
        for side in sides if self._n_rounds % 2 == 0 else reversed(sides):
            try:
                records[side] = self._turn(side)
            except Ended as end:
                message = str(end)
                self._workers.pop(side.folder).close()
        self._n_rounds += 1
        return records, message

    def _turn(self, side: Side) -> dict[str, Any]:
        out = Path(tempfile.mkdtemp(prefix="turn-", dir=self._folder))
        (out / SIDE).write_text(side.name)
        if side.folder not in self._workers:
            environment = AVX2 if self._case.avx2 else {}
            self._workers[side.folder] = Worker(_WORKER, self._options.threads, environment, side.folder)
        self._workers[side.folder].run(self._task, out)
        return {**json.loads((out / RECORD).read_text()), "process": self._process}
