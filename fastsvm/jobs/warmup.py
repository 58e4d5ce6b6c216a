"""Compile what the estimators need before the first fit needs it."""

import warnings
from collections.abc import Callable, Iterator
from inspect import signature

import numpy as np
from scipy import sparse

from fastsvm._compiled.code_cache import writeable_folder
from fastsvm._compiled.compiler import recorded
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.jobs.inputs import Json
from fastsvm.progress_bar import progress_bar
from fastsvm.tuning import current_tuning

_FORMS: dict[str, Callable[[np.ndarray], np.ndarray | sparse.csr_matrix]] = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "bytes": lambda X: np.clip(40 * X + 128, 0, 255).astype(np.uint8),
    "CSR": lambda X: sparse.csr_matrix(np.where(X > 0.5, X, 0)),
}


def warm_up(models: list[str] | None = None, progress: bool = False) -> Json:
    """Fit small models of these names, None for all, so that the machine code of later fits is in the cache."""
    names = list(ESTIMATORS) if models is None else models
    tasks = [(name, *case) for name in names for case in _cases(name)]
    with recorded() as compiled, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, form, n, parameters in (bar := progress_bar(tasks, shown=progress, desc="compiling")):
            bar.set_postfix_str(f"{name}, {form}")
            _fit(name, form, n, parameters)
    n, cache = len(compiled.functions), str(writeable_folder() or "")
    return {"models": names, "n_compiled": n, "seconds": compiled.seconds, "cache": cache}


def _cases(name: str) -> Iterator[tuple[str, int, Json]]:
    """Yield forms of samples, their number, and parameters."""
    tuning = current_tuning().jobs
    few, many = tuning.warm_few, tuning.warm_many
    seeded = {"random_state": 0} if "random_state" in signature(ESTIMATORS[name]).parameters else {}
    cases: dict[str, list[tuple[int, Json]]] = {
        "svc": [(few, {}), (few, {"kernel": "linear"}), (few, {"kernel": "poly"}), (many, {}), (many, {"C": 100.0})],
        "linear": [(few, {}), (few, {"loss": "hinge"}), (few, {"standardize": True})],
    }
    usual: Json = {"max_iter": tuning.warm_epochs} if name.startswith("sgd") else {}
    for form in _FORMS:
        for n, parameters in cases.get(name, [(few, usual)]):
            yield form, n, parameters | seeded
    if name == "svc":
        yield "unscaled", few, {"C": 100.0}
        yield "unscaled", few, {"kernel": "linear"}


def _fit(name: str, form: str, n: int, parameters: Json) -> None:
    """Fit and predict for two classes and for three."""
    rng, tuning = np.random.default_rng(0), current_tuning().jobs
    X, y = rng.normal(size=(n, tuning.warm_features)), rng.integers(3, size=n)
    X[:, :2] += y[:, None] * [1.0, -0.5]
    lengths = np.logspace(-3, 4, tuning.warm_features)  # on which other steps are taken
    rows = X * lengths if form == "unscaled" else _FORMS[form](X)
    for classes in (2, 3) if n == tuning.warm_few else (2,):
        used = np.flatnonzero(y < classes)
        model = ESTIMATORS[name](**parameters).fit(rows[used], y[used])
        model.predict(rows)
