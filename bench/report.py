"""What came out? JSON with everything that was measured, and what is printed of it."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import growth
from bench.cases import Case
from bench.data import Data
from bench.machine import describe
from bench.outcomes import Options, Result
from bench.suites import SUITES
from bench.tables import Finished

__all__ = ["Report"]


class Report:
    """Collects the results of a suite; saved after every case, so that an interrupt loses only one.

    Parameters
    ----------
    suite : str
        Name of the suite.
    options : Options
        How it was run.
    folder : Path
        Where to save.
    """

    def __init__(self, suite: str, options: Options, folder: Path) -> None:
        now = datetime.now(UTC)
        self.options = options
        self.view = SUITES[suite].view
        self.path = folder / f"{suite}-{now:%Y%m%d-%H%M%S}.json"
        self.finished: list[Finished] = []
        self.content: dict[str, Any] = {
            "suite": suite,
            "date": now.isoformat(timespec="seconds"),
            "machine": describe(),
            "options": asdict(options),
            "cases": [],
            "exponents": {},
            "skipped": [],
        }

    def add(self, case: Case, data: Data, results: list[Result]) -> None:
        """Add what came out for a case."""
        self.finished.append(Finished(case, data.X.shape, results))
        self.content["cases"].append({
            "name": case.name,
            "parameters": asdict(case.parameters),
            "shape": list(data.X.shape),
            "dtype": str(data.X.dtype),
            "classes": len(set(data.y.tolist())),
            "test_rows": len(data.y_test),
            "results": [{**one.json(), **self.view.compared(one, results)} for one in results],
        })  # fmt: skip
        self.content["exponents"] = growth.exponents(self.finished)
        self.save()

    def skip(self, name: str, why: str) -> None:
        """Note, and print, that a case or a competitor does not take part."""
        print(f"{name} is skipped: {why}.")
        self.content["skipped"].append({"name": name, "why": why})
        self.save()

    def save(self) -> None:
        """Write the JSON file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1, allow_nan=False) + "\n")

    def last_lines(self) -> list[str]:
        """Return the table of the last case."""
        return self.view.lines(self.finished[-1:], self.options)

    def lines(self) -> list[str]:
        """Return the table of all cases, and below it the exponents if some are sizes of one problem."""
        slopes = growth.exponent_lines(self.finished)
        return [*self.view.lines(self.finished, self.options), *([""] if slopes else []), *slopes]
