from typing import NamedTuple

import numpy as np
import pytest

from fastsvm.losses import LOSSES, add_losses, loss_named, loss_slope, loss_value
from fastsvm.solvers.sgd.loss_choice import one_of_several


@pytest.mark.parametrize("name", LOSSES)
def test_a_choice_is_the_loss_that_was_chosen(name):
    loss = loss_named(name, margin=0.7, epsilon=0.3)
    choice, rng = one_of_several(loss), np.random.default_rng(0)
    k = 3 if loss.of_classes else 1
    scores, weights, balance = rng.normal(size=(20, k)), rng.random(20), rng.random(k)
    targets = rng.integers(0, 3, 20).astype(float) if loss.of_classes else rng.choice([-1.0, 1.0], 20)
    found, wanted = np.empty_like(scores), np.empty_like(scores)
    value = add_losses(choice, scores, targets, weights, balance, found)
    assert value == add_losses(loss, scores, targets, weights, balance, wanted)
    np.testing.assert_array_equal(found, wanted)
    if not loss.of_classes:
        assert loss_value(choice, 0.4, -1.0) == loss_value(loss, 0.4, -1.0)
        assert loss_slope(choice, 0.4, -1.0) == loss_slope(loss, 0.4, -1.0)


def test_losses_of_a_kind_are_one_type_for_compiled_code():
    def shape(choice):
        return (type(choice), *map(shape, choice[1:])) if hasattr(choice, "first") else type(choice)

    shapes = {shape(one_of_several(kind())) for kind in LOSSES.values()}
    assert len(shapes) == 4  # of labels, of numbers, of classes, and Softmax


def test_a_loss_of_a_user_is_itself():
    class Own(NamedTuple):
        share: float = 0.5

    assert one_of_several(Own(0.2)) == Own(0.2)
    assert type(one_of_several(Own(0.2))) is Own
