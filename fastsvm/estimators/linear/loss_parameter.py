"""What the parameter `loss` of a linear machine may be: the name of a registered loss, or a loss itself."""

import functools
from typing import Any

from fastsvm.estimators.fitting.validation import Rule
from fastsvm.losses import Loss, is_loss, loss_named, loss_names

__all__ = ["loss_of", "loss_rule"]


def loss_rule(*of: str, dual: bool = False, others: tuple[str, ...] = ()) -> Rule:
    """Return the rule of a loss of some kinds of targets, as of now; `others` are words that are allowed beside.

    With `dual`, it must have what dual coordinate ascent needs.
    """
    return _rule(of, dual, (*others, *loss_names(*of, dual=dual)))


@functools.cache
def _rule(of: tuple[str, ...], dual: bool, names: tuple[str, ...]) -> Rule:
    """Return the rule with the words that are allowed; to join them takes a part of a small fit."""

    def holds(value: Any) -> bool:
        return value in names if isinstance(value, str) else is_loss(value, *of, dual=dual)

    return Rule(holds, "one of " + ", ".join(map(repr, names)) + " or such a loss registered with register_loss")


def loss_of(value: Any, **parameters: float) -> Loss:
    """Return the loss that a parameter stands for; one that is named gets those of the parameters that it has."""
    return loss_named(value, **parameters) if isinstance(value, str) else value
