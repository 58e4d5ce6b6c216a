"""A loss that is chosen at run time, so that solvers of small problems are compiled once for all of them."""

from typing import Any, NamedTuple

from fastsvm.losses import (
    EpsilonInsensitive,
    Hinge,
    Loss,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    box,
    conjugate,
    coordinate_update,
    feasible,
    loss_value,
    projected_gradient,
)

__all__ = ["ChosenLoss", "chosen_loss"]


class ChosenLoss(NamedTuple):
    """One of four losses. A branch that is always taken alike costs less than code for each of them to compile."""

    number: int
    hinge: Hinge
    squared_hinge: SquaredHinge
    epsilon_insensitive: EpsilonInsensitive
    squared_epsilon_insensitive: SquaredEpsilonInsensitive


ChosenLoss.of_classes = False  # type: ignore[attr-defined]


def chosen_loss(loss: Loss) -> Any:
    """Return the loss as a `ChosenLoss` if it is one of the four, else itself."""
    choices: list[Any] = [Hinge(), SquaredHinge(), EpsilonInsensitive(), SquaredEpsilonInsensitive()]
    for number, other in enumerate(choices):
        if type(loss) is type(other):
            choices[number] = loss
            return ChosenLoss(number, *choices)
    return loss


@loss_value.register(ChosenLoss)
def _value(loss, score, target):
    if loss.number == 0:
        return loss_value(loss.hinge, score, target)
    if loss.number == 1:
        return loss_value(loss.squared_hinge, score, target)
    if loss.number == 2:
        return loss_value(loss.epsilon_insensitive, score, target)
    return loss_value(loss.squared_epsilon_insensitive, score, target)


@coordinate_update.register(ChosenLoss)
def _update(loss, dual, score, target, cost, curvature):
    if loss.number == 0:
        return coordinate_update(loss.hinge, dual, score, target, cost, curvature)
    if loss.number == 1:
        return coordinate_update(loss.squared_hinge, dual, score, target, cost, curvature)
    if loss.number == 2:
        return coordinate_update(loss.epsilon_insensitive, dual, score, target, cost, curvature)
    return coordinate_update(loss.squared_epsilon_insensitive, dual, score, target, cost, curvature)


@conjugate.register(ChosenLoss)
def _conjugate(loss, dual, target, cost):
    if loss.number == 0:
        return conjugate(loss.hinge, dual, target, cost)
    if loss.number == 1:
        return conjugate(loss.squared_hinge, dual, target, cost)
    if loss.number == 2:
        return conjugate(loss.epsilon_insensitive, dual, target, cost)
    return conjugate(loss.squared_epsilon_insensitive, dual, target, cost)


@projected_gradient.register(ChosenLoss)
def _projected_gradient(loss, dual, score, target, cost):
    if loss.number == 0:
        return projected_gradient(loss.hinge, dual, score, target, cost)
    if loss.number == 1:
        return projected_gradient(loss.squared_hinge, dual, score, target, cost)
    if loss.number == 2:
        return projected_gradient(loss.epsilon_insensitive, dual, score, target, cost)
    return projected_gradient(loss.squared_epsilon_insensitive, dual, score, target, cost)


@box.register(ChosenLoss)
def _box(loss, cost):
    if loss.number == 0:
        return box(loss.hinge, cost)
    if loss.number == 1:
        return box(loss.squared_hinge, cost)
    if loss.number == 2:
        return box(loss.epsilon_insensitive, cost)
    return box(loss.squared_epsilon_insensitive, cost)


@feasible.register(ChosenLoss)
def _feasible(loss, demands, dual):
    return feasible(loss[1 + loss.number], demands, dual)
