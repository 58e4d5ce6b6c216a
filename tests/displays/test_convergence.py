import copy
import warnings

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC, LogisticRegression, SGDClassifier
from fastsvm.displays import ConvergenceDisplay


@pytest.mark.parametrize("x", ["iteration", "time"])
@pytest.mark.parametrize("y", ["objective", "violation"])
def test_history_of_two_classes(x, y, long_fit):
    display = ConvergenceDisplay.from_estimator(long_fit, x=x, y=y)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), long_fit.history_[x])
    np.testing.assert_array_equal(line.get_ydata(), long_fit.history_[y])
    assert display.ax_.get_yscale() == ("log" if y == "violation" else "linear")
    others = [other.get_ydata()[0] for other in display.ax_.lines if other is not line]
    assert others == ([long_fit.tol] if y == "violation" else [])
    display.figure_.canvas.draw()


def test_steps_of_each_solver(moons):
    for given, names in (
        ({}, ("pair steps", "dual objective")),
        ({"solver": "coordinate"}, ("coordinate steps", "dual objective")),
        ({"solver": "primal", "loss": "squared_hinge"}, ("Newton steps", "primal objective")),
        ({"solver": "primal", "learning_rate": 1e-4, "max_iter": 3}, ("gradient steps", "primal objective")),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(**given).fit(*moons)
        assert ConvergenceDisplay.from_estimator(model).axis_names == names


def test_history_of_several_problems(three_classes):
    model = SVC().fit(*three_classes)
    display = ConvergenceDisplay.from_estimator(model, y="violation")
    assert [line.get_label() for line in display.lines_] == ["0 or 1", "0 or 2", "1 or 2"]
    for number, line in enumerate(display.lines_):
        np.testing.assert_array_equal(
            line.get_ydata(), model.history_["violation"][model.history_["problem"] == number]
        )


def test_history_of_a_machine_without_classes(wave_model):
    display = ConvergenceDisplay.from_estimator(wave_model, y="violation")
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), wave_model.history_["violation"])
    assert display.axis_names == ("pair steps", "largest violation")


@pytest.mark.parametrize("criterion", ["gap", "gradient"])
def test_history_of_a_linear_machine(criterion, moons):
    model = LogisticRegression(criterion=criterion, tol=1e-3, dual=False).fit(*moons)
    display = ConvergenceDisplay.from_estimator(model, y="gap")
    assert display.axis_names == ("epoch", "relative duality gap")
    assert display.tol == (1e-3 if criterion == "gap" else None)
    assert model.history_["gap"][-1] == pytest.approx(model.duality_gap_ / model.objective_, rel=1e-6)


def test_many_problems_have_one_name(digits):
    model = SVC().fit(digits[0][:200], digits[1][:200])
    display = ConvergenceDisplay.from_estimator(model, y="violation")
    assert len(display.lines_) == 45
    named = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert named == ["45 two-class problems", "tol = 0.001"]


def test_several_models_in_the_same_axes(moons, three_classes):
    _, ax = plt.subplots()
    first = ConvergenceDisplay.from_estimator(SVC(C=1).fit(*moons), y="violation", ax=ax, label="two")
    second = ConvergenceDisplay.from_estimator(SVC(C=100).fit(*three_classes), y="violation", ax=ax, label="three")
    third = ConvergenceDisplay.from_estimator(SVC(tol=1e-5).fit(*moons), y="violation", ax=ax, label="tight", c="red")
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == ["two", "tol = 0.001", "three", "tight", "tol = 1e-05"]
    colours = {line.get_color() for line in second.lines_}
    assert len(colours) == 1 and first.lines_[0].get_color() not in colours
    assert third.lines_[0].get_color() == "red"
    low = ax.get_ylim()[0]
    gaps = [np.max(line.get_ydata()) for line in ax.lines]
    assert low <= 1e-7 and all(low < gap for gap in gaps if gap > 0)


