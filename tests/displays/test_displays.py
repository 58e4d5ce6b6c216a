"""Displays draw what they say."""

import copy
import doctest
import importlib
import sys
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression, SGDRegressor
from sklearn.linear_model import SGDClassifier as TheirSGDClassifier
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC

from fastsvm import SVC, SGDClassifier, open_hdf5

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

from fastsvm.displays import (  # noqa: E402
    ConfusionDisplay,
    ConvergenceDisplay,
    HyperplaneDisplay,
    MarginDisplay,
    TemplatesDisplay,
)
from fastsvm.displays._images import as_images  # noqa: E402

MODULES = ["confusion", "convergence", "hyperplane", "margin", "templates"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def moons_model(moons):
    return SVC(C=10).fit(*moons)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.uint8), y


@pytest.fixture(scope="module")
def digits_model(digits):
    return SGDClassifier(loss="softmax", max_iter=5, tol=None, random_state=0).fit(digits[0][:900], digits[1][:900])


def stored(path, X, y, names=None):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(16, X.shape[1]))
        file["y"] = y
        if names is not None:
            file["y"].attrs["class_names"] = names
    return open_hdf5(path)


# --- all of them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    tried = doctest.testmod(importlib.import_module(f"fastsvm.displays.{name}"))
    assert tried.attempted > 4 and not tried.failed


def test_matplotlib_is_imported_where_something_is_drawn(python):
    before = "import fastsvm, sys; print('fastsvm.displays' in sys.modules)"
    after = "import fastsvm.displays; print('matplotlib' in sys.modules)"
    assert python.run(f"{before}; {after}").split() == ["False", "False"]


def test_without_matplotlib(monkeypatch, moons, moons_model, digits, digits_model):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    calls = [
        lambda: MarginDisplay.from_estimator(moons_model, *moons),
        lambda: HyperplaneDisplay.from_estimator(SGDClassifier(), *moons),
        lambda: ConvergenceDisplay.from_estimator(moons_model),
        lambda: TemplatesDisplay.from_estimator(digits_model, (8, 8)),
        lambda: ConfusionDisplay.from_estimator(digits_model, *digits, (8, 8)),
    ]
    for call in calls:
        with pytest.raises(ImportError, match=r"pip install 'fastsvm\[plot\]'"):
            call()


def test_those_that_are_not_fitted(moons):
    for call in (
        lambda: MarginDisplay.from_estimator(SVC(), *moons),
        lambda: ConvergenceDisplay.from_estimator(SVC()),
        lambda: TemplatesDisplay.from_estimator(SGDClassifier(), (1, 2)),
        lambda: ConfusionDisplay.from_estimator(SVC(), *moons, (1, 2)),
    ):
        with pytest.raises(NotFittedError):
            call()


# --- margins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "laplacian", "exponential"])
def test_margins_of_each_kernel(kernel, moons):
    X, y = moons
    model = SVC(kernel=kernel).fit(X, y)
    display = MarginDisplay.from_estimator(model, X, y, grid_resolution=20)
    places = np.stack(np.meshgrid(*display.grid), axis=-1)
    np.testing.assert_allclose(display.response, model.decision_function(places.reshape(-1, 2)).reshape(20, 20))
    assert display.lines_.levels.tolist() == [-1, 0, 1]
    np.testing.assert_array_equal(display.circles_.get_offsets(), X[model.support_])
    for label, drawn in zip(model.classes_, display.points_, strict=True):
        np.testing.assert_array_equal(drawn.get_offsets(), X[y == label])


def test_the_boundary_is_where_the_sign_changes(moons, moons_model):
    display = MarginDisplay.from_estimator(moons_model, *moons)
    for level, path in zip((-1, 0, 1), display.lines_.get_paths(), strict=True):
        np.testing.assert_allclose(moons_model.decision_function(path.vertices), level, atol=0.01)
    shades = display.image_.get_array()
    blue = shades[..., 2] > shades[..., 0]
    assert (blue == (display.response <= 0))[np.abs(display.response) > 0.01].all()
    left, right, low, high = display.image_.get_extent()
    assert (right - left) / 200 == pytest.approx(display.grid[0][1] - display.grid[0][0])
    assert low < display.grid[1][0] < display.grid[1][-1] < high


