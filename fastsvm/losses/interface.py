"""The interface and the registry of losses: generic functions, with a body for each class of losses.

A loss is a NamedTuple of its parameters. It is a function of one score and a target, which is a label ±1 or a real
number, or a function of the scores of all classes and the index of the true class. `register_loss` gives it a name. The
functions that have a body for it determine which estimators support it:

======================= ================================================ ==============================================
Used by                 A loss of one score                              A loss of the scores of all classes
======================= ================================================ ==============================================
gradient descent        `loss_value`, `loss_slope`                       `loss_of_classes`
Newton's method         `loss_curvature`
dual coordinate ascent  `coordinate_update`, `conjugate`,                `update_of_classes`, `conjugate_of_classes`,
                        `projected_gradient`, `box`                      `violation_of_classes`, `feasible`
probabilities           `probabilities`                                  `probabilities`
======================= ================================================ ==============================================

Dual
    The weights are W = Σ_i β_i x_i, where β_i has an entry for each score. The dual objective is

        D(β) = - Σ_i c_i ℓ*(-β_i / c_i) - ½ ‖W‖²

    with the costs c_i and the conjugate ℓ* of the loss. In the variables of one sample, D is concave, and its maximum
    is found exactly: for a loss of one score by a clipped Newton step (Hsieh, Chang, Lin, Keerthi and Sundararajan
    2008, A dual coordinate descent method for large-scale linear SVM, equation 9; Ho and Lin 2012, for regression).
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from fastsvm._compiled.compiler import generic, jit

MOST_STEPS = 200
"""Newton's method, a sequence of its problems or a search for a root ends after few steps, or after so many."""

ROUNDINGS = 4
"""A dual variable within so many units of rounding is at its bound."""

_LEAST = 1e-30  # It is the curvature of a row of zeros: small, and its inverse is finite in float32.


class Loss(Protocol):
    """The class attributes of a loss, which `register_loss` sets."""

    of: ClassVar[str]
    """Kind of target: "labels" ±1, "numbers", or "classes" for a function of the scores of all classes."""
    of_classes: ClassVar[bool]
    """Whether it is a function of the scores of all classes."""
    curvature: ClassVar[float]
    """The largest second derivative, infinite at a kink."""
    bounded: ClassVar[bool]
    """Whether slopes are bounded."""


class Demands(NamedTuple):
    """Targets and costs of the rows of a problem.

    `targets` and `balance` are as `add_losses` takes them. `costs` are C times the sample weights; 0 excludes a row.

    `pairs`, shape (n_scores, 2), are the two classes that each score tells apart, the positive one first; rows of
    others cost nothing in it. It is empty if several scores are those of classes against the rest.

    `held`, shape (n, n_splits), tells which rows cost nothing in a split. `folds`, shape (n_scores, 2), are the split
    of each score and the class that it tells from the rest, -1 if targets are no classes; no splits, no entries.
    """

    targets: np.ndarray
    costs: np.ndarray
    balance: np.ndarray
    pairs: np.ndarray = np.empty((0, 2), np.int64)
    folds: np.ndarray = np.empty((0, 2), np.int64)
    held: np.ndarray = np.empty((0, 0), np.bool_)

    def of_rows(self, rows: np.ndarray | slice) -> "Demands":
        """Return targets and costs of some rows."""
        held = self.held[rows] if self.folds.size else self.held
        return self._replace(targets=self.targets[rows], costs=self.costs[rows], held=held)


@jit
def cost_of(demands: Demands, row: int, c: int) -> tuple[float, float]:
    """Return target and cost of a row in score `c`; several scores tell classes apart: each from the rest, or two."""
    target, cost = demands.targets[row], demands.costs[row]
    if demands.pairs.size > 0:
        first, second = target == demands.pairs[c, 0], target == demands.pairs[c, 1]
        target = 1.0 if first else -1.0
        cost *= first or second
    elif demands.folds.size > 0:
        split, label = demands.folds[c]
        cost *= not demands.held[row, split]
        if label >= 0:
            target = 1.0 if target == label else -1.0
            cost *= demands.balance[c] if target > 0 else 1.0
    elif demands.balance.size > 1:
        target = 1.0 if target == c else -1.0
        cost *= demands.balance[c] if target > 0 else 1.0
    return target, cost


