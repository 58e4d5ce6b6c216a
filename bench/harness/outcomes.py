"""What is a result? The options of a run, and all that one competitor did on one case."""

import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Options", "Result"]


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes
    ----------
    repeat : int
        Runs of each competitor.
    timeout : float
        Seconds after which a fit is ended.
    threads, memory_mb : int
        Resources of each competitor.
    gap : bool
        Whether the referee computes what needs the kernel values of all samples.
    quick : bool
        Whether only small cases are run.
    folder : Path or None
        Where large files are written and kept.
    """

    repeat: int
    timeout: float
    threads: int
    memory_mb: int
    gap: bool
    quick: bool
    folder: Path | None = None

    def json(self) -> dict[str, Any]:
        """Return what a reader needs to run the same. The folder is one of this machine."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}


@dataclass
class Result:
    """All runs of one competitor on one case."""

    competitor: str
    status: str = "ok"  # or "timeout", "failed"
    message: str = ""
    records: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)  # of each distinct answer

    @property
    def seconds(self) -> list[float]:
        return [record["seconds"] for record in self.records]

    @property
    def median_s(self) -> float | None:
        return statistics.median(self.seconds) if self.records and self.status == "ok" else None

    def most(self, name: str) -> float | None:
        """Return the largest value that was recorded in any run."""
        return max((record[name] for record in self.records), default=None)

    def part(self, name: str) -> float | None:
        """Return the median seconds of a part of the runs."""
        found = [record["parts"][name] for record in self.records if name in record["parts"]]
        return statistics.median(found) if found else None

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": self.seconds, "median_s": self.median_s}
