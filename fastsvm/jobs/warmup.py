"""Compile what the estimators need before the first fit needs it."""

import warnings
from collections.abc import Iterator
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastsvm._compiled.code_cache import writeable_folder
from fastsvm._compiled.compiler import recorded
from fastsvm.estimators import ESTIMATORS
from fastsvm.progress_bar import progress_bar

__all__ = ["WarmupReport", "warm_up"]

_FORMS: dict[str, Any] = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "bytes": lambda X: np.clip(40 * X + 128, 0, 255).astype(np.uint8),
    "CSR": lambda X: sparse.csr_matrix(np.where(X > 0.5, X, 0)),
}
_FEW, _MANY = 300, 5000  # Kernel values of so few samples are float64, and so many do not fit a working set.
_FEW_EPOCHS = 5  # Further epochs of gradient descent run the same code.
_FEATURES = 40  # They are enough for products of bytes.


class WarmupReport(NamedTuple):
    """What was compiled for the models, how long it took, and the folder of the machine code."""

    models: list[str]
    n_compiled: int  # Functions in the cache are not among them.
    seconds: float
    cache: str


def warm_up(models: list[str] | None = None, progress: bool = False) -> WarmupReport:
    """Fit small models, so that the machine code of later fits is in the cache.

    `models` are names of estimators as on the command line, such as "svc"; None is all.
    """
    names = list(ESTIMATORS) if models is None else models
    tasks = [(name, *case) for name in names for case in _cases(name)]
    with recorded() as compiled, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, form, n, given in (bar := progress_bar(tasks, shown=progress, desc="compiling")):
            bar.set_postfix_str(f"{name}, {form}")
            _fit(name, form, n, given)
    return WarmupReport(names, len(compiled.functions), compiled.seconds, str(writeable_folder() or ""))


def _cases(name: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield forms of samples, their number, and parameters."""
    for form in _FORMS:
        if name == "svc":
            yield form, _FEW, {}
            yield form, _FEW, {"kernel": "linear"}
            yield form, _FEW, {"kernel": "poly"}
            yield form, _MANY, {}
            yield form, _MANY, {"C": 100.0}
        elif name == "linear":
            yield form, _FEW, {"random_state": 0}
            yield form, _FEW, {"loss": "hinge", "random_state": 0}
            yield form, _FEW, {"standardize": True, "random_state": 0}
        elif name.startswith("sgd"):
            yield form, _FEW, {"max_iter": _FEW_EPOCHS, "random_state": 0}
        else:
            yield form, _FEW, {"random_state": 0} if "random_state" in signature(ESTIMATORS[name]).parameters else {}
    if name == "svc":
        yield "unscaled", _FEW, {"C": 100.0}
        yield "unscaled", _FEW, {"kernel": "linear"}


def _fit(name: str, form: str, n: int, given: dict[str, Any]) -> None:
    """Fit and predict for two classes and for three."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, _FEATURES)), rng.integers(3, size=n)
    X[:, :2] += y[:, None] * [1.0, -0.5]
    lengths = np.logspace(-3, 4, _FEATURES)  # on which other steps are taken
    rows = X * lengths if form == "unscaled" else _FORMS[form](X)
    for classes in (2, 3) if n == _FEW else (2,):
        used = np.flatnonzero(y < classes)
        model = ESTIMATORS[name](**given).fit(rows[used], y[used])
        model.predict(rows)
