"""The losses of all mini-batches of a fit."""

import numpy as np
import pytest
from sgd_models import made_sgd

from fastsvm import SGDClassifier
from fastsvm.estimators.linear.sgd_fit import LossCurve


def test_losses_of_incomplete_batches_are_means_too(two_300, stored):
    X, y = two_300
    parameters = {"batch_size": 64, "learning_rate": "constant", "eta0": 1e-300, "max_iter": 1, "tol": None}
    model = SGDClassifier(**parameters).fit(X, y)
    np.testing.assert_allclose(model.loss_curve_, np.ones(5))
    with stored(X, y) as data:
        model = SGDClassifier(memory=5000, **parameters).fit(data)
    np.testing.assert_allclose(model.loss_curve_, np.ones(5))


def test_the_loss_curve_has_a_point_a_batch(two_300):
    X, y = two_300
    model = made_sgd("log_loss", batch_size=25, max_iter=4, tol=None).fit(X, y)
    assert model.loss_curve_.shape == (48,)
    assert model.loss_curve_[0] == pytest.approx(np.log(2))
    means = model.loss_curve_.reshape(4, 12).mean(axis=1)
    assert (means[1:] < means[0]).all()
    assert means[-1] == pytest.approx(model.history_["objective"][-1], rel=1e-2)


@pytest.mark.parametrize("n", [0, 1, 9_999, 10_001, 123_457])
@pytest.mark.parametrize("piece", [1000, 777, 50_000])
def test_the_length_of_a_loss_curve_is_bounded(piece, n):
    curve, values = LossCurve(), np.random.default_rng(0).normal(size=n)
    for start in range(0, n, piece):
        curve = curve.extended(values[start : start + piece])
    points, size = curve.values(), curve.per_point
    assert len(points) == -(-n // size)
    assert len(points) <= 10_001
    assert n < 10_000 * 2 * size
    for k in (0, len(points) // 2, len(points) - 1):
        if n:
            assert points[k] == pytest.approx(values[k * size : (k + 1) * size].mean(), abs=1e-12)
