"""A loss that is chosen at run time, so that a loop which calls it for a batch is compiled once for several losses.

The loop takes seconds to compile, the loss a fraction of one. A branch for a batch costs nothing. One for each row of
long loops would cost up to a half of their time.
"""

from typing import Any, NamedTuple

from fastsvm.losses import (
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Log,
    Loss,
    ModifiedHuber,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    WestonWatkins,
    add_losses,
    loss_slope,
    loss_value,
)

__all__ = ["Either", "one_of_several"]


class Either(NamedTuple):
    """One of two losses, each of which may be one of two."""

    second_counts: bool
    first: Any
    second: Any


_CHOICES = (
    Either(False, Either(False, Hinge(), SquaredHinge()), Either(False, ModifiedHuber(), Log())),
    Either(False, Either(False, Squared(), Huber()), Either(False, EpsilonInsensitive(), SquaredEpsilonInsensitive())),
    Either(False, CrammerSinger(), WestonWatkins()),
)


def one_of_several(loss: Loss, shared: bool = True) -> Any:
    """Return the loss as a choice among several of its kind; itself if it is a user's, or Softmax, or not `shared`.

    The softmax is used more than the others of all classes, which take longer to compile.
    """
    choices = _CHOICES if shared else ()
    return next((found for found in (_chosen(choice, loss) for choice in choices) if found is not None), loss)


def _chosen(choice: Any, loss: Loss) -> Any:
    """Return a choice with the loss chosen, or None if it is not among them."""
    if not isinstance(choice, Either):
        return loss if type(choice) is type(loss) else None
    if (first := _chosen(choice.first, loss)) is not None:
        return Either(False, first, choice.second)
    second = _chosen(choice.second, loss)
    return None if second is None else Either(True, choice.first, second)


@add_losses.register(Either)
def _add(loss, scores, targets, weights, balance, gradient):
    if loss.second_counts:
        return add_losses(loss.second, scores, targets, weights, balance, gradient)
    return add_losses(loss.first, scores, targets, weights, balance, gradient)


@loss_value.register(Either)
def _value(loss, score, target):
    if loss.second_counts:
        return loss_value(loss.second, score, target)
    return loss_value(loss.first, score, target)


@loss_slope.register(Either)
def _slope(loss, score, target):
    if loss.second_counts:
        return loss_slope(loss.second, score, target)
    return loss_slope(loss.first, score, target)
