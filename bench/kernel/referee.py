"""How good is an answer? Objective, constraints, optimality and accuracy, from the data and the answer alone.

The two-class problem of classes a < b has y_i = 1 for samples of a and y_i = -1 for samples of b:

    maximise  Σα - ½ Σ_ij α_i α_j y_i y_j K_ij    subject to  0 <= α <= C,  Σ y α = 0.

With F_i = Σ_j α_j y_j K_ij - y_i, α is optimal if max F over the samples whose α y may decrease is at most min F over
the samples whose α y may increase. A test sample gets the class with most votes of the pairs. Nothing here comes from
the package under test. Kernel values and sums are in float64.

Cost: the kernel values between all samples and the union of the support vectors of all answers. They are computed once
for all answers and pairs, in tiles, by all processors.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from bench.harness.data import Data
from bench.harness.suite import Findings, Stored
from bench.kernel.competitors import KernelParameters
from bench.kernel.exact_kernel import ExactKernel

__all__ = ["Answer", "Verdict", "accuracy", "examine", "examine_all", "judge", "kernel_sums", "refusal"]

_ROWS, _SUPPORT = 512, 2048  # of a tile of kernel values: 8 MiB, for each thread
_AT_BOUND = 1e-12  # relative to C: multipliers this close to a bound count as at the bound


class Answer(NamedTuple):
    """A fit in the layout of scikit-learn's `support_`, `dual_coef_` and `intercept_`."""

    support: np.ndarray
    dual_coef: np.ndarray
    intercept: np.ndarray


class Verdict(NamedTuple):
    """What the referee found.

    Attributes
    ----------
    objective : float
        Dual objective, summed over the pairs of classes.
    bound_violation : float
        Largest distance of a multiplier from [0, C].
    balance_violation : float
        Largest |Σ y α| of a pair.
    kkt_gap : float or None
        Largest violation of the optimality conditions over all samples and pairs; None if not asked for.
    duality_gap : float or None
        Primal objective (with the answer's intercepts) less dual objective, summed over the pairs.
    n_support : int
        Samples whose multiplier is not zero in some pair.
    predicted : ndarray or None
        Predicted labels of the test samples; None if there are none.
    """

    objective: float
    bound_violation: float
    balance_violation: float
    kkt_gap: float | None
    duality_gap: float | None
    n_support: int
    predicted: np.ndarray | None


class _Pair(NamedTuple):
    """One two-class problem: y of all samples (0 for other classes), y α of all samples, the intercept."""

    y: np.ndarray
    beta: np.ndarray
    intercept: float


