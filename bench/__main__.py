"""The command line: `python -m bench SUITE [--quick] [--case NAME] ...`, from the root of the repository."""

import argparse
import fnmatch
import os
import sys
from pathlib import Path
from typing import Any

from bench.cases import cases_of
from bench.harness.competitor import Competitor
from bench.harness.data import DataMissing
from bench.harness.outcomes import Options
from bench.harness.processes import Crew
from bench.harness.report import Report
from bench.harness.runs import run_case
from bench.harness.study import RESULTS
from bench.harness.suite import DPI, Case
from bench.paired import against, estimators
from bench.suites import SUITES, competitors_of
from bench.sweep import command as sweep

__all__ = ["main"]

_ALL, _SWEEP = "all", "sweep"  # which has options of its own


def main(arguments: list[str] | None = None) -> int:
    """Run suites.

    Returns 0, 1 if a competitor failed, an answer is wrong or a case became slower, 2 if a name is unknown, or 130
    after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == [_SWEEP]:
        return sweep.main(words[1:])
    asked = _parser().parse_args(words)
    wrong = _what_is_wrong(asked)
    if wrong:
        print(f"bench: {wrong}", file=sys.stderr)
        return 2
    repeat = asked.repeat or (2 if asked.quick else 3)
    gap, folder = not asked.no_gap, asked.folder
    options = Options(repeat, asked.timeout, asked.threads, asked.memory, gap, asked.quick, folder)
    failed = False
    try:
        if asked.against:
            return against.against(_paired_cases(asked), asked.against, options, asked.out)
        with Crew() as crew:
            for suite in _suites(asked):
                failed |= _run_suite(suite, asked, options, crew)
    except against.UnknownCommit as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. The finished cases are saved.")
        return 130
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Measure, compare, and judge the answers.")
    parser.add_argument("suite", help=f"what to measure: {', '.join(SUITES)}, {_ALL} or {_SWEEP}")
    parser.add_argument("--quick", action="store_true", help="small bundled cases only, in shared processes")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case, * is any text (repeatable)")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this competitor (repeatable)")
    positive, seconds = _positive(int), _positive(float)
    parser.add_argument("--repeat", type=positive, metavar="N", help="repetitions (3; 2 with --quick)")
    parser.add_argument("--timeout", type=seconds, default=3600, metavar="S", help="limit of a fit (3600)")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N", help="of each (all)")
    parser.add_argument("--memory", type=positive, default=4000, metavar="MIB", help="of each, for caches (4000)")
    parser.add_argument("--no-gap", action="store_true", help="judge the objective only, which is faster")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where suites write large files and keep them")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="fit only ours, in turn with fastsvm as it was at a commit; exit code 1 if slower",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    return parser


def _positive(kind: type) -> Any:
    def convert(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    return convert


def _suites(asked: argparse.Namespace) -> list[str]:
    return list(SUITES) if asked.suite == _ALL else [asked.suite]


def _paired_cases(asked: argparse.Namespace) -> dict[str, list[Case]]:
    """Return the requested cases of the suites whose fits can take turns."""
    return {suite: _chosen_cases(suite, asked) for suite in _suites(asked) if suite in estimators.SUITES}


def _what_is_wrong(asked: argparse.Namespace) -> str | None:
    """Return a sentence about the first name that is unknown."""
    if asked.suite not in (*SUITES, _ALL):
        return f"unknown suite {asked.suite!r}; there are: {', '.join(SUITES)}, and {_ALL}"
    if asked.against and asked.suite not in (*estimators.SUITES, _ALL):
        return (
            f"{asked.suite} cannot be measured against a commit; there are: {', '.join(estimators.SUITES)}, and {_ALL}"
        )
    for kind, names, known_of in (("case", asked.case, cases_of), ("competitor", asked.only, competitors_of)):
        known = list(dict.fromkeys(name for suite in _suites(asked) for name in known_of(suite)))
        for name in names or ():
            if not fnmatch.filter(known, name):
                return f"unknown {kind} {name!r} in suite {asked.suite}; there are: {', '.join(known)}"
    return None


def _run_suite(suite: str, asked: argparse.Namespace, options: Options, crew: Crew) -> bool:
    """Run the requested cases. Return whether a competitor failed or an answer is wrong."""
    cases = _chosen_cases(suite, asked)
    if not cases:
        return False
    report = Report(suite, SUITES[suite].view, options, asked.out)
    competitors = _importable(suite, asked, report)
    try:
        for case in cases if competitors else ():
            _run_case(suite, case, competitors, report, crew)
    finally:
        _close(suite, report)
    return report.failed


def _chosen_cases(suite: str, asked: argparse.Namespace) -> list[Case]:
    cases = cases_of(suite)
    if asked.case:
        return [case for name, case in cases.items() if any(fnmatch.fnmatch(name, one) for one in asked.case)]
    return [case for case in cases.values() if case.quick or not asked.quick]


def _importable(suite: str, asked: argparse.Namespace, report: Report) -> list[Competitor]:
    """Return the requested competitors that are installed."""
    wanted = [one for one in competitors_of(suite).values() if not asked.only or one.name in asked.only]
    for one in wanted:
        if not one.importable:
            report.skip(one.name, f"the module {one.module} cannot be imported")
    return [one for one in wanted if one.importable]


def _run_case(suite: str, case: Case, competitors: list[Competitor], report: Report, crew: Crew) -> None:
    slow = _too_slow(case, report)
    for name in slow:
        report.skip(f"{case.name}, {name}", f"a smaller size took more than {report.options.timeout:g} s")
    competitors = [one for one in competitors if one.takes_part(case.parameters)]
    unable = {one.name: why for one in competitors if (why := one.lacks(case.parameters))}
    for name, why in unable.items():
        report.skip(f"{case.name}, {name}", why)
    taking_part = [one for one in competitors if one.name not in (*slow, *unable)]
    try:
        finished, data = run_case(case, taking_part, SUITES[suite], report.options, crew)
    except DataMissing as error:
        report.skip(case.name, str(error))
        return
    report.record(finished, data)
    print(*report.last_lines(), "", sep="\n", flush=True)


def _too_slow(case: Case, report: Report) -> list[str]:
    """Return the competitors that exceeded the time on a smaller case of the same series. Smaller cases come first."""
    before = [one.results for one in report.finished if case.series and one.case.series == case.series]
    return list(dict.fromkeys(one.competitor for results in before for one in results if one.status == "timeout"))


def _close(suite: str, report: Report) -> None:
    """Print the whole table and the paths of results and picture."""
    if not report.finished:
        print("No case was run.")
        return
    if len(report.finished) > 1:
        print(*report.lines(), "", sep="\n")
    print(f"Saved {report.path}")
    if report.view.figure is None:
        return
    try:
        _draw(suite, report)
    except ImportError:
        print("No picture was drawn: matplotlib cannot be imported.")


def _draw(suite: str, report: Report) -> None:
    path, options = report.path.with_suffix(".png"), report.options
    cpu = report.content["machine"]["cpu"]
    SUITES[suite].picture(report.finished, options.timeout, options.threads, cpu).savefig(path, dpi=DPI)
    print(f"Saved {path}\n")


if __name__ == "__main__":
    sys.exit(main())
