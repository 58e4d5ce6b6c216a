"""Learning rates of the package, by their formulas, and one that a user adds."""

import numpy as np
import pytest

from fastsvm import SGDClassifier
from fastsvm.solvers.sgd.learning_rates import SCHEDULES, Schedule

T = np.arange(5.0)
WANTED = {
    "auto": 0.3 / (np.sqrt(1 + 4 * T / 10) + 0.01 * 0.3 * T),
    "optimal": 1 / (0.01 * (T + 1 / (0.01 * 0.3))),
    "pegasos": 1 / (0.01 * (T + 1)),
    "invscaling": 0.3 / (T + 1) ** 0.7,
    "constant": np.full(5, 0.3),
    "adaptive": np.full(5, 0.3),
    "adagrad": np.ones(5),  # in multiples of the rate of each feature
}


def test_all_rates_are_tested():
    assert set(WANTED) == set(SCHEDULES)


@pytest.mark.parametrize("name", WANTED)
def test_rates_are_those_of_the_formulas(name):
    schedule = Schedule(name, first=0.3, power=0.7, alpha=0.01, steps_per_epoch=10.0)
    np.testing.assert_allclose(schedule.rates(0, 5), WANTED[name], rtol=1e-14)
    np.testing.assert_array_equal(schedule.rates(2, 3), schedule.rates(0, 5)[2:])


def test_the_rate_of_exact_gradients_falls_by_the_penalty_only():
    found = Schedule("auto", first=0.3, power=0.7, alpha=0.01, steps_per_epoch=np.inf).rates(0, 50)
    np.testing.assert_allclose(found, 0.3 / (1 + 0.003 * np.arange(50)), rtol=1e-13)


def test_a_learning_rate_is_added_in_one_place(monkeypatch):
    rates = lambda schedule, t: schedule.first * (1 + np.cos(np.pi * t / 24)) / 2  # noqa: E731
    monkeypatch.setitem(SCHEDULES, "cosine of tests", rates)
    X = np.random.default_rng(0).normal(size=(64, 3))
    y = (X[:, 0] > 0).astype(int)
    model = SGDClassifier(learning_rate="cosine of tests", eta0=0.2, batch_size=8, max_iter=3, tol=None, random_state=0)
    model.fit(X, y)
    last = 0.2 * (1 + np.cos(np.pi * np.array([7, 15, 23]) / 24)) / 2
    np.testing.assert_allclose(model.history_["rate"], last, rtol=1e-14)
