"""Do SVR, OneClassSVM, NuSVR and NuSVC agree with LIBSVM? `python -m bench.machines_agreement`, from the root.

Arguments are names of machines and of data sets, to compare some only: `svr iris`.

For each data set, kernel and choice of parameters both libraries fit to a violation of 1e-6, and the referee judges
both answers. The table shows the dual objective relative to LIBSVM's, both duality gaps relative to it, and the largest
difference of decision values, relative to their size. An answer whose duality gap is rounding error is optimal. Where
LIBSVM's is not, both fit once more, to a thousandth of the violation, on the kernel values in float32 that LIBSVM
stores: their rounding, times the multipliers, hides what is left. What still differs has its reason beside it. The run
is written as JSON, after each machine and data set.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import svm
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

import fastsvm
from bench.harness.study import RESULTS, Study
from bench.machines.referee import Finding, examine_machine
from bench.made_up_tables import districts
from bench.recipes import cod_rna

__all__ = ["SAME_DECISIONS", "SAME_OBJECTIVE", "Comparison", "compare", "questions"]

_KERNELS = ("linear", "poly", "rbf", "sigmoid")
_FEW_KERNELS = {"cod-rna": ("rbf",), "houses": ("poly", "rbf"), "raw houses": ("rbf",), "large": ("linear", "rbf")}
_PARAMETERS: dict[str, tuple[dict[str, float], ...]] = {
    "svr": ({"C": 1.0, "epsilon": 0.1}, {"C": 100.0, "epsilon": 0.01}, {"C": 10.0, "epsilon": 0.0}),
    "one-class": ({"nu": 0.01}, {"nu": 0.1}, {"nu": 0.5}, {"nu": 0.9}),
    "nu-svr": ({"nu": 0.1, "C": 1.0}, {"nu": 0.5, "C": 10.0}, {"nu": 0.9, "C": 1.0}),
    "nu-svc": ({"nu": 0.1}, {"nu": 0.3}, {"nu": 0.6}),
}
_THEIRS = {"svr": svm.SVR, "one-class": svm.OneClassSVM, "nu-svr": svm.NuSVR, "nu-svc": svm.NuSVC}
_OURS = {"svr": fastsvm.SVR, "one-class": fastsvm.OneClassSVM, "nu-svr": fastsvm.NuSVR, "nu-svc": fastsvm.NuSVC}
_MOST_STEPS = 3_000_000  # of LIBSVM: slices end within three minutes
_ZERO = 1e-6
SAME_OBJECTIVE, SAME_DECISIONS = 1e-6, 1e-4
"""Relative differences of objectives, and of decision values, that agree."""
_OPTIMAL = 1e-9  # relative duality gap
_CLOSER = 1e-3


def _data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return samples and targets by name; the sign of a target less the median is its class."""
    rng = np.random.default_rng(5)
    made_up = rng.normal(size=(400, 6))
    wave = np.sin(2 * made_up[:, 0]) + made_up[:, 1] * made_up[:, 2] + 0.1 * rng.normal(size=400)
    X, z = load_diabetes(return_X_y=True)
    digits, labels = load_digits(return_X_y=True)
    houses, prices = districts(1500)
    rna = cod_rna(5000)
    return {
        "iris": load_iris(return_X_y=True),
        "diabetes": (X / X.std(axis=0), (z - z.mean()) / z.std()),
        "digits": (digits[:600], labels[:600].astype(float)),
        "made up": (made_up, wave),
        "houses": ((houses - houses.mean(axis=0)) / houses.std(axis=0), prices),
        "raw houses": (houses, prices),
        "large": (made_up, 1e6 * wave),
        "cod-rna": (np.asarray(rna.X, np.float64), np.asarray(rna.y, np.float64)),
    }


