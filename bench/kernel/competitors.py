"""Who fits kernel machines, and how is each asked to? One entry of `COMPETITORS` each.

Nothing but the standard library is imported before `build` is called, so that an import can be timed.
"""

from dataclasses import asdict, dataclass
from typing import Any

from bench.harness.competitor import OURS, Competitor, Resources, float32, float64

__all__ = ["COMPETITORS", "KernelParameters"]


@dataclass(frozen=True)
class KernelParameters:
    """The kernel machine that every competitor is asked to fit."""

    C: float = 1.0
    gamma: float = 1.0
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    tol: float = 1e-3


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


def _csr(X: Any, y: Any) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(X, dtype="float64")


_WARM = ("kernel", "tables", "small", "wide_sparse", "multiclass", "predict", "growth")
_OF_INSTRUCTIONS = (*_WARM, "instructions")  # OpenBLAS and Numba can be told which to use

COMPETITORS = [
    Competitor(OURS, "fastsvm", _OF_INSTRUCTIONS, _fastsvm),
    Competitor("sklearn", "sklearn", _OF_INSTRUCTIONS, _sklearn),
    Competitor("sklearnex", "sklearnex", _WARM, _sklearnex, float32),
    Competitor("sklearnex-f64", "sklearnex", _WARM, _sklearnex, float64),
    Competitor("libsvm-official", "libsvm", _WARM, _libsvm_official, _csr),
    Competitor("thundersvm", "thundersvm", _WARM, _thundersvm, float32),
]
