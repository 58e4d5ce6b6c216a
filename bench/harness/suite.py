"""What is a case, and what is a suite?"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.harness.competitor import Competitor
from bench.harness.data import Data
from bench.harness.outcomes import Options, Result

__all__ = ["DPI", "Case", "Findings", "Finished", "Stored", "Suite", "View"]

DPI = 150
"""Resolution of pictures."""

Stored = Mapping[str, np.ndarray]
Findings = list[dict[str, Any] | str]


@dataclass(frozen=True)
class Case:
    """A data set with parameters. Quick cases need no files and take seconds.

    Attributes
    ----------
    name : str
        Name in tables, unique within a suite.
    suites : tuple of str
        Suites to which the case belongs.
    recipe : callable
        Returns the data.
    parameters : dataclass
        What to fit.
    quick : bool
        Whether the case is run with `--quick`.
    series : str
        Name shared by cases that differ only in size. They become one curve.
    avx2 : bool
        Whether code is compiled, and OpenBLAS chooses its own, for a processor that has no more than AVX2.
    """

    name: str
    suites: tuple[str, ...]
    recipe: Callable[[], Data]
    parameters: Any
    quick: bool = False
    series: str = ""
    avx2: bool = False


class Finished(NamedTuple):
    """A case with its results."""

    case: Case
    data_shape: tuple[int, ...]
    results: list[Result]


def no_failures(finished: Finished) -> list[str]:
    return []


class View(NamedTuple):
    """How results are shown.

    Attributes
    ----------
    compared : callable
        `compared(result, finished)` returns what the JSON file says about a result beside what was measured.
    lines : callable
        `lines(finished cases, options)` returns the table.
    figure : callable or None
        `figure(finished cases, clock, timeout)` returns matplotlib's figure. None for suites without a picture.
    failures : callable
        `failures(finished)` returns a sentence for each wrong answer. Each makes the exit code 1.
    """

    compared: Callable[[Result, Finished], dict[str, Any]]
    lines: Callable[[list[Finished], Options], list[str]]
    figure: Callable[[list[Finished], str, float], Any] | None
    failures: Callable[[Finished], list[str]] = no_failures


def from_recipe(case: Case, options: Options, folder: Path) -> tuple[Case, Data]:
    return case, case.recipe()


@dataclass(frozen=True)
class Suite:
    """A question.

    Attributes
    ----------
    question : str
        Title of the picture.
    clock : str
        Label of the seconds: what the clock runs over.
    worker : str
        Module that measures. It is started as a process.
    stage : str
        What the worker is to measure, the `stage` of its `Task`.
    judge : callable
        `judge(parameters, data, stored answers, gap)` returns, for each answer, named findings, or a sentence that
        says why the answer cannot be judged.
    competitors : list of Competitor
        Those who may take part.
    view : View
        How results are shown.
    stays, stays_quick : str
        How long a process is kept, in a full run and in a quick one: for one "run", for all runs of a "case", or
        for the "session", that is, for all cases and suites that the same process can measure.
    prepare : callable
        `prepare(case, options, folder)` returns the case, whose parameters may have been tuned, and its data. The
        folder is temporary.
    most_repeats : int
        Upper bound of the repetitions.
    enough_s : float
        A competitor that took longer in one run is not run again.
    """

    question: str
    clock: str
    worker: str
    stage: str
    judge: Callable[[Any, Data, Sequence[Stored], bool], Findings]
    competitors: Sequence[Competitor]
    view: View
    stays: str = "run"
    stays_quick: str = "session"
    prepare: Callable[[Case, Options, Path], tuple[Case, Data]] = from_recipe
    most_repeats: int = 1_000_000
    enough_s: float = math.inf

    def picture(self, finished: list[Finished], timeout: float, threads: int, cpu: str) -> Any:
        """Return the figure of a view that has one, with a title. Raise ImportError if matplotlib is missing."""
        assert self.view.figure is not None
        figure = self.view.figure(finished, self.clock, timeout)
        figure.suptitle(f"{self.question}\n{cpu}, {threads} threads")
        return figure
