"""Who fits kernel machines, and how is each asked to? One entry of `COMPETITORS` each.

Nothing but the standard library is imported before `build` is called, so that an import can be timed.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

__all__ = ["COMPETITORS", "OURS", "Competitor", "KernelParameters", "Resources", "as_is", "float32", "float64"]

OURS = "fastsvm"


@dataclass(frozen=True)
class KernelParameters:
    """What every competitor is told about the kernel machine to fit."""

    C: float = 1.0
    gamma: float = 1.0
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    tol: float = 1e-3


class Resources(NamedTuple):
    """What every competitor may use: threads, and MiB for its cache, or for the whole fit if it takes a budget."""

    threads: int
    memory_mb: int


def as_is(X: Any, y: Any) -> Any:
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
        Returns the estimator for the parameters of a case and `Resources`; imports the module, in the worker only.
    prepare : callable
        Returns rows, with their labels if it stores both together, in the form that suits it best; not timed.
    """

    name: str
    module: str
    suites: tuple[str, ...]
    build: Callable[[Any, Resources], Any]
    prepare: Callable[[Any, Any], Any] = as_is

    @property
    def importable(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def lacks(self, parameters: Any) -> str | None:
        """Return what it cannot do of what a case asks for."""
        return None


def _fastsvm(parameters: KernelParameters, resources: Resources) -> Any:
    from fastsvm import SVC

    return SVC(**asdict(parameters), memory=resources.memory_mb * 2**20)


def _sklearn(parameters: KernelParameters, resources: Resources) -> Any:
    from sklearn.svm import SVC

    return SVC(**asdict(parameters), cache_size=resources.memory_mb)


def _sklearnex(parameters: KernelParameters, resources: Resources) -> Any:
    import daal4py
    from sklearnex.svm import SVC

    daal4py.daalinit(resources.threads)  # its threads read no environment variable
    return SVC(**asdict(parameters), cache_size=resources.memory_mb)


def _libsvm_official(parameters: KernelParameters, resources: Resources) -> Any:
    from bench.adapters.libsvm_official import LibsvmSVC

    return LibsvmSVC(**asdict(parameters), cache_size=resources.memory_mb)


def _thundersvm(parameters: KernelParameters, resources: Resources) -> Any:
    from bench.adapters.thunder import ThunderSVC

    return ThunderSVC(**asdict(parameters), n_jobs=resources.threads, max_mem_size=resources.memory_mb)


def float32(X: Any, y: Any) -> Any:
    return X.astype("float32")


def float64(X: Any, y: Any) -> Any:
    return X.astype("float64")


def _csr(X: Any, y: Any) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(X, dtype="float64")


_WARM = ("kernel", "multiclass", "predict", "growth")
_ALL = (*_WARM, "cold")

COMPETITORS = [
    Competitor(OURS, "fastsvm", _ALL, _fastsvm),
    Competitor("sklearn", "sklearn", _ALL, _sklearn),
    Competitor("sklearnex", "sklearnex", _ALL, _sklearnex, float32),
    Competitor("sklearnex-f64", "sklearnex", _WARM, _sklearnex, float64),
    Competitor("libsvm-official", "libsvm", _WARM, _libsvm_official, _csr),
    Competitor("thundersvm", "thundersvm", _WARM, _thundersvm, float32),
]
