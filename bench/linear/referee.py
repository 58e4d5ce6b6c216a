"""How good are the weights of a linear model? Objective and predictions, from the data and the weights alone.

The objective is the sum of the losses of the samples, ½ ‖W‖² and ½ ‖b‖², or ‖W‖₁ and ‖b‖₁, each times a factor. That
of the machine of one class has ν n b too, of its offset -b. Scores are X Wᵀ + b.
Two classes have one score, and the second class is predicted if it is positive. More classes have one score each, and
the largest is predicted. Losses of labels ±1 are summed over the classes, one against the rest. For two classes, losses
of all classes read a single score as the difference of two opposite scores. Losses of real targets are judged by R².
Nothing here comes from the package under test.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp

from bench.harness.data import Data
from bench.harness.suite import Findings, Stored
from bench.kernel.referee import accuracy
from bench.linear.parameters import Factors, LinearParameters

__all__ = [
    "LOSSES", "LOSSES_OF_CLASSES", "LOSSES_OF_TARGETS", "Objective", "Verdict", "Weights", "determination",
    "examine_all", "judge", "objectives", "refusal",
]  # fmt: skip

_ROWS = 4096  # of a block: 100 MB of float64 at 3,072 features


class Weights(NamedTuple):
    """An answer in the layout of scikit-learn's `coef_` and `intercept_`."""

    coef: np.ndarray
    intercept: np.ndarray


class Objective(Protocol):
    """What to minimise: a loss by name, and the factors of the parts for a number of samples."""

    loss: str

    def factors(self, n_rows: int) -> Factors: ...


class Verdict(NamedTuple):
    """What the referee found: the objective, and the predicted labels or targets of the test samples."""

    objective: float
    predicted: np.ndarray


LOSSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "hinge": lambda margins: np.maximum(0, 1 - margins),
    "squared_hinge": lambda margins: np.maximum(0, 1 - margins) ** 2,
    "log_loss": lambda margins: np.logaddexp(0, -margins),
}
"""Losses of margins ±f by name."""

LOSSES_OF_TARGETS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "squared_error": lambda residuals: residuals**2 / 2,
    "absolute_error": np.abs,
    "outlier": lambda residuals: np.maximum(0, -residuals),
}
"""Losses of the differences of a score and a real target by name."""


def _excess(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return max(0, s_j - s_y + 1), zero for j = y."""
    rows = np.arange(len(codes))
    excess = np.maximum(0, scores - scores[rows, codes][:, None] + 1)
    excess[rows, codes] = 0
    return excess


LOSSES_OF_CLASSES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "weston_watkins": lambda scores, codes: _excess(scores, codes).sum(axis=1),
    "crammer_singer": lambda scores, codes: _excess(scores, codes).max(axis=1),
    "softmax": lambda scores, codes: logsumexp(scores, axis=1) - scores[np.arange(len(codes)), codes],
}
"""Losses of the scores of all classes and the codes of the true classes, by name."""


_PENALTIES: dict[str, Callable[[np.ndarray], float]] = {
    "l2": lambda values: float(np.sum(values**2)) / 2,
    "l1": lambda values: float(np.abs(values).sum()),
}


def refusal(y: np.ndarray, loss: str, n_features: int, weights: Weights) -> str | None:
    """Return why weights cannot be judged, None if they can."""
    n_classes = 2 if loss in LOSSES_OF_TARGETS else len(np.unique(y))  # one score
    found = np.shape(weights.coef), np.shape(weights.intercept)
    allowed = {1 if n_classes == 2 else n_classes} | ({n_classes} if loss in LOSSES_OF_CLASSES else set())
    if found not in [((n, n_features), (n,)) for n in allowed]:
        return f"weights and intercepts of {n_classes} classes have the shapes {found}"
    if not (np.isfinite(weights.coef).all() and np.isfinite(weights.intercept).all()):
        return "weights and intercepts should be finite"
    return None


def judge(parameters: LinearParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    """Judge the curves that competitors left behind; see `bench.harness.suite.Suite`.

    Returns the findings about the last weights of each curve. Those about all weights are under "points". For real
    targets, "accuracy" is R², and of one class the share of test samples that are no outliers.
    """
    return [_judge_curve(parameters, data, one) for one in stored]


def _judge_curve(parameters: LinearParameters, data: Data, stored: Stored) -> dict[str, Any] | str:
    weights = [Weights(*each) for each in zip(stored["coef"], stored["intercept"], strict=True)]
    for one in weights:
        if why := refusal(data.y, parameters.loss, data.X.shape[1], one):
            return why
    verdicts = examine_all(data, parameters, weights)
    quality = _QUALITIES.get(parameters.loss, accuracy)
    points = [
        {"budget": budget, "objective": one.objective, "accuracy": quality(one.predicted, data.y_test), "off": off}
        for budget, one, off in zip(stored["budget"].tolist(), verdicts, _off(stored, verdicts), strict=True)
    ]
    return {**points[-1], "points": points}


def determination(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the coefficient of determination R²."""
    return float(1 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2))


