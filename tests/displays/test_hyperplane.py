import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier as TheirSGDClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC

from fastsvm import SVC, SGDClassifier
from fastsvm.displays import (
    HyperplaneDisplay,
)


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


def test_lines_from_a_file_in_axes_of_others(tmp_path, blobs, stored):
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
    with pytest.raises(ValueError, match="separates two classes; y has 3"):
        HyperplaneDisplay.from_estimator(SGDClassifier(), blobs[0], np.arange(150) % 3)
    for wrong in ((), (2, 1), (1, 1), (0, 3)):
        with pytest.raises(ValueError, match="positive numbers that rise"):
            HyperplaneDisplay.from_estimator(SGDClassifier(), *blobs, max_iters=wrong)
    with pytest.raises(ValueError, match="MLPClassifier has no coef_"):
        from sklearn.neural_network import MLPClassifier

        HyperplaneDisplay.from_estimator(MLPClassifier((2,), tol=1.0), *blobs, max_iters=(1, 100))
