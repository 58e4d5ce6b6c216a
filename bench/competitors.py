"""Who takes part, and how is each asked to fit? One entry of `COMPETITORS` each."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.cases import Parameters

__all__ = ["COMPETITORS", "OURS", "Competitor", "competitors_of"]

OURS = "fastsvm"


def _as_is(X: Any) -> Any:
    return X


@dataclass(frozen=True)
class Competitor:
    """An implementation with scikit-learn's `fit` and `predict`.

    Attributes
    ----------
    name : str
        What it is called in tables.
    module : str
        What has to be importable.
    suites : tuple of str
        Where it takes part.
    build : callable
        Returns the estimator for `Parameters`; imports the module, in the worker only.
    prepare : callable
        Returns rows in the form that suits it best; not timed.
    """

    name: str
    module: str
    suites: tuple[str, ...]
    build: Callable[[Parameters], Any]
    prepare: Callable[[Any], Any] = _as_is

    @property
    def importable(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


def _shared(parameters: Parameters) -> dict[str, Any]:
    names = ("C", "gamma", "kernel", "degree", "coef0", "tol")
    return {name: getattr(parameters, name) for name in names}


def _fastsvm(parameters: Parameters) -> Any:
    from fastsvm import SVC

    return SVC(**_shared(parameters))


def _sklearn(parameters: Parameters) -> Any:
    from sklearn.svm import SVC

    return SVC(**_shared(parameters), cache_size=4000)


def _sklearnex(parameters: Parameters) -> Any:
    import daal4py
    from sklearnex.svm import SVC

    daal4py.daalinit(int(os.environ.get("OMP_NUM_THREADS", 0)))  # its threads read no environment variable
    return SVC(**_shared(parameters), cache_size=4000)


def _float32(X: Any) -> Any:
    return X.astype(np.float32)


COMPETITORS = [
    Competitor("fastsvm", "fastsvm", ("kernel",), _fastsvm),
    Competitor("sklearn", "sklearn", ("kernel",), _sklearn),
    Competitor("sklearnex", "sklearnex", ("kernel",), _sklearnex, _float32),
]


def competitors_of(suite: str) -> dict[str, Competitor]:
    """Return those who take part in a suite, by name."""
    return {one.name: one for one in COMPETITORS if suite in one.suites}
