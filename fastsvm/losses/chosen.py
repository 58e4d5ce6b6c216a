"""One code for several losses, whose number a variable has: to compile code for each of them takes longer."""

from typing import Any, NamedTuple

from fastsvm.losses.interface import Loss, box, conjugate, coordinate_update, loss_value, projected_gradient
from fastsvm.losses.labels import Hinge, SquaredHinge
from fastsvm.losses.numbers import EpsilonInsensitive, SquaredEpsilonInsensitive


class ChosenLoss(NamedTuple):
    """One of four losses. A branch that is always taken alike costs less than code for each of them to compile."""

    number: int
    hinge: Hinge
    squared_hinge: SquaredHinge
    epsilon_insensitive: EpsilonInsensitive
    squared_epsilon_insensitive: SquaredEpsilonInsensitive


ChosenLoss.of_classes = False  # type: ignore[attr-defined]
_CHOICES = Hinge, SquaredHinge, EpsilonInsensitive, SquaredEpsilonInsensitive


def chosen_loss(loss: Loss) -> Any:
    """Return the loss as a `ChosenLoss` if it is one of the four, else itself."""
    kind = type(loss)
    if kind not in _CHOICES:
        return loss
    choices: list[Any] = [loss if kind is each else each() for each in _CHOICES]
    return ChosenLoss(_CHOICES.index(kind), *choices)


def _register(function: Any) -> None:
    """Give a generic function of a loss a body that asks which of the four it is."""

    def body(loss, *arguments):
        if loss.number == 0:
            return function(loss.hinge, *arguments)
        if loss.number == 1:
            return function(loss.squared_hinge, *arguments)
        if loss.number == 2:
            return function(loss.epsilon_insensitive, *arguments)
        return function(loss.squared_epsilon_insensitive, *arguments)

    function.register(ChosenLoss)(body)


for _function in (loss_value, coordinate_update, conjugate, projected_gradient, box):
    _register(_function)
