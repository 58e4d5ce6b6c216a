"""Does the referee know the exact problem?"""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from bench.harness.data import Data
from bench.millions.parameters import MillionsParameters
from bench.millions.referee import exact_optimum, judge, primal_objective

PARAMETERS = MillionsParameters(C=2.0, gamma=1.5)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(120, noise=0.3, random_state=0)
    return Data(X[:90], y[:90], X[90:], y[90:])


def test_the_minimum_is_between_its_bounds(moons):
    lower, upper = exact_optimum(PARAMETERS, moons)
    assert 0 < lower <= upper < lower * (1 + 1e-4)
    three = moons._replace(y=np.arange(90) % 3)
    assert exact_optimum(PARAMETERS, three)[0] > upper  # a sum over three classes, which nothing tells apart


def test_the_objective_of_a_machine_is_that_of_the_definition(moons):
    rng = np.random.default_rng(0)
    landmarks, coef, intercept = moons.X[:7], rng.normal(size=(1, 7)), np.array([0.3])
    found = primal_objective(PARAMETERS, moons, (landmarks, coef, intercept))

    def kernel(a, b):
        return np.exp(-1.5 * sum((s - t) ** 2 for s, t in zip(a, b, strict=True)))

    terms = list(zip(coef[0], landmarks, strict=True))
    penalty = 0.3**2 + sum(c * d * kernel(a, b) for c, a in terms for d, b in terms)
    scores = [0.3 + sum(c * kernel(x, a) for c, a in terms) for x in moons.X]
    losses = [max(0.0, 1 - (2 * label - 1) * score) for label, score in zip(moons.y, scores, strict=True)]
    assert found == pytest.approx(penalty / 2 + 2 * sum(losses), rel=1e-12)
    assert found >= exact_optimum(PARAMETERS, moons)[0]


def test_points_are_judged_one_by_one(moons):
    machine = {
        "landmarks": moons.X[:7],
        "coef": np.ones((1, 7)),
        "intercept": np.zeros(1),
        "bounds": np.array([1.0, 2.0]),
    }
    stored = {"predicted 0": moons.y_test, "predicted 1": 1 - moons.y_test}
    ours = {f"{name} 0": value for name, value in {"predicted": moons.y_test, **machine}.items()}
    others, own = judge(PARAMETERS, moons, [stored, ours], True)
    assert [point["accuracy"] for point in others["points"]] == [1.0, 0.0]
    assert own["points"][0]["upper"] == 2.0
    assert own["points"][0]["objective"] > 2.0
    assert judge(PARAMETERS, moons, [ours], False)[0]["points"][0]["objective"] is None