def test_shades_of_other_methods(moons):
    model = SGDClassifier(random_state=0).fit(*moons)
    soft = MarginDisplay.from_estimator(model, *moons, shade_by="soft_decision")
    np.testing.assert_array_equal(soft.shade, np.clip(soft.response, -1, 1))
    hard = MarginDisplay.from_estimator(model, *moons, shade_by="predict")
    np.testing.assert_array_equal(hard.shade, np.where(hard.response > 0, 1, -1))
    assert len(np.unique(hard.image_.get_array().reshape(-1, 3), axis=0)) == 2
    assert soft.lines_.levels.tolist() == hard.lines_.levels.tolist() == [-1, 0, 1]
    usual = MarginDisplay.from_estimator(model, *moons)
    np.testing.assert_array_equal(usual.shade, np.clip(usual.response / 2, -1, 1))
    with pytest.raises(TypeError, match="SVC has no soft_decision, which shades are to follow"):
        MarginDisplay.from_estimator(SVC().fit(*moons), *moons, shade_by="soft_decision")


def test_levels_out_of_view_are_left_out(moons):
    model = LogisticRegression(C=1e-4).fit(*moons)
    display = MarginDisplay.from_estimator(model, *moons)
    assert display.lines_.levels.tolist() == [0]
    assert display.circles_ is None
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["0", "1", "f = 0"]
    never = LogisticRegression(C=1e-4).fit(moons[0] - 50, moons[1])
    assert MarginDisplay.from_estimator(never, moons[0] + 100, moons[1]).lines_ is None


def test_rows_within_the_margin_are_circled_instead(moons):
    model = SGDClassifier(random_state=0).fit(*moons)
    assert MarginDisplay.from_estimator(model, *moons).circles_ is None
    model.within_margin_ = np.flatnonzero(np.abs(model.decision_function(moons[0])) <= 1)
    display = MarginDisplay.from_estimator(model, *moons)
    np.testing.assert_array_equal(display.circles_.get_offsets(), moons[0][model.within_margin_])
    assert display.circles_.get_label() == f"rows within the margin ({len(model.within_margin_)})"


def test_rows_within_the_margin_are_no_support_vectors_of_descent(moons):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(solver="primal", learning_rate=1e-3, max_iter=200).fit(*moons)
    display = MarginDisplay.from_estimator(model, *moons)
    assert len(model.support_) != len(model.within_margin_)
    np.testing.assert_array_equal(display.circled, model.within_margin_)
    with pytest.raises(ValueError, match="names other rows"):
        MarginDisplay.from_estimator(model, moons[0][::-1], moons[1])


def test_pipelines_searches_and_selectors(moons):
    X, y = moons
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    np.testing.assert_array_equal(MarginDisplay.from_estimator(pipeline, X, y).circled, pipeline[-1].support_)
    search = GridSearchCV(TheirSVC(), {"C": [1, 2]}).fit(X, y)
    found = MarginDisplay.from_estimator(search, X, y).circled
    np.testing.assert_array_equal(found, search.best_estimator_.support_)
    selector = RFE(LogisticRegression(), n_features_to_select=1).fit(X, y)
    assert MarginDisplay.from_estimator(selector, X, y).circled is None