def questions(
    data_sets: dict[str, tuple[np.ndarray, np.ndarray]],
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray, dict[str, Any]]]:
    """Yield machine, name of the data, samples, targets and parameters, all of a machine and its data together."""
    for (name, (X, z)), machine in product(data_sets.items(), _PARAMETERS):
        if name == "large" and "svr" not in machine:
            continue  # only its targets are large
        y = np.where(z > np.median(z), 1.0, -1.0) if machine == "nu-svc" else z.astype(float)
        for kernel, given in product(_FEW_KERNELS.get(name, _KERNELS), _PARAMETERS[machine]):
            gamma, scale = 1 / (X.shape[1] * X.var()), 1e6 if name == "large" else 1.0
            scaled = {key: value * scale if key in ("C", "epsilon") else value for key, value in given.items()}
            yield machine, name, X, y, scaled | {"kernel": kernel, "gamma": gamma, "tol": 1e-6 * scale}


class Comparison(NamedTuple):
    """Two answers to a question.

    Attributes
    ----------
    mine, other : Finding
        What the referee finds of our answer and of LIBSVM's.
    size : float
        Of the objective.
    differ : float
        Largest difference of decision values, relative to their size.
    apart : float
        The same without the intercepts, in the units of the problem.
    gave_up : bool
        Whether LIBSVM took the most steps that it may.
    least : float
        Least eigenvalue of an indefinite kernel, relative to the largest; 0 if answers agree.
    """

    mine: Finding
    other: Finding
    size: float
    differ: float
    apart: float
    gave_up: bool
    least: float = 0.0

    @property
    def relative(self) -> float:
        """How much larger our dual objective is."""
        return (self.mine.objective - self.other.objective) / self.size

    @property
    def agree(self) -> tuple[bool, bool]:
        """Whether the objectives and the decision values agree."""
        feasible = self.mine.violation <= 1e-9 * max(1.0, self.size)
        return abs(self.relative) <= SAME_OBJECTIVE and feasible, self.differ <= SAME_DECISIONS

    @property
    def optimal(self) -> tuple[bool, bool]:
        """Whether our answer and LIBSVM's are optimal, by their duality gaps."""
        return self.mine.gap <= _OPTIMAL * self.size, self.other.gap <= _OPTIMAL * self.size


def compare(
    machine: str, X: np.ndarray, y: np.ndarray, given: dict[str, Any], weight: np.ndarray | None = None
) -> tuple[Comparison, Comparison]:
    """Return the comparison with LIBSVM's answer, and one on the kernel values that LIBSVM stores, in float32.

    The second is the first where that agrees, or where LIBSVM's answer is optimal.
    """
    kernel, extra = given["kernel"], {} if given["kernel"] == "linear" else {"gamma": given["gamma"]}
    if kernel in ("poly", "sigmoid"):
        extra["coef0"] = 0.0
    K = pairwise_kernels(X, metric=kernel, **extra)
    c = given.get("C", 1.0) * (np.ones(len(X)) if weight is None else weight)
    asked = {name: value for name, value in given.items() if name in ("nu", "epsilon")}

    def against(X: np.ndarray, K: np.ndarray, given: dict[str, Any]) -> Comparison:
        models = _OURS[machine](**given), _THEIRS[machine](**given, max_iter=_MOST_STEPS)
        found, values = [], []
        for model in models:
            model.fit(X, y, sample_weight=weight)
            beta = np.zeros(len(X))
            beta[model.support_] = model.dual_coef_[0]
            found.append(examine_machine(machine, K @ beta, y, c, beta, float(model.intercept_[0]), **asked))
            values.append(model.predict(X) if machine in ("svr", "nu-svr") else model.decision_function(X))
        mine, other = found
        size = max(abs(other.objective), _ZERO * given.get("C", 1.0) * len(X))  # the least objective may be 0
        differ = np.abs(values[0] - values[1]).max() / max(1.0, np.abs(values[1]).max())
        apart = np.abs(mine.sums - other.sums).max() / max(np.abs(other.sums).max(), np.finfo(float).tiny)
        gave_up = bool(np.max(models[1].n_iter_) >= _MOST_STEPS)
        return Comparison(mine, other, size, float(differ), float(apart), gave_up)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = against(X, K, given)
        if kernel == "sigmoid" and not all(first.agree):
            values = np.linalg.eigvalsh(K)
            first = first._replace(least=float(values[0] / values[-1]))
        if all(first.agree) or first.optimal[1]:
            return first, first
        stored = K.astype(np.float32).astype(np.float64)
        return first, against(stored, stored, given | {"kernel": "precomputed", "tol": _CLOSER * given["tol"]})


