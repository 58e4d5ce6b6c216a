"""What is asked, and who decides whether an answer is right? One entry of `SUITES` each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.competitors import Parameters
from bench.data import Data
from bench.kernel_values import ExactKernel
from bench.referee import Answer, accuracy, examine_all, refusal

__all__ = ["SUITES", "Suite"]

Stored = Mapping[str, np.ndarray]


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
    stays, stays_quick : str
        How long a process is kept, in a full run and in a quick one: for one "run", for all runs of a "case", or
        for the "session", all cases and suites that the same process can measure.
    """

    question: str
    clock: str
    worker: str
    stage: str
    judge: Callable[[Parameters, Data, Sequence[Stored], bool], list[dict[str, Any] | str]]
    stays: str = "run"
    stays_quick: str = "session"


def _judge_kernel(
    parameters: Parameters, data: Data, stored: Sequence[Stored], gap: bool
) -> list[dict[str, Any] | str]:
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


_FIT, _START = "bench.workers.fit", "bench.workers.start"

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
}