def test_regions_of_several_classes():
    X, number = make_blobs(90, centers=3, random_state=0)
    y = np.array(["ant", "bee", "cat"])[number]
    model = SVC().fit(X, y)
    display = MarginDisplay.from_estimator(model, X, y, grid_resolution=30)
    assert display.lines_ is None
    places = np.stack(np.meshgrid(*display.grid), axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(model.classes_[display.response].ravel(), model.predict(places))
    assert len(np.unique(display.image_.get_array().reshape(-1, 3), axis=0)) == 3
    np.testing.assert_array_equal(display.circles_.get_offsets(), X[model.support_])


def test_more_classes_than_named_colours():
    X, y = make_blobs(100, centers=10, random_state=0)
    display = MarginDisplay.from_estimator(SVC().fit(X, y), X, y, grid_resolution=10)
    assert len({tuple(points.get_facecolor()[0]) for points in display.points_}) == 10


def test_rows_from_files_frames_and_sparse(tmp_path, moons):
    X, y = moons
    with stored(tmp_path / "moons.h5", X, y) as data:
        model = SVC().fit(data)
        display = MarginDisplay.from_estimator(model, data)
        again = MarginDisplay.from_estimator(model, data.X, y)
    np.testing.assert_array_equal(display.points.X, X)
    np.testing.assert_array_equal(display.circles_.get_offsets(), again.circles_.get_offsets())
    frame = pd.DataFrame(X, columns=["length", "width"])
    display = MarginDisplay.from_estimator(SVC().fit(frame, y), frame, list(y))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("length", "width")
    MarginDisplay.from_estimator(TheirSVC().fit(frame, y), X, y)
    rows = sparse.csr_matrix(X)
    np.testing.assert_array_equal(MarginDisplay.from_estimator(SVC().fit(rows, y), rows, y).points.X, X)
    MarginDisplay.from_estimator(SVC().fit(X.astype(np.float32), y), X.astype(np.float32).tolist(), y)


def test_margins_in_axes_of_others(moons, moons_model):
    figure, (left, right) = plt.subplots(1, 2)
    right.plot([0, 1], [0, 1])
    display = MarginDisplay.from_estimator(
        moons_model, *moons, ax=left, legend=False, colors=["k", "y"], points_kwargs={"s": 3},
        lines_kwargs={"colors": "red"},
    )  # fmt: skip
    assert display.ax_ is left and display.figure_ is figure and len(figure.axes) == 2
    assert left.get_legend() is None
    assert display.points_[0].get_sizes().tolist() == [3]
    assert display.plot(right, legend="lower left") is display
    assert display.ax_ is right and right.get_legend() is not None
    figure.canvas.draw()


def test_many_points_are_drawn_small():
    X, y = make_moons(2400, noise=0.3, random_state=0)
    display = MarginDisplay.from_estimator(SVC(C=0.1).fit(X, y), X, y, grid_resolution=50)
    assert display.points_[0].get_rasterized() and display.circles_.get_rasterized()
    display.figure_.canvas.draw()


def test_what_margins_refuse(moons, moons_model, digits, digits_model):
    X, y = moons
    with pytest.raises(ValueError, match="must have 2 features, to be drawn in a plane; found 64"):
        MarginDisplay.from_estimator(digits_model, *digits)
    with pytest.raises(ValueError, match="y is needed"):
        MarginDisplay.from_estimator(moons_model, X)
    with pytest.raises(ValueError, match="X has 120 rows, y has 119 labels"):
        MarginDisplay.from_estimator(moons_model, X, y[1:])
    with pytest.raises(ValueError, match=r"does not know: \[2\]"):
        MarginDisplay.from_estimator(moons_model, X, y + 1)
    with pytest.raises(ValueError, match="grid_resolution must be at least 2, found 1"):
        MarginDisplay.from_estimator(moons_model, X, y, grid_resolution=1)
    with pytest.raises(ValueError, match="one colour for each of the 2 classes, found 3"):
        MarginDisplay.from_estimator(moons_model, X, y, colors=["r", "g", "b"])
    with pytest.raises(TypeError, match="has no decision_function"):
        from sklearn.naive_bayes import GaussianNB

        MarginDisplay.from_estimator(GaussianNB().fit(X, y), X, y)


def test_other_rows_than_those_of_the_fit(moons, moons_model):
    X, y = moons
    for other in (X[:5], X[::-1]):
        with pytest.raises(ValueError, match="support_ names other rows"):
            MarginDisplay.from_estimator(moons_model, other, y[: len(other)])
        assert MarginDisplay.from_estimator(moons_model, other, y[: len(other)], circle=False).circles_ is None


def test_features_without_range(moons):
    X = np.column_stack([moons[0][:, 0], np.zeros(120)])
    MarginDisplay.from_estimator(SVC().fit(X, moons[1]), X, moons[1]).figure_.canvas.draw()


# --- convergence ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_fit():
    X, y = make_moons(2500, noise=0.3, random_state=0)
    return SVC(C=10).fit(X, y)


@pytest.mark.parametrize("x", ["iteration", "time"])
@pytest.mark.parametrize("y", ["objective", "gap"])
def test_history_of_two_classes(x, y, long_fit):
    display = ConvergenceDisplay.from_estimator(long_fit, x=x, y=y)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), long_fit.history_[x])
    np.testing.assert_array_equal(line.get_ydata(), long_fit.history_[y])
    assert display.ax_.get_yscale() == ("log" if y == "gap" else "linear")
    others = [other.get_ydata()[0] for other in display.ax_.lines if other is not line]
    assert others == ([long_fit.tol] if y == "gap" else [])
    display.figure_.canvas.draw()


