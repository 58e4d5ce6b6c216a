"""What is asked, and who decides whether an answer is right? One entry of `SUITES` each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.cases import Parameters
from bench.data import Data
from bench.kernel_values import ExactKernel
from bench.referee import Answer, accuracy, examine

__all__ = ["SUITES", "Suite", "predicted_accuracy"]


@dataclass(frozen=True)
class Suite:
    """A question, and `judge(parameters, data, stored answer, gap)`, which returns named findings."""

    question: str
    judge: Callable[[Parameters, Data, Mapping[str, np.ndarray], bool], dict[str, Any]]


def _judge_kernel_fit(
    parameters: Parameters, data: Data, stored: Mapping[str, np.ndarray], gap: bool
) -> dict[str, Any]:
    p = parameters
    kernel = ExactKernel(data.X, p.kernel, p.gamma, p.degree, p.coef0)
    answer = Answer(*(stored[name] for name in Answer._fields))
    return examine(kernel, data.y, p.C, answer, gap)._asdict()


def predicted_accuracy(data: Data, stored: Mapping[str, np.ndarray]) -> float | None:
    """Return the accuracy of the stored predictions, None if there are none."""
    return accuracy(stored["predicted"], data.y_test) if "predicted" in stored else None


SUITES = {"kernel": Suite("Fit of an exact kernel SVM", _judge_kernel_fit)}
