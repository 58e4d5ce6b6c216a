"""Who fits kernel machines that are not SVC? One entry of `MACHINE_COMPETITORS` each.

Nothing but the standard library is imported before `build` is called.
"""

from dataclasses import dataclass
from typing import Any

from bench.harness.competitor import OURS, Competitor, Resources, float32
from bench.machines.parameters import MachineParameters

__all__ = ["MACHINE_COMPETITORS", "MachineCompetitor", "machine_competitor"]

_CLASSES = {"svr": "SVR", "nu-svr": "NuSVR", "nu-svc": "NuSVC", "one-class": "OneClassSVM"}


@dataclass(frozen=True)
class MachineCompetitor(Competitor):
    """An implementation with scikit-learn's names.

    Attributes
    ----------
    machines : tuple of str
        Machines that it has.
    """

    machines: tuple[str, ...] = tuple(_CLASSES)

    def lacks(self, parameters: MachineParameters) -> str | None:
        """Return a sentence if it does not have the machine."""
        return None if parameters.machine in self.machines else f"it has no {_CLASSES[parameters.machine]} of its own"


def machine_competitor(name: str) -> MachineCompetitor:
    """Return the competitor of that name."""
    return next(one for one in MACHINE_COMPETITORS if one.name == name)


def _fastsvm(parameters: MachineParameters, resources: Resources) -> Any:
    import fastsvm

    return _made(fastsvm, parameters, memory=resources.memory_mb * 2**20)


def _sklearn(parameters: MachineParameters, resources: Resources) -> Any:
    from sklearn import svm

    return _made(svm, parameters, cache_size=resources.memory_mb)


def _sklearnex(parameters: MachineParameters, resources: Resources) -> Any:
    import daal4py
    from sklearnex import svm

    daal4py.daalinit(resources.threads)  # its threads read no environment variable
    return _made(svm, parameters, cache_size=resources.memory_mb)


def _made(module: Any, parameters: MachineParameters, **memory: int) -> Any:
    return getattr(module, _CLASSES[parameters.machine])(**parameters.estimator, **memory)


_SUITE = ("machines",)

MACHINE_COMPETITORS = [
    MachineCompetitor(OURS, "fastsvm", _SUITE, _fastsvm),
    MachineCompetitor("sklearn", "sklearn", _SUITE, _sklearn),
    MachineCompetitor("sklearnex", "sklearnex", _SUITE, _sklearnex, float32, machines=("svr", "nu-svr", "nu-svc")),
]
