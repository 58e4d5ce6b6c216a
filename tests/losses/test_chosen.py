import pytest

from fastsvm.losses import (
    EpsilonInsensitive,
    Hinge,
    Log,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    box,
    chosen_loss,
    conjugate,
    coordinate_update,
    loss_value,
    projected_gradient,
)


@pytest.mark.parametrize(
    "loss", [Hinge(0.7), SquaredHinge(), EpsilonInsensitive(0.3), SquaredEpsilonInsensitive(0.6)], ids=repr
)
def test_a_chosen_loss_is_the_loss(loss):
    chosen = chosen_loss(loss)
    for target, score in [(1.0, 0.4), (-1.0, 0.4), (1.0, 1.8), (-1.0, -1.3)]:
        assert loss_value(chosen, score, target) == loss_value(loss, score, target)
        for dual in (0.0, 0.2 * target, 0.9 * target):
            assert conjugate(chosen, dual, target, 0.9) == conjugate(loss, dual, target, 0.9)
            arguments = dual, score, target, 0.9
            assert projected_gradient(chosen, *arguments) == projected_gradient(loss, *arguments)
            assert coordinate_update(chosen, *arguments, 1.5) == coordinate_update(loss, *arguments, 1.5)
    assert box(chosen, 0.9) == box(loss, 0.9)


def test_other_losses_are_themselves():
    assert chosen_loss(Log()) == Log()