def test_a_fit_in_one_call_shows_its_end(moons, three_classes):
    display = ConvergenceDisplay.from_estimator(SVC().fit(*moons), y="violation")
    (line,), (low, high) = display.lines_, display.ax_.get_ylim()
    (gap,) = line.get_ydata()
    assert 0 < gap < 1e-5 and low < gap < high and line.get_marker() == "o"
    (steps,), (least, most) = line.get_xdata(), display.ax_.get_xlim()
    words = f"solved in one call, which records its end alone:\nlargest violation {gap:.3g} at pair steps {steps}"
    assert [text.get_text() for text in display.ax_.texts] == [words] and least == 0 < steps < most
    exact = ConvergenceDisplay.from_estimator(SVC().fit([[0.0], [1.0]], [0, 1]), y="violation")  # on a logarithmic axis
    assert exact.ax_.texts[0].get_text().endswith("alone:\nlargest violation 0 at pair steps 1")
    ConvergenceDisplay.from_estimator(SVC().fit(*three_classes), y="violation", ax=display.ax_)
    assert len(display.ax_.texts) == 1 and display.ax_.get_ylim()[0] <= low


def test_epochs_of_descent(digits_model):
    display = ConvergenceDisplay.from_estimator(digits_model)
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), digits_model.history_["objective"])
    display = ConvergenceDisplay.from_estimator(digits_model, x="time")
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), digits_model.history_["time"])


@pytest.mark.parametrize("label", [None, "softmax"])
def test_losses_of_batches(label, digits_model):
    losses = digits_model.loss_curve_
    display = ConvergenceDisplay.from_estimator(digits_model, y="loss", label=label)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), losses)
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), np.arange(1, len(losses) + 1))
    width = len(losses) // 50
    assert width > 1
    mean = display.mean_lines_[0]
    assert mean.get_ydata()[3] == pytest.approx(losses[3 : 3 + width].mean())
    assert mean.get_xdata()[3] == pytest.approx(np.mean(np.arange(4, 4 + width)))
    named = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert named == (["each mini-batch", "running mean"] if label is None else ["softmax"])
    assert mean.get_color() == display.lines_[0].get_color()


def test_losses_of_batches_against_time(digits_model):
    display = ConvergenceDisplay.from_estimator(digits_model, x="time", y="loss")
    times = display.lines_[0].get_xdata()
    assert times[-1] == pytest.approx(digits_model.history_["time"][-1])
    at = digits_model.history_["steps"][0] - 1
    assert times[at] == pytest.approx(digits_model.history_["time"][0])


@pytest.mark.parametrize(("steps", "points", "each"), [(15_000, 7_500, 2), (15_001, 7_501, 2), (50_001, 6_251, 8)])
def test_points_of_several_batches(steps, points, each, digits_model):
    model = copy.copy(digits_model)
    model.t_, model.loss_curve_ = steps + 1.0, np.ones(points)
    display = ConvergenceDisplay.from_estimator(model, y="loss")
    x = display.lines_[0].get_xdata()
    assert (x[0], x[1], x[-1]) == (each, 2 * each, steps)
    assert display.lines_[0].get_label() == f"each {each} mini-batches"


def test_what_convergence_refuses(long_fit, digits, digits_model):
    with pytest.raises(ValueError, match="x must be 'iteration' or 'time', found 'epoch'"):
        ConvergenceDisplay.from_estimator(long_fit, x="epoch")
    with pytest.raises(ValueError, match=r"one of \['objective', 'violation'\] for SVC, found 'score'"):
        ConvergenceDisplay.from_estimator(long_fit, y="score")
    with pytest.raises(ValueError, match=r"one of \['objective', 'loss'\] for SGDClassifier, found 'gap'"):
        ConvergenceDisplay.from_estimator(digits_model, y="gap")
    with pytest.raises(ValueError, match="needs a loss_curve_, which SVC does not have"):
        ConvergenceDisplay.from_estimator(long_fit, y="loss")
    partial = SGDClassifier().partial_fit(*digits, classes=range(10))
    ConvergenceDisplay.from_estimator(partial, y="loss")
    for x, y in (("iteration", "objective"), ("time", "loss")):
        with pytest.raises(ValueError, match="has no history_"):
            ConvergenceDisplay.from_estimator(partial, x=x, y=y)
