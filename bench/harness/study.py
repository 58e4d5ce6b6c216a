"""What did a measurement find? JSON with the machine, saved after every case, so that an interrupt loses only one."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.harness.machine import describe

__all__ = ["RESULTS", "Study"]

RESULTS = Path("bench/results")


class Study:
    """Collects what is found about the cases of a question.

    Parameters
    ----------
    name : str
        Name of the question, with which the name of the file begins.
    folder : Path
        Where to save.
    **facts : object
        What the file says beside.
    """

    def __init__(self, name: str, folder: Path, **facts: Any) -> None:
        now = datetime.now(UTC)
        self.path = folder / f"{name}-{now:%Y%m%d-%H%M%S}.json"
        self.content: dict[str, Any] = {
            "suite": name,
            "date": now.isoformat(timespec="seconds"),
            "machine": describe(),
            **facts,
            "cases": [],
        }

    def add(self, name: str, results: Any, **facts: Any) -> None:
        """Add the results of a case, and save."""
        self.content["cases"].append({"name": name, **facts, "results": results})
        self.save()

    def save(self) -> None:
        """Write the JSON file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