def test_steps_of_each_solver(moons):
    for given, names in (
        ({}, ("pair steps", "dual objective")),
        ({"solver": "coordinate"}, ("coordinate steps", "dual objective")),
        ({"solver": "primal"}, ("Newton steps", "primal objective")),
        ({"solver": "primal", "learning_rate": 1e-4, "max_iter": 3}, ("gradient steps", "primal objective")),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(**given).fit(*moons)
        assert ConvergenceDisplay.from_estimator(model).axis_names == names


def test_history_of_several_problems(three_classes):
    model = SVC().fit(*three_classes)
    display = ConvergenceDisplay.from_estimator(model, y="gap")
    assert [line.get_label() for line in display.lines_] == ["0 or 1", "0 or 2", "1 or 2"]
    for number, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_ydata(), model.history_["gap"][model.history_["problem"] == number])


def test_many_problems_have_one_name(digits):
    model = SVC().fit(digits[0][:200], digits[1][:200])
    display = ConvergenceDisplay.from_estimator(model, y="gap")
    assert len(display.lines_) == 45
    named = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert named == ["45 two-class problems", "tol = 0.001"]


def test_several_models_in_the_same_axes(moons, three_classes):
    _, ax = plt.subplots()
    first = ConvergenceDisplay.from_estimator(SVC(C=1).fit(*moons), y="gap", ax=ax, label="two")
    second = ConvergenceDisplay.from_estimator(SVC(C=100).fit(*three_classes), y="gap", ax=ax, label="three")
    third = ConvergenceDisplay.from_estimator(SVC(tol=1e-5).fit(*moons), y="gap", ax=ax, label="tight", c="red")
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == ["two", "tol = 0.001", "three", "tight", "tol = 1e-05"]
    colours = {line.get_color() for line in second.lines_}
    assert len(colours) == 1 and first.lines_[0].get_color() not in colours
    assert third.lines_[0].get_color() == "red"
    assert ax.get_ylim()[0] == pytest.approx(1e-7)


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
    with pytest.raises(ValueError, match=r"one of \['objective', 'gap'\] for SVC, found 'score'"):
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


