"""The command line: `python -m bench.classical [--quick] [NAME ...]`, from the root of the repository."""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.classical import table
from bench.classical.cases import CASES, GROUPS, Case
from bench.classical.competitors import Competitor
from bench.classical.problems import Problem
from bench.classical.runs import run_case
from bench.data import DataMissing
from bench.machine import describe
from bench.outcomes import Result

__all__ = ["main"]

_RESULTS = Path("bench/results")


def main(arguments: list[str] | None = None) -> int:
    """Run cases; return 0, 1 if something failed, 2 if a name is unknown, or 130 after Ctrl-C."""
    asked = _parser().parse_args(arguments)
    known = {*GROUPS, *(case.name for case in CASES)}
    if unknown := [name for name in asked.names if name not in known]:
        print(f"unknown {unknown[0]!r}; there are: {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    report = Report(asked.out, asked.repeat or (2 if asked.quick else 3))
    try:
        for case in _chosen(asked.names, asked.quick):
            report.run(case)
    except KeyboardInterrupt:
        print("\nInterrupted; the finished cases are kept.")
        return 130
    return report.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.classical", description="Measure the methods of the textbooks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"group ({', '.join(GROUPS)}) or case; all if none")
    parser.add_argument("--quick", action="store_true", help="small bundled cases only")
    parser.add_argument("--repeat", type=int, choices=range(1, 100), metavar="N", help="fits of each (3; 2 if quick)")
    parser.add_argument("--out", type=Path, default=_RESULTS, metavar="DIR", help=f"folder ({_RESULTS})")
    return parser


def _chosen(names: list[str], quick: bool) -> list[Case]:
    cases = [case for case in CASES if not names or case.group in names or case.name in names]
    return [case for case in cases if case.quick or not quick]


class Report:
    """Runs cases and collects what came out; saved after every case, so that an interrupt loses only one."""

    def __init__(self, folder: Path, repeat: int) -> None:
        now = datetime.now(UTC)
        self.repeat, self.rows = repeat, list(table.HEADING)
        self.path = folder / f"classical-{now:%Y%m%d-%H%M%S}.json"
        self.content: dict[str, Any] = {
            "suite": "classical",
            "date": now.isoformat(timespec="seconds"),
            "machine": describe(),
            "options": {"repeat": repeat},
            "cases": [],
            "skipped": [],
            "failed": [],
        }

    def run(self, case: Case) -> None:
        """Run a case, print its table and save."""
        try:
            problem, competitors, results = run_case(case, self.repeat)
        except DataMissing as error:
            print(f"{case.name} is skipped: {error}.")
            self.content["skipped"].append({"name": case.name, "why": str(error)})
            return
        rows, notes = table.rows(case, competitors, results), table.chosen(case, competitors)
        failed = table.failures(case, competitors, results)
        print(*table.HEADING, *rows, "", *notes, *(f"FAILED: {text}" for text in failed), "", sep="\n", flush=True)
        self.rows += rows
        self.content["failed"] += failed
        self.content["cases"].append(_described(case, problem, competitors, results))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")

    def close(self) -> int:
        """Print the whole table, and return whether something failed."""
        if not self.content["cases"]:
            print("No case was run.")
            return 0
        print(*self.rows, "", *(f"FAILED: {text}" for text in self.content["failed"]), sep="\n")
        print(f"Saved {self.path}")
        return int(bool(self.content["failed"]))


def _described(case: Case, problem: Problem, competitors: list[Competitor], results: list[Result]) -> dict[str, Any]:
    chosen = {one.name: one.chosen for one in competitors}
    return {
        "group": case.group,
        "name": case.name,
        "parameters": {**problem.parameters, "squared": problem.squared},
        "shape": list(problem.data.X.shape),
        "objective": "primal" if case.primal else "dual",
        "results": [
            {**one.json(), **table.compared(one, results), "chosen": chosen[one.competitor]} for one in results
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
