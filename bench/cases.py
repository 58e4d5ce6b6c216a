"""On which data, with which parameters? One entry of `CASES` each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench import data
from bench.data import Data

__all__ = ["CASES", "Case", "Parameters", "cases_of"]


@dataclass(frozen=True)
class Parameters:
    """What every competitor is told about the model to fit."""

    C: float = 1.0
    gamma: float = 1.0
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    tol: float = 1e-3


@dataclass(frozen=True)
class Case:
    """A data set with parameters; the quick ones need no files and take seconds."""

    name: str
    suites: tuple[str, ...]
    recipe: Callable[[], Data]
    parameters: Parameters
    quick: bool = False


_KERNEL = ("kernel",)
_CIFAR_GAMMA = 0.002 / 255**2  # of bytes; that of pixels from 0 to 1 is 0.002

CASES = [
    Case("iris", _KERNEL, data.iris, Parameters(C=1, gamma=0.1), quick=True),
    Case("breast_cancer", _KERNEL, data.breast_cancer, Parameters(C=10, gamma=0.03), quick=True),
    Case("digits", _KERNEL, data.digits, Parameters(C=10, gamma=0.2), quick=True),
    Case("a9a", _KERNEL, data.a9a, Parameters(C=1, gamma=0.05)),
    Case("a9a-C100", _KERNEL, data.a9a, Parameters(C=100, gamma=0.05)),
    Case("mnist-odd-even-20000", _KERNEL, partial(data.mnist_odd_even, 20_000), Parameters(C=10, gamma=0.02)),
    Case(
        "cifar-animal-vehicle-20000",
        _KERNEL,
        partial(data.cifar_animal_vehicle, 20_000),
        Parameters(C=10, gamma=0.002),
    ),
    Case("cifar-10-20000", _KERNEL, partial(data.cifar10, 20_000), Parameters(C=10, gamma=_CIFAR_GAMMA)),
    Case("cifar-10-50000", _KERNEL, partial(data.cifar10, 50_000), Parameters(C=10, gamma=_CIFAR_GAMMA)),
]


def cases_of(suite: str) -> dict[str, Case]:
    """Return the cases of a suite by name."""
    return {case.name: case for case in CASES if suite in case.suites}
