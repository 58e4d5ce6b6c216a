"""The command line: `python -m bench SUITE [--quick] [--case NAME] ...`, from the root of the repository."""

import argparse
import os
import sys
from pathlib import Path

from bench.cases import Case, cases_of
from bench.competitors import Competitor, competitors_of
from bench.data import DataMissing
from bench.picture import draw
from bench.report import Report
from bench.runs import Options, run_case
from bench.suites import SUITES, Suite

__all__ = ["main"]

_RESULTS = Path("bench/results")


def main(arguments: list[str] | None = None) -> int:
    """Run a suite; return 0, 1 if a competitor failed, or 2 if the request makes no sense."""
    asked = _parser().parse_args(arguments)
    wrong = _what_is_wrong(asked)
    if wrong:
        print(f"bench: {wrong}", file=sys.stderr)
        return 2
    repeat = asked.repeat or (2 if asked.quick else 3)
    options = Options(repeat, asked.timeout, asked.threads, not asked.no_gap)
    report = Report(asked.suite, options, asked.out)
    competitors = _importable(asked, report)
    try:
        for case in _chosen_cases(asked):
            _run(case, competitors, SUITES[asked.suite], report)
    except KeyboardInterrupt:
        print("\nInterrupted; the finished cases are kept.")
    _close(report)
    return int(any(one.status == "failed" for _, results in report.cases for one in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Time fits and judge the answers.")
    parser.add_argument("suite", help=f"what to measure: {', '.join(SUITES)}")
    parser.add_argument("--quick", action="store_true", help="small bundled cases only, two repetitions")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case (repeatable)")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this competitor (repeatable)")
    parser.add_argument("--repeat", type=_positive(int), metavar="N", help="repetitions (3; 2 with --quick)")
    parser.add_argument(
        "--timeout", type=_positive(float), default=3600, metavar="S", help="most of a fit (3600)"
    )
    parser.add_argument(
        "--threads", type=_positive(int), default=os.cpu_count(), metavar="N", help="of each (all)"
    )
    parser.add_argument("--no-gap", action="store_true", help="judge the objective only, which is quicker")
    parser.add_argument("--out", type=Path, default=_RESULTS, metavar="DIR", help=f"folder ({_RESULTS})")
    return parser


def _positive(kind: type) -> type:
    def convert(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    return convert  # type: ignore[return-value]


def _what_is_wrong(asked: argparse.Namespace) -> str | None:
    """Return a sentence about the first name that is unknown."""
    if asked.suite not in SUITES:
        return f"unknown suite {asked.suite!r}; there are: {', '.join(SUITES)}"
    for kind, names, known in (
        ("case", asked.case, cases_of(asked.suite)),
        ("competitor", asked.only, competitors_of(asked.suite)),
    ):
        for name in names or ():
            if name not in known:
                return f"unknown {kind} {name!r} in suite {asked.suite}; there are: {', '.join(known)}"
    return None


def _chosen_cases(asked: argparse.Namespace) -> list[Case]:
    cases = cases_of(asked.suite)
    if asked.case:
        return [cases[name] for name in dict.fromkeys(asked.case)]
    return [case for case in cases.values() if case.quick or not asked.quick]


def _importable(asked: argparse.Namespace, report: Report) -> list[Competitor]:
    """Return the competitors asked for, less those that are not installed."""
    wanted = [one for one in competitors_of(asked.suite).values() if not asked.only or one.name in asked.only]
    for one in wanted:
        if not one.importable:
            print(f"{one.name} is skipped: the module {one.module} cannot be imported.")
            report.skip(one.name, f"{one.module} cannot be imported")
    return [one for one in wanted if one.importable]


def _run(case: Case, competitors: list[Competitor], suite: Suite, report: Report) -> None:
    try:
        data, results = run_case(case, competitors, suite, report.options)
    except DataMissing as error:
        print(f"{case.name} is skipped: {error}.")
        report.skip(case.name, str(error))
        return
    report.add(case, data, results)
    print(*report.lines(only_last=True), "", sep="\n")


def _close(report: Report) -> None:
    """Print the whole table and say where results and picture are."""
    if len(report.cases) > 1:
        print(*report.lines(), "", sep="\n")
    print(f"Saved {report.path}" if report.cases else "No case was run.")
    if not report.cases:
        return
    suite, machine = report.content["suite"], report.content["machine"]
    picture = report.path.with_suffix(".png")
    title = f"{SUITES[suite].question}: {machine['cpu']}, {report.options.threads} threads"
    try:
        draw(title, report.cases, picture)
    except ImportError:
        print("No picture was drawn: matplotlib cannot be imported.")
    else:
        print(f"Saved {picture}")


if __name__ == "__main__":
    sys.exit(main())
