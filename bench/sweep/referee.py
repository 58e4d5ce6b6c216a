"""Are the answers of a draw right? From the data and the models alone, in float64.

What a kind of draw is judged by, and by how much ours may be worse than scikit-learn's:

    linear machines        the primal objective that ours minimises                          1 %
    kernel machines        the dual objective, of at most 40 pairs of classes, and its
                           constraints                                                       1 %
    one linear class       the primal objective, of SGDOneClassSVM's scaling                 1 %
    gradient descent       mean loss and penalty, or else the score on test samples          5 %, 0.03
    NystroemSVC            the score on test samples: each has landmarks of its own          0.03
    SVCSearch              the best mean score of a cell, and the mean difference of cells   0.03
    predictions            at least 97 % are equal, or else the fits are judged as above and ours must predict as its
                           own coefficients say; votes of pairs of classes are judged by the suite `multiclass`

LIBLINEAR penalises the intercept as a weight, as ours does. L-BFGS does not, and has one loss of all classes. Its
answer for two classes is judged by the objective of ours. For several classes LIBLINEAR's takes its place. Half of
the draws have no intercept. A pass of `partial_fit` ends before the optimum, and is judged like a fit. A score is the
accuracy, or R² of real targets, of 1,000 test samples.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from bench.harness.data import Data
from bench.kernel.exact_kernel import ExactKernel
from bench.kernel.referee import Answer, accuracy, examine, kernel_sums
from bench.linear.referee import LOSSES, LOSSES_OF_TARGETS, determination
from bench.machines.referee import examine_machine
from bench.sweep.draws import KERNEL_MACHINES, OF_TARGETS, Draw
from bench.sweep.estimators import gamma_of, pair_of
from bench.workers.results import answer_of

__all__ = ["Verdict", "judged"]

_WORSE, _WORSE_OF_DESCENT, _LESS = 0.01, 0.05, 0.03
_EQUAL, _NEAR = 0.97, 0.05  # share of equal predictions; distance of equal targets, in deviations of the targets
_AT_ZERO = 1e-4  # of the objective's scale: objectives that are nearer to each other than this part of it are the same
_TOL, _VIOLATION = 1e-3, 1e-6
_PAIRS = 40
_ROWS = 4096


class Verdict(NamedTuple):
    """What an answer was judged by, the value of ours and of scikit-learn's, and whether ours is right."""

    by: str
    ours: float
    theirs: float
    right: bool


def judged(draw: Draw, data: Data, models: tuple[Any, Any], outputs: tuple[Any, Any]) -> Verdict:
    """Judge what fastsvm and scikit-learn returned, in this order: models, and predictions if the task is one."""
    if draw.task == "search":
        return _of_search(*models)
    if draw.task in ("fit", "partial_fit"):
        return _of_fits(draw, data, models)
    ours, theirs = (_chosen(draw, data, model, output) for model, output in zip(models, outputs, strict=True))
    share = _share_of_equal(draw, data, ours, theirs)
    if share >= _EQUAL:
        return Verdict("equal predictions", share, 1.0, True)
    verdict = _of_fits(draw, data, models)
    if draw.estimator not in KERNEL_MACHINES or draw.classes <= 2:
        own = _share_of_equal(draw, data, ours, _by_coefficients(draw, data, models[0]))
        if own < _EQUAL:
            return Verdict("predictions by its own coefficients", own, 1.0, False)
    return verdict._replace(by=f"{verdict.by}, as {share:.0%} of the predictions are equal")


def _of_search(ours: Any, theirs: Any) -> Verdict:
    scores = [np.asarray(one.cv_results_["mean_test_score"]) for one in (ours, theirs)]
    close = float(np.abs(scores[0] - scores[1]).mean()) <= _LESS
    best = [float(one.max()) for one in scores]
    return Verdict("best score", *best, close and best[0] >= best[1] - _LESS)


