import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import SGDRegressor as TheirSGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR as TheirSVR
from sklearn.svm import NuSVR as TheirNuSVR

from fastsvm import SVR, LinearSVR, NuSVR
from fastsvm.displays import TubeDisplay


def inside(display):
    """Return which points are within the tube that is drawn, or at its edge."""
    at, low = display.edges_[0].get_data()
    high = display.edges_[1].get_ydata()
    x, y = display.points_.get_offsets().T
    return (y >= np.interp(x, at, low) - 2e-3) & (y <= np.interp(x, at, high) + 2e-3)


def test_curve_tube_and_support_vectors_of_one_feature(wave, wave_model):
    X, y = wave
    display = TubeDisplay.from_estimator(wave_model, X, y)
    at, values = display.line_.get_data()
    np.testing.assert_array_equal(values, wave_model.predict(at[:, None]))
    assert at[0] < X.min() and at[-1] > X.max()
    for sign, edge in zip((-1, 1), display.edges_, strict=True):
        np.testing.assert_allclose(edge.get_ydata(), values + sign * 0.25)
    assert display.tube_.get_datalim(display.ax_.transData).ymax == pytest.approx(values.max() + 0.25)
    np.testing.assert_array_equal(display.points_.get_offsets(), np.column_stack([X, y]))
    np.testing.assert_array_equal(display.circles_.get_offsets(), np.column_stack([X, y])[wave_model.support_])
    others = np.setdiff1d(np.arange(80), wave_model.support_)
    assert inside(display)[others].all() and not inside(display).all()
    words = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert words == ["samples (80)", f"support vectors ({len(wave_model.support_)})", "f", "f ± 0.25"]


def test_the_same_samples_are_in_the_tube_however_many_features_are_drawn(overlapping):
    X, _ = overlapping
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    y = pd.Series(X[:, 0] + X[:, 1] ** 2 + np.sin(7 * X[:, 2]), name="height")
    model = make_pipeline(StandardScaler(), NuSVR(nu=0.4, C=5)).fit(frame, y)
    expected = np.abs(y - model.predict(frame)) <= model[-1].epsilon_ + 2e-3
    assert 60 < expected.sum() < 120
    for feature, name in ((None, "prediction f"), ("b", "b"), (-1, "d")):
        display = TubeDisplay.from_estimator(model, frame, y, feature=feature, grid_resolution=2_000)
        np.testing.assert_array_equal(inside(display), expected)
        np.testing.assert_array_equal(display.circled, model[-1].support_)
        assert display.epsilon == model[-1].epsilon_ and display.ax_.get_xlabel() == name
    whole = TubeDisplay.from_estimator(model, frame, y)
    np.testing.assert_array_equal(whole.points, np.column_stack([model.predict(frame), y]))
    assert whole.ax_.get_ylabel() == "height"
    at = pd.DataFrame(np.tile(np.median(X, axis=0), (300, 1)), columns=frame.columns)
    along = TubeDisplay.from_estimator(model, frame, y, feature="b")
    at["b"] = along.curve[:, 0]
    np.testing.assert_array_equal(along.curve[:, 1], model.predict(at))


def test_where_the_half_width_comes_from(wave, wave_model):
    X, y = wave
    search = GridSearchCV(TheirSVR(), {"epsilon": [0.1]}).fit(X, y)
    cases = [
        (search, 0.1),
        (LinearSVR(epsilon=0.2).fit(X, y), 0.2),
        (TheirSGDRegressor(loss="squared_epsilon_insensitive", epsilon=0.3).fit(X, y), 0.3),
    ]
    for model, epsilon in cases:
        display = TubeDisplay.from_estimator(model, X, y)
        assert display.epsilon == epsilon
        assert (display.circles_ is None) == (model is not search)


def test_tubes_in_axes_of_others_and_from_files(tmp_path, wave, wave_model, stored):
    figure, (left, right) = plt.subplots(1, 2)
    with stored(tmp_path / "wave.h5", *wave) as data:
        display = TubeDisplay.from_estimator(
            wave_model, data, ax=left, legend=False, colors=["k", "y"], points_kwargs={"s": 3}, line_kwargs={"lw": 3}
        )
    assert display.ax_ is left and display.figure_ is figure and left.get_legend() is None
    assert display.points_.get_sizes().tolist() == [3] and display.line_.get_linewidth() == 3
    assert display.plot(right, legend="lower left") is display
    assert display.ax_ is right and right.get_legend() is not None
    figure.canvas.draw()


def test_what_tubes_refuse(wave, wave_model, moons, moons_model):
    X, y = wave
    with pytest.raises(TypeError, match=r"found SVC\. MarginDisplay draws classifiers and outlier detectors"):
        TubeDisplay.from_estimator(moons_model, *moons)
    with pytest.raises(TypeError, match=r"SGDRegressor\(loss='huber'\) has no tube"):
        TubeDisplay.from_estimator(TheirSGDRegressor(loss="huber").fit(X, y), X, y)
    for model in (LinearRegression(), TheirNuSVR()):  # the latter has an epsilon of 0, which is not that of its tube
        with pytest.raises(TypeError, match="has neither epsilon_ nor the parameter epsilon"):
            TubeDisplay.from_estimator(model.fit(X, y), X, y)
    with pytest.raises(ValueError, match="y is needed"):
        TubeDisplay.from_estimator(wave_model, X)
    with pytest.raises(ValueError, match="X has 80 rows, y has 79 targets"):
        TubeDisplay.from_estimator(wave_model, X, y[1:])
    with pytest.raises(ValueError, match="support_ names other rows"):
        TubeDisplay.from_estimator(wave_model, X[::-1], y)
    assert TubeDisplay.from_estimator(wave_model, X[::-1], y, circle=False).circles_ is None
    with pytest.raises(ValueError, match="grid_resolution must be at least 2, found 1"):
        TubeDisplay.from_estimator(wave_model, X, y, grid_resolution=1)
    for feature in (1, "length"):
        with pytest.raises(ValueError, match=f"no feature {feature!r}; there are 1: feature 0"):
            TubeDisplay.from_estimator(wave_model, X, y, feature=feature)


def test_a_feature_and_targets_without_range():
    X, y = np.ones((5, 1)), np.ones(5)
    TubeDisplay.from_estimator(SVR().fit(X, y), X, y).figure_.canvas.draw()