@jit
def write_costs(demands: Demands, first: int, c: int, targets: np.ndarray, costs: np.ndarray) -> None:
    """Write targets and costs of rows from index `first` on in score `c`, as `cost_of` does with a call for each."""
    own_targets, own_costs, balance, pairs, folds, held = demands
    of_pair, of_split = pairs.size > 0, folds.size > 0
    split, label = (folds[c, 0], folds[c, 1]) if of_split else (0, c if balance.size > 1 else -1)
    for place in range(targets.size):
        target, cost = own_targets[first + place], own_costs[first + place]
        if of_pair:
            is_first, is_second = target == pairs[c, 0], target == pairs[c, 1]
            target = 1.0 if is_first else -1.0
            cost *= is_first or is_second
        elif label >= 0:
            target = 1.0 if target == label else -1.0
            cost *= balance[c] if target > 0 else 1.0
        if of_split:
            cost *= not held[first + place, split]
        targets[place], costs[place] = target, cost


def targets_and_costs(demands: Demands) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and costs of all rows in all scores; see `cost_of`."""
    targets, costs, k = demands.targets[:, None], demands.costs[:, None], len(demands.balance)
    if demands.pairs.size:
        is_first, is_second = (targets == classes for classes in demands.pairs.T)
        return np.where(is_first, 1.0, -1.0), (is_first | is_second) * costs
    labels = demands.folds[:, 1] if demands.folds.size else np.arange(k)
    if demands.folds.size:
        costs = np.where(demands.held[:, demands.folds[:, 0]], 0.0, costs)
    if k == 1 or labels[0] < 0:
        return np.repeat(targets, k, axis=1) if k > 1 else targets, costs
    is_own = targets == labels
    return np.where(is_own, 1.0, -1.0), np.where(is_own, demands.balance * costs, costs)


def demands_of_scores(demands: Demands, scores: tuple[int, int]) -> Demands:
    """Return the demands of a run of scores as if there were no others; one against the rest has targets ±1."""
    low, high = scores
    if high - low == len(demands.balance):
        return demands
    targets, balance = demands.targets - low, demands.balance[low:high]
    if demands.pairs.size:
        return demands._replace(balance=balance, pairs=demands.pairs[low:high])
    if demands.folds.size:
        return demands._replace(balance=balance, folds=demands.folds[low:high])
    if high - low > 1:
        return demands._replace(targets=targets, balance=balance)
    is_own, costs = targets == 0, demands.costs
    return Demands(np.where(is_own, 1.0, -1.0), np.where(is_own, balance[0] * costs, costs), np.ones(1))


@jit
def least_curvature(curvature: float) -> float:
    """Return a positive curvature, by which one can divide; that of a zero row would be 0."""
    return max(curvature, _LEAST)


@jit
def nearly(cost: float, dual: np.ndarray) -> float:
    """Return the upper bound of a dual variable minus a margin for rounding."""
    return cost * (1 - ROUNDINGS * float(np.finfo(dual.dtype).eps))


# --- of one score ----------------------------------------------------------------------------------------


@generic
def loss_value(loss: Loss, score: float, target: float) -> float:
    """Return the loss of a score."""
    raise NotImplementedError


@generic
def loss_slope(loss: Loss, score: float, target: float) -> float:
    """Return a (sub)derivative of the loss by the score."""
    raise NotImplementedError


@generic
def loss_curvature(loss: Loss, score: float, target: float) -> float:
    """Return the second derivative of the loss by the score; by default an upper bound, the class's `curvature`."""
    raise NotImplementedError


def _largest_curvature(kind: type[Loss]) -> Callable:
    most = float(kind.curvature)

    def body(loss, score, target):
        return most

    return body


loss_curvature.default(_largest_curvature)


@generic
def conjugate(loss: Loss, dual: float, target: float, cost: float) -> float:
    """Return c ℓ*(-β / c) for a feasible β."""
    raise NotImplementedError


@generic
def coordinate_update(loss: Loss, dual: float, score: float, target: float, cost: float, curvature: float) -> float:
    """Return the dual variable that maximises D; the score changes by `curvature` per unit of it."""
    raise NotImplementedError


@generic
def projected_gradient(loss: Loss, dual: float, score: float, target: float, cost: float) -> float:
    """Return the absolute value of the projected gradient of D."""
    raise NotImplementedError


@generic
def box(loss: Loss, cost: float) -> tuple[float, float]:
    """Return the largest absolute value of a dual variable, and the least second derivative of the conjugate."""
    raise NotImplementedError


@generic
def conjugate_curvature(loss: Loss, dual: float, cost: float) -> float:
    """Return the second derivative of the conjugate at a dual variable; by default the least one, as of `box`."""
    raise NotImplementedError


def _curvature_of_box(kind: type[Loss]) -> Callable:
    def body(loss, dual, cost):
        return box(loss, cost)[1]

    return body


conjugate_curvature.default(_curvature_of_box)


