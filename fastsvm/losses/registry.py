"""The registry of losses: names, kinds of targets, and fixed parameters."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastsvm.losses.interface import Loss, provides_dual

__all__ = ["LOSSES", "is_loss", "loss_named", "loss_names", "register_loss"]

LOSSES: dict[str, Any] = {}
"""Classes of losses by name."""
_FIXED: dict[str, dict[str, float]] = {}
_TARGETS = "labels", "numbers", "classes"
_Kind = TypeVar("_Kind", bound=type)


def register_loss(name: str, *, of: str, curvature: float, bounded: bool, **fixed: float) -> Callable[[_Kind], _Kind]:
    """Return a decorator that registers a NamedTuple class as a loss of the estimators.

    Parameters
    ----------
    name : str
        Value of the parameter `loss` (or `multi_class`) of estimators.
    of : {"labels", "numbers", "classes"}
        Whether it is a function of one score and a label ±1, of one score and a real number, or of the scores of all
        classes.
    curvature : float
        Its largest second derivative, infinite at a kink.
    bounded : bool
        Whether its slopes are bounded.
    **fixed : float
        Parameters that this name fixes. Dual solvers do not accept such a name.

    Raises
    ------
    ValueError
        If the name is taken, or `of` is not one of the three kinds.

    Examples
    --------
    The quantile loss, by which `SGDRegressor` estimates a quantile of the targets.

    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from fastsvm import SGDRegressor
    >>> from fastsvm.losses import loss_slope, loss_value, register_loss
    >>> @register_loss("quantile", of="numbers", curvature=np.inf, bounded=True)
    ... class Quantile(NamedTuple):
    ...     share: float = 0.5
    >>> @loss_value.register(Quantile)
    ... def value(loss, score, target):
    ...     return max(loss.share * (target - score), (loss.share - 1) * (target - score))
    >>> @loss_slope.register(Quantile)
    ... def slope(loss, score, target):
    ...     return -loss.share if score < target else 1 - loss.share
    >>> X, y = np.zeros((1000, 1)), np.arange(1000) / 1000
    >>> model = SGDRegressor(loss=Quantile(0.9), random_state=0).fit(X, y)
    >>> bool(abs(model.intercept_[0] - 0.9) < 0.05)
    True
    """
    if of not in _TARGETS:
        raise ValueError(f"of is {of!r} but must be one of {', '.join(map(repr, _TARGETS))}.")
    if name in LOSSES:
        raise ValueError(f"There is a loss {name!r} already, {LOSSES[name].__qualname__}: choose another name.")

    def add(kind: _Kind) -> _Kind:
        facts: Any = kind
        facts.of, facts.of_classes = of, of == "classes"
        facts.curvature, facts.bounded = curvature, bounded
        LOSSES[name] = kind
        if fixed:
            _FIXED[name] = fixed
        return kind

    return add


def is_loss(value: Any, *of: str, dual: bool = False) -> bool:
    """Return whether a value is a registered loss for one of the kinds `of`; with `dual`, one with a dual."""
    kind = type(value)
    return kind in LOSSES.values() and kind.of in of and (not dual or provides_dual(kind))


def loss_names(*of: str, dual: bool = False) -> list[str]:
    """Return the names of losses for the kinds `of`; with `dual`, of those that dual ascent can minimise."""

    def fits(name: str) -> bool:
        return LOSSES[name].of in of and (not dual or (provides_dual(LOSSES[name]) and name not in _FIXED))

    return [name for name in LOSSES if fits(name)]


def loss_named(name: str, **parameters: float) -> Loss:
    """Return the loss with a name; parameters that it does not have are ignored."""
    kind, given = LOSSES[name], parameters | _FIXED.get(name, {})
    return kind(**{field: given[field] for field in kind._fields if field in given})
