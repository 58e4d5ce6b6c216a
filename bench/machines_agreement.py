"""Do SVR, OneClassSVM, NuSVR and NuSVC agree with LIBSVM? `python -m bench.machines_agreement`, from the root.

Arguments are names of machines and of data sets, to compare some only: `svr iris`.

For each data set, kernel and choice of parameters both libraries fit to a violation of 1e-6, and the referee judges
both answers. The table shows the dual objective relative to LIBSVM's, both duality gaps relative to it, and the largest
difference of decision values, relative to their size. An answer whose duality gap is rounding error is optimal: where
the other differs, its own gap, or an intercept that is free within an interval, says why.
"""

import sys
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn import svm
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

import fastsvm
from bench.kernel.machines_referee import Finding, examine_machine
from bench.recipes import cod_rna

__all__ = ["compare", "questions"]

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
_MOST_STEPS = 10_000_000
_ZERO = 1e-6


def _data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return samples and targets by name; the sign of a target less the median is its class."""
    rng = np.random.default_rng(5)
    made_up = rng.normal(size=(400, 6))
    wave = np.sin(2 * made_up[:, 0]) + made_up[:, 1] * made_up[:, 2] + 0.1 * rng.normal(size=400)
    X, z = load_diabetes(return_X_y=True)
    digits, labels = load_digits(return_X_y=True)
    houses, prices = _houses(1500)
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


def _houses(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return made-up districts as those of the Californian census, features of very different scales, and prices."""
    rng = np.random.default_rng(0)
    income, age, rooms = rng.lognormal(1.2, 0.45, n), rng.uniform(1, 52, n), rng.lognormal(1.65, 0.3, n)
    people, crowd, north = rng.lognormal(7, 0.7, n), rng.lognormal(1.05, 0.3, n), rng.uniform(32, 42, n)
    west = -114 - 0.8 * (north - 32) + rng.normal(0, 1.5, n)
    coast = np.exp(-((north - 34) ** 2 + (west + 118) ** 2) / 2)
    price = 0.42 * income + 0.01 * age - 0.05 * rooms - 0.1 * crowd + 1.2 * coast + rng.normal(0, 0.35, n)
    return np.column_stack([income, age, rooms, people, crowd, north, west]), np.clip(price, 0.15, 5)


def questions() -> Iterator[tuple[str, str, np.ndarray, np.ndarray, dict[str, Any]]]:
    """Yield machine, name of the data, samples, targets and parameters."""
    for (name, (X, z)), machine in product(_data_sets().items(), _PARAMETERS):
        if name == "large" and "svr" not in machine:
            continue  # only its targets are large
        y = np.where(z > np.median(z), 1.0, -1.0) if machine == "nu-svc" else z.astype(float)
        for kernel, given in product(_FEW_KERNELS.get(name, _KERNELS), _PARAMETERS[machine]):
            gamma, scale = 1 / (X.shape[1] * X.var()), 1e6 if name == "large" else 1.0
            scaled = {key: value * scale if key in ("C", "epsilon") else value for key, value in given.items()}
            yield machine, name, X, y, scaled | {"kernel": kernel, "gamma": gamma, "tol": 1e-6 * scale}


def compare(
    machine: str, X: np.ndarray, y: np.ndarray, given: dict[str, Any], weight: np.ndarray | None = None
) -> tuple[Finding, Finding, float]:
    """Return what the referee finds of our answer and of LIBSVM's, and the largest difference of decision values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = _OURS[machine](**given).fit(X, y, sample_weight=weight)
        theirs = _THEIRS[machine](**given, max_iter=_MOST_STEPS).fit(X, y, sample_weight=weight)
    kernel, extra = given["kernel"], {} if given["kernel"] == "linear" else {"gamma": given["gamma"]}
    if kernel in ("poly", "sigmoid"):
        extra["coef0"] = 0.0
    K = pairwise_kernels(X, metric=kernel, **extra)
    c = given.get("C", 1.0) * (np.ones(len(X)) if weight is None else weight)
    found = []
    for model in (ours, theirs):
        beta = np.zeros(len(X))
        beta[model.support_] = model.dual_coef_[0]
        asked = {name: value for name, value in given.items() if name in ("nu", "epsilon")}
        found.append(examine_machine(machine, K, y, c, beta, float(model.intercept_[0]), **asked))
    values = [
        model.predict(X) if machine in ("svr", "nu-svr") else model.decision_function(X) for model in (ours, theirs)
    ]
    return found[0], found[1], float(np.abs(values[0] - values[1]).max() / max(1.0, np.abs(values[1]).max()))


def _reason(mine: Finding, other: Finding, relative: float, size: float, kernel: str) -> str:
    if kernel == "sigmoid" and max(abs(relative), abs(mine.gap / size), abs(other.gap / size)) > 1e-6:
        return "the kernel is not positive definite"
    if size < 1e-5 * abs(mine.gap):
        return "the margin is 0"
    if mine.gap > 1e-5 * size:
        return "our gap is large"
    if relative < -1e-6:
        return "another stationary point"
    return "LIBSVM's gap is larger than ours" if other.gap > 100 * max(mine.gap, 1e-12 * size) else "both are optimal"


def main() -> None:
    """Print one line for each comparison, and a summary."""
    machines, sets = (set(sys.argv[1:]) & set(names) or set(names) for names in (_PARAMETERS, _data_sets()))
    print(
        f"{'machine':10} {'data':12} {'kernel':8} {'parameters':28} {'objective':>13} relative  our gap LIBSVM's differ"
    )
    n, good, near = 0, 0, 0
    for machine, name, X, y, given in questions():
        if machine not in machines or name not in sets:
            continue
        mine, other, differ = compare(machine, X, y, given)
        size = max(abs(other.objective), _ZERO * given.get("C", 1.0) * len(X))  # the least objective may be 0
        relative = (mine.objective - other.objective) / size
        agrees, equal = abs(relative) <= 1e-6 and mine.violation <= 1e-9 * max(1.0, size), differ <= 1e-4
        n, good, near = n + 1, good + agrees, near + equal
        shown = ", ".join(f"{key}={given[key]}" for key in ("nu", "C", "epsilon") if key in given)
        note = "" if agrees and equal else "  <-- " + _reason(mine, other, relative, size, given["kernel"])
        print(
            f"{machine:10} {name:12} {given['kernel']:8} {shown:28} {mine.objective:13.7g} {relative:8.0e} "
            f"{mine.gap / size:8.0e} {other.gap / size:8.0e} {differ:7.0e}{note}",
            flush=True,
        )
    print(f"{good} of {n} objectives agree within 1e-6, {near} of {n} decision functions within 1e-4")


if __name__ == "__main__":
    main()