# --- lines on their way ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(150, centers=[[-1, -1], [1.2, 1]], cluster_std=0.8, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        SGDClassifier(random_state=3),
        SGDClassifier(alpha=0.01),
        SVC(kernel="linear"),
        TheirSGDClassifier(random_state=0),
        TheirSVC(kernel="linear"),
    ],
    ids=["sgd", "sgd-unseeded", "svc", "their-sgd", "their-svc"],
)
def test_lines_are_those_of_fits_that_end_early(model, blobs):
    display = HyperplaneDisplay.from_estimator(model, *blobs, max_iters=(1, 2, 5, 2000))
    segments = np.array([line.get_xydata() for line in display.lines_])
    assert segments.shape == (4, 2, 2)
    for ends, weights, offset in zip(segments, display.coef, display.intercept, strict=True):
        np.testing.assert_allclose(ends @ weights + offset, 0, atol=1e-9 * np.abs(weights).max())
    margins = np.array([line.get_xydata() for line in display.margins_]) @ display.coef[-1] + display.intercept[-1]
    np.testing.assert_allclose(margins, [[-1, -1], [1, 1]])
    assert len({line.get_color() for line in display.lines_}) == 4
    again = HyperplaneDisplay.from_estimator(model, *blobs, max_iters=(1, 2, 5, 2000))
    np.testing.assert_array_equal(again.coef, display.coef)
    assert not np.allclose(display.coef[0], display.coef[-1])
    assert [text.get_text() for text in display.colorbar_.ax.get_yticklabels()] == ["1", "2", "5", "2,000"]
    assert not hasattr(model, "coef_")
    display.figure_.canvas.draw()


def test_the_fits_are_those_of_the_model(blobs):
    model = SGDClassifier(random_state=3, tol=None)
    display = HyperplaneDisplay.from_estimator(model, *blobs, max_iters=(2, 7))
    for steps, weights in zip((2, 7), display.coef, strict=True):
        wanted = SGDClassifier(random_state=3, tol=None, max_iter=steps).fit(*blobs)
        np.testing.assert_array_equal(wanted.coef_[0], weights)


def test_only_the_last_fit_may_warn(blobs):
    with pytest.warns(ConvergenceWarning) as told:
        HyperplaneDisplay.from_estimator(SVC(kernel="linear"), *blobs, max_iters=(1, 2, 3))
    assert len(told) == 1


def test_no_line_where_all_weights_are_zero(blobs):
    class Still(SGDClassifier):
        def fit(self, X, y):
            self.coef_, self.intercept_ = np.array([[0.0, 0.0]]) + (self.max_iter > 1), np.zeros(1)
            return self

    display = HyperplaneDisplay.from_estimator(Still(), *blobs, max_iters=(1, 2))
    assert np.isnan(display.lines_[0].get_xydata()).all() and np.isfinite(display.lines_[1].get_xydata()).all()
    display.figure_.canvas.draw()


def test_lines_from_a_file_in_axes_of_others(tmp_path, blobs):
    figure, axes = plt.subplots(1, 2)
    with stored(tmp_path / "blobs.h5", *blobs) as data:
        display = HyperplaneDisplay.from_estimator(SGDClassifier(), data, max_iters=[1, 500], ax=axes[1], legend=False)
    assert display.ax_ is axes[1] and axes[1].get_legend() is None
    np.testing.assert_allclose([*axes[1].get_xlim()], display.points.limits()[0])
    figure.canvas.draw()


def test_what_lines_refuse(blobs, digits):
    with pytest.raises(ValueError, match="must be linear, found kernel='rbf'"):
        HyperplaneDisplay.from_estimator(SVC(), *blobs)
    with pytest.raises(ValueError, match="StandardScaler has no parameter max_iter"):
        HyperplaneDisplay.from_estimator(StandardScaler(), *blobs)
    with pytest.raises(ValueError, match="found 64"):
        HyperplaneDisplay.from_estimator(SGDClassifier(), *digits)
    with pytest.raises(ValueError, match="parts two classes; y holds 3"):
        HyperplaneDisplay.from_estimator(SGDClassifier(), blobs[0], np.arange(150) % 3)
    for wrong in ((), (2, 1), (1, 1), (0, 3)):
        with pytest.raises(ValueError, match="positive numbers that rise"):
            HyperplaneDisplay.from_estimator(SGDClassifier(), *blobs, max_iters=wrong)
    with pytest.raises(ValueError, match="MLPClassifier has no coef_"):
        from sklearn.neural_network import MLPClassifier

        HyperplaneDisplay.from_estimator(MLPClassifier((2,), tol=1.0), *blobs, max_iters=(1, 100))


