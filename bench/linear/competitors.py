"""Who fits linear models, and how is each asked to? One entry of `LINEAR_COMPETITORS` for each suite it is in.

Nothing but the standard library is imported before `build` is called.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.harness.competitor import OURS, Competitor, Resources, float32, float64
from bench.linear.parameters import LinearParameters

__all__ = ["LINEAR_COMPETITORS", "LinearCompetitor", "linear_competitor"]

_NEVER = 1e-30  # a tolerance that no fit reaches within its budget
_EXACT = 1e-9  # ours stops here, where its gap is rounding
_ROW_RATES = 1e-5, 1e-4, 1e-3, 1e-2, 1e-1
_BATCH_RATES = 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0  # larger, because the mean gradient of a batch is shorter
_VOWPAL_RULES = "", "--normalized", "--invariant", "--sgd"  # the default rule does not suit its penalty
_FEW, _MANY = (1, 2, 5, 10, 20), (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_TOLERANCES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_TIGHT = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


@dataclass(frozen=True)
class LinearCompetitor(Competitor):
    """An implementation with scikit-learn's `fit`, `coef_` and `intercept_`.

    Attributes
    ----------
    losses : tuple of str
        Losses that it has.
    penalties : tuple of str
        Penalties that it has.
    choices : tuple of float or str
        Learning rates, or rules for them. The best one is chosen outside the clock.
    budgets : tuple of float
        Budgets of its fits, one after the other: epochs, or tolerances.
    """

    losses: tuple[str, ...] = ()
    penalties: tuple[str, ...] = ("l2",)
    choices: tuple[float | str, ...] = ()
    budgets: tuple[float, ...] = _FEW

    def lacks(self, parameters: LinearParameters) -> str | None:
        """Return a sentence if it does not have the loss."""
        if parameters.penalty not in self.penalties:
            return f"it has no penalty {parameters.penalty!r}"
        return None if parameters.loss in self.losses else f"it has no loss {parameters.loss!r}"

    def budgets_for(self, parameters: LinearParameters) -> tuple[float, ...]:
        """Return the budgets of a curve."""
        most = parameters.most_budget
        return tuple(one for one in self.budgets if most is None or one <= most)


def linear_competitor(suite: str, name: str) -> LinearCompetitor:
    """Return the competitor of that name in a suite."""
    return next(one for one in LINEAR_COMPETITORS if one.name == name and suite in one.suites)


def _fastsvm(parameters: LinearParameters, resources: Resources) -> Any:
    from fastsvm import SGDClassifier, SGDRegressor

    kind = SGDRegressor if parameters.loss in _TARGETS else SGDClassifier
    return kind(parameters.loss, alpha=parameters.alpha, max_iter=parameters.budget, tol=None, random_state=0)


def _fastsvm_svm(parameters: LinearParameters, resources: Resources) -> Any:
    from fastsvm import LinearSVC

    return LinearSVC(
        loss=parameters.loss, C=parameters.C, max_iter=parameters.budget, tol=_EXACT, random_state=0,
        memory=resources.memory_mb * 2**20,
    )  # fmt: skip


def _fastsvm_machine(parameters: LinearParameters, resources: Resources) -> Any:
    from fastsvm import LinearOneClassSVM, LinearSVC, LinearSVR, LogisticRegression

    same = {"tol": parameters.budget, "random_state": 0, "memory": resources.memory_mb * 2**20}
    if parameters.nu is not None:
        return LinearOneClassSVM(nu=parameters.nu, **same)
    same["C"] = parameters.C
    if parameters.loss == "absolute_error":
        return LinearSVR(**same)  # whose epsilon is 0
    same["penalty"] = parameters.penalty
    return LogisticRegression(**same) if parameters.loss == "log_loss" else LinearSVC(loss=parameters.loss, **same)


def _sklearn(parameters: LinearParameters, resources: Resources, average: bool = True) -> Any:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    same = {"loss": parameters.loss, "alpha": parameters.alpha, "max_iter": parameters.budget, "tol": None}
    if parameters.chosen is not None:
        same |= {"learning_rate": "constant", "eta0": parameters.chosen}
    if parameters.loss in _TARGETS:
        return SGDRegressor(**same, average=average, random_state=0)
    return SGDClassifier(**same, average=average, random_state=0, n_jobs=resources.threads)


def _sklearn_svm(parameters: LinearParameters, resources: Resources) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(
        loss=parameters.loss, C=parameters.C, max_iter=parameters.budget, tol=_NEVER, dual=True, random_state=0
    )


def _numpy(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.numpy_loop import NumpyLoop

    return NumpyLoop(parameters.loss, parameters.alpha, parameters.budget, parameters.chosen)


def _vowpalwabbit(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.vowpal import VowpalLinear

    return VowpalLinear(parameters.alpha, parameters.budget, parameters.chosen, free_intercept=parameters.C is None)


def _vowpal_rows(X: Any, y: Any) -> Any:
    from bench.adapters.vowpal import stored

    return stored(X, y)


def _snapml(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.snap import SnapLinear

    return SnapLinear(parameters.loss, parameters.alpha, parameters.budget, resources.threads)


def _liblinear(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.liblinear_official import LiblinearSVC

    return LiblinearSVC({"hinge": 3, "squared_hinge": 1}[parameters.loss], parameters.C, parameters.budget)


def _liblinear_primal(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.liblinear_official import LiblinearSVC

    return LiblinearSVC(2, parameters.C, parameters.budget)


def _liblinear_machine(parameters: LinearParameters, resources: Resources, logistic: int = 0) -> Any:
    from bench.adapters.liblinear_official import LiblinearOneClass, LiblinearSVC

    if parameters.nu is not None:
        return LiblinearOneClass(parameters.nu, parameters.budget)
    solvers = {
        ("log_loss", "l2"): logistic, ("log_loss", "l1"): 6, ("squared_hinge", "l1"): 5,
        ("hinge", "l2"): 3, ("squared_hinge", "l2"): 1,
    }  # fmt: skip
    return LiblinearSVC(solvers[parameters.loss, parameters.penalty], parameters.C, parameters.budget)


def _liblinear_rows(X: Any, y: Any) -> Any:
    from bench.adapters.liblinear_official import stored

    return stored(X, y)


_SGD, _LINEAR, _MACHINES = ("sgd",), ("linear",), ("linear_machines",)
_HINGE, _SQUARED, _TARGETS = ("hinge",), ("squared_hinge",), ("squared_error",)
_LOGISTIC, _OF_MACHINES, _BOTH = ("log_loss",), ("log_loss", "hinge", "squared_hinge", "outlier"), ("l2", "l1")
_EACH_CLASS = (*_HINGE, *_SQUARED, "log_loss")
_ALL_CLASSES = ("softmax", "weston_watkins", "crammer_singer")

LINEAR_COMPETITORS = [
    LinearCompetitor(
        OURS, "fastsvm", _SGD, _fastsvm, losses=_EACH_CLASS + _ALL_CLASSES + _TARGETS, budgets=(*_FEW, 50)
    ),
    LinearCompetitor("sklearn", "sklearn", _SGD, partial(_sklearn, average=False), losses=_EACH_CLASS + _TARGETS),
    LinearCompetitor("sklearn-averaged", "sklearn", _SGD, _sklearn, losses=_EACH_CLASS + _TARGETS),
    LinearCompetitor("sklearn-tuned", "sklearn", _SGD, _sklearn, losses=_EACH_CLASS + _TARGETS, choices=_ROW_RATES),
    LinearCompetitor("numpy", "numpy", _SGD, _numpy, losses=("hinge", "softmax"), choices=_BATCH_RATES),
    LinearCompetitor("vowpalwabbit", "vowpalwabbit", _SGD, _vowpalwabbit, _vowpal_rows, _HINGE, choices=_VOWPAL_RULES),
    LinearCompetitor("snapml", "snapml", _SGD, _snapml, float32, losses=_HINGE),
    LinearCompetitor(OURS, "fastsvm", _LINEAR, _fastsvm_svm, losses=_HINGE + _SQUARED, budgets=_MANY),
    LinearCompetitor("sklearn", "sklearn", _LINEAR, _sklearn_svm, float64, losses=_HINGE + _SQUARED, budgets=_MANY),
    LinearCompetitor(
        "liblinear", "liblinear", _LINEAR, _liblinear, _liblinear_rows, _HINGE + _SQUARED, budgets=_TOLERANCES
    ),
    LinearCompetitor(
        "liblinear-primal", "liblinear", _LINEAR, _liblinear_primal, _liblinear_rows, _SQUARED, budgets=_TOLERANCES
    ),
    LinearCompetitor("snapml", "snapml", _LINEAR, _snapml, float32, losses=_HINGE + _SQUARED, budgets=_MANY),
    LinearCompetitor("sklearn-sgd", "sklearn", _LINEAR, _sklearn, losses=_HINGE, budgets=_MANY),
    LinearCompetitor(
        "sklearn-sgd-tuned", "sklearn", _LINEAR, _sklearn, losses=_HINGE + _SQUARED, choices=_ROW_RATES, budgets=_MANY
    ),
    LinearCompetitor(
        "vowpalwabbit", "vowpalwabbit", _LINEAR, _vowpalwabbit, _vowpal_rows, _HINGE, choices=_VOWPAL_RULES,
        budgets=_MANY,
    ),
    LinearCompetitor(
        OURS, "fastsvm", _MACHINES, _fastsvm_machine, losses=_OF_MACHINES, penalties=_BOTH, budgets=_TIGHT
    ),
    LinearCompetitor(
        "liblinear", "liblinear", _MACHINES, _liblinear_machine, _liblinear_rows, _OF_MACHINES, _BOTH, budgets=_TIGHT
    ),
    LinearCompetitor(
        "liblinear-dual", "liblinear", _MACHINES, partial(_liblinear_machine, logistic=7), _liblinear_rows, _LOGISTIC,
        budgets=_TIGHT,
    ),
]  # fmt: skip
