"""Who fits linear models by epochs, and how is each asked to? One entry of `LINEAR_COMPETITORS` each.

As in `competitors`, nothing but the standard library is imported before `build` is called.
"""

from dataclasses import dataclass
from typing import Any

from bench.competitors import OURS, Competitor, Resources, float32

__all__ = ["LINEAR_COMPETITORS", "LinearCompetitor", "LinearParameters"]

_ROW_RATES = 1e-5, 1e-4, 1e-3, 1e-2, 1e-1
_BATCH_RATES = 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0  # the mean of a batch is shorter
_VOWPAL_RULES = "", "--normalized", "--invariant", "--sgd"  # its default suits its penalty badly


@dataclass(frozen=True)
class LinearParameters:
    """What every competitor is told about the linear model to fit: loss and penalty, and how long.

    Attributes
    ----------
    loss : str
        A loss of `linear_referee`; those of labels ±1 are used one against the rest.
    alpha : float
        Factor of ½ ‖W‖² in the objective, beside the mean loss.
    epochs : int
        Passes over the rows; no fit ends before.
    chosen : float, str or None
        Learning rate, or rule for it, of those for whom one is chosen.
    """

    loss: str
    alpha: float
    epochs: int = 20
    chosen: float | str | None = None


@dataclass(frozen=True)
class LinearCompetitor(Competitor):
    """An implementation with scikit-learn's `fit`, `coef_` and `intercept_`.

    Attributes
    ----------
    losses : tuple of str
        Which it can do.
    choices : tuple of float or str
        Learning rates, or rules for them, of which it gets the best, which is found out outside the clock.
    """

    losses: tuple[str, ...] = ()
    choices: tuple[float | str, ...] = ()

    def lacks(self, parameters: LinearParameters) -> str | None:
        """Return which loss it does not have."""
        return None if parameters.loss in self.losses else f"it has no loss {parameters.loss!r}"


def _fastsvm(parameters: LinearParameters, resources: Resources) -> Any:
    from fastsvm import SGDClassifier

    return SGDClassifier(parameters.loss, alpha=parameters.alpha, max_iter=parameters.epochs, tol=None, random_state=0)


def _sklearn(parameters: LinearParameters, resources: Resources) -> Any:
    from sklearn.linear_model import SGDClassifier

    constant = {} if parameters.chosen is None else {"learning_rate": "constant", "eta0": parameters.chosen}
    return SGDClassifier(
        loss=parameters.loss, alpha=parameters.alpha, max_iter=parameters.epochs, tol=None, random_state=0,
        average=True, n_jobs=resources.threads, **constant,
    )  # fmt: skip


def _numpy(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.numpy_loop import NumpyLoop

    return NumpyLoop(parameters.loss, parameters.alpha, parameters.epochs, parameters.chosen)


def _vowpalwabbit(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.vowpal import VowpalLinear

    return VowpalLinear(parameters.alpha, parameters.epochs, parameters.chosen)


def _stored(X: Any, y: Any) -> Any:
    from bench.adapters.vowpal import stored

    return stored(X, y)


def _snapml(parameters: LinearParameters, resources: Resources) -> Any:
    from bench.adapters.snap import SnapLinear

    return SnapLinear(parameters.alpha, parameters.epochs, resources.threads)


_SGD = ("sgd",)
_EACH_CLASS, _ALL_CLASSES = ("hinge", "squared_hinge", "log_loss"), ("softmax", "weston_watkins", "crammer_singer")
_HINGE = ("hinge",)

LINEAR_COMPETITORS = [
    LinearCompetitor(OURS, "fastsvm", _SGD, _fastsvm, losses=_EACH_CLASS + _ALL_CLASSES),
    LinearCompetitor("sklearn", "sklearn", _SGD, _sklearn, losses=_EACH_CLASS),
    LinearCompetitor("sklearn-tuned", "sklearn", _SGD, _sklearn, losses=_EACH_CLASS, choices=_ROW_RATES),
    LinearCompetitor("numpy", "numpy", _SGD, _numpy, losses=("hinge", "softmax"), choices=_BATCH_RATES),
    LinearCompetitor("vowpalwabbit", "vowpalwabbit", _SGD, _vowpalwabbit, _stored, _HINGE, _VOWPAL_RULES),
    LinearCompetitor("snapml", "snapml", _SGD, _snapml, float32, losses=_HINGE),
]