def accuracy(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the share of correct predictions."""
    return float(np.mean(predicted == y))


def judge(parameters: KernelParameters, data: Data, stored: Sequence[Stored], gap: bool) -> Findings:
    """Judge the answers that competitors left behind; see `bench.harness.suite.Suite`."""
    p = parameters
    kernel = ExactKernel(data.X, p.kernel, p.gamma, p.degree, p.coef0)
    answers = [Answer(*(one[name] for name in Answer._fields)) for one in stored]
    refusals = [refusal(data.y, answer) for answer in answers]
    good = [answer for answer, why in zip(answers, refusals, strict=True) if not why]
    verdicts = iter(examine_all(kernel, data.y, p.C, good, gap, data.X_test) if good else ())
    return [why or _findings(next(verdicts)._asdict(), data, one) for why, one in zip(refusals, stored, strict=True)]


def _findings(verdict: dict[str, Any], data: Data, stored: Stored) -> dict[str, Any]:
    """Return the verdict. The accuracy is that of the competitor's own predictions, if there are any."""
    expected = verdict.pop("predicted")
    found = stored.get("predicted", expected)
    return verdict | {"accuracy": accuracy(found, data.y_test), "agreement": accuracy(found, expected)}


def examine(kernel: ExactKernel, y: np.ndarray, C: float, answer: Answer, gap: bool = True) -> Verdict:
    """Judge one answer; see `examine_all`."""
    return examine_all(kernel, y, C, [answer], gap)[0]


def examine_all(
    kernel: ExactKernel, y: np.ndarray, C: float, answers: Sequence[Answer], gap: bool = True, X_test: Any = None
) -> list[Verdict]:
    """Judge answers to the same question.

    Parameters
    ----------
    kernel : ExactKernel
        Kernel over the training set.
    y : ndarray
        Labels of the training set.
    C : float
        Upper bound of the multipliers.
    answers : sequence of Answer
        Answers to judge.
    gap : bool
        Whether to compute the gaps, which need the kernel values of all samples, not only of the support vectors.
    X_test : ndarray, CSR matrix or None
        Test samples to predict.

    Raises
    ------
    ValueError
        If an answer does not have scikit-learn's layout.
    """
    for answer in answers:
        if why := refusal(y, answer):
            raise ValueError(why)
    classes, codes = np.unique(y, return_inverse=True)
    pairs = [_pairs(codes, len(classes), answer) for answer in answers]
    support = np.unique(np.concatenate([answer.support for answer in answers]).astype(np.int64))
    support = support[np.argsort(codes[support], kind="stable")]  # so that a tile concerns few pairs
    coef = np.column_stack([pair.beta[support] for each in pairs for pair in each])
    rows = np.arange(len(y)) if gap else np.sort(support)
    known = kernel_sums(kernel, kernel.X[rows], support, coef)
    new = None if X_test is None else kernel_sums(kernel, X_test, support, coef)
    verdicts = []
    for k, each in enumerate(pairs):
        own = slice(k * len(each), (k + 1) * len(each))
        predicted = None if new is None else classes[_votes(new[:, own], each, len(classes))]
        verdicts.append(_verdict(each, rows, known[:, own], C, gap)._replace(predicted=predicted))
    return verdicts


def refusal(y: np.ndarray, answer: Answer) -> str | None:
    """Return why an answer cannot be judged, None if it can."""
    n_classes, support = len(np.unique(y)), np.asarray(answer.support)
    expected = (n_classes - 1, len(support)), (n_classes * (n_classes - 1) // 2,)
    found = np.shape(answer.dual_coef), np.shape(answer.intercept)
    if found != expected:
        return f"coefficients and intercepts should have the shapes {expected}, they have {found}"
    if len(np.unique(support)) < len(support) or not np.isin(support, np.arange(len(y))).all():
        return f"support should be distinct row numbers from 0 to {len(y) - 1}"
    if not (np.isfinite(answer.dual_coef).all() and np.isfinite(answer.intercept).all()):
        return "coefficients and intercepts should be finite"
    return None


def _pairs(codes: np.ndarray, n_classes: int, answer: Answer) -> list[_Pair]:
    """Return the problem of each pair of classes with its part of the answer."""
    support = np.asarray(answer.support, np.int64)
    # With two classes scikit-learn's signs are those of the second class.
    sign = -1.0 if n_classes == 2 else 1.0
    dual_coef = sign * np.asarray(answer.dual_coef, np.float64)
    intercept = sign * np.asarray(answer.intercept, np.float64)
    pairs = []
    for k, (a, b) in enumerate(combinations(range(n_classes), 2)):
        beta = np.zeros(len(codes))
        for own, row in ((a, b - 1), (b, a)):
            mine = codes[support] == own
            beta[support[mine]] = dual_coef[row, mine]
        pairs.append(_Pair((codes == a).astype(np.int8) - (codes == b), beta, float(intercept[k])))
    return pairs


def kernel_sums(kernel: ExactKernel, X: Any, support: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return Σ_s coef[s, p] k(x_i, x_s) for each sample i of X and each pair p."""
    sums = np.zeros((X.shape[0], coef.shape[1]))
    centre: Any = kernel.centre()
    progress = tqdm(total=len(support) * len(sums), desc="referee", unit_scale=True, disable=None, leave=False)
    # One BLAS thread each: then the work after a product is parallel too.
    with progress, threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        for s in range(0, len(support), _SUPPORT):
            part = coef[s : s + _SUPPORT]
            used = np.flatnonzero(part.any(axis=0))
            columns, operand = np.ascontiguousarray(part[:, used]), kernel.rows(support[s : s + _SUPPORT], centre)

            def add(r: int, used: np.ndarray = used, columns: np.ndarray = columns, operand: Any = operand) -> int:
                block = kernel.widened(X[r : r + _ROWS], centre)
                sums[r : r + _ROWS, used] += kernel.between(block, operand) @ columns
                return block.shape[0] * operand.shape[0]

            for n_done in pool.map(add, range(0, len(sums), _ROWS)):
                progress.update(n_done)
    return sums


def _votes(sums: np.ndarray, pairs: list[_Pair], n_classes: int) -> np.ndarray:
    """Return the class with most votes of each sample, the first class if several have most."""
    count = np.zeros((len(sums), n_classes), np.int64)
    for k, (a, b) in enumerate(combinations(range(n_classes), 2)):
        first = sums[:, k] + pairs[k].intercept > 0
        count[:, a] += first
        count[:, b] += ~first
    return count.argmax(axis=1)


def _verdict(pairs: list[_Pair], rows: np.ndarray, sums: np.ndarray, C: float, gap: bool) -> Verdict:
    findings = np.array([_judge(pair, rows, sums[:, k], C, gap) for k, pair in enumerate(pairs)])
    return Verdict(
        objective=float(findings[:, 0].sum()),
        bound_violation=float(findings[:, 1].max()),
        balance_violation=float(findings[:, 2].max()),
        kkt_gap=float(findings[:, 3].max()) if gap else None,
        duality_gap=float(findings[:, 4].sum()) if gap else None,
        n_support=int(np.count_nonzero(np.any([pair.beta != 0 for pair in pairs], axis=0))),
        predicted=None,
    )


def _judge(pair: _Pair, rows: np.ndarray, sums: np.ndarray, C: float, gap: bool) -> tuple[float, ...]:
    """Return objective, violations of bounds and balance, KKT gap and duality gap of one problem."""
    mine = pair.y[rows] != 0
    y, beta, sums = pair.y[rows][mine], pair.beta[rows][mine], sums[mine]
    alpha = y * beta
    quadratic = float(beta @ sums)
    objective = float(alpha.sum()) - quadratic / 2
    bound_violation = max(0.0, float(-alpha.min(initial=0)), float((alpha - C).max(initial=0)))
    findings = objective, bound_violation, abs(float(beta.sum()))
    if not gap:
        return *findings, np.nan, np.nan
    loss = C * float(np.maximum(0, 1 - y * (sums + pair.intercept)).sum())
    return *findings, _kkt_gap(y, alpha, sums - y, C), quadratic / 2 + loss - objective


def _kkt_gap(y: np.ndarray, alpha: np.ndarray, gradient: np.ndarray, C: float) -> float:
    above, below = alpha > _AT_BOUND * C, alpha < C * (1 - _AT_BOUND)
    rise = np.where(y > 0, below, above)
    fall = np.where(y > 0, above, below)
    return max(0.0, float(gradient[fall].max(initial=-np.inf) - gradient[rise].min(initial=np.inf)))
