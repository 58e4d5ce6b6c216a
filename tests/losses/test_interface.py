import naive
import numpy as np
import pytest

from fastsvm._compiled.compiler import jit
from fastsvm.losses import (
    LOSSES,
    Hinge,
    add_losses,
    loss_names,
    loss_of_classes,
    loss_slope,
    loss_value,
)  # fmt: skip

OF_ONE_SCORE = [name for name, kind in LOSSES.items() if not kind.of_classes]
OF_CLASSES = [name for name, kind in LOSSES.items() if kind.of_classes]
KINKS = {  # scores, with target 1, where slopes jump
    "hinge": [1.0],
    "perceptron": [0.0],
    "epsilon_insensitive": [0.9, 1.1],
}


def made(name, **parameters):
    return Hinge(0.0) if name == "perceptron" else LOSSES[name](**parameters)


@jit
def compiled(loss, scores, targets, weights, balance, gradient):
    return add_losses(loss, scores, targets, weights, balance, gradient)


def value_and_slope(name, score, target, **parameters):
    """Return both as compiled code computes them."""
    gradient = np.empty((1, 1))
    one = np.ones(1)
    value = compiled(made(name, **parameters), np.array([[score]]), np.array([target]), one, one, gradient)
    return value, gradient[0, 0]


def of_classes(name, scores, label, **parameters):
    gradient = np.empty((1, len(scores)))
    arguments = np.array([scores], float), np.array([label], float), np.ones(1), np.ones(len(scores))
    return compiled(made(name, **parameters), *arguments, gradient), gradient[0]


def test_the_tables_name_all_losses():
    assert set(loss_names("labels", "classes")) | set(loss_names("numbers")) == set(LOSSES)
    assert sorted(OF_CLASSES) == sorted(naive.OF_CLASSES)


