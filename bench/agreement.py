"""Does the answer agree with LIBSVM's at a tight tolerance? `python -m bench.agreement`, from the root.

For each data set, kernel and C, both libraries fit to a violation of 1e-6, and the referee judges both answers. The
table shows the dual objective relative to LIBSVM's, and the share of equal predictions for the training samples. The
sigmoid kernel is not positive semi-definite, so its problem has several stationary points.
"""

import os
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LIBSVM

from bench.kernel.exact_kernel import ExactKernel
from bench.kernel.referee import Answer, Verdict, examine
from bench.workers.results import answer_of
from fastsvm import SVC

_KERNELS = ("linear", "poly", "rbf", "sigmoid")
_PENALTIES = (0.1, 1.0, 100.0)
_MOST_STEPS = 10_000_000


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return samples and labels by name. a9a is included only if the folder FASTSVM_DATA has it."""
    found = {
        "iris": load_iris(return_X_y=True),
        "breast_cancer": load_breast_cancer(return_X_y=True),
        "breast_cancer, standardised": load_breast_cancer(return_X_y=True),
        "digits": load_digits(return_X_y=True),
    }
    X, y = found["breast_cancer, standardised"]
    found["breast_cancer, standardised"] = StandardScaler().fit_transform(X), y
    path = Path(os.environ.get("FASTSVM_DATA", "")) / "a9a"
    if path.is_file():
        X, y = load_svmlight_file(str(path))
        found["a9a, 3000 rows"] = X[:3000].toarray(), y[:3000]
    else:
        print("a9a is left out: FASTSVM_DATA names no folder that holds it")
    return found


def main() -> None:
    """Print one line for each comparison, and a summary."""
    print(f"{'data':28} {'kernel':8} {'C':>5} {'objective':>14} {'relative':>10}  our gap LIBSVM gap same")
    worst = []
    for (name, (X, y)), kernel, C in product(data_sets().items(), _KERNELS, _PENALTIES):
        gamma = 1 / (X.shape[1] * X.var())
        given = {"kernel": kernel, "C": C, "gamma": gamma, "tol": 1e-6}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ours = SVC(**given).fit(X, y)
            theirs = LIBSVM(**given, max_iter=_MOST_STEPS).fit(X, y)
        mine, other = (_judge(model, X, y, given) for model in (ours, theirs))
        relative = (mine.objective - other.objective) / abs(other.objective)
        same = float(np.mean(ours.predict(X) == theirs.predict(X)))
        note = "" if abs(relative) <= 1e-5 and same >= 0.999 else "  <-- " + _reason(theirs, mine, other)
        print(
            f"{name:28} {kernel:8} {C:5g} {mine.objective:14.8g} {relative:10.1e} {mine.kkt_gap:8.0e} "
            f"{other.kkt_gap:10.0e} {same:.4f}{note}"
        )
        worst.append(abs(relative))
    print(f"{np.sum(np.array(worst) <= 1e-5)} of {len(worst)} objectives agree within 1e-5")


def _judge(model: SVC | LIBSVM, X: np.ndarray, y: np.ndarray, given: dict) -> Verdict:
    kernel = ExactKernel(X, given["kernel"], given["gamma"], 3, 0.0)
    answer = answer_of(model)
    return examine(kernel, y, given["C"], Answer(answer["support"], answer["dual_coef"], answer["intercept"]))


def _reason(theirs: LIBSVM, mine: Verdict, other: Verdict) -> str:
    if theirs.fit_status_:
        return "LIBSVM reached its limit of steps"
    if mine.objective > other.objective and other.kkt_gap > 10 * mine.kkt_gap:
        return "LIBSVM's own gap is larger than it says"
    return "another stationary point" if theirs.kernel == "sigmoid" else "disagreement"


if __name__ == "__main__":
    main()