def _of_fits(draw: Draw, data: Data, models: tuple[Any, Any]) -> Verdict:
    if draw.estimator == "NystroemSVC":
        return _by_scores(data, models)
    if draw.peer == "lbfgs" and draw.classes > 2:
        models = models[0], _of_liblinear(draw, data)
    if draw.estimator in KERNEL_MACHINES:
        return _by_duals(draw, data, models)
    if draw.estimator == "LinearOneClassSVM":
        return _by_objectives(draw, [_one_class(draw, data, model) for model in models], _scale_of_one_class(data))
    found = [_primal(draw, data, *_weights(model)) for model in models]
    zero = _primal(draw, data, *(np.zeros_like(part) for part in _weights(models[0])))
    verdict = _by_objectives(draw, found, zero)
    return verdict if verdict.right or not draw.estimator.startswith("SGD") else _by_scores(data, models)


def _of_liblinear(draw: Draw, data: Data) -> Any:
    """Return LIBLINEAR's logistic regression of each class against the rest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return pair_of(replace(draw, peer="liblinear"), data.X).theirs().fit(data.X, data.y)


def _by_scores(data: Data, models: tuple[Any, Any]) -> Verdict:
    quality = determination if data.y_test.dtype.kind == "f" else accuracy
    ours, theirs = (float(quality(model.predict(data.X_test), data.y_test)) for model in models)
    return Verdict("test score", ours, theirs, ours >= theirs - _LESS)


def _by_objectives(draw: Draw, found: list[float], scale: float) -> Verdict:
    """Compare objectives to be minimised. The scale is that of zero weights."""
    ours, theirs = found
    worse = _WORSE_OF_DESCENT if draw.estimator.startswith("SGD") else _WORSE
    most = theirs + worse * max(abs(theirs), _AT_ZERO * abs(scale)) if np.isfinite(theirs) else np.inf
    return Verdict("objective", ours, theirs, bool(np.isfinite(ours) and ours <= most))


# --- linear machines -------------------------------------------------------------------------------------------


def _weights(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return weights, a row for each score, and intercepts."""
    if hasattr(model, "estimators_"):  # one against the rest
        parts = [_weights(one) for one in model.estimators_]
        return np.concatenate([coef for coef, _ in parts]), np.concatenate([intercept for _, intercept in parts])
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    coef = np.atleast_2d(np.asarray(coef, np.float64))
    return coef, np.broadcast_to(np.asarray(model.intercept_, np.float64).ravel(), len(coef))