@pytest.mark.parametrize("target", [-1.0, 1.0])
@pytest.mark.parametrize("name", OF_ONE_SCORE)
def test_values_and_slopes_are_those_of_the_definition(name, target):
    for score in np.linspace(-3, 3, 61) + 0.013:
        wanted = naive.binary_loss(name, score, target)
        assert value_and_slope(name, score, target) == pytest.approx(wanted, rel=1e-13, abs=1e-15)
        assert loss_value(made(name), score, target) == pytest.approx(wanted[0], rel=1e-13, abs=1e-15)
        assert loss_slope(made(name), score, target) == pytest.approx(wanted[1], rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("name", [name for name, kind in LOSSES.items() if "epsilon" in kind._fields])
def test_any_epsilon(name, epsilon):
    for score in np.linspace(-5, 5, 41) + 0.013:
        wanted = naive.real_loss(name, score, 0.7, epsilon)
        assert value_and_slope(name, score, 0.7, epsilon=epsilon) == pytest.approx(wanted, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("margin", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("name", [name for name, kind in LOSSES.items() if "margin" in kind._fields])
def test_any_margin(name, margin):
    if name == "perceptron":  # it has the margin 0
        return
    for seed in range(20):
        scores = np.random.default_rng(seed).normal(size=4)
        if name == "hinge":
            assert value_and_slope(name, scores[0], 1.0, margin=margin) == pytest.approx(
                naive.binary_loss(name, scores[0], 1.0, margin)
            )
            continue
        value, gradient = of_classes(name, scores, 2, margin=margin)
        wanted, slopes = naive.loss_of_classes(name, scores, 2, margin)
        assert value == pytest.approx(wanted, rel=1e-13)
        np.testing.assert_array_equal(gradient, slopes)


@pytest.mark.parametrize("target", [-1.0, 1.0])
@pytest.mark.parametrize("name", OF_ONE_SCORE)
def test_slopes_are_those_of_the_values(name, target):
    h = 1e-6
    for score in np.linspace(-3, 3, 61) + 0.013:
        difference = value_and_slope(name, score + h, target)[0] - value_and_slope(name, score - h, target)[0]
        assert value_and_slope(name, score, target)[1] == pytest.approx(difference / (2 * h), abs=1e-7)


@pytest.mark.parametrize("name", KINKS)
def test_slopes_at_kinks_lie_between_those_beside(name):
    for kink in KINKS[name]:
        slope = value_and_slope(name, kink, 1.0)[1]
        left, right = (value_and_slope(name, kink + side, 1.0)[1] for side in (-1e-9, 1e-9))
        assert left < right
        assert left <= slope <= right


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_losses_of_classes_are_those_of_the_definition(name, k):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scores, label = 2 * rng.normal(size=k), int(rng.integers(k))
        wanted, slopes = naive.loss_of_classes(name, scores, label)
        gradient = np.full(k, np.nan)
        for value in (loss_of_classes(made(name), scores, label, gradient), of_classes(name, scores, label)[0]):
            assert value == pytest.approx(wanted, rel=1e-13, abs=1e-15)
        np.testing.assert_allclose(gradient, slopes, atol=1e-14)
        np.testing.assert_allclose(of_classes(name, scores, label)[1], slopes, atol=1e-14)
        h = 1e-6
        for c in range(k):
            step = h * np.eye(k)[c]
            difference = of_classes(name, scores + step, label)[0] - of_classes(name, scores - step, label)[0]
            assert slopes[c] == pytest.approx(difference / (2 * h), abs=1e-6)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_equal_scores_of_classes_have_a_subgradient(name):
    for label in range(3):
        value, gradient = of_classes(name, np.zeros(3), label)
        for seed in range(50):
            others = np.random.default_rng(seed).normal(size=3)
            assert of_classes(name, others, label)[0] >= value + gradient @ others - 1e-12


@pytest.mark.parametrize(
    ("name", "k", "dtype"),
    [
        *((name, k, np.float64) for name in LOSSES for k in ((2, 3) if name in OF_CLASSES else (1, 4))),
        *((name, 3, np.float32) for name in ("log_loss", "softmax")),  # those of exponentials
    ],
)
def test_sums_of_weighted_losses(name, k, dtype):
    rng = np.random.default_rng(k)
    n = 40
    scores = rng.normal(size=(n, k)).astype(dtype)
    targets = rng.choice([-1.0, 1.0], n) if k == 1 else rng.integers(0, k, n).astype(float)
    weights, balance = rng.uniform(0, 3, n), rng.uniform(0.5, 2, k)
    gradient = np.full((n, k), np.nan, dtype)
    wanted, slopes = naive.mean_loss(name, scores.astype(float), targets, weights, balance)
    value = compiled(made(name), scores, targets, weights, balance, gradient)
    tolerance = 1e-6 if dtype == np.float32 else 1e-13
    assert value == pytest.approx(wanted, rel=tolerance)
    np.testing.assert_allclose(gradient, slopes, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OF_ONE_SCORE)
def test_a_score_of_no_class_is_against_the_rest(name):
    scores, gradient = np.array([[0.3, -0.4]]), np.empty((1, 2))
    value = compiled(made(name), scores, np.array([5.0]), np.ones(1), np.array([7.0, 9.0]), gradient)
    assert value == pytest.approx(sum(naive.binary_loss(name, score, -1.0)[0] for score in scores[0]))


@pytest.mark.parametrize("size", [1e3, 1e4, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_scores_do_not_overflow(size, dtype):
    one = np.ones(1)
    for sign in (-1, 1):
        scores, gradient = np.array([[sign * size]], dtype), np.empty((1, 1), dtype)
        assert compiled(made("log_loss"), scores, one, one, one, gradient) == pytest.approx(max(0, -sign * size))
        assert gradient[0, 0] == (-1 if sign < 0 else 0)
        scores, gradient = np.array([[sign * size, 0, 0]], dtype), np.empty((1, 3), dtype)
        value = compiled(made("softmax"), scores, np.zeros(1), one, np.ones(3), gradient)
        assert value == pytest.approx(0 if sign > 0 else size + np.log(2))
        np.testing.assert_allclose(gradient[0], [0, 0, 0] if sign > 0 else [-1, 0.5, 0.5], atol=1e-7)


@pytest.mark.parametrize("name", OF_ONE_SCORE)
def test_losses_of_a_score_are_convex(name):
    a, b = np.random.default_rng(0).uniform(-4, 4, (2, 200))
    for first, second in zip(a, b, strict=True):
        ends = (value_and_slope(name, first, 1.0)[0] + value_and_slope(name, second, 1.0)[0]) / 2
        assert value_and_slope(name, (first + second) / 2, 1.0)[0] <= ends + 1e-12


@pytest.mark.parametrize("name", OF_CLASSES)
def test_losses_of_classes_are_convex(name):
    rng = np.random.default_rng(0)
    for a, b in rng.uniform(-4, 4, (100, 2, 4)):
        ends = (of_classes(name, a, 1)[0] + of_classes(name, b, 1)[0]) / 2
        assert of_classes(name, (a + b) / 2, 1)[0] <= ends + 1e-12


@pytest.mark.parametrize("name", OF_ONE_SCORE)
def test_the_curvature_is_the_largest_second_derivative(name):
    h = 1e-3
    second = [
        (value_and_slope(name, s + h, 1.0)[0] - 2 * value_and_slope(name, s, 1.0)[0]
         + value_and_slope(name, s - h, 1.0)[0]) / h**2
        for s in np.linspace(-3, 3, 6001)
    ]  # fmt: skip
    if np.isfinite(LOSSES[name].curvature):
        assert max(second) == pytest.approx(LOSSES[name].curvature, rel=1e-5)
    else:
        assert max(second) > 0.1 / h


@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_curvature_of_softmax_is_its_largest(k):
    largest = 0.0
    for seed in range(100):
        p = np.exp(naive.special.log_softmax(3 * np.random.default_rng(seed).normal(size=k)))
        largest = max(largest, np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max())
    assert 0.3 < largest <= LOSSES["softmax"].curvature


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_bounded_if_it_is_said(name):
    for size in (1e2, 1e6):
        if name in OF_CLASSES:
            slope = np.abs(of_classes(name, [-size, size, 0.0], 0)[1]).max()
        else:
            slope = max(abs(value_and_slope(name, sign * size, 1.0)[1]) for sign in (-1, 1))
        assert (slope <= 4) == LOSSES[name].bounded