_QUALITIES = {"squared_error": determination, "outlier": lambda predicted, y: float(np.mean(predicted >= 0))}


def _off(stored: Stored, verdicts: Sequence[Verdict]) -> list[float | None]:
    """Return the relative error of the objective that each fit claims; None if it claims none."""
    pairs = zip(stored["claimed"].tolist(), verdicts, strict=True)
    return [None if np.isnan(claimed) else abs(claimed / one.objective - 1) for claimed, one in pairs]


def examine_all(data: Data, objective: Objective, answers: Sequence[Weights]) -> list[Verdict]:
    """Judge weights by the training set and the test set."""
    real = objective.loss in LOSSES_OF_TARGETS
    classes = np.unique(data.y)
    predicted = [np.empty(len(data.y_test), np.float64 if real else np.int64) for _ in answers]
    for rows, all_scores in _scores(data.X_test, answers):
        for own, scores in zip(predicted, all_scores, strict=True):
            if real:
                own[rows] = scores[:, 0]
            else:
                own[rows] = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
    found = objectives(data.X, data.y, objective, answers)
    return [Verdict(value, own if real else classes[own]) for value, own in zip(found, predicted, strict=True)]


def objectives(X: Any, y: np.ndarray, objective: Objective, answers: Sequence[Weights]) -> list[float]:
    """Return the objective of each answer. X is an array, a CSR matrix or a dataset in a file."""
    classes, codes = np.unique(y, return_inverse=True)
    loss, factors = objective.loss, objective.factors(len(codes))
    codes = y if loss in LOSSES_OF_TARGETS else codes
    if loss in LOSSES_OF_CLASSES and len(classes) == 2:
        answers = [_both(one) for one in answers]
    sums = np.zeros(len(answers))
    for rows, all_scores in _scores(X, answers):
        sums += [_sum_of_losses(loss, scores, codes[rows]) for scores in all_scores]
    penalties = [_penalty_of(factors, *(np.asarray(part, np.float64) for part in one)) for one in answers]
    return (factors.losses * sums + penalties).tolist()


def _penalty_of(factors: Factors, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Return what is added to the losses."""
    size = _PENALTIES[factors.penalty]
    return factors.weights * size(coef) + factors.intercepts * size(intercept) + factors.offsets * intercept.sum()


def _both(weights: Weights) -> Weights:
    """Return weights of two classes. A single row of weights is the difference of two opposite rows."""
    if len(weights.coef) == 2:
        return weights
    return Weights(*(np.concatenate([-np.asarray(part) / 2, np.asarray(part) / 2]) for part in weights))


def _sum_of_losses(loss: str, scores: np.ndarray, codes: np.ndarray) -> float:
    if loss in LOSSES_OF_CLASSES:
        return LOSSES_OF_CLASSES[loss](scores, codes).sum()
    if loss in LOSSES_OF_TARGETS:
        return LOSSES_OF_TARGETS[loss](scores[:, 0] - codes).sum()
    right = np.arange(scores.shape[1]) if scores.shape[1] > 1 else [1]
    return LOSSES[loss](np.where(codes[:, None] == right, scores, -scores)).sum()


def _scores(X: Any, answers: Sequence[Weights]) -> Any:
    """Yield blocks of samples and their scores, an array for each answer. One product serves all answers."""
    coef = np.concatenate([np.asarray(one.coef, np.float64) for one in answers]).T
    intercept = np.concatenate([np.asarray(one.intercept, np.float64) for one in answers])
    ends = np.cumsum([len(one.intercept) for one in answers])[:-1]
    for start in range(0, X.shape[0], _ROWS):
        rows = slice(start, start + _ROWS)
        yield rows, np.split(X[rows].astype(np.float64) @ coef + intercept, ends, axis=1)