def _reason(first: Comparison, closer: Comparison) -> tuple[str, str]:
    """Return why an answer differs from LIBSVM's, and numbers that show it."""
    gaps = f"{first.mine.gap / first.size:.0e} and {first.other.gap / first.size:.0e}"
    if first.least < -_OPTIMAL:
        return "the kernel is indefinite: both are stationary points", f"eigenvalues down to {first.least:.0e}"
    if max(abs(first.mine.objective), abs(first.other.objective)) <= SAME_OBJECTIVE * first.size:
        return "w = 0: decision values are rounding errors", ""
    if all(closer.agree):
        within = f"within {abs(closer.relative):.0e}, {closer.differ:.0e}"
        return "LIBSVM stores kernel values in float32: on such values both agree", within
    if closer.optimal[1] and closer.apart <= SAME_DECISIONS:
        return "both are optimal, and the intercept is free: without it they agree", f"within {closer.apart:.0e}"
    if first.mine.gap > max(first.other.gap, _OPTIMAL * first.size):
        return "our gap is larger", gaps
    if first.gave_up:
        return f"LIBSVM had not converged after {_MOST_STEPS:,} steps", gaps
    return "LIBSVM's gap is larger", f"{gaps}, and {closer.other.gap / closer.size:.0e} on float32"


def measured(machine: str, X: np.ndarray, y: np.ndarray, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a comparison found, as numbers and words."""
    first, closer = compare(machine, X, y, given)
    reason, numbers = ("", "") if all(first.agree) else _reason(first, closer)
    return {
        **{name: given[name] for name in ("kernel", "nu", "C", "epsilon") if name in given},
        "objective": float(first.mine.objective), "relative": float(first.relative),
        "gap": float(first.mine.gap / first.size), "other_gap": float(first.other.gap / first.size),
        "differ": first.differ, "agree": list(map(bool, first.agree)), "on_float32": bool(all(closer.agree)),
        "reason": reason, "numbers": numbers,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Print one line for each comparison, and a summary, and write JSON."""
    sets = _data_sets()
    parser = argparse.ArgumentParser("python -m bench.machines_agreement", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only {', '.join((*_PARAMETERS, *sets))}")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder ({RESULTS})")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - _PARAMETERS.keys() - sets.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    machines, names = (set(asked.names) & known.keys() or known.keys() for known in (_PARAMETERS, sets))
    study, counts = Study("machines_agreement", asked.out), np.zeros(5, int)
    print(
        f"{'machine':10} {'data':12} {'kernel':8} {'parameters':28} {'objective':>13} relative  our gap LIBSVM's differ"
    )
    for (machine, name), slices in groupby(questions(sets), lambda question: question[:2]):
        if machine not in machines or name not in names:
            continue
        results = []
        for *_, X, y, given in slices:
            one = measured(machine, X, y, given)
            agree = one["agree"]
            counts += [1, *agree, all(agree), one["on_float32"]]
            shown = ", ".join(f"{key}={given[key]}" for key in ("nu", "C", "epsilon") if key in given)
            note = f"  <-- {one['reason']}: {one['numbers']}" if one["reason"] else ""
            print(
                f"{machine:10} {name:12} {one['kernel']:8} {shown:28} {one['objective']:13.7g} {one['relative']:8.0e} "
                f"{one['gap']:8.0e} {one['other_gap']:8.0e} {one['differ']:7.0e}{note}",
                flush=True,
            )
            results.append(one)
        study.add(f"{machine}, {name}", results)
    n, good, near, both, after = counts
    print(
        f"of {n}: {good} objectives agree within {SAME_OBJECTIVE:g}, {near} decision functions within "
        f"{SAME_DECISIONS:g}, {both} both, {after} both on what LIBSVM stores"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
