"""Models of a split, which know the decision values of its samples."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fastsvm.estimators.kernel.kernel_parameter import is_precomputed
from fastsvm.estimators.kernel.machines.classifiers import SVC, NuSVC
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.machines.one_class_svm import OneClassSVM
from fastsvm.estimators.kernel.machines.regressors import SVR, NuSVR
from fastsvm.estimators.kernel.solver_parameter import is_dual
from fastsvm.sources import Source

__all__ = ["FoldModel", "fold_model", "may_share"]

_MACHINES = SVC, SVR, NuSVC, NuSVR, OneClassSVM  # a user's subclass may fit in another way


def may_share(model: Any) -> bool:
    """Return whether a model may share kernel values and starts with others without a change of its solution."""
    return (
        type(model) in _MACHINES
        and is_dual(model)
        and not is_precomputed(model)
        and model.max_iter == -1  # the result of a limited fit depends on its start
        and model.max_time is None
        and not hasattr(model, "_skl_callbacks")
    )


class FoldModel(KernelMachine):
    """A model of a split, which knows the decision values of its test samples, and may know those of training."""

    _known: tuple[Any, np.ndarray | None] = None, None
    _of_test: np.ndarray
    _of_train: np.ndarray | None
    _source: Source
    _support_rows: np.ndarray

    def __reduce__(self) -> tuple:
        """Return how to make the model anew: its class has no name in this module."""
        return _new, (type(self).__mro__[2],), self.__getstate__()

    def know_test(self, X: Any) -> None:
        """Take X for the test samples."""
        self._known = X, self._of_test

    def know_train(self, X: Any) -> None:
        """Take X for the training samples."""
        self._known = X, self._of_train

    @property
    def support_vectors_(self) -> Any:
        """Support vectors, copied on each access."""
        return self._source.as_passed(self._source.rows(self._support_rows))

    def _decided_by(self, X: Any, *forms: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        known = self._known[1] if X is self._known[0] else None
        return super()._decided_by(X, *forms) if known is None else [form(known.copy()) for form in forms]


def fold_model(given: KernelMachine) -> Any:
    """Return an unfitted model of a split with the parameters of a machine."""
    return _KINDS[type(given)](**given.get_params(deep=False))


_KINDS: dict[type, Any] = {
    machine: type(machine.__name__, (FoldModel, machine), {})  # messages of scorers use the name
    for machine in _MACHINES
}


def _new(machine: type) -> Any:
    return _KINDS[machine].__new__(_KINDS[machine])