# --- templates -------------------------------------------------------------------------------------------------


def test_templates_are_the_weights(digits_model):
    display = TemplatesDisplay.from_estimator(digits_model, (8, 8), quantile=1.0)
    assert [ax.get_title() for ax in display.axes_] == [str(label) for label in range(10)]
    for weights, template, image in zip(digits_model.coef_, display.templates, display.images_, strict=True):
        np.testing.assert_array_equal(template, weights.reshape(8, 8))
        np.testing.assert_allclose(image.get_array() * np.abs(weights).max(), template)
        assert image.get_clim() == (-1, 1)


@pytest.mark.parametrize(("shape", "channels"), [((3, 4, 5), "first"), ((4, 5, 3), "last")])
@pytest.mark.parametrize("say", [False, True])
def test_templates_in_colour(shape, channels, say):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 60)), np.arange(60) % 3
    model = SGDClassifier(max_iter=3, tol=None, random_state=0).fit(X, y)
    display = TemplatesDisplay.from_estimator(
        model, shape, channels=channels if say else None, class_names=["ant", "bee", "cat"], quantile=1.0
    )
    weights = model.coef_.reshape(3, *shape)
    weights = np.moveaxis(weights, 1, -1) if channels == "first" else weights
    np.testing.assert_array_equal(display.templates, weights)
    shown = display.images_[1].get_array()
    np.testing.assert_allclose((shown - 0.5) * 2 * np.abs(weights[1]).max(), weights[1], atol=1e-12)
    assert display.axes_[1].get_title() == "bee"


def test_titles_of_pairs_and_of_two_classes(digits):
    X, y = digits
    few = np.isin(y, (3, 5, 8))
    model = SVC(kernel="linear").fit(X[few], y[few])
    display = TemplatesDisplay.from_estimator(model, (8, 8))
    assert display.names == ["3, not 5", "3, not 8", "5, not 8"]
    np.testing.assert_array_equal(display.templates.reshape(3, 64), model.coef_)
    two = np.isin(y, (3, 5))
    model = SGDClassifier(random_state=0).fit(X[two], y[two])
    assert TemplatesDisplay.from_estimator(model, (8, 8), class_names=["three", "five"]).names == ["five, not three"]
    their = TheirSVC(kernel="linear").fit(sparse.csr_matrix(X[two], dtype=float), y[two])
    assert TemplatesDisplay.from_estimator(their, (8, 8)).names == ["5, not 3"]
    regression = SGDRegressor(eta0=1e-4).fit(X / 16, y)
    assert TemplatesDisplay.from_estimator(regression, (8, 8)).names == ["weights"]


def test_templates_in_part_of_a_figure(digits_model):
    figure = plt.figure(layout="constrained")
    left, _ = figure.subfigures(1, 2)
    display = TemplatesDisplay.from_estimator(digits_model, (8, 8), figure=left, n_columns=4)
    assert display.figure_ is left and display.axes_.shape == (10,)
    assert sum(not ax.get_images() for ax in left.axes) == 3  # two cells are empty, one is the colour bar
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("shape", "channels", "words"),
    [
        ((8, 9), None, r"image_shape \(8, 9\) has 72 values, rows have 64"),
        ((64,), None, "must be"),
        ((3, 7, 3), None, "say channels='first' or 'last'"),
        ((4, 4, 4), None, "1 or 3 channels"),
        ((4, 4, 4), "first", "1 or 3 channels, first as"),
        ((3, 4, 4), "last", "1 or 3 channels, last as"),
        ((8, 8), "middle", "'first', 'last' or None, found 'middle'"),
    ],
)
def test_shapes_that_do_not_fit(shape, channels, words, digits_model):
    with pytest.raises(ValueError, match=words):
        TemplatesDisplay.from_estimator(digits_model, shape, channels=channels)