def _scores(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    blocks = (X[start : start + _ROWS].astype(np.float64) @ coef.T for start in range(0, X.shape[0], _ROWS))
    return np.concatenate(list(blocks)) + intercept


def _modified_huber(margins: np.ndarray) -> np.ndarray:
    return np.where(margins < -1, -4 * margins, np.maximum(0, 1 - margins) ** 2)


def _of_margins(loss: str) -> Callable[[np.ndarray], np.ndarray]:
    return _modified_huber if loss == "modified_huber" else LOSSES[loss]


def _of_residuals(loss: str, epsilon: float, residuals: np.ndarray) -> np.ndarray:
    away = np.maximum(0, np.abs(residuals) - epsilon)
    if loss == "huber":
        return np.where(away > 0, epsilon * (np.abs(residuals) - epsilon / 2), residuals**2 / 2)
    found = {"epsilon_insensitive": away, "squared_epsilon_insensitive": away**2}
    return found[loss] if loss in found else LOSSES_OF_TARGETS[loss](residuals)


def _primal(draw: Draw, data: Data, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Return the objective that ours minimises."""
    given, scores = draw.given, _scores(data.X, coef, intercept)
    loss = given.get("loss", "log_loss")
    if draw.estimator in OF_TARGETS:
        epsilon = given.get("epsilon", 0.1)  # the default of gradient descent
        losses = float(_of_residuals(loss, epsilon, scores[:, 0] - data.y).sum())
    else:
        classes, codes = np.unique(data.y, return_inverse=True)
        right = [1] if len(classes) == 2 else np.arange(len(classes))
        losses = float(_of_margins(loss)(np.where(codes[:, None] == right, scores, -scores)).sum())
    sizes = {"l2": np.sum(coef**2) / 2, "l1": np.abs(coef).sum()}
    if draw.estimator.startswith("SGD"):
        share = {"l2": 0.0, "l1": 1.0, "elasticnet": 0.15}[given["penalty"]]
        return losses / len(data.y) + given["alpha"] * float(share * sizes["l1"] + (1 - share) * sizes["l2"])
    of_intercept = {"l2": np.sum(intercept**2) / 2, "l1": np.abs(intercept).sum()}
    penalty = given.get("penalty", "l2")
    return given["C"] * losses + float(sizes[penalty] + of_intercept[penalty])


def _one_class(draw: Draw, data: Data, model: Any) -> float:
    """Return ½ ‖w‖² - ρ + Σ max(0, ρ - w·x) / (ν n). Ours has its problem for w and ρ that are ν n times as large."""
    total = draw.given["nu"] * len(data.y)
    factor = 1 / total if type(model).__module__.startswith("fastsvm") else 1.0
    w, offset = factor * np.ravel(model.coef_).astype(np.float64), factor * float(np.ravel(model.offset_)[0])
    outside = np.maximum(0, offset - _scores(data.X, w[None], np.zeros(1))).sum()
    return float(w @ w / 2 - offset + outside / total)


def _scale_of_one_class(data: Data) -> float:
    """Return the objective of samples that are all the same."""
    X = data.X
    square = X.multiply(X).sum(dtype=np.float64) if sparse.issparse(X) else np.square(X, dtype=np.float64).sum()
    return float(square / len(data.y) / 2)


# --- kernel machines -------------------------------------------------------------------------------------------


class _Problem(NamedTuple):
    """One problem of two classes, or that of a machine without classes: its samples and its part of two answers."""

    rows: np.ndarray
    answers: list[Answer]


def _by_duals(draw: Draw, data: Data, models: tuple[Any, Any]) -> Verdict:
    """Compare sums of dual objectives, to be maximised. Ours must fulfil the constraints.

    Both end when optimality conditions are violated by 0.001. Objectives may differ by that, times Σ α.
    """
    ours = theirs = 0.0
    violation = within = 0.0
    for problem in _problems(draw, data, models):
        kernel = _kernel_of(draw, data, data.X[problem.rows])
        found = [_dual(draw, kernel, data.y[problem.rows], answer) for answer in problem.answers]
        ours, theirs = ours + found[0][0], theirs + found[1][0]
        violation = max(violation, found[0][1])
        total = float(np.abs(problem.answers[1].dual_coef).sum())  # that of a ν-classifier is divided by its margin
        within += _TOL * (draw.given["nu"] * len(problem.rows) if draw.estimator == "NuSVC" else total)
    if violation > _VIOLATION * max(1.0, draw.given.get("C", 1.0)) * len(data.y):
        return Verdict("violation of constraints", violation, 0.0, False)
    least = theirs - max(_WORSE * abs(theirs), within)
    return Verdict("dual objective", ours, theirs, bool(ours >= least))


def _kernel_of(draw: Draw, data: Data, X: Any) -> ExactKernel:
    given = draw.given
    return ExactKernel(X, given["kernel"], gamma_of(draw, data.X), given.get("degree", 3), given.get("coef0", 0.0))


def _problems(draw: Draw, data: Data, models: tuple[Any, Any]) -> list[_Problem]:
    answers = [Answer(**answer_of(model)) for model in models]
    if draw.classes <= 2:
        return [_Problem(np.arange(len(data.y)), answers)]
    codes = np.unique(data.y, return_inverse=True)[1]
    pairs = list(combinations(range(draw.classes), 2))
    rng = np.random.default_rng([draw.seed, draw.number, 2])
    chosen = rng.choice(len(pairs), size=min(len(pairs), _PAIRS), replace=False)
    return [_of_pair(codes, number, *pairs[number], answers) for number in sorted(chosen)]


def _of_pair(codes: np.ndarray, number: int, a: int, b: int, answers: list[Answer]) -> _Problem:
    """Return the problem of two classes and its part of the answers, in the layout of two classes."""
    rows = np.flatnonzero((codes == a) | (codes == b))
    parts = []
    for answer in answers:
        support = np.asarray(answer.support)
        mine = np.isin(codes[support], (a, b))
        row = np.where(codes[support[mine]] == a, b - 1, a)
        coef = answer.dual_coef[row, np.flatnonzero(mine)]
        # With two classes scikit-learn's signs are those of the second class.
        parts.append(Answer(np.searchsorted(rows, support[mine]), -coef[None], -answer.intercept[[number]]))
    return _Problem(rows, parts)


def _dual(draw: Draw, kernel: ExactKernel, y: np.ndarray, answer: Answer) -> tuple[float, float]:
    """Return the dual objective and the violation of its constraints."""
    given = draw.given
    if draw.estimator == "SVC":
        verdict = examine(kernel, y, given["C"], answer, gap=False)
        return verdict.objective, max(verdict.bound_violation, verdict.balance_violation)
    machine = {"NuSVC": "nu-svc", "SVR": "svr", "NuSVR": "nu-svr", "OneClassSVM": "one-class"}[draw.estimator]
    beta, support = np.zeros(len(y)), np.asarray(answer.support, np.int64)
    beta[support] = answer.dual_coef[0]
    sums = kernel_sums(kernel, kernel.X, support, answer.dual_coef.T.astype(np.float64))[:, 0]
    signs = np.where(y == y.max(), 1.0, -1.0) if machine == "nu-svc" else y.astype(np.float64)
    own = {name: given[name] for name in ("nu", "epsilon") if name in given}
    upper = np.full(len(y), given.get("C", 1.0))
    found = examine_machine(machine, sums, signs, upper, beta, float(answer.intercept[0]), **own)
    return found.objective, found.violation


# --- predictions -----------------------------------------------------------------------------------------------


def _chosen(draw: Draw, data: Data, model: Any, output: np.ndarray) -> np.ndarray:
    """Return the classes or targets that an output means."""
    if draw.task == "predict":
        return output
    if not draw.classes:
        return np.where(output >= 0, 1, -1)
    return model.classes_[output.argmax(axis=1) if output.ndim > 1 else (output > 0).astype(int)]


def _share_of_equal(draw: Draw, data: Data, first: np.ndarray, second: np.ndarray) -> float:
    if draw.estimator in OF_TARGETS:
        return float(np.mean(np.abs(first - second) <= _NEAR * data.y.std()))
    return accuracy(first, second)


def _by_coefficients(draw: Draw, data: Data, model: Any) -> np.ndarray:
    """Return what the model's own coefficients predict, in float64."""
    X = data.X_test[: draw.rows]
    if draw.estimator in KERNEL_MACHINES:
        answer = Answer(**answer_of(model))
        kernel, coef = _kernel_of(draw, data, data.X), answer.dual_coef.T.astype(np.float64)
        scores = kernel_sums(kernel, X, np.asarray(answer.support, np.int64), coef) + answer.intercept
    elif draw.estimator == "NystroemSVC":
        kernel = _kernel_of(draw, data, model.components_)
        scores = kernel_sums(kernel, X, np.arange(model.components_.shape[0]), model.coef_.T) + model.intercept_
    else:
        scores = _scores(X, *_weights(model))
    if draw.estimator in OF_TARGETS:
        return scores[:, 0]
    if not draw.classes:
        return np.where(scores[:, 0] >= 0, 1, -1)
    return model.classes_[scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)]
