"""Compile what the estimators need before the first fit needs it."""

import time
import warnings
from collections.abc import Callable
from inspect import signature

import joblib
import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits

from fastsvm._compiled.code_cache import writeable_folder
from fastsvm._compiled.compilations import COMPILATIONS
from fastsvm._compiled.compiler import thread_count
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.jobs.inputs import Json
from fastsvm.progress_bar import progress_bar
from fastsvm.tuning import current_tuning

_FORMS: dict[str, Callable[[np.ndarray], np.ndarray | sparse.csr_matrix]] = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "bytes": lambda X: np.clip(40 * X + 128, 0, 255).astype(np.uint8),
    "CSR": lambda X: sparse.csr_matrix(np.where(X > 0.5, X, 0)),
    # As of words, more than there are samples, most of which occur once.
    "words": lambda X: sparse.hstack([np.where(X > 0.5, X, 0), sparse.identity(len(X))], "csr"),
}
_MANY_CLASSES = "svc", "nu-svr", "logistic"  # Digits compile more of them than rows of two or three classes.


def warm_up(models: list[str] | None = None, progress: bool = False, n_jobs: int | None = None) -> Json:
    """Fit small models of these names, None for all, in `n_jobs` processes, so that their machine code is cached."""
    names, begin = list(ESTIMATORS) if models is None else models, time.perf_counter()
    tasks: list[tuple[str, str]] = []
    for i in range(len(names)):  # neighbours are of different machines and forms: they compile less of the same
        tasks += [(names[(i + 3 * k) % len(names)], form) for k, form in enumerate(_FORMS)]
    tasks += [("svc", "unscaled")] if "svc" in names else []
    tasks += [(name, "digits") for name in names if name in _MANY_CLASSES]
    cache = writeable_folder()
    n_jobs = 1 if cache is None else min(n_jobs or thread_count(), len(tasks))
    done = joblib.Parallel(n_jobs, return_as="generator_unordered")(joblib.delayed(_compile)(*task) for task in tasks)
    functions = set().union(*progress_bar(done, total=len(tasks), shown=progress, desc="compiling"))
    seconds = time.perf_counter() - begin
    return {"models": names, "n_compiled": len(functions), "seconds": seconds, "cache": str(cache or "")}


def _compile(name: str, form: str) -> set[str]:
    """Fit the small models of a form of samples, and return the names of the functions that this compiled."""
    n_before, COMPILATIONS.is_told = len(COMPILATIONS.functions), True  # who warms up knows why
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, parameters in _cases(name, form):
            _fit(name, form, n, parameters)
    return set(COMPILATIONS.functions[n_before:])


def _cases(name: str, form: str) -> list[tuple[int, Json]]:
    """Return numbers of samples and parameters."""
    tuning = current_tuning().jobs
    few, many, wide = tuning.warm_few, tuning.warm_many, tuning.warm_features // 2
    if form == "unscaled":
        return [(few, {"C": 100.0}), (few, {"kernel": "linear"})]
    seeded = {"random_state": 0} if "random_state" in signature(ESTIMATORS[name]).parameters else {}
    usual: Json = {"max_iter": tuning.warm_epochs} if name.startswith("sgd") else {}
    if form == "digits":
        return [(few, usual | seeded)]
    cases: dict[str, list[tuple[int, Json]]] = {
        "svc": [(few, {}), (few, {"kernel": "linear"}), (few, {"kernel": "poly"}), (many, {}), (many, {"C": 100.0})],
        "linear": [(few, {}), (few, {"loss": "hinge"}), (few, {"standardize": True}), (4 * many, {}), (wide, {})],
        "nu-svc": [(few, {}), (many, {})],
        "logistic": [(few, {}), (many, {}), (wide, {})],
    }
    more: list[tuple[int, Json]] = [(many, {})] if form == "float64" else []  # eigenvectors take long
    more += [(few, {}), (many, {"n_components": 2 * few})]
    cases |= {key: more for key in ("nystroem", "nystroem-regressor")}
    return [(n, parameters | seeded) for n, parameters in cases.get(name, [(few, usual)])]


def _fit(name: str, form: str, n: int, parameters: Json) -> None:
    """Fit and predict for two classes and for three, or for ten digits."""
    if form == "digits":
        X, y = load_digits(return_X_y=True)
        ESTIMATORS[name](**parameters).fit(X, y.astype(np.float64)).predict(X)
        return
    rng, tuning = np.random.default_rng(0), current_tuning().jobs
    X, y = rng.normal(size=(n, tuning.warm_features)), rng.integers(3, size=n)
    X[:, :2] += y[:, None] * [1.0, -0.5]
    lengths = np.logspace(-3, 4, tuning.warm_features)  # on which other steps are taken
    rows = X * lengths if form == "unscaled" else _FORMS[form](X)
    for classes in (2, 3) if n == tuning.warm_few else (2,):
        used = np.flatnonzero(y < classes)
        model = ESTIMATORS[name](**parameters).fit(rows[used], y[used])
        model.predict(rows)
        model.predict(rows[:1])  # for which kernel machines keep their support vectors in another form