def test_shapes_that_only_the_user_can_tell():
    rows = np.arange(54).reshape(2, 27)
    first, last = (as_images(rows, (3, 3, 3), channels) for channels in ("first", "last"))
    assert first[1, 2, 0, 1] == rows[1].reshape(3, 3, 3)[1, 2, 0]
    assert last[1, 2, 0, 1] == rows[1].reshape(3, 3, 3)[2, 0, 1]
    assert as_images(rows, (1, 9, 3), "first").shape == (2, 9, 3)
    assert as_images(rows, (1, 3, 9)).shape == (2, 3, 9)
    assert as_images(rows, (3, 9, 1), "last").shape == (2, 3, 9)


def test_what_templates_refuse(moons_model, digits_model):
    with pytest.raises(ValueError, match="has no coef_"):
        TemplatesDisplay.from_estimator(moons_model, (1, 2))
    with pytest.raises(ValueError, match="each of the 10 classes, found 2 names"):
        TemplatesDisplay.from_estimator(digits_model, (8, 8), class_names=["a", "b"])


# --- confusions ------------------------------------------------------------------------------------------------


def test_counts_are_those_of_scikit_learn(digits, digits_model):
    X, y = digits[0][900:], digits[1][900:]
    display = ConfusionDisplay.from_estimator(digits_model, X, y, (8, 8))
    predicted = digits_model.predict(X)
    counts = confusion_matrix(y, predicted)
    np.testing.assert_array_equal(display.counts, counts)
    written = [[int(text.get_text()) for text in row] for row in display.text_]
    np.testing.assert_array_equal(written, counts)
    assert display.ax_.get_title() == f"{(y == predicted).mean():.1%} of 897 right"
    assert set(display.images_) == {(a, b) for a, b in np.ndindex(10, 10) if counts[a, b]}
    for (a, b), image in display.images_.items():
        row = np.flatnonzero((y == a) & (predicted == b))[0]
        np.testing.assert_allclose(image.get_array(), X[row].reshape(8, 8) / 16)
        left, right, bottom, top = image.get_extent()
        assert b - 0.5 < left < right < b + 0.5 and a - 0.5 < top < bottom < a + 0.5
    display.figure_.canvas.draw()


def test_labels_that_are_shown(digits):
    X, y = digits
    rng = np.random.default_rng(0)
    predicted = np.where(rng.random(len(y)) < 0.7, y, rng.permutation(y))
    display = ConfusionDisplay.from_predictions(y, predicted, X, (8, 8), labels=[7, 2, 11], class_names=["a", "b", "c"])
    np.testing.assert_array_equal(display.counts, confusion_matrix(y, predicted, labels=[7, 2, 11]))
    row = np.flatnonzero((y == 7) & (predicted == 2))[0]
    largest = max(image.max() for image in display.examples.values())
    np.testing.assert_allclose(display.examples[0, 1] / largest * 16, X[row].reshape(8, 8))
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "b", "c"]


def test_only_the_rows_shown_are_read(tmp_path, digits, digits_model):
    X, y = digits
    names = [f"digit {label}" for label in range(10)]
    predicted = digits_model.predict(X)
    with stored(tmp_path / "digits.h5", X, y, names) as data:
        before = data.X.reads.nbytes
        display = ConfusionDisplay.from_predictions(None, predicted, data, (8, 8))
        assert data.X.reads.nbytes - before == 64 * len(display.examples)
        again = ConfusionDisplay.from_estimator(digits_model, data, None, (8, 8))
    in_memory = ConfusionDisplay.from_predictions(y, predicted, X, (8, 8))
    assert display.names == again.names == names
    for cell, image in in_memory.examples.items():
        np.testing.assert_array_equal(display.examples[cell], image)
        np.testing.assert_array_equal(again.examples[cell], image)