# --- of the scores of all classes ------------------------------------------------------------------------


class RowAt(NamedTuple):
    """A row with its dual variables, `dual[row]`, and its scores, `scores[:, place]`."""

    dual: np.ndarray
    row: int
    scores: np.ndarray
    place: int


@generic
def loss_of_classes(loss: Loss, scores: np.ndarray, label: int, gradient: np.ndarray) -> float:
    """Return the loss of the scores of all classes and write a (sub)gradient."""
    raise NotImplementedError


@generic
def conjugate_of_classes(loss: Loss, dual: np.ndarray, label: int, cost: float) -> float:
    """Return c ℓ*(-β / c) for the feasible dual variables β of one row."""
    raise NotImplementedError


@generic
def update_of_classes(
    loss: Loss, demands: Demands, at: RowAt, curvature: np.ndarray, changes: np.ndarray, gaps: np.ndarray
) -> bool:
    """Write the changes of a row's dual variables that maximise D, and return whether any is not zero.

    A score changes by its `curvature` per unit of its variable. What is in `at` is not modified. The duality gap of the
    row before the change is added to the first entry of `gaps`.
    """
    raise NotImplementedError


@generic
def violation_of_classes(loss: Loss, demands: Demands, at: RowAt) -> float:
    """Return the largest violation of an optimality condition of a row's dual variables."""
    raise NotImplementedError


@jit
def margin_excess(scores: np.ndarray, place: int, label: int, margin: float, c: int) -> float:
    """Return s_c - s_y + margin, or 0 for the true class."""
    return float(scores[c, place]) - float(scores[label, place]) + (margin if c != label else 0.0)


# --- of many rows, not compiled --------------------------------------------------------------------------


@generic
def feasible(loss: Loss, demands: Demands, dual: np.ndarray) -> np.ndarray:
    """Return feasible dual variables near `dual`, shape (n, n_scores); by default those within the bounds of `box`."""
    raise NotImplementedError


def _within_box(kind: type[Loss]) -> Callable[..., np.ndarray] | None:
    def body(loss: Loss, demands: Demands, dual: np.ndarray) -> np.ndarray:
        targets, costs = targets_and_costs(demands)
        most = box(loss, 1.0)[0]  # of the cost 1; bounds are proportional to costs
        bounds = costs * most if np.isfinite(most) else np.where(costs > 0, np.inf, 0.0)
        if kind.of == "labels":
            return targets * np.clip(targets * dual, 0.0, bounds)
        return np.clip(dual, -bounds, bounds)

    return None if kind.of_classes else body


feasible.default(_within_box)


@generic
def probabilities(loss: Loss, scores: np.ndarray) -> np.ndarray:
    """Return probability estimates for scores of shape (n, n_scores): each class against the rest, or all classes."""
    raise NotImplementedError


def provides_dual(kind: type[Loss]) -> bool:
    """Return whether dual coordinate ascent can minimise a class of losses."""
    return kind in coordinate_update.bodies or kind in update_of_classes.bodies


def provides_newton(kind: type[Loss]) -> bool:
    """Return whether Newton's method can minimise a class of losses: they are smooth, and have a dual."""
    return provides_dual(kind) and not kind.of_classes and bool(np.isfinite(kind.curvature))


def is_piecewise(kind: type[Loss]) -> bool:
    """Return whether the conjugates of a class of losses are quadratic between the bounds of their pieces."""
    return kind not in conjugate_curvature.bodies


def provides_probabilities(kind: object) -> bool:
    """Return whether a class of losses defines probabilities."""
    return kind in probabilities.bodies


# --- the registry ----------------------------------------------------------------------------------------

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


def is_loss(value: object, *of: str, dual: bool = False) -> bool:
    """Return whether a value is a registered loss, or its name, of a kind in `of`, with `dual` for dual ascent."""
    kind: Any = LOSSES.get(value) if isinstance(value, str) else type(value)
    if kind not in LOSSES.values() or kind.of not in of:
        return False
    return not dual or (provides_dual(kind) and not (isinstance(value, str) and value in _FIXED))


def loss_names(*of: str, dual: bool = False) -> list[str]:
    """Return the names of losses for the kinds `of`; with `dual`, of those that dual ascent can minimise."""
    return [name for name in LOSSES if is_loss(name, *of, dual=dual)]


def loss_named(name: str, **parameters: float) -> Loss:
    """Return the loss with a name; parameters that it does not have are ignored."""
    kind, values = LOSSES[name], parameters | _FIXED.get(name, {})
    return kind(**{field: values[field] for field in kind._fields if field in values})
