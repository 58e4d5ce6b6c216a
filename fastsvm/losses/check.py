"""A check of a loss: what is missing, and what numeric derivatives and conjugates contradict."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from fastsvm.losses.interface import (
    LOSSES,
    Demands,
    Loss,
    RowAt,
    box,
    conjugate,
    conjugate_curvature,
    conjugate_of_classes,
    coordinate_update,
    feasible,
    loss_curvature,
    loss_of_classes,
    loss_slope,
    loss_value,
    probabilities,
    projected_gradient,
    update_of_classes,
    violation_of_classes,
)

_DUAL = coordinate_update, conjugate, projected_gradient, box
_DUAL_OF_CLASSES = update_of_classes, conjugate_of_classes, violation_of_classes, feasible
_SCORES = np.linspace(-3, 3, 13) + 0.013  # They lie beside the kinks of usual losses.
_FAR = np.array([-1e3, 1e3])
_COSTS = 0.3, 10.0
_CURVATURES = 0.01, 1.0, 30.0  # A score changes by so much for each unit of its dual variable.
_STEP = float(np.sqrt(np.finfo(np.float64).eps))  # It is that of differences, and the error of a step in the dual.
_CLOSE = float(np.sqrt(_STEP))  # This is the error of derivatives by differences.


def check_loss(loss: Loss) -> None:
    """Check that solvers can use a loss: it has the functions that belong together, and they fit its values.

    Slopes and curvatures are compared with differences, conjugates with the definition, and steps in the dual with the
    duality gap that they leave.

    Parameters
    ----------
    loss : a loss object
        One whose class `register_loss` registered.

    Raises
    ------
    ValueError
        If a function is missing or wrong; the message names the first one.

    Examples
    --------
    >>> from fastsvm.losses import Hinge, check_loss
    >>> check_loss(Hinge(0.5))
    """
    kind = type(loss)
    if kind not in LOSSES.values():
        raise ValueError(f"{kind.__name__} is not registered: decorate the class with @register_loss(...).")
    dual = _DUAL_OF_CLASSES if kind.of_classes else _DUAL
    _require(kind, [loss_of_classes] if kind.of_classes else [loss_value, loss_slope])
    has_dual = any(kind in function.bodies for function in dual)
    _require(kind, dual if has_dual else [])
    if kind.of_classes:
        _check_classes(loss, has_dual)
    else:
        for target in (-1.0, 1.0) if kind.of == "labels" else (-0.7, 2.0):
            _check_slopes(loss, target)
            if has_dual:
                for cost in _COSTS:
                    _check_dual(loss, target, cost)
                    _check_feasible(loss, target, cost)
    if kind in probabilities.bodies:
        _check_probabilities(loss)


def _require(kind: type[Loss], functions: Sequence) -> None:
    for function in functions:
        if kind not in function.bodies:
            name = function.__name__
            raise ValueError(f"{kind.__name__} has no {name}: register one with @{name}.register({kind.__name__}).")


def _expect(holds: bool, loss: Loss, function: Callable, words: str) -> None:
    if not holds:
        raise ValueError(f"{function.__name__} of {type(loss).__name__} is wrong: {words}.")


def _near(a: float, b: float, tolerance: float, size: float = 0.0) -> bool:
    return abs(a - b) <= tolerance * (1 + abs(a) + abs(b) + size)


# --- a loss of one score ---------------------------------------------------------------------------------


def _check_slopes(loss: Loss, target: float) -> None:
    for score in _SCORES.tolist():
        at = f"at the score {score:g} and the target {target:g}"
        value, slope = loss_value(loss, score, target), loss_slope(loss, score, target)
        _expect(np.isfinite(value), loss, loss_value, f"{at} it is {value}")
        sides = [(loss_value(loss, score + h, target) - value) / h for h in (-_STEP, _STEP)]
        low, high = min(sides) - _CLOSE * (1 + abs(slope)), max(sides) + _CLOSE * (1 + abs(slope))
        _expect(low <= slope <= high, loss, loss_slope, f"{at} it is {slope:g}, by the values {sides[1]:g}")
        second = (loss_slope(loss, score + _STEP, target) - loss_slope(loss, score - _STEP, target)) / (2 * _STEP)
        words = f"{at} the second derivative is {second:g}, and curvature={loss.curvature:g} is registered"
        _expect(second <= loss.curvature * (1 + _CLOSE) + _CLOSE, loss, loss_slope, words)
        if type(loss) in loss_curvature.bodies:
            bend = loss_curvature(loss, score, target)
            _expect(_near(bend, second, _CLOSE), loss, loss_curvature, f"{at} it is {bend:g}, by slopes {second:g}")
    near, far = (max(abs(loss_slope(loss, float(f), target)) for f in scale * _FAR) for scale in (1.0, 1e3))
    words = f"slopes grow from {near:g} to {far:g} for large scores, and bounded=True is registered"
    _expect(not loss.bounded or far <= 2 * near + 1, loss, loss_slope, words)


def _gap(loss: Loss, dual: float, score: float, target: float, cost: float) -> tuple[float, float]:
    """Return the duality gap of a row, and the size of the numbers of which it is the difference."""
    value, paid = cost * loss_value(loss, score, target), conjugate(loss, dual, target, cost)
    return value + paid + dual * score, abs(value) + abs(paid) + abs(dual * score) + cost


def _check_dual(loss: Loss, target: float, cost: float) -> None:
    scores = _SCORES.tolist()
    duals = [-cost * loss_slope(loss, score, target) for score in scores]
    most, ridge = box(loss, cost)
    for score, dual in zip(scores, duals, strict=True):
        at = f"at the dual variable {dual:g}, target {target:g} and cost {cost:g}"
        _expect(abs(dual) <= most * (1 + _STEP), loss, box, f"{at} the bound is {most:g}")
        gap, size = _gap(loss, dual, score, target, cost)
        wanted = -dual * score - cost * loss_value(loss, score, target)
        words = f"{at} it is {conjugate(loss, dual, target, cost):g}, by definition {wanted:g}"
        _expect(abs(gap) <= _STEP * size, loss, conjugate, words)
    for one, other in product(duals, duals):
        ends = (conjugate(loss, one, target, cost) + conjugate(loss, other, target, cost)) / 2
        middle, bend = conjugate(loss, (one + other) / 2, target, cost), ridge / 8 * (one - other) ** 2
        words = f"the conjugate bends less than {ridge:g} between {one:g} and {other:g} at the cost {cost:g}"
        _expect(middle <= ends - bend + _STEP * (cost + abs(ends) + bend), loss, box, words)
    for score, dual, curvature in product(scores, duals[::3], _CURVATURES):
        _check_update(loss, dual, score, target, cost, curvature)
    if type(loss) in conjugate_curvature.bodies:
        dual, step = sum(duals) / len(duals), 1e-4 * cost
        values = [conjugate(loss, dual + h, target, cost) for h in (-step, 0.0, step)]
        bend, wanted = conjugate_curvature(loss, dual, cost), (values[0] - 2 * values[1] + values[2]) / step**2
        _expect(_near(bend, wanted, 1e-3), loss, conjugate_curvature, f"at {dual:g} it is {bend:g}, not {wanted:g}")


def _check_update(loss: Loss, dual: float, score: float, target: float, cost: float, curvature: float) -> None:
    new = coordinate_update(loss, dual, score, target, cost, curvature)
    moved = score + curvature * (new - dual)
    gap, size = _gap(loss, new, moved, target, cost)
    at = f"from the dual variable {dual:g}, score {score:g}, target {target:g}, cost {cost:g}, curvature {curvature:g}"
    _expect(abs(gap) <= _STEP * size, loss, coordinate_update, f"{at}, the step to {new:g} leaves the gap {gap:g}")
    left = projected_gradient(loss, new, moved, target, cost)
    _expect(abs(left) <= _CLOSE * (1 + abs(moved)), loss, projected_gradient, f"at an optimum, {new:g}, it is {left:g}")
    gap, size = _gap(loss, dual, score, target, cost)
    if gap > 1e-3 * size:
        left = projected_gradient(loss, dual, score, target, cost)
        _expect(left > 0, loss, projected_gradient, f"{at}, where the gap is {gap:g}, it is {left:g}")


def _check_feasible(loss: Loss, target: float, cost: float) -> None:
    demands = Demands(np.array([target, target, target]), np.array([cost, 0.0, cost]), np.ones(1))
    dual = feasible(loss, demands, cost * np.array([[5.0], [1.0], [-5.0]]))
    _expect(dual[1, 0] == 0, loss, feasible, f"a row of the cost 0 has the dual variable {dual[1, 0]:g}")
    again = feasible(loss, demands, dual)
    _expect(np.allclose(again, dual), loss, feasible, f"it changes {dual.ravel()}, which it returned")
    for one, score in product((dual[0, 0], dual[2, 0]), (*_SCORES, *_FAR)):
        gap, size = _gap(loss, float(one), float(score), target, cost)
        _expect(gap >= -_STEP * size, loss, feasible, f"{one:g} is not feasible for target {target:g}, cost {cost:g}")


# --- a loss of the scores of all classes -----------------------------------------------------------------


def _rows(k: int) -> Iterator[tuple[np.ndarray, int]]:
    rng = np.random.default_rng(k)
    for label in [*range(k)] * 3:
        yield rng.normal(size=k) * rng.choice([0.3, 3.0]), label


def _check_classes(loss: Loss, has_dual: bool) -> None:
    for k in (2, 4):
        for scores, label in _rows(k):
            at = f"at the scores {scores} of label {label}"
            gradient, ignored = np.full(k, np.nan), np.empty(k)
            value = loss_of_classes(loss, scores, label, gradient)
            _expect(np.isfinite(value), loss, loss_of_classes, f"{at} it is {value}")
            for c, unit in enumerate(np.eye(k)):
                sides = [
                    (loss_of_classes(loss, scores + h * unit, label, ignored) - value) / h for h in (-_STEP, _STEP)
                ]
                is_between = min(sides) - _CLOSE <= gradient[c] <= max(sides) + _CLOSE
                words = f"{at} the gradient for class {c} is {gradient[c]:g}, by the values {sides[1]:g}"
                _expect(is_between, loss, loss_of_classes, words)
            if has_dual:
                for cost, curvature in product(_COSTS, _CURVATURES):
                    _check_update_of_classes(loss, scores, label, cost, curvature)


def _gap_of_classes(loss: Loss, dual: np.ndarray, scores: np.ndarray, label: int, cost: float) -> tuple[float, float]:
    value = cost * loss_of_classes(loss, scores, label, np.empty(len(scores)))
    paid = conjugate_of_classes(loss, dual, label, cost)
    return value + paid + dual @ scores, abs(value) + abs(paid) + np.abs(dual) @ np.abs(scores) + cost


def _check_update_of_classes(loss: Loss, scores: np.ndarray, label: int, cost: float, curvature: float) -> None:
    k = len(scores)
    demands, at = Demands(np.array([float(label)]), np.array([cost]), np.ones(k)), f"label {label} and cost {cost:g}"
    draw = np.random.default_rng(label).normal(size=(1, k)) * cost
    dual = np.ascontiguousarray(feasible(loss, demands, draw))
    words = f"it changes {dual[0]} of {at}, which it returned"
    _expect(np.allclose(feasible(loss, demands, dual), dual), loss, feasible, words)
    for others in (scores, 1e3 * scores, -scores):
        gap, size = _gap_of_classes(loss, dual[0], others, label, cost)
        _expect(gap >= -_STEP * size, loss, feasible, f"{dual[0]} is not feasible for {at}")
    before, _ = _gap_of_classes(loss, dual[0], scores, label, cost)
    changes, gaps = np.empty(k), np.zeros(1)
    update_of_classes(loss, demands, RowAt(dual, 0, scores[:, None], 0), np.full(k, curvature), changes, gaps)
    dual, moved = dual + changes, scores + curvature * changes
    gap, size = _gap_of_classes(loss, dual[0], moved, label, cost)
    words = f"the step of {at} to {dual[0]} leaves the gap {gap:g}"
    _expect(abs(gap) <= _STEP * size, loss, update_of_classes, words)
    words = f"the gap before a step of {at} is {before:g}, and it says {gaps[0]:g}"
    _expect(_near(gaps[0], before, _STEP, size), loss, update_of_classes, words)
    left = violation_of_classes(loss, demands, RowAt(dual, 0, moved[:, None], 0))
    _expect(left <= _CLOSE * (1 + np.abs(moved).max()), loss, violation_of_classes, f"at an optimum it is {left:g}")


def _check_probabilities(loss: Loss) -> None:
    k = 3 if loss.of_classes else 1
    shares = probabilities(loss, np.repeat(np.sort(_SCORES)[:, None], k, axis=1) * np.arange(1, k + 1))
    _expect(bool(((shares >= 0) & (shares <= 1)).all()), loss, probabilities, "they are not between 0 and 1")
    if loss.of_classes:
        _expect(np.allclose(shares.sum(axis=1), 1), loss, probabilities, "they do not sum to 1")
    else:
        _expect(bool((np.diff(shares[:, 0]) >= 0).all()), loss, probabilities, "they fall where scores rise")
