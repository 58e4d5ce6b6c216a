"""What is asked, who decides whether an answer is right, and how is it shown? One entry of `SUITES` each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bench import curve_picture, curves, goals, linear_referee, picture, tables
from bench.competitors import COMPETITORS, Competitor, KernelParameters
from bench.data import Data
from bench.kernel_values import ExactKernel
from bench.linear_competitors import LINEAR_COMPETITORS
from bench.linear_parameters import LinearParameters
from bench.outcomes import Options, Result
from bench.referee import Answer, accuracy, examine_all, refusal
from bench.tables import Finished

__all__ = ["SUITES", "Suite", "View", "competitors_of"]

Stored = Mapping[str, np.ndarray]
Findings = list[dict[str, Any] | str]


class View(NamedTuple):
    """How results are shown.

    Attributes
    ----------
    compared : callable
        `compared(result, results)` returns what the JSON file says about a result beside what was measured.
    lines : callable
        `lines(finished cases, options)` returns the table.
    figure : callable
        `figure(finished cases, clock, timeout)` returns matplotlib's figure.
    """

    compared: Callable[[Result, list[Result]], dict[str, Any]]
    lines: Callable[[list[Finished], Options], list[str]]
    figure: Callable[[list[Finished], str, float], Any]


_KERNEL_VIEW = View(tables.compared, tables.lines, picture.figure)


@dataclass(frozen=True)
class Suite:
    """A question.

    Attributes
    ----------
    question : str
        Title of the picture.
    clock : str
        What the seconds are seconds of.
    worker : str
        Module that measures, which is started as a process.
    stage : str
        What it is to measure, the `stage` of its `Task`.
    judge : callable
        `judge(parameters, data, stored answers, gap)` returns for each answer named findings, with an objective
        and an accuracy among them, or a sentence why it cannot be judged.
    competitors : list of Competitor
        The table of those who may take part.
    view : View
        How results are shown.
    stays, stays_quick : str
        How long a process is kept, in a full run and in a quick one: for one "run", for all runs of a "case", or
        for the "session", all cases and suites that the same process can measure.
    """

    question: str
    clock: str
    worker: str
    stage: str
    judge: Callable[[Any, Data, Sequence[Stored], bool], Findings]
    competitors: Sequence[Competitor] = tuple(COMPETITORS)
    view: View = _KERNEL_VIEW
    stays: str = "run"
    stays_quick: str = "session"


def _judge_kernel(parameters: KernelParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    p = parameters
    kernel = ExactKernel(data.X, p.kernel, p.gamma, p.degree, p.coef0)
    answers = [Answer(*(one[name] for name in Answer._fields)) for one in stored]
    refusals = [refusal(data.y, answer) for answer in answers]
    good = [answer for answer, why in zip(answers, refusals, strict=True) if not why]
    verdicts = iter(examine_all(kernel, data.y, p.C, good, gap, data.X_test) if good else ())
    return [why or _findings(next(verdicts)._asdict(), data, one) for why, one in zip(refusals, stored, strict=True)]


def _findings(verdict: dict[str, Any], data: Data, stored: Stored) -> dict[str, Any]:
    """Return the verdict; if the competitor has predicted itself, that is what its accuracy is of."""
    expected = verdict.pop("predicted")
    found = stored.get("predicted", expected)
    return verdict | {"accuracy": accuracy(found, data.y_test), "agreement": accuracy(found, expected)}


def _judge_curves(parameters: LinearParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    """Return the findings about the last weights of each curve, with those about all under "points"."""
    return [_judge_curve(parameters, data, one) for one in stored]


def _judge_curve(parameters: LinearParameters, data: Data, stored: Stored) -> dict[str, Any] | str:
    weights = [linear_referee.Weights(*each) for each in zip(stored["coef"], stored["intercept"], strict=True)]
    for one in weights:
        if why := linear_referee.refusal(data.y, parameters.loss, data.X.shape[1], one):
            return why
    verdicts = linear_referee.examine_all(data, parameters, weights)
    points = [
        {"budget": budget, "objective": one.objective, "accuracy": accuracy(one.predicted, data.y_test), "off": off}
        for budget, one, off in zip(stored["budget"].tolist(), verdicts, _off(stored, verdicts), strict=True)
    ]
    return {**points[-1], "points": points}


def _off(stored: Stored, verdicts: Sequence[linear_referee.Verdict]) -> list[float | None]:
    """Return by what part of it the objective that each fit claims is not that found; None if it claims none."""
    pairs = zip(stored["claimed"].tolist(), verdicts, strict=True)
    return [None if np.isnan(claimed) else abs(claimed / one.objective - 1) for claimed, one in pairs]


_FIT, _START, _CURVE = "bench.workers.fit", "bench.workers.start", "bench.workers.curve"

SUITES = {
    "kernel": Suite("Fit of an exact kernel SVM, two classes", "fit", _FIT, "fit", _judge_kernel),
    "multiclass": Suite("Fit of an exact kernel SVM, several classes", "fit", _FIT, "fit", _judge_kernel),
    "predict": Suite("Prediction of the test rows", "prediction", _FIT, "predict", _judge_kernel, stays="case"),
    "cold": Suite(
        "A new process: import, first fit, first prediction",
        "import, fit and prediction",
        _START,
        "start",
        _judge_kernel,
        stays_quick="run",
    ),
    "growth": Suite("Time and memory as the rows double", "fit", _FIT, "fit", _judge_kernel),
    "sgd": Suite(
        "Gradient descent on linear models: what is reached after which time",
        "a fit",
        _CURVE,
        "sgd",
        _judge_curves,
        tuple(LINEAR_COMPETITORS),
        View(curves.compared, curves.lines, curve_picture.figure),
        stays="case",
    ),
    "linear": Suite(
        "Linear SVMs, fitted to an end: how near is the best objective after which time",
        "a fit",
        _CURVE,
        "linear",
        _judge_curves,
        tuple(LINEAR_COMPETITORS),
        View(goals.compared, goals.lines, partial(curve_picture.figure, goal=goals.GOAL)),
        stays="case",
    ),
}


def competitors_of(suite: str) -> dict[str, Competitor]:
    """Return those who take part in a suite, by name."""
    return {one.name: one for one in SUITES[suite].competitors if suite in one.suites}