def test_images_however_they_are_held(tmp_path, digits):
    X, y = digits[0][:80], digits[1][:80]
    predicted = np.roll(y, 1)
    wanted = ConfusionDisplay.from_predictions(y, predicted, X, (8, 8)).examples
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        rows = sparse.csr_matrix(X)
        for part in ("data", "indices", "indptr"):
            file[f"X/{part}"] = getattr(rows, part)
        file["X"].attrs["shape"] = rows.shape
        file["y"] = y
    with open_hdf5(tmp_path / "rows.h5") as data:
        for kind in (X.astype(np.float32) / 16, X.tolist(), X.reshape(-1, 8, 8), pd.DataFrame(X), rows, data):
            found = ConfusionDisplay.from_predictions(y, predicted, kind, (8, 8)).examples
            for cell, image in wanted.items():
                np.testing.assert_allclose(found[cell], image, atol=1e-7)


def test_brightness_of_standardised_and_of_colours():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 48)), np.arange(20) % 2
    display = ConfusionDisplay.from_predictions(y, y, X, (3, 4, 4))
    shown = np.array(list(display.examples.values()))
    assert shown.shape == (2, 4, 4, 3) and (shown.min(), shown.max()) == (0, 1)
    wanted = (np.moveaxis(X[0].reshape(3, 4, 4), 0, -1) - X[:2].min()) / np.ptp(X[:2])
    np.testing.assert_allclose(shown[0], wanted)
    ConfusionDisplay.from_predictions(y, y, np.zeros((20, 16)), (4, 4)).figure_.canvas.draw()


def test_confusions_in_axes_of_others(digits):
    figure, (left, right) = plt.subplots(1, 2)
    left.set_title("mine")
    display = ConfusionDisplay.from_predictions(digits[1], digits[1], digits[0], (8, 8), ax=left, cmap="gray_r")
    assert display.ax_ is left and display.figure_ is figure and left.get_title() == "mine" and not right.images
    assert left.get_xlim() == (-0.5, 9.5) and left.get_ylim() == (9.5, -0.5)
    assert display.images_[0, 0].get_cmap().name == "gray_r"


def test_what_confusions_refuse(digits, digits_model):
    X, y = digits
    with pytest.raises(ValueError, match="y_true is needed"):
        ConfusionDisplay.from_predictions(None, y, X, (8, 8))
    with pytest.raises(ValueError, match="y_true is needed"):
        ConfusionDisplay.from_estimator(digits_model, X, None, (8, 8))
    with pytest.raises(ValueError, match="X has 1797 rows, y_true 1796 labels, y_pred 1797"):
        ConfusionDisplay.from_predictions(y[1:], y, X, (8, 8))
    with pytest.raises(ValueError, match="has 72 values, rows have 64"):
        ConfusionDisplay.from_predictions(y, y, X, (8, 9))
    with pytest.raises(ValueError, match="each of the 10 classes, found 3 names"):
        ConfusionDisplay.from_predictions(y, y, X, (8, 8), class_names=list("abc"))
    with pytest.raises(ValueError, match="no row whose class"):
        ConfusionDisplay.from_predictions(y, y, X, (8, 8), labels=[20, 21])


def test_drawing_warns_of_nothing(tmp_path, digits, digits_model, long_fit):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        displays = [
            ConfusionDisplay.from_estimator(digits_model, *digits, (8, 8)),
            TemplatesDisplay.from_estimator(digits_model, (8, 8)),
            ConvergenceDisplay.from_estimator(long_fit, y="gap"),
            ConvergenceDisplay.from_estimator(digits_model, y="loss"),
        ]
        for number, display in enumerate(displays):
            display.figure_.savefig(tmp_path / f"{number}.svg")
            display.figure_.savefig(tmp_path / f"{number}.png")
