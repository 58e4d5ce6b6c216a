"""The working tree beside another commit: `python -m bench SUITE --against COMMIT`."""

import math
import statistics
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from bench.harness.data import DataMissing
from bench.harness.outcomes import Options
from bench.harness.processes import ROOT
from bench.harness.study import Study
from bench.harness.suite import Case
from bench.harness.text import aligned
from bench.paired.turns import Pairing, Side, compare

__all__ = ["SLOWER", "UnknownCommit", "against", "checked_out"]

SLOWER = 1.05
"""Times the seconds of the commit from which on a case is slower, beyond its noise."""


class UnknownCommit(ValueError):
    """Git does not know the commit."""


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Make a folder with `fastsvm` as it was at a commit, beside the benchmarks of the working tree."""
    with tempfile.TemporaryDirectory(prefix="bench-against-") as temporary:
        folder = Path(temporary)
        archive = folder / "fastsvm.tar"
        command = ["git", "archive", "--output", str(archive), commit, "fastsvm"]
        try:
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        except subprocess.CalledProcessError as error:
            raise UnknownCommit(f"{commit} is no commit that has fastsvm: {error.stderr.strip()}") from error
        except OSError as error:
            raise UnknownCommit(f"{commit} cannot be read, because git does not run: {error}") from error
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        archive.unlink()
        (folder / "bench").symlink_to(ROOT / "bench")
        yield folder


def against(cases: dict[str, list[Case]], commit: str, options: Options, out: Path) -> int:
    """Fit cases, by suite, with the working tree and a commit in turn; print and save the ratios.

    Returns 0, or 1 if a case is slower by more than `SLOWER` beyond its noise, or a certificate is wrong.
    """
    study, pairings = Study("against", out, options=options.json(), against=commit), []
    with checked_out(commit) as folder:
        sides = Side("working tree"), Side(commit, folder)
        work = [(suite, case) for suite, some in cases.items() for case in some]
        for suite, case in tqdm(work, desc="cases", unit="case", disable=None):
            try:
                (pairing,) = compare(case, suite, sides, options, SLOWER)
            except DataMissing as error:
                tqdm.write(f"{suite} {case.name} is skipped: {error}.")
                continue
            pairings.append((suite, pairing))
            study.add(case.name, pairing.json(), in_suite=suite)
            tqdm.write(_row(suite, pairing))
    if not pairings:
        print("No case was run.")
        return 0
    print(*lines(pairings), "", f"Saved {study.path}", sep="\n")
    return int(any(_verdict(pairing) for _, pairing in pairings))


def _row(suite: str, pairing: Pairing) -> str:
    low, high = pairing.interval
    return f"{suite} {pairing.case}: {pairing.ratio:.3f} ({low:.3f} to {high:.3f}) {_verdict(pairing)}".rstrip()


def _verdict(pairing: Pairing) -> str:
    """Return why a case fails, or nothing."""
    slower = ["slower"] if pairing.interval[0] > SLOWER else []
    return "; ".join([*pairing.wrong, *slower])


def lines(pairings: list[tuple[str, Pairing]]) -> list[str]:
    """Return a table of all cases, and below it the geometric mean of each suite."""
    heading = "suite", "case", "seconds", "before", "ratio", "from", "to", ""
    rows = [
        (
            suite, one.case, f"{one.seconds(0):.3g}", f"{one.seconds(1):.3g}", f"{one.ratio:.3f}",
            *(f"{end:.3f}" for end in one.interval), _verdict(one),
        )
        for suite, one in pairings
    ]  # fmt: skip
    means = []
    for suite in dict.fromkeys(suite for suite, _ in pairings):
        ratios = [one.ratio for of, one in pairings if of == suite and math.isfinite(one.ratio)]
        if ratios:
            means.append(f"{suite}: {statistics.geometric_mean(ratios):.3f} in the mean, {max(ratios):.3f} at most")
    return [*aligned([heading, *rows]), "", *means]
