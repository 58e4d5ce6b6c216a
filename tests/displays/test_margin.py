import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import sparse
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC
from sklearn.svm import OneClassSVM as TheirOneClassSVM

from fastsvm import SVC, SVR, NuSVC, OneClassSVM, SGDClassifier
from fastsvm.displays import (
    MarginDisplay,
)


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


def test_boundary_of_what_is_usual(moons):
    X = moons[0]
    model = OneClassSVM(nu=0.2, gamma=2).fit(X)
    display = MarginDisplay.from_estimator(model, X)
    assert display.lines_.levels.tolist() == [0]
    np.testing.assert_allclose(model.decision_function(display.lines_.get_paths()[0].vertices), 0, atol=0.05)
    for predicted, drawn in zip((-1, 1), display.points_, strict=True):
        np.testing.assert_array_equal(drawn.get_offsets(), X[model.predict(X) == predicted])
    np.testing.assert_array_equal(display.circles_.get_offsets(), X[model.support_])
    words = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert words == ["outliers", "inliers", f"support vectors ({len(model.support_)})", "f = 0"]
    assert (np.sign(display.shade) == np.sign(display.response)).all()
    assert (display.shade.min(), display.shade.max()) == (-1, 1)  # whatever the scale of the decision values
    blue = display.image_.get_array()[..., 2] > display.image_.get_array()[..., 0]
    assert (blue == (display.response > 0))[np.abs(display.response) > 0.1].all()


def test_outliers_by_labels_pipelines_and_other_detectors(moons):
    X, y = moons
    model = make_pipeline(StandardScaler(), TheirOneClassSVM(nu=0.3)).fit(X)
    display = MarginDisplay.from_estimator(model, pd.DataFrame(X), 2 * y - 1, shade_by="predict")
    np.testing.assert_array_equal(display.points_[0].get_offsets(), X[y == 0])
    np.testing.assert_array_equal(display.circled, model[-1].support_)
    np.testing.assert_array_equal(display.shade, np.where(display.response > 0, 1, -1))
    with pytest.raises(ValueError, match=r"does not know: \[0\]"):
        MarginDisplay.from_estimator(model, X, y)
    with pytest.raises(ValueError, match="names other rows"):
        MarginDisplay.from_estimator(OneClassSVM().fit(X), X[::-1])
    far = MarginDisplay.from_estimator(model, X + 100, circle=False)  # no inlier, no boundary
    assert far.lines_ is None and far.shade.max() < 0 and len(far.points_[0].get_offsets()) == len(X)


def test_margins_of_a_share(moons):
    X, y = moons
    model = NuSVC(nu=0.3).fit(X, y)
    display = MarginDisplay.from_estimator(model, X, y)
    assert display.lines_.levels.tolist() == [-1, 0, 1]
    on_margin = np.abs(np.abs(model.decision_function(display.points.X[display.circled])) - 1) < 0.01
    assert on_margin.sum() >= 2  # the margins that are drawn are those of the support vectors


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


def test_rows_from_files_frames_and_sparse(tmp_path, moons, stored):
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
    model = SVC(C=0.1, tol=1e-6).fit(X, y)  # a loose one would compile all for float32
    display = MarginDisplay.from_estimator(model, X, y, grid_resolution=50)
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
    with pytest.raises(TypeError, match=r"found SVR, which has no classes_\. TubeDisplay draws regressors"):
        MarginDisplay.from_estimator(SVR().fit(X, y), X, y)


def test_other_rows_than_those_of_the_fit(moons, moons_model):
    X, y = moons
    for other in (X[:5], X[::-1]):
        with pytest.raises(ValueError, match="support_ names other rows"):
            MarginDisplay.from_estimator(moons_model, other, y[: len(other)])
        assert MarginDisplay.from_estimator(moons_model, other, y[: len(other)], circle=False).circles_ is None


def test_features_without_range(moons):
    X = np.column_stack([moons[0][:, 0], np.zeros(120)])
    MarginDisplay.from_estimator(SVC().fit(X, moons[1]), X, moons[1]).figure_.canvas.draw()
