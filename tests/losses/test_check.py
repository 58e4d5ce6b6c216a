"""Every loss of the registry passes the check, which says what is missing or wrong in another."""

from typing import NamedTuple

import numpy as np
import pytest

from fastsvm.losses import (
    LOSSES,
    box,
    check_loss,
    conjugate,
    coordinate_update,
    feasible,
    loss_named,
    loss_slope,
    loss_value,
    probabilities,
    projected_gradient,
    register_loss,
)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("parameters", [{}, {"epsilon": 0.6, "margin": 2.5}], ids=["usual", "other"])
def test_every_loss(name, parameters):
    check_loss(loss_named(name, **parameters))


def half_square(**wrong):
    """Return ½ (f - y)² as a loss of a new class, with some functions replaced, or left out if None."""

    class HalfSquare(NamedTuple):
        scale: float = 1.0

    HalfSquare.__name__ = f"HalfSquare{len(_made)}"
    _made.append(f"check {len(_made)}")
    facts = {"curvature": 1.0, "bounded": False} | {
        key: wrong.pop(key) for key in ("curvature", "bounded") & wrong.keys()
    }
    register_loss(_made[-1], of="numbers", **facts)(HalfSquare)
    bodies = {
        loss_value: lambda loss, score, target: 0.5 * (score - target) ** 2,
        loss_slope: lambda loss, score, target: score - target,
        conjugate: lambda loss, dual, target, cost: 0.5 * dual * dual / cost - target * dual,
        coordinate_update: lambda loss, dual, score, target, cost, curvature: (
            (curvature * dual - (score - target)) / (curvature + 1 / cost)
        ),
        projected_gradient: lambda loss, dual, score, target, cost: abs(score - target + dual / cost),
        box: lambda loss, cost: (np.inf, 1 / cost),
    }
    bodies |= {function: None for function in (feasible, probabilities)}
    for function, body in bodies.items():
        body = wrong.get(function.__name__, body)
        if body is not None:
            function.register(HalfSquare)(body)
    return HalfSquare()


_made = []


@pytest.fixture(autouse=True)
def unregistered():
    yield
    for name in _made:
        LOSSES.pop(name, None)


def test_a_loss_of_a_user():
    check_loss(half_square())


WRONG = {
    "has no loss_value": {"loss_value": None},
    "has no loss_slope": {"loss_slope": None},
    "has no conjugate": {"conjugate": None},
    "loss_slope of .* is wrong: at the score": {"loss_slope": lambda loss, score, target: target - score},
    "second derivative is 1, and curvature=0.5": {"curvature": 0.5},
    "slopes grow .* bounded=True": {"bounded": True},
    "conjugate of .* by definition": {"conjugate": lambda loss, dual, target, cost: dual * dual / cost - target * dual},
    "box of .* bound is": {"box": lambda loss, cost: (cost, 1 / cost)},
    "box of .* bends less than": {"box": lambda loss, cost: (np.inf, 2 / cost)},
    "coordinate_update of .* leaves the gap": {
        "coordinate_update": lambda loss, dual, score, target, cost, curvature: dual - (score - target) / curvature
    },
    "projected_gradient of .* at an optimum": {
        "projected_gradient": lambda loss, dual, score, target, cost: abs(score - target)
    },
    "projected_gradient of .* where the gap is": {"projected_gradient": lambda loss, dual, score, target, cost: 0.0},
    "feasible of .* a row of the cost 0": {"feasible": lambda loss, demands, dual: dual},
    "probabilities of .* not between 0 and 1": {"probabilities": lambda loss, scores: scores},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_missing_or_wrong_is_named(message):
    with pytest.raises(ValueError, match=message):
        check_loss(half_square(**WRONG[message]))


def test_a_loss_must_be_registered():
    class Own(NamedTuple):
        scale: float = 1.0

    with pytest.raises(ValueError, match="Own is not registered"):
        check_loss(Own())
